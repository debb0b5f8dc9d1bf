"""Where reading goes on behind an entry that is damaged: nothing but the entry itself says where the next one starts.

Entries start at multiples of 8 from the first. What passes for one must hold in every field that is bounded; a fat
binary that starts inside means that the size of this one is wrong.
"""

from __future__ import annotations

from fatpack.formats.cuda_fatbin.layout import (
    ALIGN,
    COMPRESSED,
    ENTRY,
    ENTRY_VERSION,
    HEADER,
    KINDS,
    MAGIC,
    VERSION,
    padded_size,
)
from fatpack.formats.cuda_fatbin.stored import CudaEntryHeader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View

#: kind and version, as the first bytes of an entry
ENTRY_STARTS = tuple((kind | ENTRY_VERSION << 16).to_bytes(4, "little") for kind in KINDS)

_FATBIN = HEADER.pack(MAGIC, VERSION, HEADER.size, 0)[:8]

#: LIMIT: the header of an entry; the longest known to us has 3952 bytes.
_MAX_ENTRY_HEADER = 1 << 16

#: LIMIT: places that only start like an entry, per fat binary. Code and data of real images have none.
_FALSE_HITS = 1000


class Resynchronizer:
    """Finds the next entry of a fat binary; every search goes on where the last one ended, so all cost one."""

    def __init__(self, stored: View) -> None:
        self._stored = stored
        self._next = dict.fromkeys([_FATBIN, *ENTRY_STARTS], -1)
        self._false_hits = 0

    def after(self, at: int) -> int:
        """Return the first position from ``at`` on where an entry or another fat binary starts, or the end."""
        while (at := self._candidate(at)) < len(self._stored):
            if starts_fatbin(self._stored, at) or is_entry(self._stored, at):
                return at
            self._false_hits += 1
            if self._false_hits > _FALSE_HITS:
                break
            at += ALIGN
        return len(self._stored)

    def _candidate(self, at: int) -> int:
        """Return where something next starts like an entry or a fat binary.

        Each start is searched for up to the nearest other: hundreds of fat binaries that all claim the rest of a file
        would else search it as often. What is not found up to there is noted as if it were there.
        """
        nearest = len(self._stored)
        for start, place in self._next.items():
            if place < at:
                self._next[start] = self._aligned(start, at, nearest)
            nearest = min(nearest, self._next[start])
        return nearest

    def _aligned(self, start: bytes, at: int, end: int) -> int:
        """Return where ``start`` is at a multiple of 8 from ``at`` on, or ``end``."""
        stored = self._stored.slice(0, end)
        while (at := stored.find(start, at)) >= 0:
            if at % ALIGN == 0:
                return at
            self._false_hits += 1
            if self._false_hits > _FALSE_HITS:
                break
            at += 1
        return end


def starts_fatbin(stored: View, at: int) -> bool:
    """Return whether the header of a fat binary is at a position."""
    return stored.head(at, len(_FATBIN)) == _FATBIN


def is_entry(stored: View, at: int) -> bool:
    """Return whether what is at a position holds as an entry in all that is bounded."""
    numbers = stored.head(at, ENTRY.size)
    if numbers[:4] not in ENTRY_STARTS or len(numbers) < ENTRY.size:
        return False
    return is_plausible(CudaEntryHeader(*ENTRY.struct.unpack(numbers)), len(stored) - at)


def is_plausible(head: CudaEntryHeader, left: int) -> bool:
    """Return whether the numbers of an entry hold in all that is bounded, with ``left`` bytes from its start on."""
    has_sizes = bool(head.compressed_size and head.inflated_size)
    is_packed = has_sizes and head.padded_size - padded_size(head.compressed_size) in (0, ALIGN)
    return (
        head.kind in KINDS
        and head.version == ENTRY_VERSION
        and range_problem(head, left) is None
        and head.place <= _MAX_ENTRY_HEADER
        and max(head.options_offset, head.identifier_offset + head.identifier_size) <= head.place
        and is_packed == bool(head.flags & COMPRESSED)
    )


def range_problem(head: CudaEntryHeader, left: int) -> tuple[str, str] | None:
    """Return the field and what is wrong with it if an entry does not fit into the bytes that are left."""
    if head.place < ENTRY.size or head.place % ALIGN or head.place > left:
        return "header_size", f"it is {head.place:#x}, with {left:#x} bytes left"
    if head.padded_size % ALIGN or head.padded_size > left - head.place:
        return "padded_size", f"it is {head.padded_size:#x}, with {left - head.place:#x} bytes left"
    return None
