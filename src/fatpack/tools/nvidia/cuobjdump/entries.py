"""From a file to its entries, in the order in which cuobjdump walks them.

Of an object it looks at ``.nv_fatbin``, or if there is none at ``__nv_relfatbin``; with ``-all`` at both, in this
order, whatever their places. Of an archive it names every member that is an object. A file may be a cubin, too.

The original stops at the first thing that is wrong. Here reading goes on after it: what is wrong is noted, and the
exit code tells in the end. Read beyond what the original reads: objects and programs of Windows, archives of BSD's
kind, and members of archives that are cubins or fat binaries themselves.
"""

from __future__ import annotations

from fatpack import binary, codecs, magic_numbers
from fatpack.binary.elf.layout import CUDA
from fatpack.binary.elf.quick_header import read_quick_header
from fatpack.binary.elf.quick_header import read_quick_header as elf_header
from fatpack.binary.section_names import CUDA_FATBIN, CUDA_RELOCATABLE, with_cut
from fatpack.errors import FormatError, HostError, Unsupported
from fatpack.formats.cuda_fatbin.entry import is_refused
from fatpack.formats.cuda_fatbin.layout import (
    COMPRESSED,
    ELF,
    FATBIN_FORMAT,
    FLAG_64_BIT,
    FLAG_ACCELERATED,
    FLAG_DEBUG,
    FLAG_FAMILY,
    GROUP,
    HOSTS,
    LTOIR,
    MAGIC,
    PTX,
    RELOCATABLE_PTX,
    TEXTS,
    TILE_IR,
    CudaEntry,
    CudaGroup,
    compression_method,
)
from fatpack.formats.cuda_fatbin.reader import read_parts
from fatpack.formats.diagnostics import FindingCollector
from fatpack.model import Finding
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TypeAlias

    from fatpack.binary import CodeSection
    from fatpack.formats.cuda_fatbin.layout import CudaEntryHeader
    from fatpack.io.source import Span, View

    DumpItem: TypeAlias = "ArchiveMemberItem | CubinFile | CudaEntry | CudaGroup | DamagedEntry | SectionStart"


# The architecture in the names of cubins: that of the cubin itself, whatever its entry says.
#
# The ``a`` of sm_90a is in the flags of the ELF header (old ABI, and CUDA 12.9) or in ``.nv.compat`` (CUDA 13), of
# which an entry may have a copy. The ``f`` of sm_100f is in neither, so names of cubins never have it.
#
# Mostly the first bytes of a cubin tell. A compressed one for sm_90 of CUDA 13 has to be inflated up to its table of
# sections, which is its end; this is done on all cores, and nothing but the two places that matter is kept.

_HEAD = 64
_MACHINE = CUDA.to_bytes(2, "little")

_OLD_OSABI = 0x33

#: The first architecture that has a variant ``a``; cuobjdump looks at no other.
_FIRST = 90

#: sh_type of ``.nv.compat``, its attribute for code that runs on one SM only, and a LIMIT: bytes looked at.
_COMPAT, _ACCELERATOR, _COMPAT_SIZE = 0x70000086, 9, 4096

#: ptxas puts ``.nv.compat`` ahead of the code, after the tables of names and symbols.
_FRONT = 32 << 10

#: Below this many bytes to inflate threads cost more than they save.
_MIN_BYTES_FOR_THREADS = 4 << 20


def entry_archs(entries: Sequence[CudaEntry | None]) -> list[str]:
    """Return the architectures of cubins, "" for None; what the entry says where a cubin cannot be read."""
    found = ["" if entry is None else _of_entry(entry, _nothing) for entry in entries]
    slow = [(number, entry) for number, entry in enumerate(entries) if entry is not None and not found[number]]
    if not slow:
        return found
    from fatpack.concurrency.threads import ThreadTasks

    is_much = sum(len(entry.data) for _, entry in slow) > _MIN_BYTES_FOR_THREADS
    is_concurrent = is_much and all(entry.data.source.is_concurrent for _, entry in slow)
    tasks = [lambda entry=entry: _of_entry(entry, _stored_compat) for _, entry in slow]
    with ThreadTasks(tasks, threads=None if is_concurrent else 1) as targets:
        for (number, _), target in zip(slow, targets, strict=True):
            found[number] = target
    return found


