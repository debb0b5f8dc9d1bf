"""Forgeries of an edited shared library: a program before and after that only one rule of the proof rejects.

The file before may be as odd as a file can be: the forger makes both.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from tests.builders import linked_elf
from tests.builders.linked_elf import PAGE, Library, entry, fatbin

Pair = tuple[bytes, bytes]

SM80 = entry(2, 80, b"\x7fELF" + bytes(range(200)) * 3)
SM90 = entry(2, 90, b"\x7fELF" + bytes(range(90)))
PTX = entry(1, 90, b".version 8.0\n")
WHOLE = [fatbin(SM80, SM90, PTX), fatbin(SM80, SM90)]
REDUCED = [fatbin(SM90, PTX), fatbin(SM90)]
LIBRARY = linked_elf.build(WHOLE)
ZEROED = linked_elf.zeroed(LIBRARY, REDUCED)
SHRUNK = linked_elf.shrunk(LIBRARY, REDUCED)

#: positions of program headers, and of the numbers in them and in the file header
HEADERS, HEADER = 64, 56
FLAGS, OFFSET, ADDRESS, PHYSICAL, FILE_SIZE, MEMORY_SIZE, ALIGN = 4, 8, 16, 24, 32, 40, 48
HEADERS_AT, SECTIONS_AT, HEADER_COUNT, SECTION_COUNT, NAMES_AT = 32, 40, 56, 60, 62


def patched(data: bytes, at: int, new: bytes) -> bytes:
    assert at + len(new) <= len(data)
    return data[:at] + new + data[at + len(new) :]


def with_header(data: bytes, number: int, field: int, value: int, size: int = 8) -> bytes:
    return patched(data, HEADERS + HEADER * number + field, value.to_bytes(size, "little"))


def header(data: bytes, number: int) -> bytes:
    return data[HEADERS + HEADER * number :][:HEADER]


def led_to(library: Library, data: bytes, number: int, address: int) -> bytes:
    """Return a library in which a record leads to another address by the addend of its relocation."""
    return patched(data, library.places[".rela.dyn"][0] + 24 * number + 16, struct.pack("<q", address))


def in_place(library: Library, data: bytes, number: int, value: int) -> bytes:
    """Return a library with another word in place of the pointer of a record."""
    return patched(data, library.places[".nvFatBinSegment"][0] + 24 * number + 8, struct.pack("<Q", value))


def with_dynamic(library: Library, data: bytes, number: int, value: int) -> bytes:
    return patched(data, library.places[".dynamic"][0] + 16 * number + 8, struct.pack("<Q", value))


def section_at(library: Library, name: str) -> int:
    return library.table + 64 * (list(library.places).index(name) + 1)


def _pointer_to_no_container() -> Pair:
    library = linked_elf.build([fatbin(SM80)] * 2)
    before = led_to(library, library.data, 1, library.containers[0])
    return before, led_to(library, before, 1, library.places[".data"][0])


def _one_container_twice() -> Pair:
    """Two records lead to one container before, and to two equal ones after."""
    library = linked_elf.build([fatbin(SM80)] * 2)
    before = led_to(library, library.data, 1, library.containers[0])
    return before, led_to(library, before, 0, library.containers[1])


def _other_header() -> Pair:
    made = [struct.pack("<4sHHQ8s", b"\x50\xed\x55\xba", 1, 24, len(SM90), area) + SM90 for area in (b"one", b"two")]
    library = linked_elf.build(made[:1])
    return library.data, patched(library.data, library.containers[0], made[1])


def _junk(at: int, new: bytes, junk: bytes) -> Pair:
    """Return a library whose second "container" is none; some bytes of it differ after."""
    library = linked_elf.build([fatbin(SM80), junk, fatbin(SM90)])
    return library.data, patched(library.data, library.containers[1] + at, new)


def _overwritten() -> Pair:
    library = linked_elf.build([fatbin(SM80), b"no container" * 4, fatbin(SM90)])
    to, at = library.containers[1:]
    size = len(fatbin(SM90))
    data = library.data[:to] + fatbin(SM90) + bytes(at - to) + library.data[at + size :]
    symbol = library.places[".symtab"][0] + 24 * 4 + 8
    data = patched(led_to(library, data, 2, to), symbol, struct.pack("<Q", to))
    return library.data, in_place(library, data, 2, at)


def _no_table() -> Pair:
    """There is no table of sections before, and an empty one after."""
    before = patched(patched(LIBRARY.data, SECTIONS_AT, bytes(8)), SECTION_COUNT, bytes(4)) + bytes(64)
    return before, patched(before, SECTIONS_AT, struct.pack("<Q", len(before) - 64))


def _with_segment(at: int, size: int) -> bytes:
    """Return the library with another PT_LOAD of zeros in place of PT_GNU_STACK."""
    return patched(LIBRARY.data, HEADERS + HEADER * 4, struct.pack("<IIQQQQQQ", 1, 4, 0, at, at, 0, size, PAGE))


def _segment_less() -> Pair:
    before = _with_segment(0x10000, 16)
    return before, patched(before, HEADER_COUNT, b"\4")


def _moved_note(data: bytes) -> tuple[int, int]:
    """Return the address of the note in the shrunk library, and its size."""
    return int.from_bytes(header(data, 4)[ADDRESS : ADDRESS + 8], "little"), 32


def _note_outside() -> Pair:
    """The note is moved to an address at which nothing is loaded."""
    old, size = _moved_note(SHRUNK)
    to = 0x10000
    data = patched(SHRUNK, old, bytes(size))
    for field in (ADDRESS, PHYSICAL):
        data = with_header(data, 4, field, to)
    data = with_header(data, 4, OFFSET, LIBRARY.places[".note.gnu.build-id"][0])
    data = patched(data, section_at(LIBRARY, ".note.gnu.build-id") - _CUT + 16, struct.pack("<QQ", to, old))
    symbol = LIBRARY.places[".symtab"][0] - _CUT + 24 + 8
    return LIBRARY.data, patched(data, symbol, struct.pack("<Q", to))


def _shifted() -> Pair:
    """The second segment is 8 bytes later in the file, at the same addresses: no loader can map it."""
    at, more = LIBRARY.places[".dynamic"][0], 8
    data = bytearray(ZEROED[:at] + bytes(more) + ZEROED[at:])
    for number in (1, 2):  # its PT_LOAD, and PT_DYNAMIC in it
        struct.pack_into("<Q", data, HEADERS + HEADER * number + OFFSET, at + more)
    struct.pack_into("<Q", data, SECTIONS_AT, LIBRARY.table + more)
    for number in range(len(LIBRARY.places)):
        place = LIBRARY.table + more + 64 * (number + 1) + 24
        (offset,) = struct.unpack_from("<Q", data, place)
        struct.pack_into("<Q", data, place, offset + more * (offset >= at))
    return LIBRARY.data, bytes(data)


def _another_order() -> Pair:
    headers = [header(LIBRARY.data, number) for number in range(linked_elf.PROGRAM_HEADERS)]
    headers = [headers[2], *headers[:2], *headers[3:]]
    return LIBRARY.data, patched(LIBRARY.data, HEADERS, b"".join(headers))


def _moved_strings(count: int) -> Pair:
    """``DT_STRTAB`` leads to equal bytes that may be written; ``count`` more of them do so, too."""
    library = linked_elf.build(WHOLE, more_strings=count)
    to = library.places[".data"][0]
    before = patched(library.data, to, b"\0answer\0")
    after = before
    for number in [1, *range(len(linked_elf.TAGS), len(linked_elf.TAGS) + count)]:
        after = with_dynamic(library, after, number, to)
    return before, after


def _counted_elsewhere(before: int, after: int) -> Pair:
    """The number of sections is in the first section header, and differs."""
    data = patched(LIBRARY.data, SECTION_COUNT, bytes(2))
    made = [patched(data, LIBRARY.table + 32, struct.pack("<Q", count)) for count in (before, after)]
    return made[0], made[1]


def _headers_counted_elsewhere() -> Pair:
    """``e_phnum`` says after that the number of program headers is in the first section header; loaders look there."""
    data = patched(LIBRARY.data, LIBRARY.table + 44, struct.pack("<I", linked_elf.PROGRAM_HEADERS))
    return data, patched(data, HEADER_COUNT, b"\xff\xff")


def _outside() -> Pair:
    """The header of a section leads out of the file, before and after."""
    at = section_at(LIBRARY, ".strtab") + 31
    return patched(LIBRARY.data, at, b"\2"), patched(LIBRARY.data, at, b"\3")


def _half_a_symbol() -> Pair:
    at = section_at(LIBRARY, ".symtab") + 32
    size = struct.pack("<Q", LIBRARY.places[".symtab"][1] + 8)
    return patched(LIBRARY.data, at, size), patched(ZEROED, at, size)


def _table_of_the_loader() -> Pair:
    """The loader reads relocations from an image that goes; the rest of the library does not change."""
    library = linked_elf.build([fatbin(SM80), fatbin(SM90, SM80)])
    rows = library.containers[1] + 16 + len(SM90) + 64 + 8
    at, size = library.places[".rela.dyn"]
    before = patched(library.data, rows, library.data[at : at + size])
    after = linked_elf.zeroed(library, [fatbin(SM80), fatbin(SM90)])
    return with_dynamic(library, before, 5, rows), with_dynamic(library, after, 5, rows)


def _inside() -> Pair:
    """The second container is an image of the first one too, and led to there."""
    inner = fatbin(SM90)
    library = linked_elf.build([fatbin(SM80, entry(2, 90, inner)), inner])
    data = bytearray(library.data)
    at = library.containers[0] + 16 + len(SM80) + 64
    start = library.containers[1]
    data[start : start + len(inner)] = bytes(len(inner))
    struct.pack_into("<Q", data, library.places[".nvFatBinSegment"][0] + 24 + 8, at)
    struct.pack_into("<q", data, library.places[".rela.dyn"][0] + 24 + 16, at)
    struct.pack_into("<Q", data, library.places[".symtab"][0] + 24 * 3 + 8, at)
    return library.data, bytes(data)


def without_record(data: bytes) -> bytes:
    """Return the library, or the shrunk one, without its second record, and without the relocation of it."""
    record = LIBRARY.places[".nvFatBinSegment"][0] + 24 - (len(LIBRARY.data) - len(data))
    relocation = LIBRARY.places[".rela.dyn"][0] + 24
    return patched(patched(data, record, bytes(24)), relocation, bytes(24))


def _held_by_a_word() -> Pair:
    """A word that is not relocated holds the address of a container without a record, which moved."""
    at = LIBRARY.places[".data"][0]
    word = struct.pack("<Q", LIBRARY.containers[1])
    return patched(without_record(LIBRARY.data), at, word), patched(without_record(SHRUNK), at - _CUT, word)


_CUT = len(LIBRARY.data) - len(SHRUNK)


def _relocated_word() -> Pair:
    """A word that the loader relocates leads to a container that moves; it is no record."""
    library = linked_elf.build([*WHOLE, fatbin(PTX)])
    place = library.places[".data"][0]
    row = struct.pack("<QQq", place, linked_elf.RELATIVE, library.containers[1])
    before = patched(library.data, library.places[".rela.dyn"][0] + 24 * 2, row)
    before = patched(before, library.places[".nvFatBinSegment"][0] + 24 * 2, bytes(24))
    changed = linked_elf.zeroed(library, [*REDUCED, fatbin(PTX)])
    after = patched(changed, library.places[".rela.dyn"][0] + 24 * 2, row)
    after = patched(after, library.places[".nvFatBinSegment"][0] + 24 * 2, bytes(24))
    return before, after


def _described(*ranges: tuple[int, int], pointer: int | None = None, gone: int) -> Pair:
    """Return a library with images that records of SYCL describe by their bounds, and one of them as zeros after.

    ``pointer`` is where another word leads to, counted from the first image.
    """
    library = linked_elf.build([fatbin(SM80)], images=bytes(range(1, 129)), more_relocations=2 * len(ranges) + 1)
    start, at = library.places[".llvm.offloading"][0], library.places[".data"][0] + 64
    words = {}
    for number, bounds in enumerate(ranges):
        place = at + 64 * number
        words |= {place + 48: start + bounds[0], place + 56: start + bounds[1]}
    before = library.data
    for number in range(len(ranges)):
        before = patched(before, at + 64 * number, b"\2\0\4")
    if pointer is not None:
        words[at + 64 * len(ranges)] = start + pointer
    for number, (place, value) in enumerate(words.items(), 1):
        row = library.places[".rela.dyn"][0] + 24 * number
        before = patched(before, row, struct.pack("<QQq", place, linked_elf.RELATIVE, value))
    low, high = ranges[gone]
    return before, patched(before, start + low, bytes(high - low))


def _more_between() -> Pair:
    """The table of sections comes later, behind other bytes than zeros."""
    at = LIBRARY.table
    after = ZEROED[:at] + b"\0\0\0\0\0\0\0\1" + ZEROED[at:]
    return LIBRARY.data, patched(after, SECTIONS_AT, struct.pack("<Q", at + 8))


def _same(after: bytes) -> Pair:
    return LIBRARY.data, after


FORGERIES: dict[str, Callable[[], Pair]] = {
    "a record leads to no container": _pointer_to_no_container,
    "two records of one container lead to two": _one_container_twice,
    "another header of a container": _other_header,
    "an image twice": lambda: _same(linked_elf.zeroed(LIBRARY, [fatbin(SM90, SM90), fatbin(SM90)])),
    "bytes after a container where zeros were": lambda: _junk(8, b"\1", bytes(64)),
    "other bytes after a container": lambda: _junk(8, b"\1", b"no container" * 4),
    "a container over other bytes": _overwritten,
    "left-over device code": lambda: _same(patched(ZEROED, LIBRARY.places[".nv_fatbin"][0] + 700, b"\1")),
    "containers overlap": _inside,
    "the word in place of a pointer": lambda: _same(in_place(LIBRARY, ZEROED, 0, LIBRARY.containers[1] + 8)),
    "a word holds the address of a container": _held_by_a_word,
    "a relocated word leads to a container": _relocated_word,
    "a table of the loader in an image": _table_of_the_loader,
    "an image to which another word leads": lambda: _described((0, 64), (64, 128), pointer=20, gone=0),
    "an image over one that is gone": lambda: _described((0, 64), (48, 128), gone=0),
    "a table of sections where none was": _no_table,
    "the file header": lambda: _same(patched(LIBRARY.data, 16, b"\2")),
    "the number of program headers elsewhere": _headers_counted_elsewhere,
    "an empty segment elsewhere": lambda: (_with_segment(0x10000, 0), _with_segment(0x20000, 0)),
    "a segment less": _segment_less,
    "a moved note outside of segments": _note_outside,
    "another note": lambda: _same(patched(SHRUNK, _moved_note(SHRUNK)[0] + 20, b"n")),
    "rights of a segment": lambda: _same(with_header(LIBRARY.data, 0, ALIGN, 0x80)),
    "a physical address": lambda: _same(with_header(LIBRARY.data, 0, PHYSICAL, 0x80)),
    "zeros after a segment": lambda: _same(
        with_header(SHRUNK, 0, MEMORY_SIZE, int.from_bytes(header(SHRUNK, 0)[FILE_SIZE : FILE_SIZE + 8], "little") + 8)
    ),
    "a segment that cannot be mapped": _shifted,
    "two segments of one page": lambda: _same(linked_elf.shrunk(LIBRARY, REDUCED, second=8)),
    "a segment of another type": lambda: _same(with_header(LIBRARY.data, 4, 0, 0x6474E552, 4)),
    "another order of segments": _another_order,
    "a stack that may run": lambda: _same(with_header(LIBRARY.data, 4, FLAGS, 7, 4)),
    "the offset of an empty segment": lambda: _same(with_header(LIBRARY.data, 4, OFFSET, 0x999)),
    "the offset of a note": lambda: _same(with_header(LIBRARY.data, 3, OFFSET, 0x999)),
    "a moved table with other rights": lambda: _moved_strings(0),
    "hundreds of moved tables": lambda: _moved_strings(300),
    "bytes where a table was": lambda: _same(patched(SHRUNK, sum(LIBRARY.places[".gnu.hash"]) - 2, b"\1")),
    "a section less": lambda: _counted_elsewhere(16, 15),
    "symbols that are not whole": _half_a_symbol,
    "a byte of data": lambda: _same(patched(LIBRARY.data, LIBRARY.places[".data"][0], b"D")),
    "a byte after the end": lambda: _same(ZEROED + b"\0"),
    "bytes between parts": lambda: _same(patched(ZEROED, sum(LIBRARY.places[".shstrtab"]), b"\1")),
    "more bytes between parts": _more_between,
    "the name of a section": lambda: _same(patched(LIBRARY.data, section_at(LIBRARY, ".data"), b"\2")),
    "the offset of a section": lambda: _same(patched(LIBRARY.data, section_at(LIBRARY, ".bss") + 24, b"\2")),
    "a section outside the file": _outside,
    "a comment": lambda: _same(patched(LIBRARY.data, LIBRARY.places[".comment"][0], b"M")),
    "a symbol": lambda: _same(patched(LIBRARY.data, LIBRARY.places[".symtab"][0] + 24, b"\2")),
}
