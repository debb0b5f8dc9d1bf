"""``.nvFatBinSegment``: the records with which CUDA code registers its fat binaries, compared with those there are.

::

    0x00  magic 0x466243b1 ("\\xb1CbF" in a dump)   0x04  version   0x08  pointer to the fat binary
    0x10  version 1: 0                             version 2: pointer to pointers to prelinked fat binaries, then 0

One record per translation unit. Version 2 is what a device link (nvcc -dlink) makes; its second pointer leads to
memory that is filled when the program starts; in a program that has bytes there it is followed. Nothing demands that
the fat binary lies in a section named after it: what records lead to elsewhere is found through them.

The fat binary of tile code (nvcc 13.5, ``--enable-tile``) has its record in ``.nvFatBinSegmentAlt``, beside that of the
other kernels of its unit; an RDC unit has it in ``.nv_fatbin`` all the same.

How we know: ``fatbinary_section.h`` of CUDA and clang/lib/CodeGen/CGCUDANV.cpp (LLVM 22.1) for the record; objects and
libraries of nvcc 13.0 and clang 22 for the pointers; in NVIDIA's own libraries there are as many records as fat
binaries, but for those of a device link that had nothing to link: cubins without a symbol, which need no record.
"""

from __future__ import annotations

from bisect import bisect_right

from fatpack import binary, formats, images, magic_numbers
from fatpack.binary import IMAGE, CodeSection
from fatpack.binary.elf.quick_header import SYMTAB
from fatpack.binary.elf.symbols import ElfSymbolTable
from fatpack.binary.pointers import INSIDE, NULL, UNKNOWN
from fatpack.errors import FormatError, LimitExceeded
from fatpack.findings import finding
from fatpack.model import Finding
from fatpack.registration import registration_records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from fatpack.binary.pointers import Pointer
    from fatpack.io.source import Span, View
    from fatpack.registration.registration_records import ContainerRegistrations, RecordSection, RegistrationRecord

#: What compilers call the section; linkers cut the name to 8 bytes in PE images.
#: QUIRK(nvcc 13.5, --enable-tile): fat binaries of tile code have records in a section of their own.
CUDA_NAMES = (".nvFatBinSegment", ".nvFatBinSegmentAlt", ".nvFatBi")

CUDA_MAGIC = int.from_bytes(magic_numbers.CUDA_WRAPPER, "little")
_CUDA_VERSION, LINKED_VERSION = 1, 2

_FATBIN = "cuda-fatbin"

#: st_info: types of symbols that stand for a section or a file
_OF_THE_FILE = (3, 4)

#: LIMIT: lists of prelinked fat binaries in a section of records, and pointers of each. Programs have one, in memory.
_MOST_LISTS = 256
_PRELINKED = 256


#: What CUDA's records have.
CUDA_MODEL = registration_records.RecordModel(
    names=CUDA_NAMES,
    versions={CUDA_MAGIC: (_CUDA_VERSION, LINKED_VERSION)},
    container="fat binary",
    containers="fat binaries",
    wrong="FP3031",
    leads="FP3033",
    unregistered="FP3032",
)


def check_cuda_records(
    view: View,
    host: str,
    tables: Sequence[CodeSection],
    fatbins: Collection[int],
    searched_ranges: Sequence[tuple[int, int]],
) -> Iterator[CodeSection | Finding]:
    """Yield what is wrong with the records of a host, and where they lead to fat binaries outside the usual places.

    ``fatbins`` are the absolute offsets at which fat binaries were found, ``searched_ranges`` those of the view that
    were searched for them. A host without records is none of our business here.
    """
    registrations = registration_records.ContainerRegistrations(
        view, CUDA_MODEL, fatbins, lambda position: _starts_fatbin(view, position)
    )
    first = None
    for segment in registration_records.find_record_sections(view, host, tables, CUDA_MODEL):
        if isinstance(segment, Finding):
            yield segment
            continue
        first = first or segment.site
        for record in segment.records:
            yield from registrations.follow(record.pointer, record.span, record.title)
        for item in prelinked_pointers(segment):
            if isinstance(item, Finding):
                yield item
                continue
            _, pointer, record = item
            yield from registrations.follow(pointer, record.span, f"a prelinked fat binary of {record.title}")
    if first is not None:
        yield from _elsewhere(view, host, registrations, sorted(searched_ranges))
        yield from registrations.missing(
            first, {start for start in registrations.unregistered if not registers_nothing(view, start)}
        )


