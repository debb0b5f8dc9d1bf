"""The rules by their names: what each says and where that is from; and the errors that runtimes answer with."""

from __future__ import annotations

import os
from importlib import import_module

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


class SelectionRule(Record):
    """A line of ``data/rules.toml``.

    ``mark`` says what the rule rests on: S the runtime's source, D a vendor's document, F reports, O observed on a
    device, U nothing that anybody knows. ``source`` names it in full.
    """

    name: str
    says: str
    mark: str
    source: str


class RuntimeFailure(Record):
    """What a program is told: ``code`` is the number, ``names`` what interfaces call it, ``text`` the message."""

    runtime: str
    code: int
    names: tuple[str, ...]
    text: str
    source: str


#: mark → what it stands for in words
MARKS = {
    "S": "read in the runtime's source",
    "D": "the vendor's document",
    "F": "reported by users",
    "O": "observed on one device",
    "U": "not known to anybody",
}

_loaded_rules: list[tuple[dict[str, SelectionRule], tuple[RuntimeFailure, ...]]] = []


def _tables() -> tuple[dict[str, SelectionRule], tuple[RuntimeFailure, ...]]:
    if not _loaded_rules:
        path = os.path.join(os.path.dirname(os.path.dirname(__file__)), "data", "rules.toml")
        with open(path, "rb") as file:
            data: Mapping[str, Any] = import_module("tomllib").load(file)
        sources = data["sources"]
        rules = {
            row["rule"]: SelectionRule(row["rule"], row["says"], row["mark"], sources[row["source"]])
            for row in data["rules"]
        }
        errors = tuple(
            RuntimeFailure(row["runtime"], row["code"], tuple(row["names"]), row["text"], sources[row["source"]])
            for row in data["errors"]
        )
        _loaded_rules.append((rules, errors))
    return _loaded_rules[0]


def rule_named(name: str) -> SelectionRule:
    """Return the rule of a name, ``C2``. Raises KeyError for a name that no answer has."""
    return _tables()[0][name]


def all_rules() -> tuple[SelectionRule, ...]:
    """Return all rules, in the order of the table."""
    return tuple(_tables()[0].values())


def all_failures() -> tuple[RuntimeFailure, ...]:
    """Return all errors, in the order of the table."""
    return _tables()[1]


def failure_with_code(runtime: str, code: int) -> RuntimeFailure:
    """Return the error with a number: of ``cuda`` or ``hip``. Raises KeyError if it is not in the table."""
    for row in all_failures():
        if (row.runtime, row.code) == (runtime, code):
            return row
    raise KeyError((runtime, code))
