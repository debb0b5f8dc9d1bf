"""Device ELFs of all kinds: the size of the image, and wrong symbol tables."""

from __future__ import annotations

import struct

import pytest
from tests.builders.device_elf import NOBITS, device_elf, symbol

from fatpack import images, limits
from fatpack.binary.elf import quick_header
from fatpack.errors import BadValue, FormatError, LimitExceeded, Truncated
from fatpack.io.source import BytesSource

SHAPES = [(64, "<"), (64, ">"), (32, "<"), (32, ">")]
KERNEL = [(b"kern.kd", 0x11, 0, 1)]


def recognise(data: bytes) -> images.ImageInfo:
    return images.identify_image(BytesSource(data).view())


def kernels(data: bytes) -> tuple[str, ...]:
    return images.kernels(BytesSource(data).view(), "code-object")


@pytest.mark.parametrize(("bits", "order"), SHAPES)
@pytest.mark.parametrize("segments_last", [False, True])
def test_the_size_is_found_in_every_word_size_and_byte_order(bits, order, segments_last):
    data = device_elf(
        224, bits=bits, order=order, sections=[(1, b"code")], segments=[(0, 64)], segments_last=segments_last
    )
    assert recognise(data).size == recognise(data + bytes(7)).size == len(data)


@pytest.mark.parametrize(("bits", "order"), SHAPES)
def test_symbols_are_read_in_every_word_size_and_byte_order(bits, order):
    assert kernels(device_elf(224, bits=bits, order=order, sections=[(1, b"code")], symbols=KERNEL)) == ("kern",)


def test_a_section_without_bytes_in_the_file_does_not_count():
    data = device_elf(224, sections=[(1, b"code"), (NOBITS, bytes(1 << 16))])
    assert recognise(data).size == len(data) < 1 << 16


def test_a_section_past_the_end_shows_that_the_image_was_cut():
    data = device_elf(224, sections=[(1, bytes(1000))])
    moved = bytearray(data)
    at = len(data) - 64 + 24
    assert struct.unpack_from("<QQ", data, at) == (64, 1000)
    struct.pack_into("<Q", moved, at, 5000)
    assert recognise(bytes(moved)).size == 6000


def test_an_image_whose_section_table_was_cut_off_keeps_the_size_its_header_describes():
    data = device_elf(224, sections=[(1, bytes(1000))])
    assert recognise(data[:500]).size == len(data)


def test_an_image_without_sections_ends_with_its_segments():
    data = device_elf(224, has_sections=False, segments=[(0, 64), (120, 50)])
    assert recognise(data.ljust(200, b"\0")).size == 64 + 2 * 56
    assert recognise(device_elf(224, has_sections=False, segments=[(200, 50)])).size == 250


def test_an_image_with_neither_table_is_its_header():
    assert recognise(device_elf(224, has_sections=False) + b"rest").size == 64


def test_a_section_count_beside_the_header_is_read():
    data = device_elf(224, sections=[(1, b"code")], symbols=KERNEL, large_count=True)
    assert recognise(data).size == len(data)
    assert kernels(data) == ("kern",)


def test_a_table_of_entries_of_another_size_gives_no_size():
    data = bytearray(device_elf(224, sections=[(1, b"code")]))
    struct.pack_into("<H", data, 0x3A, 40)
    assert recognise(bytes(data)).size is None


def test_a_huge_section_count_costs_no_more_than_the_bytes_there_are():
    data = bytearray(device_elf(224, sections=[(1, b"code")], large_count=True))
    struct.pack_into("<Q", data, len(data) - 128 + 32, 1 << 60)
    assert recognise(bytes(data)).size == len(data) - 128 + (64 << 60)
    with pytest.raises(Truncated, match="section table"):
        kernels(bytes(data))


def test_a_short_header_is_an_object_that_was_cut():
    recognised = recognise(device_elf(224)[:50])
    assert (recognised.form, recognised.size, recognised.arch) == ("object", 64, "")


def test_an_unknown_class_is_an_object_of_unknown_size():
    assert recognise(b"\x7fELF\x07\x01" + bytes(100)).size is None


