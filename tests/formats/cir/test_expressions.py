"""Expressions that old versions of Python 3.11 match wrongly, said in other words."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from fatpack.formats.cir import expressions

SOURCE = Path(__file__).parents[3] / "src/fatpack"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (rb"(?:a|b)*+", rb"(?>(?:a|b)*)"),
        (rb"((?:a)?+b)++", rb"(?>((?>(?:a)?)b)+)"),
        (rb"[)*+]*+\)*+", rb"[)*+]*+\)*+"),
        (rb"[])]*+[^])]++(?:x)", rb"[])]*+[^])]++(?:x)"),
        (rb"(a)*(b)+?", rb"(a)*(b)+?"),
        (rb"[\]]*+(?:\(|\))*+", rb"[\]]*+(?>(?:\(|\))*)"),
    ],
)
def test_groups_that_are_repeated_for_good_become_atomic(given: bytes, expected: bytes) -> None:
    assert expressions.with_atomic_groups(given) == expected
    re.compile(expected)


@pytest.mark.skipif(sys.version_info < (3, 11, 5), reason="this Python matches one of the two wrongly")
def test_both_words_match_alike_where_a_group_goes_back() -> None:
    """What CPython issue 106052 is about: the group matches "ab", and then only "a", by going back."""
    given = rb"(?:ab?c?)*+d"
    both = re.compile(given), re.compile(expressions.with_atomic_groups(given))
    for text in (b"d", b"abcabad", b"aacd", b"abcb", b"abcabc", b"xabd"):
        one, other = (expression.search(text) for expression in both)
        assert (one and one.span()) == (other and other.span())


@pytest.mark.parametrize("version", [(3, 11, 4), (3, 11, 5)])
def test_only_old_versions_get_other_words(monkeypatch: pytest.MonkeyPatch, version: tuple[int, int, int]) -> None:
    monkeypatch.setattr(expressions.sys, "version_info", version)
    assert (expressions.compiled(b"(?:a)*+").pattern == b"(?:a)*+") is (version == (3, 11, 5))


def test_nobody_else_repeats_groups_for_good() -> None:
    """An expression with ``(…)*+`` is made by :func:`fatpack.formats.cir.expressions.compiled`."""
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if re.search(rb"(?<!\\)\)[*+?]\+[^ =]", path.read_bytes()) and b"re.compile(" in path.read_bytes()
    }
    assert found <= {"formats/cir/expressions.py"}
