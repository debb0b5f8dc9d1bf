"""From a file to its entries, in the order in which cuobjdump walks them.

Of an object it looks at ``.nv_fatbin``, or if there is none at ``__nv_relfatbin``; with ``-all`` at both, in this
order, whatever their places. Of an archive it names every member that is an object. A file may be a cubin, too.

The original stops at the first thing that is wrong. Here reading goes on behind it: what is wrong is noted, and the
exit code tells in the end. Read beyond what the original reads: objects and programs of Windows, archives of BSD's
kind, and members of archives that are cubins or fat binaries themselves.
"""

from __future__ import annotations

from fatpack import binary, magic_numbers
from fatpack.binary.elf.quick_header import CUDA
from fatpack.binary.elf.quick_header import read_quick_header as elf_header
from fatpack.errors import FormatError, HostError, Unsupported
from fatpack.formats.cuda_fatbin.layout import ELF, MAGIC, TEXTS
from fatpack.formats.cuda_fatbin.parse import read_parts
from fatpack.formats.cuda_fatbin.stored import CudaEntry, CudaGroup
from fatpack.formats.diagnostics import FindingCollector
from fatpack.model import Finding
from fatpack.record import Record

__all__ = [
    "ArchiveMemberItem",
    "CubinFile",
    "CudaEntry",
    "CudaGroup",
    "DamagedEntry",
    "SectionStart",
    "is_elf",
    "is_ptx",
    "read_items",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TypeAlias

    from fatpack.binary import CodeSection
    from fatpack.io.source import Span, View

    DumpItem: TypeAlias = "ArchiveMemberItem | CubinFile | CudaEntry | CudaGroup | DamagedEntry | SectionStart"

#: What the two sections are called in objects and programs of Linux and Windows.
_EXECUTABLE = (".nv_fatbin", ".nv_fatb")
_RELOCATABLE = ("__nv_relfatbin", "__nv_rel")

_ARCHIVES = (magic_numbers.ARCHIVE, magic_numbers.THIN_ARCHIVE)

#: Hosts with sections. QUIRK(cuobjdump 13): it finds nothing in Mach-O, in whatever section.
_OBJECTS = ("elf", "coff", "pe")

#: What is smaller than a header is damage as a file, and behind the last fat binary nothing to speak of.
_MIN_HEADER_SIZE = 16


#: Kinds of entries that are listed as cubins. QUIRK(cuobjdump 13): of kind 0x10 a dump knows no name.
_ELVES = (ELF, 0x10)


def is_elf(entry: CudaEntry) -> bool:
    """Return whether an entry is listed as a cubin."""
    return entry.head.kind in _ELVES


def is_ptx(entry: CudaEntry) -> bool:
    """Return whether an entry is listed as PTX."""
    return entry.head.kind in TEXTS


class ArchiveMemberItem(Record):
    """A member of an archive, before what is in it."""

    title: str


class CubinFile(Record):
    """A cubin that is a file of its own; ``number`` is not 0 if it is a member of an archive."""

    data: View
    is_member: bool = False


class DamagedEntry(Record):
    """Something that cannot be read, in words if there is more to say than so, and what it is a part of."""

    text: str = ""
    what: str = "fatbin header"


class SectionStart(Record):
    """A place for device code, before what is in it; it may hold none."""


def read_items(view: View, *, wants_all: bool) -> Iterator[DumpItem]:
    """Yield what is in a file; members of a group follow it."""
    if len(view) < _MIN_HEADER_SIZE:
        yield DamagedEntry()
    elif view.head(0, 8) in _ARCHIVES:
        yield from _archive(view, wants_all)
    else:
        yield from _file(view, wants_all, is_member=False)


def _archive(view: View, wants_all: bool) -> Iterator[DumpItem]:
    try:
        for site in binary.get_host("archive").locate(view):
            if isinstance(site, Finding):
                if site.severity == "error":
                    yield DamagedEntry(_words(site), "ELF")
                continue
            title = ArchiveMemberItem(site.member or "")
            is_named = False
            for item in _file(site.data, wants_all, is_member=True):
                if not is_named:
                    yield title
                    is_named = True
                yield item
            if not is_named and site.data.head(0, 4) == magic_numbers.ELF:
                yield title
    except (FormatError, Unsupported, HostError) as error:
        yield DamagedEntry(str(error), "ELF")


def _file(view: View, wants_all: bool, *, is_member: bool) -> Iterator[DumpItem]:
    head = view.head(0, 64)
    if head.startswith(MAGIC):
        yield SectionStart()
        yield from _fatbins(view, is_file=True)
        return
    elf = elf_header(view, head)
    if elf is not None and elf.machine == CUDA:
        yield SectionStart()
        size, _ = elf.extent()
        if size is not None and size > len(view):
            yield DamagedEntry(f"{view.chain[-1]}: its headers describe {size} bytes, and {len(view)} are there", "ELF")
        else:
            yield CubinFile(view, is_member)
        return
    host = next((name for name in _OBJECTS if binary.get_host(name).detect(view)), None)
    if host is not None:
        yield from _object(view, host, wants_all)


def _object(view: View, host: str, wants_all: bool) -> Iterator[DumpItem]:
    sites: list[CodeSection] = []
    try:
        for site in binary.get_host(host).locate(view):
            if isinstance(site, Finding):
                if site.severity == "error":
                    yield DamagedEntry(_words(site), "ELF")
            elif _is_named(site, _EXECUTABLE + _RELOCATABLE):
                sites.append(site)
    except (FormatError, Unsupported, HostError) as error:
        yield DamagedEntry(str(error), "ELF")
    executable = [site for site in sites if _is_named(site, _EXECUTABLE)]
    relocatable = [site for site in sites if _is_named(site, _RELOCATABLE)]
    for site in executable + relocatable if wants_all else executable or relocatable:
        yield SectionStart()
        yield from _fatbins(site.data)


def _is_named(site: CodeSection, names: tuple[str, ...]) -> bool:
    return site.section in names


def _fatbins(view: View, *, is_file: bool = False) -> Iterator[DumpItem]:
    """Yield the entries of the fat binaries that follow each other, with zeros between them.

    QUIRK(cuobjdump 13): behind the last one a section may have zeros, too, and a file may not.
    """
    at = 0
    while at < len(view):
        if view.head(at, 4) != MAGIC:
            zeros_end = view.skip_zeros(at)
            following = view.find(MAGIC, zeros_end)
            following = len(view) if following < 0 else following
            is_padding = following == zeros_end and not (is_file and following == len(view))
            if following - at >= _MIN_HEADER_SIZE and not is_padding:
                yield DamagedEntry(f"{following - at} bytes at {view.offset(at):#x} are no fat binary")
            at = following
            continue
        faults = FindingCollector()
        try:
            _, stored, parts, unknown = read_parts(view, at, faults)
        except FormatError as error:
            yield DamagedEntry(str(error))
            following = view.find(MAGIC, at + 4)
            at = len(view) if following < 0 else following
            continue
        yield from parts
        for finding in faults.findings:
            if finding.severity == "error":
                yield DamagedEntry(_words(finding))
        at = _end(view, stored, unknown)


def _end(view: View, stored: View, unknown: Sequence[Span]) -> int:
    """Return where the walk goes on: behind a fat binary, or at one that a too large size of it has swallowed."""
    end = stored.end - view.start
    if unknown and unknown[-1].end == stored.end:
        start = max(unknown[-1].start, stored.start + len(MAGIC)) - view.start
        swallowed = view.slice(0, end).find(MAGIC, start)
        return end if swallowed < 0 else swallowed
    return end


def _words(finding: Finding) -> str:
    return f"{finding.code} at {finding.span.start:#x}: {finding.text}"
