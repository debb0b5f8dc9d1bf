"""Merged tables of strings: their order, shared tails, and the cost of overlapping names."""

from __future__ import annotations

import pytest

from fatpack.binary.new_file import merge_strings, read_strings_at
from fatpack.errors import LimitExceeded
from fatpack.io.source import BytesSource


def test_strings_are_ordered_by_their_ends_and_stored_once() -> None:
    table = merge_strings([[b"text", b".rela.text", b"b", b"ab", b"text", b".text", b"data"]], 1)
    assert table.stored == b".rela.text\0ab\0data\0"
    assert table.offsets == {b".rela.text": 1, b".text": 6, b"text": 7, b"ab": 12, b"b": 13, b"data": 15}


def test_only_the_string_stored_last_lends_its_end() -> None:
    # "xb" comes between "ab" and "b" in no order: their ends are compared first.
    table = merge_strings([[b"b", b"ab", b"xb"]], 0)
    assert table.stored == b"xb\0ab\0"
    assert table.offsets[b"b"] == 4


def test_bytes_above_127_come_before_letters() -> None:
    assert merge_strings([[b"a", b"\xff", b"z"]], 0).stored == b"\xff\0z\0a\0"


def test_earlier_groups_are_stored_first_and_lend_their_ends() -> None:
    table = merge_strings([[b"long_name"], [b"zzz", b"name", b"long_name"]], 4)
    assert table.stored == b"long_name\0zzz\0name\0"
    assert merge_strings([[b"long_name"], [b"name"]], 4).offsets == {b"long_name": 4, b"name": 9}


def test_no_strings_make_an_empty_table() -> None:
    assert merge_strings([], 4).stored == b""


def test_strings_are_found_where_they_start_also_inside_others() -> None:
    table = b"\0.rela.text\0b\0end"
    view = BytesSource(table).view()
    found = read_strings_at(table, [6, 0, 1, 12, 14, 6], view)
    assert found == {0: b"", 1: b".rela.text", 6: b".text", 12: b"b", 14: b"end"}


def test_thousands_of_names_in_one_long_string_are_refused() -> None:
    table = b"n" * 200_000 + b"\0"
    with pytest.raises(LimitExceeded, match="overlap"):
        read_strings_at(table, range(5000), BytesSource(table).view())
