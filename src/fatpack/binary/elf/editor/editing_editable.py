"""What every edit of an ELF file needs: a file that may be edited, its extents, and bytes patched on the way out.

The rule behind all of it: a host is never written from a parsed model. The bytes that were there are copied, new
bytes are added, and the few header fields that must change are patched. Tools that write ELF files from a model of
their own break some of them (relocations in the wrong byte order, lost section links, moved segments).
"""

from __future__ import annotations

from fatpack.binary.elf import constants
from fatpack.binary.elf.file import ElfFile
from fatpack.errors import HostError
from fatpack.io.source import View

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import TypeAlias

    from fatpack.binary.elf.file import ElfSection
    from fatpack.io.source import Piece

    SectionRow: TypeAlias = tuple[int, ...]
    """A section header as a tuple, in the order of its layout."""

#: At most this many zero bytes behind the last part of a file are padding of its producer; more is somebody's data.
TRAILING_PADDING = 7

_ZEROS = bytes(64 << 10)


class EditableFile(ElfFile):
    """An ELF file whose tables and sections all lie inside the file, so that it can be edited.

    ``section_rows`` are all section headers. ``used_end`` is the position behind everything but the section table,
    ``end`` behind that too; ``has_trailing`` says whether somebody's bytes follow.
    Raises HostError for a file that must not be edited, with what would work, and FormatError for a damaged one.
    """

    def __init__(self, view: View, *, keep_trailing: bool = False) -> None:
        super().__init__(view)
        self._section_rows: list[SectionRow] | None = None
        if self.header.type not in (constants.RELOCATABLE, constants.EXECUTABLE, constants.SHARED):
            raise HostError(
                f"an ELF file of type {constants.named_number(constants.FILE_TYPES, self.header.type)} is not edited",
                hint="objects, executables and shared objects are",
                chain=view.chain,
            )
        if not self.section_count:
            raise HostError(
                "the file has no section table to add to or take from",
                hint="edit the object or the unstripped program it was made from",
                chain=view.chain,
            )
        if self.header.section_offset < self.layouts.header.size:
            at = self.layouts.header.field_offset("section_offset")
            raise self.bad("the section table lies in the header", at, "section_offset")
        self.names = self.names_section()
        _, self._stored_ends = self.stored_ranges()
        self._check_inside()
        self.used_end = self._parts_end(max(self._stored_ends))
        self.end = max(self.used_end, self.table_end)
        trailing = len(view) - self.end
        self.has_trailing = trailing > TRAILING_PADDING or not view.is_zero(self.end)
        if self.has_trailing and not keep_trailing:
            raise HostError(
                f"{trailing} bytes follow the ELF image at {view.offset(self.end):#x}: a signature, a file system or "
                "something else that is looked for there",
                hint="embed before they are appended; fatpack.binary.elf.embed(keep_trailing=True) keeps them",
                chain=view.chain,
            )

    @property
    def section_rows(self) -> list[SectionRow]:
        """All section headers; read when first asked for, because adding a section needs only two of them."""
        if self._section_rows is None:
            self._section_rows = list(self.rows())
        return self._section_rows

    def row(self, index: int) -> SectionRow:
        """Return one section header. The caller has checked the index."""
        table = self.layouts.section
        return table.read(self.view, self.header.section_offset + index * table.size)

    def _check_inside(self) -> None:
        """Raise BadValue for a segment or section that does not lie inside the file."""
        for start, stop in self.segment_ranges():
            if stop > len(self.view):
                at = self.header.program_offset
                raise self.bad("a segment does not lie inside the file", at, "program header", found=f"{start:#x}")
        if max(self._stored_ends) > len(self.view):
            for index, end in enumerate(self._stored_ends):
                if end > len(self.view):
                    self.contents(self.section(index))  # raises the error that names it

    def _parts_end(self, sections_end: int) -> int:
        """Return the position behind the header, program headers, segments and sections that end there."""
        segments_end = max((stop for _, stop in self.segment_ranges()), default=0)
        return max(sections_end, segments_end, self.program_table()[1], self.layouts.header.size)

    def used_end_without(self, index: int) -> int:
        """Return the position behind everything but one section and the section table."""
        ends = self._stored_ends
        return self._parts_end(max(max(ends[:index], default=0), max(ends[index + 1 :], default=0)))

    def start_value(self, section: ElfSection) -> int:
        """Return the value of a symbol at the start of a section: an address in linked files, else an offset."""
        return section.address if self.is_linked else 0

    def header_with(self, table: int, count: int) -> bytes:
        """Return the ELF header for a section table at another place and of another length."""
        stored = count if count < constants.FIRST_RESERVED else 0
        changed = self.header.replace(section_offset=table, section_count=stored)
        return self.layouts.header.pack(*(getattr(changed, field.name) for field in self.layouts.header.fields))

    def row_with(self, row: SectionRow, **changes: int) -> SectionRow:
        """Return a section header with some fields changed."""
        names = [field.name for field in self.layouts.section.fields]
        return tuple(changes.get(name, value) for name, value in zip(names, row, strict=True))

    def count_row(self, count: int) -> SectionRow:
        """Return section 0 for a table of ``count`` sections; it holds counts that do not fit into the header."""
        size = self.layouts.section.position("size")
        first = self.row(0)
        if count >= constants.FIRST_RESERVED:
            return self.row_with(first, size=count)
        return self.row_with(first, size=0) if first[size] and not self.header.section_count else first

    def check_size(self, end: int) -> None:
        """Raise HostError when the edited file would be larger than its own fields can say."""
        if end > self.layouts.largest:
            raise HostError(
                f"the result would have {end} bytes, more than a {self.layouts.bits}-bit ELF file can describe",
                hint="use a 64-bit host, or put less in it",
                chain=self.view.chain,
            )


def align_up(position: int, align: int) -> int:
    """Return the first multiple of ``align`` (0 and 1: any number) at or after a position."""
    return position if align <= 1 else -(-position // align) * align


def zero_pieces(count: int) -> Iterator[memoryview]:
    """Yield ``count`` zero bytes in bounded pieces, which share their bytes."""
    while count > 0:
        taken = min(count, len(_ZEROS))
        yield memoryview(_ZEROS)[:taken]
        count -= taken


class Patches:
    """Bytes that replace those of the input: position → bytes. They do not overlap."""

    def __init__(self, patches: Mapping[int, bytes]) -> None:
        self._places = sorted(patches)
        self._patches = patches

    def apply(self, view: View, start: int, end: int) -> Iterator[Piece]:
        """Yield the bytes of a range, views of what stays and the patches that start inside the range."""
        from bisect import bisect_left

        at = start
        for place in self._places[bisect_left(self._places, start) : bisect_left(self._places, end)]:
            if place > at:
                yield view.slice(at, place - at)
            yield self._patches[place]
            at = place + len(self._patches[place])
        if end > at:
            yield view.slice(at, end - at)


def join_views(pieces: Iterable[Piece]) -> list[Piece]:
    """Return the same pieces with views that follow each other in their source as one: each is one copy."""
    result: list[Piece] = []
    for piece in pieces:
        last = result[-1] if result else None
        if not len(piece):
            continue
        if (
            isinstance(piece, View)
            and isinstance(last, View)
            and last.source is piece.source
            and last.end == piece.start
        ):
            result[-1] = last.replace(end=piece.end)
        else:
            result.append(piece)
    return result


def total_size(pieces: Iterable[Piece]) -> int:
    """Return the number of bytes in pieces, without reading them."""
    return sum(len(piece) for piece in pieces)
