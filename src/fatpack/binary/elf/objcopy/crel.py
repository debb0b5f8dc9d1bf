"""Relocations in CREL encoding: a count, then per relocation what differs from the one before, as LEB128 numbers.

llvm-objcopy decodes them and encodes them anew, always with addends (``llvm/include/llvm/MC/MCELFExtras.h``,
LLVM 22.1).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    CrelEntry = tuple[int, int, int, int]
    """offset, symbol number, type, addend"""

_HAS_ADDENDS = 4
_SHIFT_MASK = 3


class _Leb128Reader:
    """Numbers at a position of bytes. Raises ValueError behind their end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def byte(self) -> int:
        if self._at >= len(self._data):
            raise ValueError("the relocations end in the middle of a number")
        self._at += 1
        return self._data[self._at - 1]

    def unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
            if shift > 70:
                raise ValueError("a number of the relocations has more than 64 bits")

    def signed(self) -> int:
        start = self._at
        value = self.unsigned()
        bits = 7 * (self._at - start)
        return value - (1 << bits) if value >> bits - 1 else value


def has_addends(data: bytes) -> bool:
    """Return whether relocations state addends; empty ones count as doing so. Raises ValueError for damaged ones."""
    header = _Leb128Reader(data).unsigned()
    return bool(header & _HAS_ADDENDS) or not header >> 3


def decode_crel(data: bytes, bits: int) -> list[CrelEntry]:
    """Return the relocations of a section, of a file with words of so many bits. Raises ValueError for damaged ones."""
    reader = _Leb128Reader(data)
    header = reader.unsigned()
    count, shift = header >> 3, header & _SHIFT_MASK
    flag_bits = 3 if header & _HAS_ADDENDS else 2
    if count > len(data):
        raise ValueError(f"{count} relocations do not fit into {len(data)} bytes")
    mask, type_mask = (1 << bits) - 1, 0xFFFFFFFF if bits == 64 else 0xFF
    offset = symbol = kind = addend = 0
    entries = []
    for _ in range(count):
        byte = reader.byte()
        offset += byte >> flag_bits
        if byte >= 0x80:
            offset += (reader.unsigned() << 7 - flag_bits) - (0x80 >> flag_bits)
        symbol += reader.signed() if byte & 1 else 0
        kind += reader.signed() if byte & 2 else 0
        addend += reader.signed() if byte & header & _HAS_ADDENDS else 0
        entries.append((offset << shift & mask, symbol & 0xFFFFFFFF, kind & type_mask, addend & mask))
    return entries


def encode_crel(entries: Iterable[CrelEntry], bits: int) -> bytes:
    """Return relocations as the contents of a section."""
    entries = list(entries)
    mask = (1 << bits) - 1
    union = 8
    for offset, *_ in entries:
        union |= offset
    shift = (union & -union).bit_length() - 1
    result = bytearray(_unsigned(len(entries) << 3 | _HAS_ADDENDS | shift))
    old_offset = old_symbol = old_kind = old_addend = 0
    for offset, symbol, kind, addend in entries:
        delta = (offset - old_offset & mask) >> shift
        byte = (delta << 3 & 0xFF) + (symbol != old_symbol) + 2 * (kind != old_kind) + 4 * (addend != old_addend)
        if delta < 0x10:
            result.append(byte)
        else:
            result.append(byte & 0xFF | 0x80)
            result += _unsigned(delta >> 4)
        if symbol != old_symbol:
            result += _signed(symbol - old_symbol, 32)
        if kind != old_kind:
            result += _signed(kind - old_kind, 32)
        if addend != old_addend:
            result += _signed(addend - old_addend, bits)
        old_offset, old_symbol, old_kind, old_addend = offset, symbol, kind, addend
    return bytes(result)


def _unsigned(value: int) -> bytes:
    result = bytearray()
    while value >= 0x80:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)


def _signed(value: int, bits: int) -> bytes:
    """Return a number, taken as one of so many bits, as SLEB128."""
    value = (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
    result = bytearray()
    while True:
        byte = value & 0x7F
        value >>= 7
        if value == (-1 if byte & 0x40 else 0):
            result.append(byte)
            return bytes(result)
        result.append(byte | 0x80)