def cubin_arch(view: View) -> str:
    """Return the architecture of a cubin that is a file."""
    return _arch(view.head(0, _HEAD), lambda: _stored_compat(view)) or "sm_0"


def _of_entry(entry: CudaEntry, more: Callable[[View], bytes | None]) -> str:
    """Return the architecture of an entry's cubin, "" if that takes ``more`` of it."""

    def compat() -> bytes | None:
        if _accelerator(entry.area.compat) is not None:
            return entry.area.compat
        return _stored_compat(entry.data) if entry.data.source.is_at_hand else more(entry.data)

    try:
        target = _arch(_head(entry), compat)
    except (FormatError, Unsupported):
        target = None
    return f"sm_{entry.head.sm}" if target is None else target


def _head(entry: CudaEntry) -> bytes:
    """Return the first bytes of an entry's image, without inflating the rest of it unless it is in a group."""
    data = entry.data
    method = None if entry.group is not None or is_refused(data) else compression_method(entry.head.flags)
    if method is None or data.source.is_at_hand:
        return data.head(0, _HEAD)
    return codecs.inflate_beginning(entry.packed, min(_HEAD, len(data)), method=method, format=FATBIN_FORMAT)


def _nothing(_view: View) -> None:
    """Look at no more than the first bytes."""


def _arch(head: bytes, compat: Callable[[], bytes | None]) -> str | None:
    """Return the architecture by the first bytes of a cubin, None for what is none, "" without what ``compat`` gives.

    Listing a library asks thousands of times, so this is not left to ``fatpack.binary.elf.quick_header``.
    """
    if len(head) < _HEAD or head[:4] != magic_numbers.ELF or head[18:20] != _MACHINE:
        return None
    flags = int.from_bytes(head[48:52] if head[4] == 2 else head[36:40], "little")
    is_old = head[7] == _OLD_OSABI
    number = flags & 0xFF if is_old else flags >> 8 & 0xFFFF
    if number < _FIRST:
        return f"sm_{number}"
    if is_old:
        return f"sm_{number}{'a' if flags & 0x800 else ''}"
    records = compat()
    if records is None:
        return ""
    stated = _accelerator(records)
    return f"sm_{number}{'a' if (flags & 8 if stated is None else stated == 1) else ''}"


def _stored_compat(view: View) -> bytes:
    """Return ``.nv.compat`` of a cubin, b"" if it has none."""
    if view.source.is_at_hand:
        elf = read_quick_header(view, view.head(0, _HEAD))
        rows = elf.extent((_COMPAT,))[1] if elf is not None else []
        return view.head(rows[0][1], min(rows[0][2], _COMPAT_SIZE)) if rows else b""
    return _passing_compat(view)


