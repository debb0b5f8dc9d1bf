"""Shrinking linked ELF files: the checks, the plan, and the new file."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate, pairwise

from fatpack.binary.elf import layout
from fatpack.binary.elf.editor.editable import EditableFile, Patches, join_views, total_size, zero_pieces
from fatpack.binary.elf.editor.preconditions import EDITABLE_TYPES
from fatpack.binary.elf.editor.rewrite import list_parts
from fatpack.binary.elf.layout import LOAD, NULL, PROGRAM_HEADERS, SH_ADDR, SH_OFFSET, SH_SIZE, SH_TYPE
from fatpack.binary.elf.shrinker import cuts, pointers
from fatpack.binary.elf.shrinker.cuts import MAX_SEGMENTS, PAGE, CannotShrinkElf
from fatpack.binary.elf.shrinker.program_headers import ProgramHeaderSpace
from fatpack.binary.shrink import AUTO, SHRINK, ZERO, ShrinkResult
from fatpack.errors import HostError, UsageError, format_hex
from fatpack.io.source import View
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from fatpack.binary.elf.file import ElfSection
    from fatpack.binary.elf.shrinker.cuts import ElfCut
    from fatpack.binary.elf.shrinker.pointers import ContainerSymbol
    from fatpack.binary.elf.shrinker.program_headers import MovedRange
    from fatpack.binary.shrink import NewSectionContent, ShrinkMode, ShrinkRequest
    from fatpack.io.source import Piece

    Replacement = tuple[int, int, Sequence[Piece]]


# Linked files for this edit: segments as records, the sections that change, and obstacles to any change. Obstacles that
# only prevent a smaller file are in ``cuts``: then freed bytes become zeros.

#: SHF_TLS: thread-local sections
_TLS = 0x400

#: End of a file that was signed for the kernel's integrity measurement or module loader (Linux,
#: include/linux/module_signature.h): any edit makes the signature invalid.
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
        """The position after the segment's bytes in the file."""
        return self.offset + self.file_size


class ChangedElfSection(Record):
    """A section with new contents: ``pieces`` with a total of ``size`` bytes."""

    section: ElfSection
    pieces: Sequence[Piece]
    size: int


