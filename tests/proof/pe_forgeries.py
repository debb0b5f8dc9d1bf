"""Forgeries of an edited DLL: an image before and after that only one rule of the proof rejects.

The images have no checksum except one: it would find every forgery by itself.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache

from tests.builders import linked_pe
from tests.builders.linked_elf import entry, fatbin
from tests.builders.linked_pe import Image
from tests.proof.elf_forgeries import Pair, patched

from fatpack.binary import pe
from fatpack.binary.shrink import ContainerMove, NewSectionContent, ShrinkRequest
from fatpack.io.source import BytesSource, View

SM80 = entry(2, 80, b"\x7fELF" + bytes(range(250)) * 4)
SM90 = entry(2, 90, b"\x7fELF" + bytes(range(90)))
WHOLE, REDUCED = [fatbin(SM80, SM90), fatbin(SM80, SM90)], [fatbin(SM90), fatbin(SM90)]
IMAGE = linked_pe.build(WHOLE, checksum=False)
PLAIN = linked_pe.build(WHOLE, checksum=False, symbols=False)
TEXT, BSS = 1, 6

#: positions of numbers in the file header with its signature, the optional header, and a section header
SYMBOLS_AT, INITIALIZED, CHECKSUM = 12, 8, 64
RAW_SIZE, RAW_AT, LINES_AT, LINE_COUNT = 16, 20, 28, 34


def shrink(image: Image) -> bytes:
    """Return an image of the containers ``WHOLE`` with the reduced ones."""
    start = image.base + image.places[".nv_fatb"][0]
    second = start + len(REDUCED[0])
    pairs = zip(image.containers, WHOLE, (start, second), REDUCED, strict=True)
    moves = [ContainerMove(image.base + old, len(whole), new, len(reduced)) for old, whole, new, reduced in pairs]
    change = ShrinkRequest([NewSectionContent(linked_pe.FAT, REDUCED)], moves, {image.base + image.words[1]: second})
    pieces = pe.shrink(BytesSource(image.data).view(), change, mode="shrink").pieces
    return b"".join(piece.tobytes() if isinstance(piece, View) else bytes(piece) for piece in pieces)


@cache
def shrunk() -> bytes:
    return shrink(IMAGE)


#: the bytes that the image loses
CUT = len(IMAGE.data) - len(shrunk())


def number(value: int) -> bytes:
    return struct.pack("<I", value)


def section_at(image: Image, index: int) -> int:
    """Return the position of a section header; sections count from 1."""
    return image.optional + 240 + 40 * (index - 1)


def in_section(image: Image, data: bytes, index: int, field: int, value: int) -> bytes:
    return patched(data, section_at(image, index) + field, number(value))


def directory_at(image: Image, index: int) -> int:
    return image.optional + 112 + 8 * index


def with_directory(image: Image, data: bytes, index: int, start: int, size: int) -> bytes:
    return patched(data, directory_at(image, index), struct.pack("<II", start, size))


def debug_at(image: Image, index: int) -> int:
    """Return the position of the file offset in an entry of the debug directory."""
    return image.places[".rdata"][1] + 28 * index + 24


def _pointer_elsewhere() -> Pair:
    """Two records lead to one container before; one of them leads to none after."""
    library = linked_pe.build([fatbin(SM90)] * 2, checksum=False)
    at = library.places[".nvFatBi"][1] + 24 + 8
    before, after = (
        patched(library.data, at, struct.pack("<Q", library.base + to)) for to in (library.containers[0], 0x1000)
    )
    return before, after


def _symbols_where_none_were() -> Pair:
    at = PLAIN.optional - 24 + SYMBOLS_AT
    return PLAIN.data, patched(PLAIN.data, at, number(len(PLAIN.data) - 60))


def _zeros_not_stored() -> Pair:
    """The zeros at the end of a section that is no device code are not in the file after."""
    align = linked_pe.FILE_ALIGN
    before = patched(PLAIN.data, PLAIN.places[".rdata"][1] + align, bytes(align))
    before = with_directory(PLAIN, before, 0, 0, 0)
    return before, in_section(PLAIN, before, linked_pe.RDATA, RAW_SIZE, align)


def _raw_offset_of_none() -> Pair:
    return IMAGE.data, in_section(IMAGE, IMAGE.data, BSS, RAW_AT, 0x400)


def _unaligned() -> Pair:
    """A section of zeros is 8 bytes later in the file: zeros are there, too."""
    at = PLAIN.places[".text"][1]
    before = patched(PLAIN.data, at, bytes(100))
    before = in_section(PLAIN, before, TEXT, RAW_SIZE, 0x100)
    return before, in_section(PLAIN, before, TEXT, RAW_AT, at + 8)


def _with_lines(at: int) -> bytes:
    data = in_section(IMAGE, IMAGE.data, TEXT, LINES_AT, at)
    return patched(data, section_at(IMAGE, TEXT) + LINE_COUNT, b"\1\0")


def _lines(after: int) -> Pair:
    return _with_lines(len(IMAGE.data) - 40), _with_lines(after)


def _signature_kept() -> Pair:
    """An image goes, and the signature stays."""
    image = linked_pe.build(WHOLE, checksum=False, signature=b"signature", section_align=0x1000)
    at = image.places[".nv_fatb"][1] + image.containers[1] - image.places[".nv_fatb"][0] + 16
    # The first image of the second container is gone, and the container ends after the other.
    data = image.data[:at] + SM90 + bytes(len(SM80)) + image.data[at + len(SM80) + len(SM90) :]
    data = patched(data, at - 8, struct.pack("<Q", len(SM90)))
    return image.data, data


def _table_of_the_loader() -> Pair:
    """A data directory lies in an image that goes; its bytes are zeros after."""
    image = linked_pe.build([fatbin(SM90, SM80)], checksum=False)
    at = image.places[".nv_fatb"][1] + 16 + len(SM90)
    before = with_directory(image, image.data, 3, image.containers[0] + 16 + len(SM90) + 128, 24)
    after = patched(before, at, bytes(len(SM80)))
    return before, patched(after, at - len(SM90) - 8, struct.pack("<Q", len(SM90)))


def _checksum() -> Pair:
    image = linked_pe.build(WHOLE)
    at = image.optional + CHECKSUM
    stored = struct.unpack_from("<I", image.data, at)[0]
    return image.data, patched(image.data, at, number(stored + 1))


def _exported() -> Pair:
    image = linked_pe.build(WHOLE, checksum=False, exported=1)
    at = image.places[".rdata"][1] + 0x200
    return image.data, patched(shrunk(), at - CUT, image.data[at : at + 0x40])


def _debug_elsewhere() -> Pair:
    """Loaded debug information is read from equal bytes after the image."""
    data = linked_pe.build(WHOLE, checksum=False, overlay=linked_pe.DEBUG_DATA + b" ").data
    at = data.rindex(linked_pe.DEBUG_DATA)
    return data, patched(data, debug_at(IMAGE, 0), number(at))


def _symbols_outside() -> Pair:
    """Zeros of a section are the symbols before."""
    head = PLAIN.optional - 24
    before = patched(PLAIN.data, head + SYMBOLS_AT, struct.pack("<II", PLAIN.places[".rdata"][1] + 0x280, 1))
    return before, patched(before, head + SYMBOLS_AT, number(1 << 30))


def _same(after: bytes) -> Pair:
    return IMAGE.data, after


def _symbol_strings() -> int:
    start, count = struct.unpack_from("<II", IMAGE.data, IMAGE.optional - 24 + SYMBOLS_AT)
    return int(start + 18 * count)


FORGERIES: dict[str, Callable[[], Pair]] = {
    "a record leads to no container": _pointer_elsewhere,
    "symbols where none were": _symbols_where_none_were,
    "zeros that are not stored": _zeros_not_stored,
    "the place of a section that is not stored": _raw_offset_of_none,
    "a section that cannot be mapped": _unaligned,
    "line numbers outside the file": lambda: _lines(len(IMAGE.data)),
    "other line numbers": lambda: _lines(len(IMAGE.data) - 39),
    "debug information outside the file": lambda: _same(patched(IMAGE.data, debug_at(IMAGE, 1), number(1 << 30))),
    "other debug information": lambda: _same(patched(IMAGE.data, debug_at(IMAGE, 1), number(0x400))),
    "debug information at another place than its address": _debug_elsewhere,
    "a signature that does not hold": _signature_kept,
    "symbols outside the file": _symbols_outside,
    "strings of symbols": lambda: _same(patched(IMAGE.data, _symbol_strings() + 5, b"T")),
    "a symbol": lambda: _same(patched(IMAGE.data, _symbol_strings() - 18, b"F")),
    "a table of the loader in an image": _table_of_the_loader,
    "the initialized size": lambda: _same(patched(IMAGE.data, IMAGE.optional + INITIALIZED, number(1))),
    "a checksum": _checksum,
    "an export": _exported,
}

#: forgeries that other rules reject as well
OTHERS: dict[str, Callable[[], Pair]] = {
    "rights of a section": lambda: _same(in_section(IMAGE, IMAGE.data, 4, 36, 0xE0000040)),
    "a section less": lambda: _same(patched(IMAGE.data, IMAGE.optional - 24 + 6, b"\5")),
}
