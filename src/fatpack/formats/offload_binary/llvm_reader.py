"""The order of checks and the messages of LLVM 22's reader, for the stand-in tools.

Source: ``OffloadBinary::create`` and ``extractOffloadFiles`` in llvm/lib/Object/OffloadBinary.cpp, LLVM 22.1. What
LLVM does not check (it reads outside the buffer then) is refused by our own parser, in its own words.
"""

from __future__ import annotations

from fatpack.formats.offload_binary.layout import MAGIC, VERSIONS, layouts
from fatpack.formats.offload_binary.parse import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View
    from fatpack.model import Image

INVALID = "Invalid data was encountered while parsing the file"
END = "The end of the file was unexpectedly encountered"


class LlvmError(Exception):
    """What LLVM 22 says about a damaged buffer: INVALID or END."""


def read_all(view: View) -> list[Image]:
    """Return the images of all binaries in a buffer, back to back and nothing else. Raises LlvmError, FormatError."""
    images: list[Image] = []
    at = 0
    while at < len(view):
        rest = view.slice(at, len(view) - at)
        _check(rest)
        container = parse(rest)
        images += container.images
        # A compressed binary (v3, newer than LLVM 22) is padded to 8 bytes that its size does not count.
        at += container.span.size + (-container.span.size % 8 if container.version == 3 else 0)
    return images


def _check(rest: View) -> None:
    tables = layouts()
    header, entry = tables.header[1], tables.entry
    if len(rest) < header.size + entry.size or rest.head(0, 4) != MAGIC:
        raise LlvmError(INVALID)
    _, version, size, entry_offset, entry_size = header.read(rest, 0)
    if version not in VERSIONS:
        raise LlvmError(INVALID)
    if size > len(rest) or size < entry.size or size < header.size:
        raise LlvmError(END)
    if version != 1:
        return
    if entry_offset > size - entry.size or entry_size > size - header.size:
        raise LlvmError(END)
    _, _, _, string_offset, _, image_offset, _ = entry.read(rest, entry_offset)
    if image_offset > size or string_offset > size:
        raise LlvmError(END)