class LinkedElfFile(EditableFile):
    """A program or library whose sections can get other contents in place.

    The constructor raises HostError for files that must not be edited, FormatError for damaged ones.
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
            (segment for segment in self.segments if segment.type == layout.LOAD), key=lambda load: load.address
        )
        self._addresses = [load.address for load in self.loads]

    def refusal(self, problem: str, hint: str) -> HostError:
        """Return the error for an edit that is impossible for this file."""
        return HostError(problem, hint=hint, chain=self.view.chain)

    def at(self, position: int) -> str:
        """Return a position as errors print it."""
        return format_hex(self.view.offset(position))

    def position_of(self, address: int, size: int) -> int:
        """Return the position in the file of bytes in memory, -1 if the file does not contain all of them."""
        number = bisect_right(self._addresses, address) - 1
        if number < 0:
            return -1
        load = self.loads[number]
        inside = address - load.address
        return load.offset + inside if inside + size <= load.file_size else -1

    def is_by_address(self, segment: ProgramHeader) -> bool:
        """Return whether only a segment's addresses are valid, and its offset refers to other bytes.

        QUIRK(mold 1.10 and newer): PT_GNU_RELRO has the offset 0 if its first section has no bytes. Loaders protect
        the pages of its addresses, and read nothing at its offset.
        """
        return segment.type == layout.RELRO and self.position_of(segment.address, 0) != segment.offset

    def address_of(self, position: int) -> int:
        """Return the address of a position in the file, 0 if it is not loaded."""
        found = next((load for load in self.loads if load.offset <= position < load.end), None)
        return found.address + position - found.offset if found else 0

    def changed(self, contents: Iterable[NewSectionContent]) -> list[ChangedElfSection]:
        """Return the sections that change, in the order of their bytes. Raises UsageError, HostError."""
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
        # Raises HostError if parts of the file overlap, so that a byte would have two meanings.
        list_parts(self, {index: change.pieces for index, change in found.items()})
        return sorted(found.values(), key=lambda change: change.section.offset)

    def _check(self, section: ElfSection, size: int) -> None:
        title = f"{self.title(section)} at {self.at(section.offset)}"
        if section.type not in EDITABLE_TYPES:
            raise self.refusal(
                f"{title} has type {layout.section_type_word(section.type)}: it is no section of device code",
                f"sections of type {' or '.join(map(layout.section_type_word, EDITABLE_TYPES))} can be edited",
            )
        if section.flags & (layout.COMPRESSED | layout.MERGE | layout.STRINGS | _TLS):
            flags = layout.section_flag_letters(section.flags)
            raise self.refusal(
                f"{title} has flags {flags}: its bytes are compressed, merged or one thread's own",
                "device code does not belong into such a section; link the program again",
            )
        if size > section.size:
            raise self.refusal(
                f"{title} would get {size} bytes, and has room for {section.size}",
                "the bytes after it cannot move; make it smaller, or link the program again",
            )


#: The kernel copies whole pages; it is worth it for views that are longer than this.
_LONG = 256 << 10


class ShrinkPlan(Record):
    """The cuts in order, the range that moves for more program headers, and ``align``, the unit of cuts."""

    cuts: Sequence[ElfCut]
    moved: MovedRange | None
    align: int


def assemble(
    elf: LinkedElfFile,
    changed: Sequence[ChangedElfSection],
    patches: Mapping[int, bytes],
    plan: ShrinkPlan | None,
    ranges: Iterable[Replacement] = (),
) -> list[Piece]:
    """Return the new file. ``patches`` are position in the old file → bytes. Without a plan nothing moves.

    ``ranges`` get other bytes at their places. Raises HostError if two changes overlap.
    """
    cut_of = {cut.changed.section.index: cut for cut in plan.cuts} if plan else {}
    replaced: list[Replacement] = list(ranges)
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
    """Patches, each of which must be used exactly once."""

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
        """Raise HostError if a patch is for bytes that are replaced."""
        if self._used != len(self._stretches):
            raise self._meeting(self._stretches[0][0])

    def _meeting(self, at: int) -> Exception:
        problem = f"changes of pointers, symbols and device code overlap at or after {self._elf.at(at)}"
        return self._elf.refusal(problem, "use a file as the linker wrote it")


class _ElfShift:
    """Translates positions in the old file to positions in the new one."""

    def __init__(self, plan: ShrinkPlan) -> None:
        self._starts = [cut.start for cut in plan.cuts]
        self._ends = [cut.end for cut in plan.cuts]
        self._removed_before = [0, *accumulate(cut.size for cut in plan.cuts)]
        self._align = plan.align

    def __call__(self, position: int) -> int:
        """Return the new position. Inside a cut, where only empty parts are, it is equal modulo the page size."""
        number = bisect_right(self._ends, position)
        if number < len(self._starts) and position > self._starts[number]:
            position -= (position - self._starts[number]) // self._align * self._align
        return position - self._removed_before[number]


def _tables(elf: LinkedElfFile, plan: ShrinkPlan, cut_of: Mapping[int, ElfCut]) -> Iterator[Replacement]:
    """Yield the new ELF header, program headers, parts after them, and section table."""
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
        if plan.moved is not None and plan.moved.contains(segment):
            offset = shift(segment.offset - plan.moved.start + plan.moved.position)
            address, physical = segment.address + plan.moved.shift, segment.physical_address + plan.moved.shift
            yield segment.replace(offset=offset, address=address, physical_address=physical)
        elif elf.is_by_address(segment):
            yield segment
        elif segment.type == PROGRAM_HEADERS:
            size = segment.file_size + added
            yield segment.replace(offset=shift(segment.offset), file_size=size, memory_size=size)
        else:
            for part in parts.get(segment.index, [segment]):
                yield part.replace(offset=shift(part.offset))


def _reaching(segment: ProgramHeader, start: int, end: int) -> ProgramHeader:
    """Return a segment that loads all program headers if it loads some: they may have grown into its padding."""
    if segment.type != LOAD or not segment.offset <= start < segment.end or segment.end >= end:
        return segment
    size = end - segment.offset
    return segment.replace(file_size=size, memory_size=size)


def _parts(load: ProgramHeader, cuts: Sequence[ElfCut]) -> list[ProgramHeader]:
    """Return the remaining part of a loaded segment, with offsets of the old file."""
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
    # Loaders ignore physical addresses, and some files have invalid ones.
    physical = segment.physical_address & largest
    placed = segment.replace(address=_address(elf, segment.address), physical_address=physical)
    return layout.pack(*(getattr(placed, field.name) for field in layout.fields))


def _address(elf: LinkedElfFile, address: int) -> int:
    """Return a changed address. Raises HostError if it is too large for the file's fields."""
    if not 0 <= address <= elf.layouts.largest:
        problem = f"something would move to the address {address:#x}, which is none of a {elf.layouts.bits}-bit file"
        raise elf.refusal(problem, "use a file as the linker wrote it, or mode zero")
    return address


