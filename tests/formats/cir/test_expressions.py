"""Expressions are compiled on first use, in a different form for old versions of Python 3.11 that match wrongly."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from fatpack.formats.cir import vocabulary

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
    assert vocabulary.with_atomic_groups(given) == expected
    re.compile(expected)


@pytest.mark.skipif(sys.version_info < (3, 11, 5), reason="this Python matches one of the two wrongly")
def test_both_words_match_alike_where_a_group_goes_back() -> None:
    """CPython issue 106052: the group matches "ab", and then only "a", by backtracking."""
    given = rb"(?:ab?c?)*+d"
    both = re.compile(given), re.compile(vocabulary.with_atomic_groups(given))
    for text in (b"d", b"abcabad", b"aacd", b"abcb", b"abcabc", b"xabd"):
        one, other = (expression.search(text) for expression in both)
        assert (one and one.span()) == (other and other.span())


@pytest.mark.parametrize("version", [(3, 11, 4), (3, 11, 5)])
def test_only_old_versions_get_other_words(monkeypatch: pytest.MonkeyPatch, version: tuple[int, int, int]) -> None:
    compiled: list[bytes] = []
    monkeypatch.setattr(vocabulary.sys, "version_info", version)
    monkeypatch.setattr(re, "compile", lambda text, _compile=re.compile: compiled.append(text) or _compile(text))
    made = vocabulary.LazyExpression(b"(?:a)*+")
    assert (made.match(b"aab")[0], made.pattern) == (b"aa", b"(?:a)*+")
    assert compiled == [made.pattern if version == (3, 11, 5) else b"(?>(?:a)*)"]


def test_an_expression_is_compiled_once_and_offers_what_a_pattern_does(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[bytes] = []
    monkeypatch.setattr(re, "compile", lambda text, _compile=re.compile: compiled.append(text) or _compile(text))
    made, pattern = vocabulary.LazyExpression(b"(a)b"), re.compile(b"(a)b")
    compiled.clear()
    for method in ("match", "search", "fullmatch"):
        assert getattr(made, method)(b"ab").span() == getattr(pattern, method)(b"ab").span()
    assert made.findall(b"abab") == pattern.findall(b"abab")
    assert [found.span() for found in made.finditer(b"abab")] == [(0, 2), (2, 4)]
    assert made.sub(rb"\1", b"abab") == b"aa"
    assert compiled == [b"(a)b"]
    with pytest.raises(AttributeError, match="flags"):
        made.flags  # noqa: B018


def test_nobody_in_this_room_compiles_expressions_itself() -> None:
    files = [path for path in (SOURCE / "formats/cir").rglob("*.py") if path.name != "vocabulary.py"]
    assert len(files) > 20
    assert not [path.name for path in files if re.search(r"^import re$|^\s+import re$|\bre\.", path.read_text(), re.M)]


def test_nobody_else_repeats_groups_for_good() -> None:
    """An expression with ``(…)*+`` is made by :class:`fatpack.formats.cir.vocabulary.LazyExpression`."""
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if re.search(rb"(?<!\\)\)[*+?]\+[^ =]", path.read_bytes()) and b"re.compile(" in path.read_bytes()
    }
    assert found <= {"formats/cir/vocabulary.py"}
