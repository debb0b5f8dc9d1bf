"""Shrinking device code in PE images: headers and checks, cuts, pointers, checksum.

Offsets of fields in the optional header are from Microsoft's PE format specification, "Optional Header".
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from itertools import accumulate

from fatpack.binary.coff.layout import SYMBOL
from fatpack.binary.coff.tables import symbol_rows
from fatpack.binary.new_file import PieceList
from fatpack.binary.pe.reader import (
    BASE_RELOCATIONS,
    CERTIFICATES,
    DEBUG,
    EXECUTED,
    EXPORTS,
    FORMAT,
    HEADER,
    SECTION,
    UNINITIALIZED,
    PeFile,
    block_relocations,
    relocation_blocks,
)
from fatpack.binary.shrink import AUTO, SHRINK, ZERO, ShrinkResult
from fatpack.errors import BadValue, HostError, UsageError, cli_or_api, format_hex
from fatpack.io.source import View
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from fatpack.binary.coff.layout import CoffSection
    from fatpack.binary.shrink import ContainerMove, NewSectionContent, ShrinkMode, ShrinkRequest
    from fatpack.io.source import Piece


# The checksum of a PE image, which Windows checks for drivers and for libraries that are loaded early

#: Adding 16-bit words with their carries is addition modulo this number.
_MODULUS = 0xFFFF


def compute_checksum(pieces: Iterable[Piece]) -> int:
    """Return the sum of the 16-bit words of a file, carries added, plus its size: CheckSumMappedFile of ImageHlp.

    The checksum field must be zeros. Reads every byte, and copies none.
    """
    total = size = 0
    for piece in pieces:
        for part in piece.pieces() if isinstance(piece, View) else (piece,):
            # In a part that starts in the middle of a word, low and high bytes are swapped: multiply by 256.
            total += int.from_bytes(part, "little") % _MODULUS * (256 if size % 2 else 1)
            size += len(part)
    return ((total % _MODULUS or _MODULUS) + size) & 0xFFFFFFFF


#: offsets in the optional header
INITIALIZED_SIZE, CHECKSUM = 8, 64
_SECTION_ALIGN, _FILE_ALIGN = 32, 36

#: Page size of all systems that load such images.
PAGE = 4096


class ChangedPeSection(Record):
    """A section with new contents: ``pieces`` with a total of ``size`` bytes."""

    section: CoffSection
    pieces: Sequence[Piece]
    size: int

    @property
    def end(self) -> int:
        """The position after the section's bytes in the file."""
        return self.section.raw_offset + self.section.raw_size

    @property
    def start_address(self) -> int:
        """The address of the section, relative to the image's base."""
        return self.section.virtual_address

    @property
    def end_address(self) -> int:
        """The address after the section, relative to the image's base."""
        section = self.section
        return section.virtual_address + max(section.virtual_size, section.raw_size)


class FilledRange(Record):
    """A range of another section with other bytes, from position ``start`` to ``end`` of the file.

    ``start_address`` and ``end_address`` are relative to the image's base; zeros follow ``pieces``.
    """

    section: CoffSection
    start: int
    end: int
    pieces: Sequence[Piece]

    @property
    def start_address(self) -> int:
        """The address of the first byte."""
        return self.section.virtual_address + self.start - self.section.raw_offset

    @property
    def end_address(self) -> int:
        """The address after the last byte."""
        return self.start_address + self.end - self.start


