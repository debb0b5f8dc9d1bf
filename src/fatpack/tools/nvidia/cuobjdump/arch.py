"""The architecture in the names of cubins: that of the cubin itself, whatever its entry says.

The ``a`` of sm_90a is in the flags of the ELF header (old ABI, and CUDA 12.9) or in ``.nv.compat`` (CUDA 13), of which
an entry may have a copy. The ``f`` of sm_100f is in neither, so names of cubins never have it.

Mostly the first bytes of a cubin tell. A compressed one for sm_90 of CUDA 13 has to be inflated up to its table of
sections, which is its end; this is done on all cores, and nothing but the two places that matter is kept.
"""

from __future__ import annotations

from fatpack import codecs, magic_numbers
from fatpack.binary.elf.quick_header import CUDA, read_quick_header
from fatpack.errors import FormatError, Unsupported
from fatpack.formats.cuda_fatbin.entry import is_refused
from fatpack.formats.cuda_fatbin.layout import FATBIN_FORMAT, compression_method

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fatpack.formats.cuda_fatbin.stored import CudaEntry
    from fatpack.io.source import View

_HEAD = 64
_MACHINE = CUDA.to_bytes(2, "little")

_OLD_OSABI = 0x33

#: The first architecture that has a variant ``a``; cuobjdump looks at no other.
_FIRST = 90

#: sh_type of ``.nv.compat``, its attribute for code that runs on one SM only, and a LIMIT: bytes looked at.
_COMPAT, _ACCELERATOR, _COMPAT_SIZE = 0x70000086, 9, 4096

#: ptxas puts ``.nv.compat`` ahead of the code, behind the tables of names and symbols.
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
    for piece in view.once():
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
