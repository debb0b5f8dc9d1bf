"""How bytes begin that are compressed as a whole, and with what: a bounded look at the first of them."""

from __future__ import annotations

from fatpack import magic_numbers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View

#: bits of gzip's flags that mean nothing (RFC 1952, 2.3.1), and the largest that a level of bzip2 can be
_RESERVED, _LEVELS = 0xE0, b"123456789"

#: LIMIT: frames passed over at the beginning. pzstd and some writers of seekable files put one there.
_PASSED = 4

#: The first bytes of .lzma: properties of the usual kind, a dictionary of a power of two, a size that is known or not.
_USUAL, _UNKNOWN, _LARGEST = 0x5D, (1 << 64) - 1, 1 << 38


def detect_compression(view: View) -> str | None:
    """Return the method that the bytes are compressed with as a whole (:mod:`fatpack.packages.streams`), or None.

    LZMA of before xz has no magic: that what it inflates to makes sense is for the caller to see.
    """
    head = view.head(0, 16)
    if head.startswith(magic_numbers.GZIP) and len(head) > 9 and not head[3] & _RESERVED:
        return "gzip"
    if head.startswith(magic_numbers.XZ):
        return "xz"
    is_bzip2 = head.startswith(magic_numbers.BZIP2) and head[3:4] in _LEVELS and len(head) > 4
    if is_bzip2 and head.startswith((magic_numbers.BZIP2_BLOCK, magic_numbers.BZIP2_END), 4):
        return "bzip2"
    if method := _framed(view):
        return method
    if len(head) >= 13 and head[0] == _USUAL and _is_power(int.from_bytes(head[1:5], "little")):
        size = int.from_bytes(head[5:13], "little")
        return "lzma" if size == _UNKNOWN or size < _LARGEST else None
    return None


def _is_power(number: int) -> bool:
    return number >= 4096 and number & (number - 1) == 0


def _framed(view: View) -> str | None:
    """Return ``zstd`` or ``lz4``, whose frames may come behind others that are passed over; None for neither."""
    at = 0
    for _ in range(_PASSED):
        head = view.head(at, 8)
        if head.startswith(magic_numbers.ZSTD):
            return "zstd"
        if head.startswith(magic_numbers.LZ4):
            return "lz4"
        if len(head) < 8 or head[0] & 0xF0 != 0x50 or head[1:4] != magic_numbers.SKIPPABLE:
            return None
        at += 8 + int.from_bytes(head[4:8], "little")
    return None