def _passing_compat(view: View) -> bytes:
    """Return ``.nv.compat`` of a compressed cubin, of which only its front and its table are kept while it passes."""
    front, table = bytearray(), bytearray()
    table_at = end = at = 0
    elf = None
    for piece in view.read_once():
        front += piece[: max(_FRONT - at, 0)]
        if not end and len(front) >= _HEAD:
            elf = read_quick_header(view, bytes(front[:_HEAD]))
            if elf is None or elf.shentsize != elf.shape.extent.size:
                return b""
            table_at, end = elf.shoff, elf.shoff + elf.shnum * elf.shentsize
        table += piece[max(table_at - at, 0) : max(end - at, 0)]
        at += len(piece)
        if end and at >= end:
            break
    if elf is None:
        return b""
    for kind, start, size in elf.shape.extent.iter_unpack(table[: len(table) // elf.shentsize * elf.shentsize]):
        if kind == _COMPAT:
            read = min(size, _COMPAT_SIZE)
            return bytes(front[start : start + read]) if start + read <= len(front) else view.head(start, read)
    return b""


def _accelerator(records: bytes) -> int | None:
    """Return the value of the attribute, None if there is none.

    Records are u8 format, u8 attribute and a value: format 4 has u16 size and so many bytes, all others are two bytes.
    """
    at = 0
    while at + 4 <= len(records):
        if records[at + 1] == _ACCELERATOR and records[at] != 4:
            return records[at + 2]
        at += 4 + (int.from_bytes(records[at + 2 : at + 4], "little") if records[at] == 4 else 0)
    return None


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


#: Names of the two sections in objects and programs of Linux and Windows.
_EXECUTABLE = with_cut(CUDA_FATBIN)
_RELOCATABLE = with_cut(CUDA_RELOCATABLE)

_ARCHIVES = (magic_numbers.ARCHIVE, magic_numbers.THIN_ARCHIVE)

#: Hosts with sections. QUIRK(cuobjdump 13): it finds nothing in Mach-O, in whatever section.
_OBJECTS = ("elf", "coff", "pe")

#: A file smaller than a header is damaged; fewer bytes than that after the last fat binary are ignored.
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

    QUIRK(cuobjdump 13): after the last one a section may have zeros, too, and a file may not.
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
    """Return where the walk goes on: after a fat binary, or at one that a too large size of it has swallowed."""
    end = stored.end - view.start
    if unknown and unknown[-1].end == stored.end:
        start = max(unknown[-1].start, stored.start + len(MAGIC)) - view.start
        swallowed = view.slice(0, end).find(MAGIC, start)
        return end if swallowed < 0 else swallowed
    return end


def _words(finding: Finding) -> str:
    return f"{finding.code} at {finding.span.start:#x}: {finding.text}"


# The heading that a dump prints for every entry of a fat binary.

_CUBIN, _INDEX = 0x04, 0x20

_KINDS = {
    0: "<invalid kind>",
    PTX: "ptx",
    ELF: "elf",
    _CUBIN: "cubin",
    LTOIR: "nvvm",
    _INDEX: "index",
    RELOCATABLE_PTX: "relocatable ptx",
    TILE_IR: "tile ir",
    GROUP: "concatenated entry",
}

_OPTIONS = {
    PTX: "ptxasOptions",
    RELOCATABLE_PTX: "ptxasOptions",
    LTOIR: "nvvmOptions",
    TILE_IR: "tileIROptions",
}


def arch_variant(head: CudaEntryHeader) -> str:
    """Return the letter of the architecture that an entry names: of both, ``a``."""
    return "a" if head.flags & FLAG_ACCELERATED else "f" if head.flags & FLAG_FAMILY else ""


def heading_lines(entry: CudaEntry | CudaGroup) -> list[str]:
    """Return the lines for an entry."""
    head = entry.head
    title = f"Fatbin {_KINDS.get(head.kind, '<unknown kind>')} code:"
    lines = [title, "=" * len(title)]
    if head.kind not in (_INDEX, GROUP):
        lines.append(f"arch = sm_{head.sm}{arch_variant(head)}")
    lines.append(f"code version = [{head.code_major},{head.code_minor}]")
    lines.append(f"host = {next((host for bit, host in HOSTS.items() if head.flags & bit), '<unknown>')}")
    lines.append(f"compile_size = {64 if head.flags & FLAG_64_BIT else 32}bit")
    if head.flags & FLAG_DEBUG:
        lines.append("has debug info")
    if head.flags & COMPRESSED:
        lines.append("compressed")
    if isinstance(entry, CudaEntry):
        if entry.area.identifier:
            lines.append(f"identifier = {decode_text(entry.area.identifier)}")
        if head.kind in _OPTIONS and has_options(entry):
            lines.append(f"{_OPTIONS[head.kind]} = {decode_text(entry.area.options)}")
    return lines


def has_options(entry: CudaEntry) -> bool:
    """Return whether an entry has options, which may be empty. QUIRK(fatbinary 11): of none the descriptor is zero."""
    place = entry.stored.head(entry.head.options_offset, 4) if entry.head.options_offset else b""
    return place != bytes(len(place))


def decode_text(stored: bytes) -> str:
    """Return stored bytes as text, up to the first NUL."""
    return stored.partition(b"\0")[0].decode("utf-8", "surrogateescape")


def text_pieces(pieces: Iterable[memoryview]) -> Iterator[memoryview]:
    """Yield a text in pieces, up to its first NUL."""
    for piece in pieces:
        end = bytes(piece).find(b"\0")
        if end >= 0:
            yield piece[:end]
            return
        yield piece
