"""LLVM's reader of offload binaries: its order of checks and its messages, for the replacement tools.

Source: ``OffloadBinary::create`` and ``extractOffloadFiles`` in llvm/lib/Object/OffloadBinary.cpp, LLVM 22.1, and those
of main in 2026 compared with LLVM 23.1. Faults that LLVM does not check (it then reads outside the buffer) are refused
by our own parser, with its messages.
"""

from __future__ import annotations

from fatpack.formats.offload_binary import parse
from fatpack.formats.offload_binary.layout import MAGIC, VERSIONS, layouts_for_order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View
    from fatpack.model import Image

INVALID = "Invalid data was encountered while parsing the file"
END = "The end of the file was unexpectedly encountered"


class LlvmError(Exception):
    """LLVM's error for a damaged buffer: INVALID or END."""


def read_all(view: View, llvm: str) -> list[Image]:
    """Return the images of all binaries in a buffer, which must be back to back. Raises LlvmError, FormatError."""
    images: list[Image] = []
    at = 0
    while at < len(view):
        rest = view.slice(at, len(view) - at)
        _check(rest, llvm)
        container = parse(rest)
        images += container.images
        # A compressed binary (v3, newer than both) is padded to 8 bytes that its size does not count.
        at += container.span.size + (-container.span.size % 8 if container.version == 3 else 0)
    return images


def _check(rest: View, llvm: str) -> None:
    """Raise LlvmError if LLVM refuses the binary; newer versions are left to our own parser."""
    tables = layouts_for_order()
    header, entry = tables.header[1], tables.entry
    if len(rest) < header.size + entry.size or rest.head(0, 4) != MAGIC:
        raise LlvmError(INVALID)
    fields = header.named(rest, 0)
    version, size, entry_offset, last = (fields[name] for name in ("version", "size", "entry_offset", "entry_size"))
    if version not in VERSIONS:
        raise LlvmError(INVALID)
    if size > len(rest) or size < entry.size or size < header.size:
        raise LlvmError(END)
    if version == 1:
        count, entries_size = 1, last if llvm == "22" else entry.size
    elif version == 2 and llvm == "23":
        count, entries_size = last, last * entry.size
    else:
        return
    # LLVM 22 compares the entry's stored size with the buffer and its true one with the offset.
    if entry_offset > size - entry.size * count or entries_size > size - header.size:
        raise LlvmError(END)
    for number in range(count):
        row = entry.named(rest, entry_offset + number * entry.size)
        strings_size = row["string_count"] * tables.strings[version].size if llvm == "23" else 0
        if row["image_offset"] > size or row["string_offset"] + strings_size > size:
            raise LlvmError(END)
