"""Colour and widths: words stand where they stood, lines fit, and plain text stays as it is."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fatpack.text.style import NARROWEST, PLAIN, Style, align_columns, colorize, ellipsize, table_lines, wrap_lines

COLOURED = Style(is_coloured=True)
_WORDS = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=70)


def bare(text: str) -> str:
    return re.sub(r"\x1b\[\d*m", "", text)


def test_plain_text_is_what_it_was() -> None:
    rows = [["name", "12 B"], ["n" * 60, "1 B"], ["", ""]]
    assert list(table_lines(rows, PLAIN, right=(1,), names=(0,), role=lambda row, column: "error")) == align_columns(
        rows, (1,)
    )
    assert PLAIN.painted("x", "error") == "x"
    lines = ["x.o: ELF", "  warning FP1102: y"]
    assert list(colorize(lines, PLAIN)) == lines


def test_few_words_have_colour() -> None:
    lines = ["x.o: ELF, 3 kB", "  0.0  cuda", "  warning FP1102 at 0x1: said", "error FP1001: z", "plain"]
    made = list(colorize(lines, COLOURED))
    assert list(map(bare, made)) == lines
    assert made[0] == "\x1b[1mx.o\x1b[0m: ELF, 3 kB"
    assert made[1] == lines[1]
    assert made[2] == "  \x1b[33mwarning\x1b[0m FP1102 at 0x1: said"
    assert made[3] == "\x1b[31merror\x1b[0m FP1001: z"
    assert made[4] == "plain"


def test_what_is_missing_has_the_same_colour_everywhere() -> None:
    lines = ["lost: sm_75 in libk.so", "  sm_75  1 → 0  1 lost, 2 added  0 B", "  k  yes  missing", "  lost  lost_sum"]
    made = list(colorize(lines, COLOURED))
    assert list(map(bare, made)) == lines
    red = "\x1b[31m{}\x1b[0m".format
    assert made == [
        f"{red('lost')}: sm_75 in libk.so",
        f"  sm_75  1 → 0  {red('1 lost')}, 2 added  0 B",
        f"  k  yes  {red('missing')}",
        f"  {red('lost')}  lost_sum",
    ]
    (first,) = colorize(["could not be read: x.so; nothing was compared"], COLOURED)
    assert first.startswith(red("could not be read"))


def test_long_names_at_the_end_of_a_line_make_way() -> None:
    name = "_ZN2at6native" + "x" * 80 + "EvT_"
    lines = ["x.o: " + "y" * 90, f"  0.0  hip  amdgcn-amd-amdhsa-unknown  3 B  1 kernel: {name}", f"  note FP1: {name}"]
    made = list(colorize(lines, Style(width=80)))
    assert made[0] == lines[0]
    assert made[2] == lines[2]
    assert len(made[1]) == 80
    assert made[1].startswith("  0.0  hip  amdgcn-amd-amdhsa-unknown  3 B  1 kernel: _ZN2at")
    assert made[1].endswith("xEvT_")
    assert list(colorize(lines, Style(width=200))) == lines


def test_what_has_no_role_has_no_colour() -> None:
    assert COLOURED.painted("x", "") == "x"
    assert COLOURED.painted("", "error") == ""


@given(text=_WORDS, width=st.integers(3, 80))
def test_a_name_that_is_shortened_keeps_its_ends(text: str, width: int) -> None:
    short = ellipsize(text, width)
    assert len(short) == min(len(text), width)
    before, dots, after = short.partition("…")
    assert text.startswith(before)
    assert text.endswith(after)
    assert bool(dots) == (len(text) > width)
    assert 0 <= len(after) - len(before) <= 1 or not dots


@given(rows=st.lists(st.tuples(_WORDS, _WORDS, _WORDS), min_size=1, max_size=6), width=st.integers(40, 120))
def test_a_table_fits_where_its_names_can_give(rows: list[tuple[str, str, str]], width: int) -> None:
    lines = list(table_lines(rows, Style(width=width), right=(1,), indent="  ", names=(0, 2)))
    assert len(lines) == len(rows)
    others = max(len(row[1]) for row in rows)
    if 2 + NARROWEST + 2 + others + 2 + NARROWEST <= width:
        assert max(map(len, lines)) <= width
    # Columns that are no names are never shortened.
    assert all(row[1] in line for row, line in zip(rows, lines, strict=True))


@given(rows=st.lists(st.tuples(_WORDS, _WORDS), min_size=1, max_size=6))
def test_colour_moves_nothing(rows: list[tuple[str, str]]) -> None:
    painted = table_lines(rows, Style(is_coloured=True, width=100), right=(1,), role=lambda row, column: "missing")
    assert [bare(line).rstrip() for line in painted] == list(table_lines(rows, Style(width=100), right=(1,)))


@pytest.mark.parametrize("role", ["error", "warning", "note", "missing", "good", "heading", "faint"])
def test_every_role_ends_its_colour(role: str) -> None:
    assert re.fullmatch(r"\x1b\[\d+mx\x1b\[0m", COLOURED.painted("x", role))


def test_lines_that_are_too_wide_go_on_below_their_last_column() -> None:
    line = "  files  3  read to the end of what is in them"
    assert list(wrap_lines([line], 30)) == ["  files  3  read to the end of", "            what is in them"]
    assert list(wrap_lines([f"    {line}"], 0)) == [f"    {line}"]
    assert list(wrap_lines(["one two three"], 8)) == ["one two", "  three"]
    command = "fatpack report " + "a/long/name" * 4
    assert list(wrap_lines([f"  to do: {command} shows it"], 40)) == [
        "  to do: fatpack report",
        f"    {'a/long/name' * 4}",
        "    shows it",
    ]


def test_a_path_longer_than_usual_keeps_the_columns() -> None:
    paths = ["a/" + "long-folder/" * 12 + "x.so", "b.so"]
    lines = align_columns([[path, "cubin", "12 kB"] for path in paths])
    assert {line.index("cubin") for line in lines} == {len(paths[0]) + 2}
    assert [line.split() for line in lines] == [[path, "cubin", "12", "kB"] for path in paths]
