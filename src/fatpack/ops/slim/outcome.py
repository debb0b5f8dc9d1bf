"""What became of a file that was to be slimmed, and what that is in numbers."""

from __future__ import annotations

from collections import Counter

from fatpack.ops.slim.selection import is_host, spelled
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fatpack.errors import FatpackError
    from fatpack.io.source import Piece
    from fatpack.ops.slim.plan import Plan
    from fatpack.ops.slim.selection import Row


class Outcome(Record):
    """A file that was named or met: ``before`` and ``after`` are its sizes in bytes.

    ``output`` is the file that was written, "" for none. ``plan`` is None for one that failed, and ``error`` says why.
    ``deflated`` are both sizes as they would be inside a wheel, None where nobody asked.
    """

    path: str
    before: int
    after: int
    output: str = ""
    plan: Plan | None = None
    error: FatpackError | OSError | None = None
    deflated: tuple[int, int] | None = None


def by_architecture(rows: Iterable[Row]) -> dict[str, int]:
    """Return how many images there are for each architecture, as patterns name it; hosts are not counted."""
    counts = Counter(spelled(row.image) for row in rows if not is_host(row.image))
    return {name: counts[name] for name in sorted(counts, key=_order)}


def _order(name: str) -> tuple[str, int, str]:
    """Return what architectures are sorted by: sm_90 comes before sm_100."""
    letters = name.rstrip("0123456789af")
    digits = name[len(letters) :].rstrip("af")
    return letters, int(digits) if digits.isdigit() else 0, name


def deflated_size(pieces: Sequence[Piece]) -> int:
    """Return how many bytes pieces take in a wheel: deflated as ``zip`` does it. Reads all of them."""
    import zlib

    packer = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    size = 0
    for piece in pieces:
        for part in [piece] if isinstance(piece, (bytes, bytearray, memoryview)) else piece.once():
            size += len(packer.compress(part))
    return size + len(packer.flush())
