"""Cuts in a linked file: ends of sections, in whole pages, and their effect on segments.

::

    old   │ part A      section ▒▒▒▒▒▒▒▒▒▒▒▒ │ more of the segment │ next segment
    new   │ part A      section │ more of the segment │ next segment
                        ▲ kept  ▲ a multiple of the page, and so is the cut

Part B of the segment starts at the page in which the section ended. It keeps its addresses, and its offset decreases by
a multiple of every alignment, so that addresses and offsets agree as loaders require. Nothing is mapped between.

A loader maps whole pages: freed bytes in the last page of A and in the first page of B become zeros. Writable segments
are not cut, because their pages have other rules (RELRO, TLS, memory beyond the file).
"""

from __future__ import annotations

from fatpack.binary.elf import layout
from fatpack.errors import pluralize
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fatpack.binary.elf.shrinker.shrink import ChangedElfSection, LinkedElfFile, ProgramHeader

#: Smallest page size of any system. Segments with a smaller alignment are made by ``ld -n`` and ``-N``.
PAGE = 4096

#: Largest number of program headers: 65535 means that the number is elsewhere.
MAX_SEGMENTS = 65534

_WRITABLE = 2


class CannotShrinkElf(Exception):
    """Raised if nothing can be cut out of the file or section; the reason in words."""


class ElfCut(Record):
    """The removed range of a changed section: the bytes from ``start`` to ``end`` of the old file.

    ``load`` is the segment of the section, None if it is not loaded; ``kept`` is the position after the section's new
    bytes, and after bytes that were moved there. ``rest`` is the page at which the segment continues, None if it ends
    with the section. ``splits``: the cut needs one more program header.
    """

    changed: ChangedElfSection
    load: ProgramHeader | None
    kept: int
    start: int
    end: int
    rest: int | None
    splits: bool

    @property
    def size(self) -> int:
        """The number of removed bytes, a multiple of every segment's alignment."""
        return self.end - self.start


def cut_alignment(elf: LinkedElfFile) -> int:
    """Return the alignment of the sizes of cuts. Raises CannotShrinkElf if nothing can be cut."""
    if elf.has_trailing:
        size = len(elf.view) - elf.end
        raise CannotShrinkElf(
            f"{pluralize(size, 'byte')} that may be looked for there follow the ELF image at {elf.at(elf.end)}"
        )
    if not elf.program_count:
        raise CannotShrinkElf("the file has no program headers")
    align, address, last = PAGE, -1, None
    for load in elf.loads:
        where = f"segment {load.index} at {elf.at(load.offset)}"
        if load.align & load.align - 1 or (load.align > 1 and (load.address - load.offset) % load.align):
            raise CannotShrinkElf(f"the offset and address of {where} do not fit its alignment of {load.align:#x}")
        if load.address < address:
            raise CannotShrinkElf(f"{where} overlaps another one in memory")
        if last is not None and load.index < last.index:
            raise CannotShrinkElf(f"{where} precedes another one of a lower address in the program headers")
        if load.memory_size < load.file_size:
            raise CannotShrinkElf(f"{where} has more bytes than memory")
        address, last, align = load.address + load.memory_size, load, max(align, load.align)
    end = 0
    for load in sorted((load for load in elf.loads if load.file_size), key=lambda load: load.offset):
        if load.offset < end:
            raise CannotShrinkElf(f"segment {load.index} at {elf.at(load.offset)} overlaps another one in the file")
        end = load.end
    return align


def find_cuts(
    elf: LinkedElfFile, changed: Sequence[ChangedElfSection], align: int, ends: Mapping[int, str]
) -> tuple[list[ElfCut], list[str]]:
    """Return the possible cuts in the order of the file, and the reasons why other sections keep their length.

    ``ends`` are the sections with a symbol at their end, with which code may compare addresses. Sections that lose less
    than a page are in neither result.
    """
    found, reasons = [], []
    loads = sorted((load for load in elf.loads if load.file_size), key=lambda load: load.offset)
    marked = _marked(elf, changed)
    number = 0
    for each in changed:
        section = each.section
        while number < len(loads) and loads[number].end <= section.offset:
            number += 1
        if section.size - each.size < align:
            continue
        try:
            if section.index in ends:
                raise CannotShrinkElf(f"{ends[section.index]} is its end, which code may know it by")
            if section.index in marked:
                raise CannotShrinkElf(f"segment {marked[section.index]} lies over it, too")
            if section.flags & layout.ALLOC:
                load = loads[number] if number < len(loads) else None
                if load is None or not load.offset <= section.offset or section.end > load.end:
                    raise CannotShrinkElf("it lies in no segment, or in more than one")
                _check_load(elf, each, load)
            else:
                load = None
                if number < len(loads) and loads[number].offset < section.end:
                    raise CannotShrinkElf("a segment has its bytes, and it has no address")
            cut = make_cut(elf, each, load, section.offset + each.size, align)
        except CannotShrinkElf as reason:
            reasons.append(f"{elf.title(section)} keeps its size: {reason}")
            continue
        if cut.size:
            found.append(cut)
    return found, reasons


def _check_load(elf: LinkedElfFile, changed: ChangedElfSection, load: ProgramHeader) -> None:
    section = changed.section
    where = f"segment {load.index} at {elf.at(load.offset)}"
    if section.address - load.address != section.offset - load.offset:
        raise CannotShrinkElf(f"its address is another one than that in {where}")
    if load.flags & _WRITABLE:
        raise CannotShrinkElf(f"{where} is written to, and such segments are not split")
    if load.align < PAGE:
        raise CannotShrinkElf(f"{where} is aligned to {load.align} bytes, which no page is")
    if load.memory_size != load.file_size:
        raise CannotShrinkElf(f"{where} has memory beyond its bytes in the file")
    if not changed.size and section.offset == load.offset and load is elf.loads[0]:
        raise CannotShrinkElf(f"{where}, the first one, starts with it")


def _marked(elf: LinkedElfFile, changed: Sequence[ChangedElfSection]) -> dict[int, int]:
    """Return section → segment for changed sections with freed bytes in a segment that is not a loaded one."""
    others = sorted(
        (each.offset, each.end, each.index)
        for each in elf.segments
        if each.file_size and each.type != layout.LOAD and not elf.is_by_address(each)
    )
    found: dict[int, int] = {}
    number, reached, owner = 0, 0, -1
    for each in changed:
        start, end = each.section.offset + each.size, each.section.end
        while number < len(others) and others[number][0] < end:
            if others[number][1] > reached:
                reached, owner = others[number][1], others[number][2]
            number += 1
        if reached > start and start < end:
            found[each.section.index] = owner
    return found


def make_cut(
    elf: LinkedElfFile, changed: ChangedElfSection, load: ProgramHeader | None, kept: int, align: int
) -> ElfCut:
    """Return the possible cuts of a section whose bytes before a position are kept; maybe none."""
    end, rest, splits = changed.section.end, None, False
    if load is not None and end < load.end:
        rest = end = end - end % load.align
        splits = True
    size = max(end - kept, 0) // align * align
    return ElfCut(changed, load, kept, end - size, end, rest, splits)


def best_cuts(cuts_found: Iterable[ElfCut], most: int) -> list[ElfCut]:
    """Return the cuts to make, in order; of the cuts that need a program header, the largest ``most``."""
    every = list(cuts_found)
    ranked = sorted((cut for cut in every if cut.splits), key=lambda cut: -cut.size)[:most]
    kept = {cut.changed.section.index for cut in ranked}
    return [cut for cut in every if not cut.splits or cut.changed.section.index in kept]
