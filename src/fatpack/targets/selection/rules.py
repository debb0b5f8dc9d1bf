"""The rules by which runtimes select images, each with its source, and the errors that they report."""

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

    ``mark`` is the evidence: S the runtime's source, D a vendor's document, F reports, O observed on a device, U
    unknown. ``source`` is the full citation.
    """

    name: str
    says: str
    mark: str
    source: str


class RuntimeFailure(Record):
    """An error of a runtime: ``code`` is its number, ``names`` its names in the interfaces, ``text`` the message."""

    runtime: str
    code: int
    names: tuple[str, ...]
    text: str
    source: str


#: mark → the evidence in words
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
    """Return the rule with a name, ``C2``. Raises KeyError if there is none."""
    return _tables()[0][name]


def all_rules() -> tuple[SelectionRule, ...]:
    """Return all rules, in the order of the table."""
    return tuple(_tables()[0].values())


def all_failures() -> tuple[RuntimeFailure, ...]:
    """Return all errors, in the order of the table."""
    return _tables()[1]


def failure_with_code(runtime: str, code: int) -> RuntimeFailure:
    """Return the error of ``cuda`` or ``hip`` with a number. Raises KeyError if it is not in the table."""
    for row in all_failures():
        if (row.runtime, row.code) == (runtime, code):
            return row
    raise KeyError((runtime, code))
