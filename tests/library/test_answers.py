"""The functions that answer: every argument of another kind is an error that names it, before a file is read."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.result import Result

OBJECT = FIXTURES / "elf" / "clang-22-hip.o"

#: Arguments with which each function answers; the others have values that do nothing.
CALLS: dict[str, dict[str, Any]] = {
    "check": {"paths": OBJECT, "require": "gfx90a"},
    "explain": {"data": OBJECT, "device": "gfx90a"},
    "diff": {"old": OBJECT, "new": OBJECT},
    "doctor": {},
    "write_report": {"paths": OBJECT, "output": "x.html"},
}

#: Arguments that take anything they are given, or are asked only when there is something to say.
OPEN = {("write_report", "unmatched"), ("write_report", "on_file")}

ARGUMENTS = [
    (name, argument)
    for name in CALLS
    for argument in inspect.signature(getattr(fatpack, name)).parameters
    if (name, argument) not in OPEN
]


class Nothing:
    """What no argument is."""


@pytest.mark.parametrize(("name", "argument"), ARGUMENTS, ids=[f"{name}-{argument}" for name, argument in ARGUMENTS])
def test_a_wrong_argument_is_named_first(
    name: str, argument: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    function = getattr(fatpack, name)
    with pytest.raises(TypeError) as raised:
        if name == "doctor":
            function(Nothing()) if argument == "paths" else function(OBJECT, **{argument: Nothing()})
        else:
            function(**{**CALLS[name], argument: Nothing()})
    assert argument in str(raised.value).split(" is ")[0].split(" are ")[0]
    assert str(raised.value).endswith("Nothing")


@pytest.mark.parametrize("name", CALLS)
def test_no_path_is_a_mistake(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    function, given = getattr(fatpack, name), CALLS[name]
    first = next(iter(given), "")
    with pytest.raises((fatpack.UsageError, TypeError), match=f"^{first or 'paths'}"):
        function([]) if name == "doctor" else function(**{**given, first: []})


def test_what_is_printed_is_what_it_was(tmp_path: Path) -> None:
    """The law of the round trip: JSON gives the plain data back, twice the same, and no record is lost in it."""
    answers: list[Result] = [
        fatpack.check(OBJECT, require="gfx90a"),
        fatpack.explain(OBJECT, "gfx90a"),
        fatpack.diff(OBJECT, FIXTURES / "elf" / "clang-22-openmp-gfx90a.o", kernels=True),
        fatpack.doctor(OBJECT),
        fatpack.write_report(OBJECT, tmp_path / "x.html"),
    ]
    for answer in answers:
        text = answer.to_json()
        document = json.loads(text)
        assert document == answer.to_dict()
        assert json.dumps(document, indent=1) + "\n" == text
        assert "<fatpack" not in text and " object at 0x" not in text
