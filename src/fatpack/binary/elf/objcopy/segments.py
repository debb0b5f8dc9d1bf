"""Segments of linked files: which contains which, which sections lie in them, and where they go.

A segment moves as a whole, and what is inside moves with it; the ELF header and the program headers count as segments
for that. Only a section that lies in no segment is laid out by itself.
"""

from __future__ import annotations

from fatpack.binary.elf import constants
from fatpack.binary.elf.editor.editing_editable import align_up
from fatpack.binary.elf.objcopy.sections import NEW_SECTION_POSITION, MutableSegment
from fatpack.errors import HostError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.binary.elf.file import ElfFile
    from fatpack.binary.elf.objcopy.sections import MutableElfSection

#: LIMIT: pairs of a segment and a section, or of two segments, that are compared. A program has a dozen segments and
#: a hundred sections; a hostile file could ask for 65,535 times a million.
_PAIRS = 1 << 22

_WORD = 1 << 64

#: p_type PT_TLS and sh_flags SHF_TLS: thread-local data, which shares addresses with other data.
_TLS_SEGMENT, _TLS_SECTION = 7, 0x400


class SegmentLayout:
    """All segments of a file: those with program headers, and the two implicit ones."""

    def __init__(self, elf: ElfFile, parts: Sequence[MutableElfSection]) -> None:
        layout = elf.layouts.program
        fields = [field.name for field in layout.fields]
        self.listed: list[MutableSegment] = []
        if (
            elf.header.program_count == constants.ESCAPED
            or elf.program_count * (len(parts) + elf.program_count) > _PAIRS
        ):
            raise HostError(
                f"the file has {elf.program_count} segments and {len(parts)} sections: too many to lay out",
                hint="add to the objects, and link them again",
                chain=elf.view.chain,
            )
        for index, row in enumerate(elf.programs()):
            values = dict(zip(fields, row, strict=True))
            end = values["offset"] + values["file_size"]
            if end > len(elf.view):
                problem = f"segment {index} does not lie inside the file"
                raise elf.bad(problem, elf.header.program_offset, "program header", found=f"{end:#x}")
            segment = MutableSegment(index, values["offset"], values["file_size"], values["address"], values["align"])
            segment.row = values
            self.listed.append(segment)
            for part in parts:
                if _holds(segment, part) and (part.segment is None or part.segment.old_offset > segment.old_offset):
                    part.segment = segment
        count = len(self.listed)
        at = elf.header.program_offset
        self.header = MutableSegment(count, 0, 0)
        size = elf.header.program_entry_size * elf.header.program_count
        self.table = MutableSegment(count + 1, at, size, at, elf.layouts.word)
        for child in (*self.listed, self.header, self.table):
            parents = (each for each in self.listed if each is not child and each.contains(child))
            before = [each for each in parents if each.order < child.order]
            child.parent = min(before, key=lambda each: each.order, default=None)
        self.header.file_size = elf.layouts.header.size

    def lay_out(self) -> int:
        """Give every segment its new place; return the position behind the last."""
        end = 0
        for segment in sorted((*self.listed, self.header, self.table), key=lambda each: each.order):
            if segment.parent is not None:
                segment.offset = segment.parent.offset + segment.old_offset - segment.parent.old_offset
            else:
                segment.offset = _aligned(end, max(segment.align, 1), segment.address)
            end = max(end, segment.offset + segment.file_size)
        return end


def _aligned(position: int, align: int, address: int) -> int:
    """Return the first position from one on that an address agrees with, modulo an alignment.

    In 64 bits, as llvm-objcopy counts: where the alignment is no power of two that makes a difference.
    """
    skew = address % align
    return (align_up((position - skew) % _WORD, align) + skew) % _WORD


def _holds(segment: MutableSegment, part: MutableElfSection) -> bool:
    """Return whether a section lies in a segment; an empty one lies in the segment that starts there."""
    size = part.size or 1
    if part.old_offset == NEW_SECTION_POSITION:
        return False
    if part.type != constants.NOBITS:
        return segment.old_offset <= part.old_offset and (
            segment.old_offset + segment.file_size >= part.old_offset + size
        )
    if not part.flags & constants.ALLOC or bool(part.flags & _TLS_SECTION) != (segment.row["type"] == _TLS_SEGMENT):
        return False
    return segment.address <= part.address and segment.address + segment.row["memory_size"] >= part.address + size
