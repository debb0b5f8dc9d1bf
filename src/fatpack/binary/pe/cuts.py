"""What can be cut out of a PE image, and the numbers in it that say where things are in the file.

::

    old   headers │ section │ device code ▒▒▒▒▒▒▒▒ │ section │ … │ symbols, overlay │ certificates
    new   headers │ section │ device code │ section │ … │ symbols, overlay

Addresses and sizes in memory stay; what a section has in memory beyond the file is zero. Only offsets change: of
sections, COFF symbols, line numbers and debug information.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from fatpack.binary.pe.read import HEADER, SECTION
from fatpack.binary.pe.shrinker import CERTIFICATES, DEBUG, INITIALIZED_SIZE, PAGE
from fatpack.errors import cli_or_api
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.binary.pe.shrinker import ChangedPeSection, LinkedPeImage

#: IMAGE_SCN_CNT_INITIALIZED_DATA: counts for SizeOfInitializedData
_INITIALIZED = 0x40

#: An entry of the debug directory: its bytes, and where it has size, address and position of what it describes.
_DEBUG_SIZE, _DEBUG_LENGTH_AT, _DEBUG_POSITION_AT = 28, 16, 24


class CannotShrinkPe(Exception):
    """Nothing can be cut out of this file; the reason in words."""


class PeCut(Record):
    """What goes of a changed section: the bytes from ``start`` to ``end`` of the old file."""

    changed: ChangedPeSection
    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of bytes that go, a multiple of FileAlignment."""
        return self.end - self.start


def find_cuts(image: LinkedPeImage, changed: Sequence[ChangedPeSection]) -> list[PeCut]:
    """Return what can be cut, in the order of the file. Raises Whole if the image has to keep its layout."""
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
    """Where positions of the old file are in the new one."""

    def __init__(self, image: LinkedPeImage, found: Sequence[PeCut]) -> None:
        self._image = image
        self._starts = [cut.start for cut in found]
        self._ends = [cut.end for cut in found]
        self._gone = [0, *accumulate(cut.size for cut in found)]

    def __call__(self, position: int, size: int, what: str) -> int:
        """Return the new position of some bytes. Raises Whole for those that are cut."""
        number = bisect_right(self._ends, position)
        if number < len(self._starts) and position + size > self._starts[number]:
            raise CannotShrinkPe(f"{what} at {self._image.at(position)} lies in the bytes that would go")
        return position - self._gone[number]


def header_patches(image: LinkedPeImage, found: Sequence[PeCut]) -> Iterator[tuple[int, bytes]]:
    """Yield position and bytes of all numbers that change when something is cut.

    Raises Whole where one leads into what would go, FormatError for a damaged image.
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
        gone = saved.get(section.number, 0)
        if gone:
            yield at + SECTION.field_offset("raw_size"), _word(section.raw_size - gone)
        if section.raw_offset and section.raw_size:
            new = shift(section.raw_offset, section.raw_size - gone, "a section")
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
    """Return where the certificates are that sign the image, an empty range for none.

    Raises HostError for a signed image unless they are to be dropped, and where they are not at its end.
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
