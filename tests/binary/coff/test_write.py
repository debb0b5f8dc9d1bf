"""Editing COFF objects: moved and unchanged parts, and refusals with their reasons."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

import pytest
from tests.builders.coff import OFFLOADING, Section, Symbol, build, section_symbol

from fatpack.binary import CodeSection, coff
from fatpack.errors import BadValue, FatpackError, FormatError, HostError, UsageError
from fatpack.io.source import BytesSource, View
from fatpack.testing.helpers import join_pieces

if TYPE_CHECKING:
    pass

TEXT = Section(b".text", b"\x90" * 7, 0x60000020, [(1, 0, 4)])
DATA = Section(b".data", b"\0" * 8)
DEVICE = Section(b".llvm.offloading", b"device code", OFFLOADING)
FUNCTION = Symbol(b"f", 1)


def view(data: bytes) -> View:
    return BytesSource(data, "x.obj").view()


def embedded(data: bytes, *content: bytes) -> bytes:
    result = join_pieces(coff.embed(view(data), content))
    coff.verify(view(data), view(result))
    return result


def replaced(data: bytes, index: int, *content: bytes) -> bytes:
    result = join_pieces(coff.replace(view(data), index, content))
    coff.verify(view(data), view(result))
    return result


def removed(data: bytes, *indices: int) -> bytes:
    result = join_pieces(coff.remove(view(data), indices))
    coff.verify(view(data), view(result))
    return result


def contents(data: bytes) -> list[bytes]:
    return [site.data.tobytes() for site in coff.locate(view(data)) if isinstance(site, CodeSection)]


def padded(size: int) -> bytes:
    return bytes(-size % 8)


@pytest.mark.parametrize("big", [False, True])
def test_embedding_gives_the_object_with_one_more_section(big: bool) -> None:
    before = build([TEXT, DATA], [FUNCTION], big=big)
    body_end = (56 if big else 20) + 3 * 40 + 7 + 10 + 8
    gap = Section(b".data", DATA.data + padded(body_end))
    after = build([TEXT, gap, Section(b".llvm.offloading", b"new code", OFFLOADING)], [FUNCTION], big=big)
    size = after.index(struct.pack("<I", len(gap.data)), 20)
    after = after[:size] + struct.pack("<I", len(DATA.data)) + after[size + 4 :]
    assert embedded(before, b"new ", b"code") == after


def test_an_empty_object_description_stays_valid_without_symbols() -> None:
    data = embedded(build([TEXT, DATA], None), b"code")
    assert contents(data) == [b"code"]
    assert data.endswith(struct.pack("<I", 4 + 17) + b".llvm.offloading\0")
    offset, count = struct.unpack_from("<II", data, 8)
    assert (offset, count) == (len(data) - 21, 0)


def test_an_existing_name_is_used_again() -> None:
    data = embedded(build([TEXT, DEVICE], [FUNCTION]), b"second")
    assert contents(data) == [b"device code", b"second"]
    assert data.count(b".llvm.offloading") == 1


def test_room_after_the_section_table_is_used_and_nothing_moves() -> None:
    before = build([TEXT, DATA], [FUNCTION], room=48)
    after = embedded(before, b"code")
    assert contents(after) == [b"code"]
    start, end = 20 + 3 * 40, 20 + 2 * 40 + 48 + 7 + 10 + 8
    assert after[start:end] == before[start:end]
    assert after[20:100] == before[20:100]


def test_a_string_table_beyond_ten_million_gives_a_base64_name() -> None:
    data = embedded(build([TEXT], [FUNCTION], strings=b"x" * 10_000_000 + b"\0"), b"code")
    assert b"//AAmJaF" in data[:200]
    assert contents(data) == [b"code"]


def test_a_string_table_without_last_nul_gets_one() -> None:
    data = build([TEXT], [Symbol(b"a_long_symbol_name", 1)])[:-1]
    size = data.index(b"a_long") - 4
    data = data[:size] + struct.pack("<I", 4 + 18) + data[size + 4 :]
    after = embedded(data, b"code")
    assert contents(after) == [b"code"]
    assert b"a_long_symbol_name\0.llvm.offloading\0" in after


def test_overflowed_relocations_move_as_a_block() -> None:
    many = Section(b".text", b"\x90" * 8, 0x60000020, [(0, 0, 4)] * 70_000)
    before = build([many, DATA], [FUNCTION])
    after = embedded(before, b"code")
    assert contents(after) == [b"code"]
    offset = struct.unpack_from("<I", after, 20 + 24)[0]
    assert struct.unpack_from("<I", after, offset)[0] == 70_001
    assert removed(after, 3)[: len(before) - 4] == before[:-4]


def test_the_last_section_number_of_a_classic_object_is_not_exceeded() -> None:
    full = build([DATA] * 65279)
    with pytest.raises(HostError, match="bigobj"):
        coff.embed(view(full), [b"code"])
    assert contents(embedded(build([DATA] * 65278), b"code")) == [b"code"]


def test_a_big_object_takes_any_number_of_sections() -> None:
    data = embedded(build([DATA] * 70_000, [FUNCTION], big=True), b"code")
    (site,) = coff.locate(view(data))
    assert isinstance(site, CodeSection)
    assert site.index == 70_001


@pytest.mark.parametrize("big", [False, True])
def test_removing_what_was_embedded_gives_the_same_bytes(big: bool) -> None:
    before = build([TEXT, DATA], [FUNCTION], big=big, strings=b".llvm.offloading\0another.name\0")
    assert removed(embedded(before, b"code"), 3) == before
    unnamed = build([TEXT, DATA], [FUNCTION], big=big)
    assert removed(embedded(unnamed, b"code"), 3) == unnamed
    for strings in (b"longer.than.8\0", b"a.llvm.offloading\0"):
        named = build([TEXT, DATA], [FUNCTION], big=big, strings=strings)
        assert removed(embedded(named, b"code"), 3) == named


def test_a_removed_section_in_the_middle_leaves_an_empty_one() -> None:
    symbols = [FUNCTION, section_symbol(b".llvm.offloading", 2, 11, 0x1234)]
    after = removed(build([TEXT, DEVICE, DATA], symbols), 2)
    empty = [FUNCTION, section_symbol(b".llvm.offloading", 2, 0, 0)]
    assert after == build([TEXT, Section(b".llvm.offloading", b"", OFFLOADING), DATA], empty)
    assert contents(after) == []


def test_a_last_section_with_a_symbol_keeps_its_header() -> None:
    after = removed(build([TEXT, DEVICE], [FUNCTION, section_symbol(b".llvm.offloading", 2, 11)]), 2)
    assert struct.unpack_from("<H", after, 2) == (2,)


def test_all_sections_of_device_code_can_go_at_once() -> None:
    before = build([DEVICE, TEXT, DEVICE, DEVICE], [Symbol(b"f", 2)])
    after = removed(before, 4, 1, 3)
    assert contents(after) == []
    assert struct.unpack_from("<H", after, 2) == (2,)


def test_an_object_of_device_code_alone_keeps_one_header() -> None:
    after = removed(build([DEVICE]), 1)
    assert struct.unpack_from("<H", after, 2) == (1,)
    assert coff.detect(view(after))


@pytest.mark.parametrize("content", [b"x", b"device code", b"other device code of another size"])
def test_replacing_moves_what_follows(content: bytes) -> None:
    def checksum(data: bytes) -> int:
        return zlib.crc32(data, 0xFFFFFFFF) ^ 0xFFFFFFFF

    old = [FUNCTION, section_symbol(b".llvm.offloading", 2, 11, checksum(b"device code"))]
    new = [FUNCTION, section_symbol(b".llvm.offloading", 2, len(content), checksum(content))]
    before = build([TEXT, DEVICE, TEXT, DATA], old)
    after = build([TEXT, Section(b".llvm.offloading", content, OFFLOADING), TEXT, DATA], new)
    assert replaced(before, 2, content[:1], content[1:]) == after


def test_a_checksum_of_zero_stays_zero() -> None:
    before = build([DEVICE, DATA], [section_symbol(b".llvm.offloading", 1, 11, 0)])
    assert replaced(before, 1, b"12") == build(
        [Section(b".llvm.offloading", b"12", OFFLOADING), DATA], [section_symbol(b".llvm.offloading", 1, 2, 0)]
    )


def test_a_size_in_memory_follows_where_it_was_the_size_in_the_file() -> None:
    before = build([Section(b".llvm.offloading", b"12345", OFFLOADING, virtual_size=5), TEXT])
    assert struct.unpack_from("<I", replaced(before, 1, b"123"), 28) == (3,)


def test_several_sections_can_be_exchanged_and_taken_out_at_once() -> None:
    fatbin = Section(b".hip_fatbin", b"a bundle")
    before = build([DEVICE, TEXT, fatbin, DEVICE], [Symbol(b"f", 2)])
    after = join_pieces(coff.edit(view(before), {1: None, 3: [b"another ", b"bundle"], 4: [b"x"]}))
    coff.verify(view(before), view(after))
    empty, other, short = (
        DEVICE._replace(data=b""),
        fatbin._replace(data=b"another bundle"),
        DEVICE._replace(data=b"x"),
    )
    assert after == build([empty, TEXT, other, short], [Symbol(b"f", 2)])


def fatbin(relocations: list[tuple[int, int, int]], symbols: list[Symbol], pointer: bytes = bytes(8)) -> bytes:
    return build([Section(b".data", pointer, relocations=relocations), Section(b".hip_fatbin", b"bundle")], symbols)


def test_contents_that_are_referred_to_as_a_whole_can_be_replaced() -> None:
    data = fatbin([(0, 0, 1)], [Symbol(b"__hip_fatbin", 2)])
    assert contents(replaced(data, 2, b"a longer bundle")) == [b"a longer bundle"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (fatbin([(0, 0, 1)], [Symbol(b"inside", 2, value=4)]), "inside lies inside section 2"),
        (fatbin([(0, 0, 1)], [Symbol(b"b", 2)], struct.pack("<Q", 4)), "refers to the inside of b"),
        (fatbin([(0, 0, 0x99)], [Symbol(b"b", 2)]), "cannot check"),
        (fatbin([(4, 0, 1)], [Symbol(b"b", 2)]), "cannot check"),
        (build([TEXT, Section(b".hip_fatbin", b"123", relocations=[(0, 0, 1)])], [FUNCTION]), "patched by the linker"),
        (build([TEXT, Section(b".hip_fatbin", b"")]), "has no contents"),
        (build([TEXT, DATA]), "no section of device code"),
        (build([TEXT]), "no section 2"),
    ],
)
def test_contents_that_cannot_be_replaced_are_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(HostError, match=reason):
        coff.replace(view(data), 2, [b"new"])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (build([TEXT, Section(b".nv_fatbin", b"123")]), "becomes part of programs"),
        (build([TEXT, DEVICE], [Symbol(b"somebody", 2, 3)]), r"somebody is in section 2 \(\.llvm\.offloading\)"),
        (
            build([TEXT, DEVICE], [section_symbol(b".llvm.offloading", 2, 11)]),
            r"section 1 \(\.text\) refers to \.llvm\.offloading, which is in the section",
        ),
    ],
)
def test_contents_that_cannot_be_removed_are_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(HostError, match=reason):
        coff.remove(view(data), [2])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (build([TEXT], [FUNCTION], tail=b"x"), "1 bytes follow the string table"),
        (build([TEXT._replace(line_count=1)], [FUNCTION]), "line numbers"),
        (struct.pack("<HHHHIIHH", 0, 0xFFFF, 0, 0x8664, 0, 4, 0, 0) + b"f\0k\0", "import object"),
        (struct.pack("<HHHHI16s", 0, 0xFFFF, 1, 0x8664, 0, b"0123456789abcdef") + bytes(32), "intermediate code"),
    ],
)
def test_objects_that_cannot_be_edited_are_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(HostError, match=reason):
        coff.embed(view(data), [b"code"])


def test_a_cut_object_is_refused_wherever_it_is_cut() -> None:
    data = build([TEXT, DATA], [FUNCTION])
    for size in range(len(data)):
        with pytest.raises(FatpackError):
            coff.embed(view(data[:size]), [b"code"])


def test_contents_after_the_symbols_are_refused() -> None:
    data = build([TEXT, DATA], [FUNCTION])
    offset = struct.pack("<I", struct.unpack_from("<I", data, 8)[0])
    moved = data[: 60 + 20] + offset + data[60 + 24 :]
    with pytest.raises(BadValue, match="not between the section table and the symbols"):
        coff.embed(view(moved), [b"code"])


def test_symbols_without_a_place_are_refused() -> None:
    data = bytearray(build([TEXT], None))
    data[12] = 1
    with pytest.raises(FormatError):
        coff.embed(view(bytes(data)), [b"code"])


def test_sections_that_share_bytes_are_not_edited() -> None:
    data = build([DEVICE, Section(b".hip_fatbin", b"1", OFFLOADING)])
    second = data[60 + 20 : 60 + 24]
    shared = data[: 20 + 20] + struct.pack("<I", struct.unpack("<I", second)[0] - 1) + data[20 + 24 :]
    with pytest.raises(FormatError):
        coff.remove(view(shared), [1])


@pytest.mark.parametrize("pointer", [1, 19, 0xFFFFFFFF])
def test_pointers_of_empty_sections_may_lead_anywhere(pointer: int) -> None:
    data = bytearray(build([Section(b".bss"), TEXT, DEVICE], [Symbol(b"f", 2)], big=True))
    data[56 + 20 : 56 + 24] = struct.pack("<I", pointer)
    for result in (embedded(bytes(data), b"code"), removed(bytes(data), 3), replaced(bytes(data), 3, b"other")):
        assert struct.unpack_from("<I", result, 56 + 20) == (pointer,)


def test_oddities_that_were_there_before_do_not_fail_an_edit() -> None:
    empty = Section(b".llvm.offloading", b"123", OFFLOADING | 0x80)
    assert contents(embedded(build([TEXT, empty], [FUNCTION]), b"code")) == [b"code"]
    unnamed = build([Section(b"/999"), TEXT], [Symbol(b"f", 2)])
    assert contents(embedded(unnamed, b"code")) == [b"code"]


def test_nothing_to_embed_or_to_put_in_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(UsageError):
        coff.embed(view(build([TEXT])), [])
    with pytest.raises(UsageError):
        coff.replace(view(build([TEXT, DEVICE])), 2, [b""])


class Huge:
    """Content that is large only in name."""

    def __len__(self) -> int:
        return 0xFFFFFFF0

    def read(self, at: int, size: int) -> bytes:
        raise AssertionError("content is not read while an object is laid out")

    def tobytes(self) -> bytes:
        raise AssertionError("content is not read while an object is laid out")

    def pieces(self):  # type: ignore[no-untyped-def]
        raise AssertionError("content is not read while an object is laid out")


def test_an_object_beyond_four_gigabytes_is_refused() -> None:
    with pytest.raises(HostError, match="32-bit"):
        coff.embed(view(build([TEXT])), [Huge()])


@pytest.mark.parametrize(
    ("after", "difference"),
    [
        (build([TEXT, DATA, DEVICE], [FUNCTION], machine=0xAA64), "machine"),
        (build([TEXT._replace(data=b"\x91" * 7), DATA, DEVICE], [FUNCTION]), "section 1"),
        (build([TEXT._replace(relocations=[(2, 0, 4)]), DATA, DEVICE], [FUNCTION]), "section 1"),
        (build([TEXT, DATA._replace(flags=0xC0000040), DEVICE], [FUNCTION]), "section 2"),
        (build([TEXT, DEVICE], [FUNCTION]), "section 2"),
        (build([TEXT, DATA, Section(b".other_name", b"1")], [FUNCTION]), "section 3"),
        (build([TEXT, DATA, DEVICE], [Symbol(b"f", 2)]), "symbols"),
        (build([TEXT, DATA, DEVICE], [FUNCTION, FUNCTION]), "number of symbols"),
        (build([TEXT, DATA, DEVICE], [FUNCTION])[:-1], "damaged"),
    ],
)
def test_verify_finds_every_other_difference(after: bytes, difference: str) -> None:
    before = build([TEXT, DATA], [FUNCTION])
    coff.verify(view(before), view(build([TEXT, DATA, DEVICE], [FUNCTION])))
    with pytest.raises(HostError, match=difference):
        coff.verify(view(before), view(after))


def test_verify_compares_strings() -> None:
    before = build([TEXT], [Symbol(b"a_long_symbol", 1)])
    with pytest.raises(HostError, match="string table"):
        coff.verify(view(before), view(before.replace(b"a_long_symbol", b"a_long_sYmbol")))
