"""Rewriting archives: contents replaced, offsets in symbol tables updated, everything else kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pytest
from tests.builders.archive import GNU, THIN, bsd_member, bsd_symbols, gnu_symbols, header, member, microsoft_symbols

from fatpack.binary import CodeSection, archive
from fatpack.errors import BadValue, FormatError, HostError, UsageError
from fatpack.io.source import BytesSource, View
from fatpack.testing.helpers import join_pieces

if TYPE_CHECKING:
    from fatpack.io.source import Piece


def view(data: bytes) -> View:
    return BytesSource(data, "libx.a").view()


def rewritten(data: bytes, contents: Mapping[int, Sequence[Piece]]) -> bytes:
    result = join_pieces(archive.rewrite(view(data), contents))
    archive.verify(view(data), view(result))
    return result


def test_nothing_exchanged_gives_the_same_bytes() -> None:
    data = GNU + gnu_symbols([80]) + member(b"a.o/", b"123") + bsd_member(b"b", b"4", padding=2) + member(b"c/", b"5")
    data = data.replace(b"\0\0\0\x50", (8 + 60 + 12).to_bytes(4, "big"))
    assert rewritten(data, {}) == data
    assert rewritten(data[:-1], {}) == data[:-1]


def test_the_new_content_gets_its_size_and_padding() -> None:
    data = GNU + member(b"a.o/", b"12") + member(b"b.o/", b"34")
    assert rewritten(data, {0: [b"ab", b"c"]}) == GNU + member(b"a.o/", b"abc") + member(b"b.o/", b"34")
    assert rewritten(data, {1: [b"abc"]}) == GNU + member(b"a.o/", b"12") + member(b"b.o/", b"abc")
    assert rewritten(data, {0: []}) == GNU + member(b"a.o/", b"") + member(b"b.o/", b"34")


def test_other_header_fields_stay() -> None:
    old = header(b"a.o/", 2).replace(b"0           0     0     644     ", b"1700000000  1000  1000  100755  ")
    assert (
        rewritten(GNU + old + b"12", {0: [b"123456"]}) == GNU + old.replace(b"2         `", b"6         `") + b"123456"
    )


def test_members_with_one_name_are_distinguished_by_their_number() -> None:
    data = GNU + member(b"a.o/", b"12") + member(b"a.o/", b"34")
    assert rewritten(data, {1: [b"56"]}) == GNU + member(b"a.o/", b"12") + member(b"a.o/", b"56")


@pytest.mark.parametrize(
    ("make", "size"),
    [
        (lambda first, second: gnu_symbols([first, second, second]), 4 + 12 + 9),
        (lambda first, second: gnu_symbols([first, second], ">Q", b"/SYM64/"), 8 + 16 + 6),
        (lambda first, second: bsd_symbols([second, first]), 4 + 16 + 4 + 6),
        (lambda first, second: bsd_symbols([second, first], ">I"), 4 + 16 + 4 + 6),
        (lambda first, second: bsd_symbols([first, second], "<Q", b"__.SYMDEF_64"), 8 + 32 + 8 + 10),
        (lambda first, second: bsd_symbols([first], name=b"__.SYMDEF SORTED"), 4 + 8 + 4 + 6),
    ],
    ids=["gnu", "gnu64", "bsd", "bsd-big-endian", "bsd64", "bsd-sorted"],
)
def test_symbol_tables_point_at_the_moved_headers(make, size: int) -> None:  # type: ignore[no-untyped-def]
    first = 8 + 60 + size + size % 2
    old = GNU + make(first, first + 62) + member(b"a/", b"12") + member(b"b/", b"34")
    new = GNU + make(first, first + 70) + member(b"a/", b"1234567890") + member(b"b/", b"34")
    assert rewritten(old, {0: [b"1234567890"]}) == new


def test_microsofts_second_table_is_moved_and_its_member_numbers_stay() -> None:
    def build(content: bytes) -> bytes:
        first = 8 + 60 + (4 + 8 + 6) + 60 + (4 + 8 + 4 + 4 + 6)
        places = [first, first + 60 + len(content)]
        tables = gnu_symbols(places) + microsoft_symbols(places, [1, 2])
        return GNU + tables + member(b"a/", content) + member(b"b/", b"34")

    assert rewritten(build(b"12"), {0: [b"123456"]}) == build(b"123456")


def test_aligned_bsd_names_stay_aligned() -> None:
    old = GNU + bsd_member(b"a", b"1234567890", padding=3) + bsd_member(b"b", b"1", padding=1)
    new = GNU + bsd_member(b"a", b"12", padding=3) + bsd_member(b"b", b"1", padding=1)
    assert rewritten(old, {0: [b"12"]}) == new
    longer = GNU + bsd_member(b"a", b"1234", padding=3) + bsd_member(b"b", b"1", padding=7)
    assert rewritten(old, {0: [b"1234"]}) == longer


def test_unaligned_bsd_names_stay_as_they_are() -> None:
    old = GNU + bsd_member(b"a", b"1") + bsd_member(b"b", b"1")
    assert rewritten(old, {0: [b"123456"]}) == GNU + bsd_member(b"a", b"123456") + bsd_member(b"b", b"1")


def test_mach_o_members_stay_multiples_of_eight() -> None:
    mach_o = b"\xcf\xfa\xed\xfe" + bytes(12)
    assert rewritten(GNU + member(b"a.o/", mach_o), {0: [mach_o + b"12345"]}) == GNU + member(
        b"a.o/", mach_o + b"12345\n\n\n"
    )


def test_nested_archives_are_exchanged_like_any_member() -> None:
    inner = GNU + member(b"b.o/", b"12")
    (site,) = archive.locate(view(GNU + member(b"in.a/", inner)))
    assert isinstance(site, CodeSection)
    changed = archive.rewrite(site.data, {0: [b"1234"]})
    assert rewritten(GNU + member(b"in.a/", inner), {0: changed}) == GNU + member(
        b"in.a/", GNU + member(b"b.o/", b"1234")
    )


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (THIN + header(b"a.o/", 2), "thin archive"),
        (b"<bigaf>\n" + bytes(120), "AIX"),
        (GNU + member(b"/<ECSYMBOLS>/", b"12") + member(b"a/", b""), "ECSYMBOLS"),
        (GNU + member(b"/<XFGHASHMAP>/", b"12") + member(b"a/", b""), "XFGHASHMAP"),
    ],
)
def test_archives_that_cannot_be_written_are_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(HostError, match=reason):
        archive.rewrite(view(data), {})


def test_a_damaged_archive_is_refused() -> None:
    with pytest.raises(FormatError, match="cut short"):
        archive.rewrite(view(GNU + member(b"a/", b"12") + header(b"b/", 9)), {0: [b""]})


def test_a_symbol_table_that_names_no_member_is_refused() -> None:
    with pytest.raises(BadValue, match="ranlib"):
        archive.rewrite(view(GNU + gnu_symbols([9]) + member(b"a/", b"12")), {0: [b""]})


@pytest.mark.parametrize("number", [-1, 1])
def test_a_number_that_no_member_has_is_refused(number: int) -> None:
    with pytest.raises(UsageError, match="the archive has 1"):
        archive.rewrite(view(GNU + member(b"a/", b"12")), {number: [b""]})


class Huge:
    """Content that is large only in name."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def read(self, at: int, size: int) -> bytes:
        raise AssertionError("content is not read while an archive is laid out")

    def tobytes(self) -> bytes:
        raise AssertionError("content is not read while an archive is laid out")

    def pieces(self):  # type: ignore[no-untyped-def]
        raise AssertionError("content is not read while an archive is laid out")


def test_an_archive_that_outgrows_its_32_bit_table_is_refused() -> None:
    first = 8 + 60 + 18
    data = GNU + gnu_symbols([first, first + 62]) + member(b"a/", b"12") + member(b"b/", b"34")
    archive.rewrite(view(data), {0: [Huge(2**32 - 2 - 60 - first)]})
    with pytest.raises(HostError, match="32-bit"):
        archive.rewrite(view(data), {0: [Huge(2**32 - 60 - first)]})


def test_a_member_larger_than_ten_digits_is_refused() -> None:
    with pytest.raises(HostError, match="larger than an archive can say"):
        archive.rewrite(view(GNU + member(b"a/", b"12")), {0: [Huge(10**10)]})


def test_verify_refuses_other_members_and_symbols_that_moved() -> None:
    first = 8 + 60 + 12
    data = GNU + gnu_symbols([first]) + member(b"a/", b"12") + member(b"b/", b"34")
    with pytest.raises(HostError, match="other members"):
        archive.verify(view(data), view(data[:-62]))
    with pytest.raises(HostError, match="lead to other members"):
        archive.verify(view(data), view(data.replace(bytes([0, 0, 0, first]), bytes([0, 0, 0, first + 62]))))
