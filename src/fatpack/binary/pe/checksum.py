"""The checksum of a PE image: Windows asks for it of drivers, and of libraries that start early."""

from __future__ import annotations

from fatpack.io.source import View

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from fatpack.io.source import Piece

#: Adding 16-bit words with their carries is counting modulo this.
_MODULUS = 0xFFFF


def compute_checksum(pieces: Iterable[Piece]) -> int:
    """Return the sum of the 16-bit words of a file, carries added, plus its size: CheckSumMappedFile of ImageHlp.

    The field itself counts as zeros; the caller has zeros there. Reads every byte, and copies none.
    """
    total = size = 0
    for piece in pieces:
        for part in piece.pieces() if isinstance(piece, View) else (piece,):
            # A part that starts in the middle of a word has its bytes in the other halves: 256 times as much.
            total += int.from_bytes(part, "little") % _MODULUS * (256 if size % 2 else 1)
            size += len(part)
    return ((total % _MODULUS or _MODULUS) + size) & 0xFFFFFFFF
