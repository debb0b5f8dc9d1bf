"""Policies in files: ``[tool.fatpack.check]`` of the nearest pyproject.toml, and the presets that fatpack brings.

::

    [tool.fatpack.check]
    require = ["@ours", "gfx942"]
    forbid = ["sm_5*"]
    max-size = "850MB"
    uniform = true

    [tool.fatpack.check.presets]
    ours = "sm_80, sm_90, sm_120+ptx"

A file that is named with ``--config`` may have the table at its top too, without ``tool.fatpack``.
"""

from __future__ import annotations

import os
from importlib import import_module

from fatpack.errors import UsageError
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: name in a file → whether it is a list of texts, a text, or a switch
KEYS = {
    "require": list,
    "forbid": list,
    "exclude": list,
    "max-size": str,
    "max-growth": str,
    "against": str,
    "per": str,
    "uniform": bool,
    "registered": bool,
    "strict": bool,
    "metadata": bool,
    "verify": bool,
}

#: settings of which one makes a policy
RULES = ("require", "forbid", "max-size", "max-growth", "against", "uniform", "registered", "metadata", "verify")

_WANTED = {list: "a text or a list of texts", str: "a text", bool: "true or false"}

#: the name of the file that is looked for
_NAME = "pyproject.toml"


class PolicyConfig(Record):
    """What a file asks for, by the names of :data:`KEYS`; ``presets`` are those that it defines, ``path`` is the file.

    Paths in it (``against``) count from the folder of the file.
    """

    path: str
    values: Mapping[str, Any]
    presets: Mapping[str, tuple[str, ...]]


def find_pyproject() -> PolicyConfig | None:
    """Return the policy of the nearest pyproject.toml, from this folder upwards; None where it has no such table.

    Raises UsageError for a table that is wrong, for a file that is no TOML, and for what has its name and is no file.
    """
    here = os.getcwd()
    while True:
        path = os.path.join(here, _NAME)
        if os.path.lexists(path):
            if not os.path.isfile(path):
                problem = "is a link to nothing" if os.path.islink(path) else "is no file"
                raise UsageError(
                    f"{path} {problem}: a policy may be in it", hint="fatpack check --no-config reads none"
                )
            table = _tool(_read(path), path)
            return None if table is None else _config(table, path)
        above = os.path.dirname(here)
        if above == here:
            return None
        here = above


def read_policy_file(path: str) -> PolicyConfig:
    """Return the policy of a file. Raises UsageError for one without a policy, and ``OSError``."""
    data = _read(path)
    table = _tool(data, path)
    if table is None and "tool" not in data:
        table = data
    if table is None:
        raise UsageError(f"{path} has no policy", hint="write a table [tool.fatpack.check] into it")
    return _config(table, path)


def _read(path: str) -> Mapping[str, Any]:
    tomllib = import_module("tomllib")
    with open(path, "rb") as file:
        try:
            data: Mapping[str, Any] = tomllib.load(file)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{path} is no TOML: {error}") from None
    return data


def _tool(data: Mapping[str, Any], path: str) -> Mapping[str, Any] | None:
    table: Any = data
    for name in ("tool", "fatpack", "check"):
        if name not in table:
            return None
        table = table[name]
        if not isinstance(table, dict):
            raise UsageError(f"{path}: {name} is no table", hint="write [tool.fatpack.check]")
    return table if isinstance(table, dict) else None


def _config(table: Mapping[str, Any], path: str) -> PolicyConfig:
    values: dict[str, Any] = {}
    for name, value in table.items():
        if name == "presets":
            continue
        kind = KEYS.get(name)
        if kind is None:
            raise UsageError(
                f"{path}: there is no setting {name!r}", hint=f"settings are {', '.join((*KEYS, 'presets'))}"
            )
        values[name] = _value(path, name, value, kind)
    if "against" in values:
        values["against"] = os.path.join(os.path.dirname(path), values["against"])
    presets = table.get("presets", {})
    if not isinstance(presets, dict):
        raise UsageError(f"{path}: presets is no table", hint="write [tool.fatpack.check.presets]")
    return PolicyConfig(path, values, {name: _value(path, name, value, list) for name, value in presets.items()})


def _value(path: str, name: str, value: object, kind: type) -> Any:
    if kind is list:
        value = [value] if isinstance(value, str) else value
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
    elif isinstance(value, kind):
        return value
    raise UsageError(f"{path}: {name} is not {_WANTED[kind]}")


class Preset(Record):
    """A preset that fatpack brings: what it requires, and the document that says so."""

    name: str
    require: str
    what: str
    source: str


def builtin_presets() -> tuple[Preset, ...]:
    """Return the presets of ``data/presets.toml``."""
    data = _read(os.path.join(os.path.dirname(__file__), "data", "presets.toml"))
    return tuple(Preset(name, row["require"], row["what"], row["source"]) for name, row in data.items())


def all_presets(config: PolicyConfig | None) -> dict[str, tuple[str, ...]]:
    """Return what presets stand for: those of a project come before those that fatpack brings."""
    found = {preset.name: (preset.require,) for preset in builtin_presets()}
    return {**found, **(config.presets if config is not None else {})}
