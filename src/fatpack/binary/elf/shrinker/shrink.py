"""The new file: bytes of the old one where nothing changed, new ones where something did, none where it was cut."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate, pairwise

from fatpack.binary.elf import constants
from fatpack.binary.elf.editor.editing_editable import Patches, join_views, zero_pieces
from fatpack.binary.elf.layout import SH_ADDR, SH_OFFSET, SH_SIZE, SH_TYPE
from fatpack.binary.elf.shrinker.cuts import PAGE
from fatpack.io.source import View
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fatpack.binary.elf.shrinker.cuts import ElfCut
    from fatpack.binary.elf.shrinker.linked import ChangedElfSection, LinkedElfFile, ProgramHeader
    from fatpack.binary.elf.shrinker.program_headers import MovedRange
    from fatpack.io.source import Piece

    Replacement = tuple[int, int, Sequence[Piece]]

#: Views that are longer are worth copying inside the kernel, which takes whole pages.
_LONG = 256 << 10


class ShrinkPlan(Record):
    """What is cut, in order, what makes room for more program headers, and what ``align`` cuts are multiples of."""

    cuts: Sequence[ElfCut]
    moved: MovedRange | None
    align: int


def assemble(
    elf: LinkedElfFile, changed: Sequence[ChangedElfSection], patches: Mapping[int, bytes], plan: ShrinkPlan | None
) -> list[Piece]:
    """Return the new file. ``patches`` are position in the old file → bytes. Without a plan nothing has another place.

    Raises HostError where two changes meet.
    """
    cut_of = {cut.changed.section.index: cut for cut in plan.cuts} if plan else {}
    replaced: list[Replacement] = []
    edits = _Edits(elf, patches)
    for each in changed:
        section, cut = each.section, cut_of.get(each.section.index)
        pieces, at = list(each.pieces), section.offset + each.size
        if plan is not None and plan.moved is not None and cut is not None and at <= plan.moved.position < cut.kept:
            pieces += [*zero_pieces(plan.moved.position - at), *edits.between(plan.moved.start, plan.moved.end)]
            at = cut.kept
        pieces += zero_pieces(section.end - at - (cut.size if cut else 0))
        replaced.append((section.offset, section.end, pieces))
    if plan is not None:
        replaced += _tables(elf, plan, cut_of)
    result: list[Piece] = []
    at = 0
    for start, end, new in sorted(replaced, key=lambda each: each[:2]):
        if start < at:
            raise elf.refusal(f"two changes meet at {elf.at(start)}", "use a file as the linker wrote it")
        result += [*edits.between(at, start), *new]
        at = end
    result += edits.between(at, len(elf.view))
    edits.check()
    return list(_paged(join_views(result)))


class _Edits:
    """Patches that are all to be used, once."""

    def __init__(self, elf: LinkedElfFile, patches: Mapping[int, bytes]) -> None:
        self._elf, self._patches = elf, Patches(patches)
        self._stretches = sorted((at, at + len(data)) for at, data in patches.items())
        self._used = 0

    def between(self, start: int, end: int) -> list[Piece]:
        """Return the bytes of a range of the old file, patched."""
        first = bisect_left(self._stretches, (start,))
        last = bisect_left(self._stretches, (end,))
        inside = self._stretches[first:last]
        if any(before[1] > after[0] for before, after in pairwise([*inside, (end, end)])):
            raise self._meeting(inside[0][0])
        self._used += len(inside)
        return list(self._patches.apply(self._elf.view, start, end))

    def check(self) -> None:
        """Raise HostError if a patch was for bytes that are replaced."""
        if self._used != len(self._stretches):
            raise self._meeting(self._stretches[0][0])

    def _meeting(self, at: int) -> Exception:
        problem = f"changes of pointers, symbols and device code meet at or behind {self._elf.at(at)}"
        return self._elf.refusal(problem, "use a file as the linker wrote it")


class _ElfShift:
    """Where positions of the old file are in the new one."""

    def __init__(self, plan: ShrinkPlan) -> None:
        self._starts = [cut.start for cut in plan.cuts]
        self._ends = [cut.end for cut in plan.cuts]
        self._gone = [0, *accumulate(cut.size for cut in plan.cuts)]
        self._align = plan.align

    def __call__(self, position: int) -> int:
        """Return the new position. Inside a cut, where only empty things are, it agrees with the old one in a page."""
        number = bisect_right(self._ends, position)
        if number < len(self._starts) and position > self._starts[number]:
            position -= (position - self._starts[number]) // self._align * self._align
        return position - self._gone[number]


def _tables(elf: LinkedElfFile, plan: ShrinkPlan, cut_of: Mapping[int, ElfCut]) -> Iterator[Replacement]:
    """Yield what replaces the ELF header, the program headers, what stood behind them, and the section table."""
    shift = _ElfShift(plan)
    segments = list(_segments(elf, plan, shift))
    start, end = elf.program_table()
    grown = end + (len(segments) - elf.program_count) * elf.layouts.program.size
    headers = [_packed(elf, _reaching(segment, shift(start), shift(start) + grown - start)) for segment in segments]
    yield start, grown, headers
    if plan.moved is not None and plan.moved.end > grown:
        left = max(plan.moved.start, grown)
        yield left, plan.moved.end, list(zero_pieces(plan.moved.end - left))
    changed = elf.header.replace(
        program_offset=shift(elf.header.program_offset),
        section_offset=shift(elf.header.section_offset),
        program_count=len(headers),
    )
    layout = elf.layouts.header
    yield 0, layout.size, [layout.pack(*(getattr(changed, field.name) for field in layout.fields))]
    yield elf.header.section_offset, elf.table_end, [b"".join(_sections(elf, plan, cut_of, shift))]


def _segments(elf: LinkedElfFile, plan: ShrinkPlan, shift: _ElfShift) -> Iterator[ProgramHeader]:
    """Yield the program headers of the new file."""
    by_load: dict[int, list[ElfCut]] = {}
    for cut in plan.cuts:
        if cut.load is not None:
            by_load.setdefault(cut.load.index, []).append(cut)
    parts = {index: _parts(elf.segments[index], cuts) for index, cuts in by_load.items()}
    added = sum(len(each) - 1 for each in parts.values()) * elf.layouts.program.size
    for segment in elf.segments:
        if plan.moved is not None and plan.moved.holds(segment):
            offset = shift(segment.offset - plan.moved.start + plan.moved.position)
            address, physical = segment.address + plan.moved.shift, segment.physical_address + plan.moved.shift
            yield segment.replace(offset=offset, address=address, physical_address=physical)
        elif elf.is_by_address(segment):
            yield segment
        elif segment.type == constants.PROGRAM_HEADERS:
            size = segment.file_size + added
            yield segment.replace(offset=shift(segment.offset), file_size=size, memory_size=size)
        else:
            for part in parts.get(segment.index, [segment]):
                yield part.replace(offset=shift(part.offset))


def _reaching(segment: ProgramHeader, start: int, end: int) -> ProgramHeader:
    """Return a segment that loads all of the program headers if it loads some: they may have grown into its padding."""
    if segment.type != constants.LOAD or not segment.offset <= start < segment.end or segment.end >= end:
        return segment
    size = end - segment.offset
    return segment.replace(file_size=size, memory_size=size)


def _parts(load: ProgramHeader, cuts: Sequence[ElfCut]) -> list[ProgramHeader]:
    """Return what is left of a loaded segment, with offsets of the old file."""
    parts, start = [], load.offset
    for cut in cuts:
        if cut.kept > start:
            parts.append(_part(load, start, cut.kept))
        start = load.end if cut.rest is None else cut.rest
    if start < load.end:
        parts.append(_part(load, start, load.end))
    return parts


def _part(load: ProgramHeader, start: int, end: int) -> ProgramHeader:
    inside, size = start - load.offset, end - start
    return load.replace(
        offset=start,
        address=load.address + inside,
        physical_address=load.physical_address + inside,
        file_size=size,
        memory_size=size,
    )


def _packed(elf: LinkedElfFile, segment: ProgramHeader) -> bytes:
    layout, largest = elf.layouts.program, elf.layouts.largest
    # No loader looks at physical addresses, and some files have any number there.
    physical = segment.physical_address & largest
    placed = segment.replace(address=_address(elf, segment.address), physical_address=physical)
    return layout.pack(*(getattr(placed, field.name) for field in layout.fields))


def _address(elf: LinkedElfFile, address: int) -> int:
    """Return an address that changed. Raises HostError for one that the file's fields cannot hold."""
    if not 0 <= address <= elf.layouts.largest:
        problem = f"something would move to the address {address:#x}, which is none of a {elf.layouts.bits}-bit file"
        raise elf.refusal(problem, "use a file as the linker wrote it, or mode zero")
    return address


def _sections(elf: LinkedElfFile, plan: ShrinkPlan, cut_of: Mapping[int, ElfCut], shift: _ElfShift) -> Iterator[bytes]:
    """Yield the section headers of the new file."""
    layout, moved = elf.layouts.section, plan.moved
    for index, row in enumerate(elf.section_rows):
        values = list(row)
        if values[SH_TYPE] == constants.NULL:
            pass
        elif moved is not None and index in moved.sections:
            values[SH_OFFSET] = shift(values[SH_OFFSET] - moved.start + moved.position)
            values[SH_ADDR] = _address(elf, values[SH_ADDR] + moved.shift)
        else:
            values[SH_OFFSET] = shift(values[SH_OFFSET])
            if index in cut_of:
                values[SH_SIZE] = cut_of[index].changed.size
        yield layout.pack(*values)


def _paged(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Yield the same bytes with long views of the file starting at pages, from where the kernel copies them."""
    for piece in pieces:
        head = -piece.start % PAGE if isinstance(piece, View) and len(piece) >= _LONG else 0
        if head and isinstance(piece, View):
            yield piece.read(0, head)
            yield piece.slice(head, len(piece) - head)
        else:
            yield piece
