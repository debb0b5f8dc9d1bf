"""Settings of commands in TOML files: ``[tool.fatpack.COMMAND]`` of the nearest pyproject.toml, or of a named file."""

from __future__ import annotations

import os
import re
from importlib import import_module

from fatpack.errors import UsageError, cli_or_api

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: the name of the file that is looked for
_NAME = "pyproject.toml"


def find_table(command: str) -> tuple[str, Mapping[str, Any]] | None:
    """Return the nearest pyproject.toml, from this folder upwards, and its table for a command; None without a table.

    Raises UsageError for a file that is no TOML, and for what has its name and is no file.
    """
    here = os.getcwd()
    while True:
        path = os.path.join(here, _NAME)
        if os.path.lexists(path):
            if not os.path.isfile(path):
                problem = "is a link to nothing" if os.path.islink(path) else "is no file"
                raise UsageError(
                    f"{path} {problem}: a policy may be in it",
                    hint=cli_or_api(f"fatpack {command} --no-config reads none", "name a file with config"),
                )
            table = _tool(read_toml(path), path, command)
            return None if table is None else (path, table)
        above = os.path.dirname(here)
        if above == here:
            return None
        here = above


def read_table(path: str, command: str) -> Mapping[str, Any]:
    """Return the table of a file for a command, or all of a file without ``tool``.

    Raises UsageError for a file without it, and ``OSError``.
    """
    data = read_toml(path)
    table = _tool(data, path, command)
    if table is None and "tool" not in data:
        table = data
    if table is None:
        raise UsageError(f"{path} has no policy", hint=f"write a table [tool.fatpack.{command}] into it")
    return table


#: LIMIT: bytes of a file with a policy, and parts of a dotted name, for which ``tomllib`` takes memory by their square
_LARGEST = 1 << 22
_MOST_PARTS = 100

#: A part of a name: a word, or a string, which may lack its end. A search for names that strings and comments hide.
_PART = rb"""(?:[\w-]+|"[^"\\\n]*(?:\\.[^"\\\n]*)*"?|'[^'\n]*'?)"""
_NAMES = re.compile(
    rb'(?s)"""(?:[^"\\]|\\.|"(?!""))*(?:"""|\Z)|'
    + rb"'''.*?(?:'''|\Z)|#[^\n]*|(%b(?:[ \t]*\.[ \t]*%b)*)" % (_PART, _PART)
)


def _has_deep_name(text: bytes) -> bool:
    """Return whether a dotted name has more parts than ``tomllib`` reads in memory that fits the file."""
    deep = (found[1] for found in _NAMES.finditer(text) if found[1] and found[1].count(b".") >= _MOST_PARTS)
    return any(len(re.findall(_PART, name)) > _MOST_PARTS for name in deep)


def read_toml(path: str) -> Mapping[str, Any]:
    """Return the tables of a file. Raises UsageError for a file that is no TOML, or too large, and ``OSError``."""
    with open(path, "rb") as file:
        text = file.read(_LARGEST + 1)
    if len(text) > _LARGEST:
        raise UsageError(f"{path} is no TOML: more than {_LARGEST} bytes")
    return parse_toml(text, path)


def parse_toml(text: bytes, path: str) -> Mapping[str, Any]:
    """Return the tables of a file. Raises UsageError for what is no TOML, or takes memory out of proportion."""
    tomllib = import_module("tomllib")
    try:
        if _has_deep_name(text):
            raise ValueError(f"a name of more than {_MOST_PARTS} parts")
        data: Mapping[str, Any] = tomllib.loads(text.decode())
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no TOML: {error}") from None
    return data


def _tool(data: Mapping[str, Any], path: str, command: str) -> Mapping[str, Any] | None:
    table: Any = data
    for name in ("tool", "fatpack", command):
        if name not in table:
            return None
        table = table[name]
        if not isinstance(table, dict):
            raise UsageError(f"{path}: {name} is no table", hint=f"write [tool.fatpack.{command}]")
    return table if isinstance(table, dict) else None
