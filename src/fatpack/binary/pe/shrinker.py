"""PE images as this edit sees them: headers, sections that change, and what forbids any change.

Positions of numbers in the optional header are those of Microsoft's PE format specification, "Optional Header".
"""

from __future__ import annotations

from bisect import bisect_right

from fatpack.binary.pe.read import FORMAT, SECTION, UNINITIALIZED, PeFile
from fatpack.errors import BadValue, HostError, UsageError, format_hex
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fatpack.binary.coff.layout import CoffSection
    from fatpack.binary.shrink import NewSectionContent
    from fatpack.io.source import Piece, View

#: positions in the optional header
INITIALIZED_SIZE, CHECKSUM = 8, 64
_SECTION_ALIGN, _FILE_ALIGN = 32, 36
#: optional header's magic → position of its data directories; their number stands before them
_DIRECTORIES = {b"\x0b\x01": 96, b"\x0b\x02": 112}

#: numbers of data directories
EXPORTS, CERTIFICATES, BASE_RELOCATIONS, DEBUG = 0, 4, 5, 6
#: the highest number of those
_LAST = DEBUG

_EXECUTED = 0x20000000

#: A page of every system that loads such images.
PAGE = 4096


class ChangedPeSection(Record):
    """A section that gets other contents: ``pieces`` of together ``size`` bytes."""

    section: CoffSection
    pieces: Sequence[Piece]
    size: int

    @property
    def end(self) -> int:
        """The position behind the section's bytes in the file."""
        return self.section.raw_offset + self.section.raw_size

    @property
    def start_address(self) -> int:
        """The address of the section, from the image's base on."""
        return self.section.virtual_address

    @property
    def end_address(self) -> int:
        """The address behind the section, from the image's base on."""
        section = self.section
        return section.virtual_address + max(section.virtual_size, section.raw_size)


class LinkedPeImage(PeFile):
    """An image, checked so far that contents of its sections can be exchanged in place.

    Making one raises HostError for files that must not be edited, FormatError for damaged ones.
    """

    def __init__(self, view: View) -> None:
        super().__init__(view)
        start = _DIRECTORIES.get(view.read(self.optional_offset, 2))
        if start is None or self.optional_size < start:
            raise self.bad("not the header of a PE image", self.optional_offset, "Magic")
        self.all = list(self.sections())
        count = self._number(start - 4)
        room = (self.optional_size - start) // 8
        directories = self.optional_offset + start
        self._directories = [directories + 8 * number for number in range(min(count, room, _LAST + 1))]
        self.section_align, self.file_align = self._number(_SECTION_ALIGN), self._number(_FILE_ALIGN)
        self.checksum, self.initialized_size = self._number(CHECKSUM), self._number(INITIALIZED_SIZE)
        self._check_sections()
        self._loaded = sorted((each for each in self.all if each.raw_size), key=lambda each: each.virtual_address)
        self._addresses = [each.virtual_address for each in self._loaded]

    def _number(self, at: int) -> int:
        return int.from_bytes(self.view.read(self.optional_offset + at, 4), "little")

    def bad(self, problem: str, at: int, field: str) -> BadValue:
        """Return the error for a damaged image."""
        return BadValue(problem, format=FORMAT, offset=self.view.offset(at), field=field, chain=self.view.chain)

    def refusal(self, problem: str, hint: str) -> HostError:
        """Return the error for what cannot be done with this image."""
        return HostError(problem, hint=hint, chain=self.view.chain)

    def at(self, position: int) -> str:
        """Return a position as errors print it."""
        return format_hex(self.view.offset(position))

    def title(self, section: CoffSection) -> str:
        """Return what errors call a section."""
        name = self.name(section.stored_name).decode("utf-8", "replace")
        return f"section {section.number} ({name}) at {self.at(section.raw_offset)}"

    def header_of(self, section: CoffSection) -> int:
        """Return where the header of a section is."""
        start: int = self.table_offset
        return start + SECTION.size * (section.number - 1)

    def directory_at(self, number: int) -> int | None:
        """Return where the entry of a data directory is, None if the image has none of that number."""
        return self._directories[number] if number < len(self._directories) else None

    def directory(self, number: int) -> tuple[int, int]:
        """Return address (of certificates: position) and size of a data directory, zeros if there is none."""
        at = self.directory_at(number)
        entry = bytes(8) if at is None else self.view.read(at, 8)
        return int.from_bytes(entry[:4], "little"), int.from_bytes(entry[4:], "little")

    def position_of(self, address: int, size: int) -> int:
        """Return where the file holds some bytes of memory, -1 if it does not hold them all.

        The address counts from the image's base.
        """
        number = bisect_right(self._addresses, address) - 1
        if number < 0:
            return -1
        section = self._loaded[number]
        inside = address - section.virtual_address
        return section.raw_offset + inside if inside + size <= section.raw_size else -1

    def _check_sections(self) -> None:
        """Raise FormatError for sections outside of the file, HostError for those over each other's bytes."""
        end = 0
        for section in sorted((each for each in self.all if each.raw_size), key=lambda each: each.raw_offset):
            if section.raw_offset + section.raw_size > len(self.view):
                raise self.bad("past the end of the file", self.header_of(section), "SizeOfRawData")
            if section.raw_offset < end:
                problem = f"{self.title(section)} overlaps another section: no byte would have one meaning"
                raise self.refusal(problem, "use a file as the linker wrote it")
            end = section.raw_offset + section.raw_size

    def changed(self, contents: Iterable[NewSectionContent]) -> list[ChangedPeSection]:
        """Return the sections that change in the order of their bytes. Raises UsageError, HostError."""
        found: dict[int, ChangedPeSection] = {}
        for content in contents:
            index, size = content.index, sum(len(piece) for piece in content.pieces)
            if not 0 < index <= len(self.all):
                raise UsageError(f"there is no section {index}", hint=f"the file has 1 to {len(self.all)}")
            if index in found:
                raise UsageError(f"section {index} is given twice", hint="give all new bytes of a section at once")
            section = self.all[index - 1]
            if section.flags & (_EXECUTED | UNINITIALIZED) or not section.raw_size:
                raise self.refusal(
                    f"{self.title(section)} holds code, or nothing: it is no section of device code",
                    "give a section of initialised data",
                )
            if size > section.raw_size:
                raise self.refusal(
                    f"{self.title(section)} would get {size} bytes, and has room for {section.raw_size}",
                    "what is behind it cannot move; put less in it, or link the program again",
                )
            found[index] = ChangedPeSection(section, content.pieces, size)
        return sorted(found.values(), key=lambda change: change.section.raw_offset)