def _starts_fatbin(view: View, position: int) -> bool:
    return formats.format_by_magic(view.head(position, 24)) == _FATBIN or _is_cubin(view, position)


def _is_cubin(view: View, position: int) -> bool:
    """Return whether a device image stands where a fat binary should."""
    if view.head(position, 4) != magic_numbers.ELF:
        return False
    return images.identify_image(view.slice(position, len(view) - position)).form == "cubin"


def _elsewhere(
    view: View, host: str, registrations: ContainerRegistrations, searched_ranges: Sequence[tuple[int, int]]
) -> Iterator[CodeSection | Finding]:
    """Yield the fat binaries outside the searched ranges, in the order of their bytes; none overlaps another.

    One inside of them is damaged, which was reported.
    """
    places = [
        (position, *place)
        for position, place in sorted(registrations.elsewhere.items())
        if not _is_in(position, searched_ranges, len(view))
    ]
    rows = binary.sections(host, view) if places else []
    names = {number: name for _, _, name, number in rows}
    reached = 0
    for position, pointer, span, title in places:
        if position < reached:
            yield finding("FP3033", span, f"{title} points into a fat binary")
            continue
        if _is_cubin(view, position):
            yield from _cubin(view, position, pointer, span, title, names.get(pointer.section or 0) or None)
            continue
        here = view.slice(position, pointer.room)
        # One that is cut short may have entries that are whole, up to the end of the section.
        size = formats.get_format(_FATBIN).extent(here, 0) or pointer.room
        reached = position + size
        name = names.get(pointer.section or 0) or None
        yield CodeSection(view.slice(position, size, name or ""), name, pointer.section)


def _cubin(
    view: View, position: int, pointer: Pointer, span: Span, title: str, section: str | None
) -> Iterator[CodeSection | Finding]:
    """Yield the place of a cubin that a record registers as if it was a fat binary."""
    size = images.identify_image(view.slice(position, pointer.room)).size
    yield finding("FP3034", span, f"{title} points to a cubin without a fat binary around it")
    yield CodeSection(
        view.slice(position, min(size or pointer.room, pointer.room)), section, pointer.section, expects=IMAGE
    )


def _is_in(position: int, ranges: Sequence[tuple[int, int]], size: int) -> bool:
    """Return whether a position lies in one of the ranges, which are sorted."""
    number = bisect_right(ranges, (position, size)) - 1
    return number >= 0 and position < ranges[number][1]


def registers_nothing(view: View, start: int) -> bool:
    """Return whether the fat binary at an absolute offset has no kernel or variable to register, in cubins only."""
    found = formats.get_format(_FATBIN).parse(view, start - view.start).images
    return bool(found) and not any(
        image.form != "cubin" or image.compression or _has_symbols(image.data) for image in found
    )


def _has_symbols(cubin: View) -> bool:
    """Return whether a cubin defines anything but sections and files; True where its symbol table is damaged."""
    try:
        return any(
            section and info & 15 not in _OF_THE_FILE for _, info, _, section in ElfSymbolTable(cubin, (SYMTAB,))
        )
    except (FormatError, LimitExceeded):
        return True


def prelinked_pointers(segment: RecordSection) -> Iterator[tuple[int, Pointer, RegistrationRecord] | Finding]:
    """Yield the pointers to prelinked fat binaries that a program's file has, each with its address and its record."""
    reader = segment.reader
    linked = [record for record in segment.records if record.version == LINKED_VERSION]
    if not linked or not reader.is_linked:
        return
    word = reader.word
    starts = reader.pointers(segment.site, [record.at + 8 + word for record in linked])
    lists = [(record, start) for record, start in zip(linked, starts, strict=True) if start.kind == INSIDE]
    if len(lists) > _MOST_LISTS:
        text = f"{len(lists)} lists of prelinked fat binaries; only the first {_MOST_LISTS} are followed"
        yield finding("FP1005", lists[_MOST_LISTS][0].span, text)
        del lists[_MOST_LISTS:]
    places = [
        (start.address + at, record)
        for record, start in lists
        for at in range(0, min(start.room // word, _PRELINKED) * word, word)
    ]
    ended: set[int] = set()
    for (place, record), pointer in zip(places, reader.held([place for place, _ in places]), strict=True):
        if pointer.kind in (NULL, UNKNOWN):
            ended.add(record.at)
        elif record.at not in ended:
            yield place, pointer, record
