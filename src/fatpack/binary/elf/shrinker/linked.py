"""Linked files as this edit sees them: segments as records, the sections that change, and what forbids any change.

What forbids only that the file gets smaller is in ``cuts``: zeros do for the rest.
"""

from __future__ import annotations

from bisect import bisect_right

from fatpack.binary.elf import constants
from fatpack.binary.elf.editor.editing_editable import EditableFile, total_size
from fatpack.binary.elf.editor.preconditions import EDITABLE_TYPES
from fatpack.binary.elf.editor.rewrite import list_parts
from fatpack.errors import HostError, UsageError, format_hex
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fatpack.binary.elf.file import ElfSection
    from fatpack.binary.shrink import NewSectionContent
    from fatpack.io.source import Piece, View

#: SHF_TLS: every thread has its own copy
_TLS = 0x400

#: What ends a file that the kernel's integrity measurement, or its loader of modules, has a signature of (Linux,
#: include/linux/module_signature.h): any edit makes it invalid.
_SIGNATURE = b"~Module signature appended~\n"


class ProgramHeader(Record):
    """A program header with its ``index`` in the table; sizes in bytes."""

    index: int
    type: int
    offset: int
    address: int
    physical_address: int
    file_size: int
    memory_size: int
    flags: int
    align: int

    @property
    def end(self) -> int:
        """The position behind the segment's bytes in the file."""
        return self.offset + self.file_size


class ChangedElfSection(Record):
    """A section that gets other contents: ``pieces`` of together ``size`` bytes."""

    section: ElfSection
    pieces: Sequence[Piece]
    size: int


class LinkedElfFile(EditableFile):
    """A program or library, checked so far that contents of its sections can be exchanged in place.

    Making one raises HostError for files that must not be edited, FormatError for damaged ones.
    """

    def __init__(self, view: View) -> None:
        super().__init__(view, keep_trailing=True)
        if not self.is_linked:
            raise HostError(
                "this is an object: nothing in it has an address yet",
                hint="replace or remove its sections, or link it first",
                chain=view.chain,
            )
        if view.head(len(view) - len(_SIGNATURE), len(_SIGNATURE)) == _SIGNATURE:
            raise HostError(
                f"a signature of the file's bytes is appended to it, before {format_hex(view.offset(len(view)))}: any "
                "edit makes it invalid",
                hint="edit the file without the signature, and sign the result",
                chain=view.chain,
            )
        names = ("type", "offset", "address", "physical_address", "file_size", "memory_size", "flags", "align")
        places = [self.layouts.program.position(name) for name in names]
        self.segments = [
            ProgramHeader(index, *(row[place] for place in places)) for index, row in enumerate(self.programs())
        ]
        #: the loaded segments, by address
        self.loads = sorted(
            (segment for segment in self.segments if segment.type == constants.LOAD), key=lambda load: load.address
        )
        self._addresses = [load.address for load in self.loads]

    def refusal(self, problem: str, hint: str) -> HostError:
        """Return the error for what cannot be done with this file."""
        return HostError(problem, hint=hint, chain=self.view.chain)

    def at(self, position: int) -> str:
        """Return a position as errors print it."""
        return format_hex(self.view.offset(position))

    def position_of(self, address: int, size: int) -> int:
        """Return where the file holds some bytes of memory, -1 if it does not hold them all."""
        number = bisect_right(self._addresses, address) - 1
        if number < 0:
            return -1
        load = self.loads[number]
        inside = address - load.address
        return load.offset + inside if inside + size <= load.file_size else -1

    def is_by_address(self, segment: ProgramHeader) -> bool:
        """Return whether a segment's address alone says what it is, and its offset leads to other bytes.

        QUIRK(mold 1.10 and newer): PT_GNU_RELRO has the offset 0 where the section that it starts with has no bytes.
        Loaders protect the pages of its addresses, and read nothing at its offset.
        """
        return segment.type == constants.RELRO and self.position_of(segment.address, 0) != segment.offset

    def address_of(self, position: int) -> int:
        """Return the address at which a byte of the file is loaded, 0 for one that is not."""
        found = next((load for load in self.loads if load.offset <= position < load.end), None)
        return found.address + position - found.offset if found else 0

    def changed(self, contents: Iterable[NewSectionContent]) -> list[ChangedElfSection]:
        """Return the sections that change in the order of their bytes. Raises UsageError, HostError."""
        found: dict[int, ChangedElfSection] = {}
        for content in contents:
            index, size = content.index, total_size(content.pieces)
            if not 0 < index < self.section_count:
                raise UsageError(f"there is no section {index}", hint=f"the file has 1 to {self.section_count - 1}")
            if index in found:
                raise UsageError(f"section {index} is given twice", hint="give all new bytes of a section at once")
            section = self.section(index)
            self._check(section, size)
            found[index] = ChangedElfSection(section, content.pieces, size)
        # Raises HostError where parts of the file overlap: no byte would have one meaning.
        list_parts(self, {index: change.pieces for index, change in found.items()})
        return sorted(found.values(), key=lambda change: change.section.offset)

    def _check(self, section: ElfSection, size: int) -> None:
        title = f"{self.title(section)} at {self.at(section.offset)}"
        if section.type not in EDITABLE_TYPES:
            raise self.refusal(
                f"{title} has type {constants.section_type_word(section.type)}: it is no section of device code",
                f"sections of type {' or '.join(map(constants.section_type_word, EDITABLE_TYPES))} can be edited",
            )
        if section.flags & (constants.COMPRESSED | constants.MERGE | constants.STRINGS | _TLS):
            flags = constants.section_flag_letters(section.flags)
            raise self.refusal(
                f"{title} has flags {flags}: its bytes are compressed, merged or one thread's own",
                "device code does not belong into such a section; link the program again",
            )
        if size > section.size:
            raise self.refusal(
                f"{title} would get {size} bytes, and has room for {section.size}",
                "what is behind it cannot move; put less in it, or link the program again",
            )
