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
    "explain": {"paths": OBJECT, "device": "gfx90a"},
    "diff": {"old": OBJECT, "new": OBJECT},
    "doctor": {"paths": OBJECT},
    "write_report": {"paths": OBJECT, "output": "x.html"},
}

ARGUMENTS = [(name, argument) for name in CALLS for argument in inspect.signature(getattr(fatpack, name)).parameters]


class Nothing:
    """A type that no argument accepts."""


@pytest.mark.parametrize(("name", "argument"), ARGUMENTS, ids=[f"{name}-{argument}" for name, argument in ARGUMENTS])
def test_a_wrong_argument_is_named_first(
    name: str, argument: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    function = getattr(fatpack, name)
    with pytest.raises(TypeError) as raised:
        function(**{**CALLS[name], argument: Nothing()})
    assert argument in str(raised.value).partition(" must be ")[0]
    assert str(raised.value).endswith("Nothing")


@pytest.mark.parametrize("name", CALLS)
def test_no_path_is_a_mistake(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    function, given = getattr(fatpack, name), CALLS[name]
    first = next(iter(given))
    with pytest.raises((fatpack.UsageError, TypeError), match=f"^{first}"):
        function(**{**given, first: []})


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


def test_a_diff_has_no_truth_value() -> None:
    """``if diff(a, b):`` reads as "if they differ" to some and "if all is well" to others."""
    same, other = fatpack.diff(OBJECT, OBJECT), fatpack.diff(OBJECT, FIXTURES / "elf" / "clang-22-openmp-gfx90a.o")
    assert (same.differs, other.differs) == (False, True)
    for found in (same, other):
        with pytest.raises(TypeError, match=r"write diff\(…\)\.differs, or \.exit_code"):
            bool(found)
    assert "no truth value" in (fatpack.diff.__doc__ or "")


def test_several_files_are_one_parameter_everywhere(tmp_path: Path) -> None:
    functions = [fatpack.check, fatpack.doctor, fatpack.explain, fatpack.write_report, fatpack.rows, fatpack.scan]
    for function in (*functions, fatpack.files):
        assert next(iter(inspect.signature(function).parameters)) == "paths", function
    one = [fatpack.open, fatpack.extract, fatpack.convert, fatpack.embed, fatpack.replace, fatpack.remove]
    for function in (*one, fatpack.slim, fatpack.map_images):
        assert next(iter(inspect.signature(function).parameters)) == "file", function
    twice = [OBJECT, str(OBJECT)]
    assert len(list(fatpack.rows(twice))) == 2 * len(list(fatpack.rows(OBJECT)))
    assert len(list(fatpack.scan(twice))) == 2 * len(list(fatpack.scan(OBJECT)))
    assert len(list(fatpack.files(iter(twice)))) == 2
    for function in (fatpack.rows, fatpack.scan, fatpack.files):
        with pytest.raises(fatpack.UsageError, match="paths: no path given; name files, folders or packages"):
            list(function([]))  # type: ignore[operator]