class LinkedPeImage(PeFile):
    """An image whose sections can get other contents in place.

    The constructor raises HostError for files that must not be edited, FormatError for damaged ones.
    """

    def __init__(self, view: View) -> None:
        super().__init__(view)
        if self.directories_offset is None:
            raise self.error("not the header of a PE image", self.optional_offset, "Magic")
        self.all = list(self.sections())
        self.section_align, self.file_align = self._number(_SECTION_ALIGN), self._number(_FILE_ALIGN)
        self.checksum, self.initialized_size = self._number(CHECKSUM), self._number(INITIALIZED_SIZE)
        self._check_sections()
        self._loaded = sorted((each for each in self.all if each.raw_size), key=lambda each: each.virtual_address)
        self._addresses = [each.virtual_address for each in self._loaded]

    def _number(self, at: int) -> int:
        return int.from_bytes(self.view.read(self.optional_offset + at, 4), "little")

    def error(self, problem: str, at: int, field: str) -> BadValue:
        """Return the error for a damaged image."""
        return BadValue(problem, format=FORMAT, offset=self.view.offset(at), field=field, chain=self.view.chain)

    def refusal(self, problem: str, hint: str) -> HostError:
        """Return the error for an edit that is impossible for this image."""
        return HostError(problem, hint=hint, chain=self.view.chain)

    def at(self, position: int) -> str:
        """Return a position as errors print it."""
        return format_hex(self.view.offset(position))

    def title(self, section: CoffSection) -> str:
        """Return the words for a section in errors."""
        name = self.name(section.stored_name).decode("utf-8", "replace")
        return f"section {section.number} ({name}) at {self.at(section.raw_offset)}"

    def header_of(self, section: CoffSection) -> int:
        """Return the position of a section's header."""
        start: int = self.table_offset
        return start + SECTION.size * (section.number - 1)

    def position_of(self, address: int, size: int) -> int:
        """Return the position in the file of bytes in memory, -1 if the file does not contain all of them.

        The address is relative to the image's base.
        """
        number = bisect_right(self._addresses, address) - 1
        if number < 0:
            return -1
        section = self._loaded[number]
        inside = address - section.virtual_address
        return section.raw_offset + inside if inside + size <= section.raw_size else -1

    def _check_sections(self) -> None:
        """Raise FormatError for sections outside the file, HostError for overlapping ones."""
        end = 0
        for section in sorted((each for each in self.all if each.raw_size), key=lambda each: each.raw_offset):
            if section.raw_offset + section.raw_size > len(self.view):
                raise self.error("past the end of the file", self.header_of(section), "SizeOfRawData")
            if section.raw_offset < end:
                problem = f"{self.title(section)} overlaps another section: no byte would have one meaning"
                raise self.refusal(problem, "use a file as the linker wrote it")
            end = section.raw_offset + section.raw_size

    def changed(self, contents: Iterable[NewSectionContent]) -> list[ChangedPeSection]:
        """Return the sections that change, in the order of their bytes. Raises UsageError, HostError."""
        found: dict[int, ChangedPeSection] = {}
        for content in contents:
            index, size = content.index, sum(len(piece) for piece in content.pieces)
            if not 0 < index <= len(self.all):
                raise UsageError(f"there is no section {index}", hint=f"the file has 1 to {len(self.all)}")
            if index in found:
                raise UsageError(f"section {index} is given twice", hint="give all new bytes of a section at once")
            section = self.all[index - 1]
            if section.flags & (EXECUTED | UNINITIALIZED) or not section.raw_size:
                raise self.refusal(
                    f"{self.title(section)} holds code, or nothing: it is no section of device code",
                    "give a section of initialised data",
                )
            if size > section.raw_size:
                raise self.refusal(
                    f"{self.title(section)} would get {size} bytes, and has room for {section.raw_size}",
                    "the bytes after it cannot move; make it smaller, or link the program again",
                )
            found[index] = ChangedPeSection(section, content.pieces, size)
        return sorted(found.values(), key=lambda change: change.section.raw_offset)


# Cuts: ranges that can be removed, and the file offsets in headers.
#
# ::
#
#     old   headers │ section │ device code ▒▒▒▒▒▒▒▒ │ section │ … │ symbols, overlay │ certificates
#     new   headers │ section │ device code │ section │ … │ symbols, overlay
#
# Addresses and sizes in memory do not change; bytes of a section after its file content are zero. Only offsets change:
# of sections, COFF symbols, line numbers and debug information.

