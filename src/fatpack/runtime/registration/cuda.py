"""``.nvFatBinSegment``: the records with which CUDA code registers its fat binaries, held against those there are.

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

from fatpack import formats, hosts
from fatpack.elf import SYMTAB, Symbols
from fatpack.errors import FormatError, LimitExceeded
from fatpack.findings import finding
from fatpack.hosts import Site
from fatpack.model import Finding
from fatpack.runtime.pointers.open import program
from fatpack.runtime.pointers.pointer import INSIDE, NULL, OUTSIDE, UNDEFINED, UNKNOWN
from fatpack.runtime.registration import wrapper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from fatpack.io.source import View
    from fatpack.model import Span
    from fatpack.runtime.pointers.pointer import Pointer, Program

#: What compilers call the section; linkers cut the name to 8 bytes in PE images.
#: QUIRK(nvcc 13.5, --enable-tile): fat binaries of tile code have records in a section of their own.
NAMES = (".nvFatBinSegment", ".nvFatBinSegmentAlt", ".nvFatBi")

MAGIC = 0x466243B1
_VERSION, _LINKED_VERSION = 1, 2

_FATBIN = "cuda-fatbin"

#: st_info: types of symbols that stand for a section or a file
_OF_THE_FILE = (3, 4)

#: LIMIT: lists of prelinked fat binaries in a section of records, and pointers of each. Programs have one, in memory.
_MOST_LISTS = 256
_PRELINKED = 256


def check(
    view: View, host: str, tables: Sequence[Site], fatbins: Collection[int], known: Sequence[tuple[int, int]]
) -> Iterator[Site | Finding]:
    """Yield what is wrong with the records of a host, and where they lead to fat binaries outside the known places.

    ``fatbins`` are the absolute offsets at which fat binaries were found, ``known`` the ranges of the view that were
    looked through for them. A host without records is none of our business here.
    """
    segments, problems = wrapper.segments(tables, NAMES)
    if not segments:
        return
    yield from problems
    try:
        reader = program(view, host)
    except FormatError as error:
        yield finding("FP3031", view.span(), error.describe(), error.hint)
        return
    trail = _Trail(view, fatbins, known)
    for site in segments:
        found, problems = wrapper.read(site, reader, {MAGIC: (_VERSION, _LINKED_VERSION)}, "FP3031")
        yield from problems
        for record in found:
            yield from trail.follow(record.pointer, record.span, record.title)
        for item in _prelinked(site, reader, found):
            if isinstance(item, Finding):
                yield item
                continue
            pointer, record = item
            yield from trail.follow(pointer, record.span, f"a prelinked fat binary of {record.title}")
    yield from trail.elsewhere(host)
    lost = {at for at in trail.lost if not _has_nothing(view, at)}
    if lost and not (trail.unresolved and trail.registered >= len(fatbins)):
        text = wrapper.unregistered(lost, len(fatbins), "fat binaries")
        if trail.unresolved:
            text = f"{len(fatbins)} fat binaries are here, and records register {trail.registered}"
        yield finding("FP3032", segments[0].data.span(), text, wrapper.UNREGISTERED_HINT)


def _has_nothing(view: View, start: int) -> bool:
    """Return whether the fat binary at an absolute offset has no kernel or variable to register, in cubins only."""
    images = formats.room(_FATBIN).parse(view, start - view.start).images
    return bool(images) and not any(
        image.form != "cubin" or image.compression or _has_symbols(image.data) for image in images
    )


def _has_symbols(cubin: View) -> bool:
    """Return whether a cubin defines anything but sections and files; True where its symbol table is damaged."""
    try:
        return any(section and info & 15 not in _OF_THE_FILE for _, info, _, section in Symbols(cubin, (SYMTAB,)))
    except (FormatError, LimitExceeded):
        return True


class _Trail:
    """Where the records of a host lead."""

    def __init__(self, view: View, fatbins: Collection[int], known: Sequence[tuple[int, int]]) -> None:
        self._view = view
        self._fatbins = fatbins
        self._known = sorted(known)
        #: position of a fat binary outside the known places → how a pointer leads there, from which record
        self._elsewhere: dict[int, tuple[Pointer, Span, str]] = {}
        #: absolute offsets of the fat binaries that no record leads to
        self.lost = set(fatbins)
        self.registered = self.unresolved = 0

    def follow(self, pointer: Pointer, span: Span, title: str) -> Iterator[Finding]:
        """Take note of where a pointer leads, and yield what is wrong with it."""
        self.registered += pointer.kind != UNDEFINED
        self.unresolved += pointer.kind == UNKNOWN
        if pointer.kind == NULL:
            yield finding("FP3033", span, f"{title} points nowhere")
        elif pointer.kind == OUTSIDE:
            yield finding("FP3033", span, f"{title} points to {pointer.address:#x}, where the file has no bytes")
        elif pointer.kind == INSIDE:
            start = self._view.start + pointer.position
            if start in self._fatbins:
                self.lost.discard(start)
            elif formats.sniff(self._view.head(pointer.position, 24)) != _FATBIN:
                yield finding("FP3033", span, f"{title} points to {start:#x}, where no fat binary starts")
            elif not self._is_known(pointer.position):  # else it is damaged, which was told
                self._elsewhere.setdefault(pointer.position, (pointer, span, title))

    def elsewhere(self, host: str) -> Iterator[Site | Finding]:
        """Yield the fat binaries outside the known places, in the order of their bytes; none overlaps another."""
        rows = hosts.sections(host, self._view) if self._elsewhere else []
        names = {number: name for _, _, name, number in rows}
        reached = 0
        for position, (pointer, span, title) in sorted(self._elsewhere.items()):
            if position < reached:
                yield finding("FP3033", span, f"{title} points into a fat binary")
                continue
            here = self._view.slice(position, pointer.room)
            # One that is cut short may have entries that are whole, up to the end of the section.
            size = formats.room(_FATBIN).extent(here, 0) or pointer.room
            reached = position + size
            name = names.get(pointer.section or 0) or None
            yield Site(self._view.slice(position, size, name or ""), name, pointer.section)

    def _is_known(self, position: int) -> bool:
        number = bisect_right(self._known, (position, len(self._view))) - 1
        return number >= 0 and position < self._known[number][1]


def _prelinked(
    site: Site, reader: Program, found: Sequence[wrapper.Wrapper]
) -> Iterator[tuple[Pointer, wrapper.Wrapper] | Finding]:
    """Yield the pointers to prelinked fat binaries that a program's file has, each with its record."""
    linked = [record for record in found if record.version == _LINKED_VERSION]
    if not linked or not reader.is_linked:
        return
    word = reader.word
    starts = reader.pointers(site, [record.at + 8 + word for record in linked])
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
    for (_, record), pointer in zip(places, reader.held([place for place, _ in places]), strict=True):
        if pointer.kind in (NULL, UNKNOWN):
            ended.add(record.at)
        elif record.at not in ended:
            yield pointer, record