def _sections(elf: LinkedElfFile, plan: ShrinkPlan, cut_of: Mapping[int, ElfCut], shift: _ElfShift) -> Iterator[bytes]:
    """Yield the section headers of the new file."""
    layout, moved = elf.layouts.section, plan.moved
    for index, row in enumerate(elf.section_rows):
        values = list(row)
        if values[SH_TYPE] == NULL:
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
    """Yield the same bytes, with long views of the file split at pages, from which the kernel copies them."""
    for piece in pieces:
        head = -piece.start % PAGE if isinstance(piece, View) and len(piece) >= _LONG else 0
        if head and isinstance(piece, View):
            yield piece.read(0, head)
            yield piece.slice(head, len(piece) - head)
        else:
            yield piece


# Device code of a linked file laid down again: its bytes, the pointers to it, and what becomes of freed bytes.


def shrink_elf(view: View, change: ShrinkRequest, *, mode: ShrinkMode = AUTO) -> ShrinkResult:
    """Return a linked file with new contents of loaded sections, as pieces; bulk data is neither read nor copied.

    ``mode`` "shrink" takes freed bytes out of the file by whole pages and raises HostError where it cannot, "zero"
    leaves them as zeros, "auto" shrinks the sections that it can; ``why`` of the result has the reason for the others.

    Raises HostError for a change that would break the file, FormatError for a damaged one, UsageError for an index
    that is no section's.
    """
    elf = LinkedElfFile(view)
    changed = elf.changed(change.contents)
    found = pointers.symbols_on_sections(elf, {each.section.index for each in changed})
    plan, why = (None, "") if mode == ZERO else _planned(elf, changed, found, is_strict=mode == SHRINK)
    reduced = {cut.changed.section.index for cut in plan.cuts} if plan else set[int]()
    patches = {
        **(plan.moved.patches if plan and plan.moved else {}),
        **pointers.symbol_patches(elf, changed, found, change.moves, reduced),
        **pointers.pointer_patches(elf, changed, change.moves, change.pointers),
    }
    pieces = assemble(elf, changed, patches, plan, _filled_ranges(elf, change))
    gone = [(cut.start, cut.size) for cut in plan.cuts] if plan else []
    return ShrinkResult(pieces, SHRINK if plan else ZERO, gone, why)


def _filled_ranges(elf: LinkedElfFile, change: ShrinkRequest) -> list[Replacement]:
    """Return the replaced ranges, each with zeros up to its end. Raises HostError for bytes that a loader changes."""
    ranges: list[Replacement] = []
    for each in change.replaced:
        size = total_size(each.pieces)
        if not 0 <= each.start <= each.end <= len(elf.view) or size > each.end - each.start:
            raise UsageError(f"{size} bytes do not fit between positions {each.start} and {each.end}")
        ranges.append((each.start, each.end, [*each.pieces, *zero_pieces(each.end - each.start - size)]))
    pointers.check_not_relocated(elf, [(elf.address_of(start), end - start) for start, end, _ in ranges])
    return ranges


def _planned(
    elf: LinkedElfFile, changed: Sequence[ChangedElfSection], named: Sequence[ContainerSymbol], *, is_strict: bool
) -> tuple[ShrinkPlan | None, str]:
    """Return what is cut, None if nothing, and why not more of it. Raises HostError for that if it is strict."""
    plan, reasons = None, list[str]()
    try:
        align = cuts.cut_alignment(elf)
        found, reasons = cuts.find_cuts(elf, changed, align, pointers.sections_with_end_symbol(elf, changed, named))
        plan, left = _with_room(elf, found, align)
        reasons += left
    except CannotShrinkElf as reason:
        reasons.append(str(reason))
    if reasons and is_strict:
        raise elf.refusal(f"the file cannot shrink: {reasons[0]}", "mode zero leaves zeros where the device code was")
    if plan is None and not reasons:
        return None, f"every section loses less than a page of {align} bytes"
    return plan, "; ".join(reasons)


def _with_room(elf: LinkedElfFile, found: list[cuts.ElfCut], align: int) -> tuple[ShrinkPlan | None, list[str]]:
    """Return the plan that makes as many cuts as there is room for program headers, and what stays for lack of it."""
    splits, reasons = sum(cut.splits for cut in found), list[str]()
    if not splits:
        return (ShrinkPlan(found, None, align) if found else None), reasons
    if elf.program_count + splits > MAX_SEGMENTS:
        raise CannotShrinkElf(f"it would have more than {MAX_SEGMENTS} program headers")
    room = ProgramHeaderSpace(elf)
    if room.most < splits:
        number = splits - room.most
        reasons.append(
            f"{room.obstacle} is after the program headers, where there is room for {room.most} more and not for "
            f"{splits}, and cannot move"
        )
        found = cuts.best_cuts(found, splits - number)
        splits = room.most
    if not found:
        raise CannotShrinkElf(reasons[0])
    moved, found = room.make(splits, found, align)
    return ShrinkPlan(found, moved, align), reasons
