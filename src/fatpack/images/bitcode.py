"""LLVM bitcode, raw or in Darwin's wrapper: its size, and the triple of its module.

::

    DE C0 17 0B  version  offset  size  cpu type      wrapper: u32 each; the stream lies at offset
    'B' 'C' C0 DE                                     stream: blocks, each with its length in words
      IDENTIFICATION_BLOCK  MODULE_BLOCK  STRTAB  SYMTAB …

    MODULE_BLOCK: VERSION, blocks for types and attributes, then the record TRIPLE …

LLVM's "LLVM Bitcode File Format" describes the stream; ``ModuleBitcodeWriter::write`` of LLVM 22 gives the order.
Blocks are skipped by their length, and only unabbreviated records are read: LLVM writes the triple as one, before it
defines any abbreviation of the module.
"""

from __future__ import annotations

from fatpack.images.identification import ImageInfo
from fatpack.magic_numbers import BITCODE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View

#: abbreviation IDs: end of block, block, definition, plain record
_END, _BLOCK, _RECORD = 0, 1, 3

_MODULE_BLOCK = 8
_TRIPLE = 2

#: LIMIT: blocks and records that are skipped; a file has about four blocks, and the triple is the tenth record.
_STEPS = 64

#: LIMIT: values of one record, and so length of the triple.
_VALUES = 256


class _BitCursor:
    """A position in a little-endian bit stream; ``at`` is in bits from the start of the view.

    Reading past the end returns zeros, and leaves ``at`` after ``end``.
    """

    def __init__(self, view: View, at: int, end: int) -> None:
        self.view = view
        self.at = at
        self.end = end
        self._window = b""
        self._window_at = 0

    def fixed(self, width: int) -> int:
        """Return an integer of ``width`` bits, at most 32."""
        byte = (self.at >> 3) - self._window_at
        if byte < 0 or byte + 8 > len(self._window):
            self._window_at = self.at >> 3
            self._window = self.view.head(self._window_at, 256)
            byte = 0
        value = int.from_bytes(self._window[byte : byte + 8], "little") >> (self.at & 7)
        self.at += width
        return value & ((1 << width) - 1)

    def variable(self, width: int) -> int:
        """Return a variable-width integer: groups of ``width`` bits, the highest bit of each is set if more follow."""
        value = shift = 0
        more = 1 << (width - 1)
        while shift < 64:
            group = self.fixed(width)
            value |= (group & (more - 1)) << shift
            if not group & more:
                break
            shift += width - 1
        return value

    def block(self) -> tuple[int, int, int]:
        """Return (block ID, width of abbreviation IDs, end in bits) after an ID of ``_BLOCK``; move to its content."""
        number, width = self.variable(8), self.variable(4)
        self.at = self.at + 31 & ~31
        words = self.fixed(32)
        return number, width, self.at + 32 * words


def identify(view: View, head: bytes) -> ImageInfo:
    """Identify a bitcode file; ``head`` are its first bytes."""
    if head.startswith(BITCODE):
        size, triple = _walk(view, 0, len(view))
        return ImageInfo("bitcode", triple=triple, size=size, detail="LLVM bitcode")
    start, length = int.from_bytes(head[8:12], "little"), int.from_bytes(head[12:16], "little")
    triple = ""
    if len(head) >= 20 and view.head(start, 4) == BITCODE:
        triple = _walk(view.slice(start, len(view) - start), 0, length)[1]
    return ImageInfo("bitcode", triple=triple, size=start + length, detail="LLVM bitcode in a wrapper")


def _walk(view: View, at: int, end: int) -> tuple[int | None, str]:
    """Return the end of the stream's last block, in bytes, and the triple of the first module."""
    bits = _BitCursor(view, 8 * (at + len(BITCODE)), 8 * min(end, len(view)))
    triple: str | None = None
    for _ in range(_STEPS):
        if bits.at >= bits.end:
            return bits.at >> 3, triple or ""
        position = bits.at
        if bits.fixed(2) != _BLOCK:
            # Padding, or other bytes after the stream.
            return position >> 3, triple or ""
        number, width, block_end = bits.block()
        if number == _MODULE_BLOCK and triple is None:
            triple = _triple(bits, width, block_end)
        bits.at = block_end
    return None, triple or ""


def _triple(bits: _BitCursor, width: int, end: int) -> str:
    """Return the triple of the module whose content the cursor is at; "" if it is not where LLVM writes it."""
    end = min(end, bits.end)
    for _ in range(_STEPS):
        if bits.at >= end:
            break
        kind = bits.fixed(width)
        if kind == _BLOCK:
            bits.at = bits.block()[2]
        elif kind == _RECORD:
            code, count = bits.variable(6), bits.variable(6)
            if count > _VALUES:
                break
            values = [bits.variable(6) for _ in range(count)]
            if code == _TRIPLE:
                is_text = bits.at <= end and all(32 < value < 127 for value in values)
                return bytes(values).decode("ascii") if is_text else ""
        else:
            break
    return ""