def test_an_image_without_symbols_has_no_kernels():
    assert kernels(device_elf(224, sections=[(1, b"code")])) == kernels(device_elf(224, has_sections=False)) == ()


def row(data: bytes, from_end: int) -> int:
    """Return the offset of a section header, counted from the last."""
    return len(data) - 64 * from_end


#: damaged field → (section header counted from the last, offset in it, struct code, value), error, words
DAMAGES = {
    "table far away": ((2, 24, "<Q", 1 << 63), Truncated, "symbol table"),
    "huge table": ((2, 32, "<Q", 24 << 57), Truncated, "symbol table"),
    "odd size": ((2, 32, "<Q", 47), BadValue, "symbol table"),
    "odd entries": ((2, 56, "<Q", 23), BadValue, "symbol table"),
    "no such section of names": ((2, 40, "<I", 99), BadValue, "symbol table"),
    "names far away": ((1, 24, "<Q", 1 << 40), Truncated, "symbol names"),
    "names cut short": ((1, 32, "<Q", 3), BadValue, "symbol name"),
    "no names": ((1, 32, "<Q", 0), BadValue, "symbol name"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_symbol_table_is_an_error_with_its_place(name):
    (from_end, field, code, value), error, words = DAMAGES[name]
    data = bytearray(device_elf(224, sections=[(1, b"code")], symbols=KERNEL))
    struct.pack_into(code, data, row(data, from_end) + field, value)
    with pytest.raises(error, match=words) as caught:
        kernels(bytes(data))
    assert caught.value.format == "elf"
    assert caught.value.offset is not None


def test_bytes_that_are_no_elf_have_no_symbol_table():
    with pytest.raises(FormatError, match="no ELF header"):
        kernels(b"\x03\x02\x02\x01\x01\x01" + bytes(100))


def test_offsets_of_errors_are_those_of_the_file_around_the_image():
    data = bytearray(device_elf(224, sections=[(1, b"code")], symbols=KERNEL))
    struct.pack_into("<Q", data, row(data, 2) + 56, 23)
    view = BytesSource(bytes(0x1000) + data, "lib.so").view().slice(0x1000, len(data), "image 2")
    with pytest.raises(BadValue) as caught:
        images.kernels(view, "code-object")
    assert caught.value.offset == 0x1000 + 64 + 4
    assert caught.value.chain == ("lib.so", "image 2")


def test_symbols_that_share_one_long_name_do_not_multiply_it():
    name = b"n" * (1 << 16)
    data = device_elf(224, symbols=[(name + b".kd", 0x11, 0, 1)])
    count = 4 * limits.STRING_FLOOR // len(name)
    table = b"".join(symbol(64, "<", 1 + index, (0x11, 0, 1)) for index in range(count))
    shared = bytearray(data + table)
    struct.pack_into("<QQ", shared, row(data, 2) + 24, len(data), len(table))
    with pytest.raises(LimitExceeded, match="far longer"):
        kernels(bytes(shared))


def test_a_string_table_beyond_the_limit_is_refused(monkeypatch):
    monkeypatch.setattr(limits, "STRING_TABLE", 4)
    with pytest.raises(LimitExceeded, match="at most 4"):
        kernels(device_elf(224, symbols=KERNEL))


def test_names_that_are_no_utf8_become_escapes():
    assert kernels(device_elf(224, symbols=[(b"k\xff\xe9.kd", 0x11, 0, 1)])) == (r"k\xff\xe9",)


@pytest.mark.parametrize(("type", "expected"), [(1, False), (2, True), (3, True), (4, False)])
@pytest.mark.parametrize(("bits", "order"), SHAPES)
def test_programs_and_libraries_are_linked(bits, order, type, expected):
    data = bytearray(device_elf(62, bits=bits, order=order, sections=[(1, b"code")]))
    struct.pack_into(order + "H", data, 16, type)
    assert quick_header.is_linked(BytesSource(bytes(data)).view()) is expected
    assert quick_header.read_file_type(BytesSource(bytes(data[:40])).view()) is None