#: IMAGE_SCN_CNT_INITIALIZED_DATA: counts for SizeOfInitializedData
_INITIALIZED = 0x40

#: An entry of the debug directory: its size, and the offsets of size, address and position of its data.
_DEBUG_SIZE, _DEBUG_LENGTH_AT, _DEBUG_POSITION_AT = 28, 16, 24


class CannotShrinkPe(Exception):
    """Raised if nothing can be cut out of the file; the reason in words."""


class PeCut(Record):
    """The removed range of a changed section: the bytes from ``start`` to ``end`` of the old file."""

    changed: ChangedPeSection
    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of removed bytes, a multiple of FileAlignment."""
        return self.end - self.start


def find_cuts(image: LinkedPeImage, changed: Sequence[ChangedPeSection]) -> list[PeCut]:
    """Return the possible cuts in the order of the file. Raises Whole if the image has to keep its layout."""
    align = image.file_align
    if align & align - 1 or not align or image.section_align < PAGE:
        raise CannotShrinkPe(
            f"sections are aligned to {image.section_align} bytes in memory: the file is mapped as it is"
        )
    found = []
    for each in changed:
        if each.section.raw_offset % align:
            raise CannotShrinkPe(f"{image.title(each.section)} does not start at a multiple of FileAlignment, {align}")
        kept = max(each.size + -each.size % align, align)
        size = max(each.section.raw_size - kept, 0) // align * align
        if size:
            found.append(PeCut(each, each.end - size, each.end))
    return found


class _PeShift:
    """Translates positions in the old file to positions in the new one."""

    def __init__(self, image: LinkedPeImage, found: Sequence[PeCut]) -> None:
        self._image = image
        self._starts = [cut.start for cut in found]
        self._ends = [cut.end for cut in found]
        self._removed_before = [0, *accumulate(cut.size for cut in found)]

    def __call__(self, position: int, size: int, what: str) -> int:
        """Return the new position of a range. Raises Whole if it is cut."""
        number = bisect_right(self._ends, position)
        if number < len(self._starts) and position + size > self._starts[number]:
            raise CannotShrinkPe(f"{what} at {self._image.at(position)} lies in the bytes that would go")
        return position - self._removed_before[number]


def header_patches(image: LinkedPeImage, found: Sequence[PeCut]) -> Iterator[tuple[int, bytes]]:
    """Yield position and bytes of all fields that a cut changes.

    Raises Whole if one refers to a range that would be cut, FormatError for a damaged image.
    """
    shift = _PeShift(image, found)
    if image.symbol_offset:
        at = image.header_offset + HEADER.field_offset("symbol_offset")
        yield at, _word(shift(image.symbol_offset, 1, "the symbol table"))
    saved = {cut.changed.section.number: cut.size for cut in found}
    initialized = sum(cut.size for cut in found if cut.changed.section.flags & _INITIALIZED)
    if initialized <= image.initialized_size:
        yield image.optional_offset + INITIALIZED_SIZE, _word(image.initialized_size - initialized)
    for section in image.all:
        at = image.header_of(section)
        freed = saved.get(section.number, 0)
        if freed:
            yield at + SECTION.field_offset("raw_size"), _word(section.raw_size - freed)
        if section.raw_offset and section.raw_size:
            new = shift(section.raw_offset, section.raw_size - freed, "a section")
            yield at + SECTION.field_offset("raw_offset"), _word(new)
        for field in ("relocation_offset", "line_offset"):
            position = getattr(section, field)
            if position:
                yield at + SECTION.field_offset(field), _word(shift(position, 1, "what a section refers to"))
    yield from _debug_patches(image, shift)


def _debug_patches(image: LinkedPeImage, shift: _PeShift) -> Iterator[tuple[int, bytes]]:
    address, size = image.directory(DEBUG)
    start = image.position_of(address, size) if size else -1
    if start < 0:
        if size:
            raise CannotShrinkPe("the debug directory is not in the file")
        return
    for at in range(start, start + size - _DEBUG_SIZE + 1, _DEBUG_SIZE):
        length, position = (
            int.from_bytes(image.view.read(at + place, 4), "little") for place in (_DEBUG_LENGTH_AT, _DEBUG_POSITION_AT)
        )
        if position:
            yield at + _DEBUG_POSITION_AT, _word(shift(position, length, "debug information"))


def find_signature(image: LinkedPeImage, *, drop: bool) -> tuple[int, int]:
    """Return the range of the certificates that sign the image, an empty one if there are none.

    Raises HostError for a signed image unless the signature is to be dropped, and if certificates are not at its end.
    """
    start, size = image.directory(CERTIFICATES)
    if not start or not size:
        return len(image.view), len(image.view)
    if not drop:
        raise image.refusal(
            f"the image is signed (certificates at {image.at(start)}): any edit makes the signature invalid",
            f"{cli_or_api('--drop-signature', 'drop_signature=True')} takes it out; sign the result anew",
        )
    if start + size != len(image.view):
        raise image.refusal(
            f"the certificates at {image.at(start)} are not at the end of the file", "take the signature out first"
        )
    return start, start + size


def _word(number: int) -> bytes:
    return number.to_bytes(4, "little")


# References to device code: pointers, symbols, exports and base relocations. Pointers are addresses in place, with the
# image's base; base relocations mark the pointers that the loader corrects, and do not change.

_AGAIN = "link the program again without the device code that should go"

_VALUE_AT = SYMBOL.field_offset("value")

#: Words per read.
_ROWS = 1 << 14

#: Export directory: number of functions, and address of the table of their addresses.
_FUNCTION_COUNT_AT, _FUNCTIONS_AT = 20, 28


def pointer_patches(
    image: LinkedPeImage, changed: Sequence[ChangedPeSection], pointers: Mapping[int, int]
) -> Iterator[tuple[int, bytes]]:
    """Yield position and bytes of pointers with new values. Raises HostError."""
    word, base = image.word, image.base
    inside = _Ranges(changed)
    for place, value in pointers.items():
        position = image.position_of(place - base, word)
        if position < 0:
            raise image.refusal(f"the file holds no bytes of a pointer at address {place:#x}", _AGAIN)
        if inside.number(place - base) >= 0 or inside.number(place - base + word - 1) >= 0:
            raise image.refusal(f"the pointer at address {place:#x} lies in the device code that changes", _AGAIN)
        if not base <= value < 1 << 8 * word:
            raise image.refusal(f"a pointer would hold {value:#x}, which is no address of the image", _AGAIN)
        if not any(image.view.read(position, word)):
            raise image.refusal(f"there is no pointer at address {place:#x}: its bytes are zero", _AGAIN)
        yield position, value.to_bytes(word, "little")


class _Ranges:
    """The addresses of the sections that change, or of ranges in sections."""

    def __init__(self, changed: Sequence[ChangedPeSection | FilledRange]) -> None:
        self._ordered = sorted(changed, key=lambda each: each.start_address)
        self._starts = [each.start_address for each in self._ordered]

    def number(self, address: int) -> int:
        """Return the number of the section that contains an address, -1 if none of these does."""
        number = bisect_right(self._starts, address) - 1
        if number < 0 or address >= self._ordered[number].end_address:
            return -1
        return self._ordered[number].section.number

    def between(self, start: int, end: int) -> bool:
        """Return whether a range of addresses overlaps one of the sections."""
        number = bisect_right(self._starts, end - 1) - 1
        return number >= 0 and self._ordered[number].end_address > start


def filled_ranges(image: LinkedPeImage, change: ShrinkRequest) -> list[FilledRange]:
    """Return the replaced ranges, which get zeros up to their ends. Raises HostError for one that is in no section."""
    ranges = []
    for each in change.replaced:
        size = sum(map(len, each.pieces))
        if size > each.end - each.start:
            raise UsageError(f"{size} bytes do not fit between positions {each.start} and {each.end}")
        inside = [one for one in image.all if one.raw_offset <= each.start < each.end <= one.raw_offset + one.raw_size]
        if len(inside) != 1:
            raise image.refusal(f"the bytes at {image.at(each.start)} are in {len(inside)} sections", _AGAIN)
        ranges.append(FilledRange(inside[0], each.start, each.end, each.pieces))
    return ranges


def check_relocations(image: LinkedPeImage, changed: Sequence[ChangedPeSection | FilledRange]) -> None:
    """Raise HostError if a base relocation changes bytes of a section with new contents."""
    address, size = image.directory(BASE_RELOCATIONS)
    start = image.position_of(address, size) if size else -1
    if start < 0:
        return
    inside = _Ranges(changed)
    for page, entries in relocation_blocks(image.view.slice(start, size)):
        # A relocation changes at most 8 bytes, and its offset in the page has 12 bits.
        if inside.between(page, page + 4096 + 8):
            for place, type in block_relocations(page, entries):
                if type and max(inside.number(place), inside.number(place + 7)) >= 0:
                    raise image.refusal(
                        f"a base relocation changes bytes at address {image.base + place:#x}, in the device code: its "
                        "contents depend on where it is loaded",
                        _AGAIN,
                    )


def check_exports(image: LinkedPeImage, moves: Sequence[ContainerMove]) -> None:
    """Raise HostError if a container that moves is exported: other files use its address."""
    moved = {move.old - image.base for move in moves if move.old != move.new}
    address, size = image.directory(EXPORTS)
    start = image.position_of(address, _FUNCTIONS_AT + 4) if size and moved else -1
    if start < 0:
        return
    count, table = (
        int.from_bytes(image.view.read(start + at, 4), "little") for at in (_FUNCTION_COUNT_AT, _FUNCTIONS_AT)
    )
    at = image.position_of(table, 4 * count)
    for first in range(0, count if at >= 0 else 0, _ROWS):
        words = array("I", image.view.read(at + 4 * first, 4 * min(_ROWS, count - first)))
        if sys.byteorder == "big":
            words.byteswap()
        if not moved.isdisjoint(words):
            number = first + next(place for place, word in enumerate(words) if word in moved)
            raise image.refusal(
                f"the container that function {number} of the exports leads to would move",
                "leave the container where it is, or link without exporting it",
            )


def symbol_patches(
    image: LinkedPeImage, changed: Sequence[ChangedPeSection], moves: Sequence[ContainerMove]
) -> Iterator[tuple[int, bytes]]:
    """Yield position and bytes of the values of symbols for containers that move."""
    moved = {move.old - image.base: move.new - image.base for move in moves if move.old != move.new}
    starts = {each.section.number: each.start_address for each in changed}
    if not moved or not image.symbol_offset:
        return
    table = image.view.slice(image.symbol_offset, image.symbol_count * SYMBOL.size)
    for number, row, _ in symbol_rows(table, SYMBOL):
        _, value, section, *_ = row
        address = starts.get(section, -1) + value
        if section in starts and address in moved:
            new = moved[address] - starts[section]
            yield image.symbol_offset + number * SYMBOL.size + _VALUE_AT, new.to_bytes(4, "little")


# The edit


def shrink_pe(view: View, change: ShrinkRequest, *, mode: ShrinkMode = AUTO) -> ShrinkResult:
    """Return an image with new contents of loaded sections, as pieces.

    ``mode``: "shrink" removes freed bytes from the file in units of FileAlignment and raises HostError if it cannot,
    "zero" replaces them by zeros, "auto" shrinks if possible; ``why`` of the result states the reason if it is not. An
    image with a checksum is read once, for the new one. A signed image loses its signature if the request allows it.

    Addresses in ``change`` include the image's base. Raises HostError for a change that would break the file,
    FormatError for a damaged file, UsageError for the index of no section.
    """
    image = LinkedPeImage(view)
    changed = image.changed(change.contents)
    unsigned = find_signature(image, drop=change.drop_signature)
    filled = filled_ranges(image, change)
    check_relocations(image, changed)
    check_relocations(image, filled)
    check_exports(image, change.moves)
    patches = {
        **dict(pointer_patches(image, changed, change.pointers)),
        **dict(symbol_patches(image, changed, change.moves)),
    }
    found: list[PeCut] = []
    why = ""
    if mode != ZERO:
        try:
            found, headers, why = _planned(image, changed)
            patches |= headers
        except CannotShrinkPe as reason:
            if mode == SHRINK:
                hint = "mode zero leaves zeros where the device code was"
                raise image.refusal(f"the file cannot shrink: {reason}", hint) from None
            why = str(reason)
    entry = image.directory_at(CERTIFICATES)
    if unsigned[0] < unsigned[1] and entry is not None:
        patches[entry] = bytes(8)
    pieces = _laid(image, [*changed, *filled], found, patches, unsigned)
    freed = [(cut.start, cut.size) for cut in found]
    freed += [(unsigned[0], unsigned[1] - unsigned[0])] if unsigned[0] < unsigned[1] else []
    return ShrinkResult(pieces, SHRINK if found else ZERO, freed, why)


def _planned(image: LinkedPeImage, changed: Sequence[ChangedPeSection]) -> tuple[list[PeCut], dict[int, bytes], str]:
    """Return the cuts, the header fields that they change, and the reason if there are none. Raises Whole."""
    found = find_cuts(image, changed)
    if not found:
        return [], {}, f"no section loses as much as FileAlignment, {image.file_align} bytes"
    return found, dict(header_patches(image, found)), ""


def _laid(
    image: LinkedPeImage,
    changed: Sequence[ChangedPeSection | FilledRange],
    found: Sequence[PeCut],
    patches: Mapping[int, bytes],
    unsigned: tuple[int, int],
) -> list[Piece]:
    """Return the new file. Raises HostError if two changes overlap."""
    place = image.optional_offset + CHECKSUM
    if not image.checksum:
        return _assembled(image, changed, found, patches, unsigned)
    number = compute_checksum(_assembled(image, changed, found, {**patches, place: bytes(4)}, unsigned))
    return _assembled(image, changed, found, {**patches, place: number.to_bytes(4, "little")}, unsigned)


def _assembled(
    image: LinkedPeImage,
    changed: Sequence[ChangedPeSection | FilledRange],
    found: Sequence[PeCut],
    patches: Mapping[int, bytes],
    unsigned: tuple[int, int],
) -> list[Piece]:
    cut = {each.changed.section.number: each.size for each in found}
    replaced: list[tuple[int, int, Sequence[Piece], int]] = [
        (at, at + len(data), [data], len(data)) for at, data in patches.items()
    ]
    for each in changed:
        if isinstance(each, FilledRange):
            replaced.append((each.start, each.end, each.pieces, each.end - each.start))
            continue
        stored = each.section.raw_size - cut.get(each.section.number, 0)
        replaced.append((each.section.raw_offset, each.end, each.pieces, stored))
    if unsigned[0] < unsigned[1]:
        replaced.append((*unsigned, [], 0))
    new = PieceList(image.view)
    at = 0
    for start, end, pieces, size in sorted(replaced, key=lambda each: each[:2]):
        if start < at:
            raise image.refusal(f"two changes meet at {image.at(start)}", "use a file as the linker wrote it")
        new.copy(at, start - at)
        stop = new.at + size
        new.put(pieces)
        new.fill(stop)
        at = end
    new.copy(at, len(image.view) - at)
    return new.finished()
