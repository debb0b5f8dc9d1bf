"""Sources of bytes, and views of them.

A :class:`Source` is a file, a buffer, or the result of a decompression. A :class:`View` is a half-open range of a
source with the names that lead to it; parsers get views and never see files. Headers come by ``pread`` of a few
hundred bytes, and bulk bytes are copied by the kernel: a file is never mapped or read whole (a mapped file counts
as resident memory although only its headers were touched).
"""

from __future__ import annotations

from _thread import allocate_lock  # threading, which is the public name, takes a millisecond to import

from fatpack import limits
from fatpack.errors import Truncated, format_hex
from fatpack.limits import UNCOUNTED
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from types import TracebackType
    from typing import Protocol, Self, TypeAlias

    from typing_extensions import Buffer

    from fatpack.limits import Budget

    Piece: TypeAlias = "bytes | bytearray | memoryview | View"
    """What a writer yields: bytes, or a view whose bytes are copied from where they lie."""

    class SiblingFiles(Protocol):
        """What knows the files beside one."""

        def read(self, name: str, most: int) -> bytes | None: ...  # noqa: D102
        def names(self, suffix: str) -> list[str]: ...  # noqa: D102


#: Small reads fetch a page of this size, so that header, entry and strings of one container cost one system call.
READ_AHEAD = 16384

#: One page of zeros, to compare with.
_ZEROS = bytes(READ_AHEAD)

#: Held while the notes of what was inflated change: bundles are compressed in several threads. No call that reads,
#: joins or closes is made while it is held: the thread that is waited for may wait for it.
_KEEPING = allocate_lock()


class VirtualName(str):
    """The name, in a chain, of something with bytes of its own: what a decompressor made, a file an archive points at.

    Offsets behind it are no offsets in the file that was opened.
    """

    __slots__ = ()


def is_in_file(chain: Iterable[str]) -> bool:
    """Return whether offsets along a chain of names are offsets in the outermost file."""
    return not any(isinstance(name, VirtualName) for name in chain)


class Source:
    """Random access to bytes. ``name`` is what reports call it; ``is_file`` is true when offsets are file offsets."""

    name: str
    size: int
    is_file = False
    #: whether reading inflates what lies before the bytes, too
    is_streamed = False
    #: bytes present on disk (or given by the caller) that this came from: what limits on inflation are based on
    present: int
    #: what the command may inflate and write; what is inflated from the file shares it
    budget: Budget = UNCOUNTED
    #: whether reading costs no more than reading: false for bytes that would have to be inflated first
    is_at_hand = True
    #: whether the bytes cannot be had: every read raises why
    is_refused = False
    #: whether several threads may read at once
    is_concurrent = False
    #: what is another one when the bytes are, as far as a server tells; "" if nothing does
    identity = ""
    #: by what path a file was opened, None for all that has no folder of its own around it
    path: str | None = None
    #: what reads a file beside this one where that is no folder: who takes a package apart sets it
    neighbours: SiblingFiles | None = None
    #: what was inflated from here and is still in memory, oldest first, and how many bytes that are
    _inflated: dict[Source, int] | None = None
    _inflated_size = 0
    #: where compressed data starts here, and how much of what it inflates to was drawn from the budget
    _drawn: dict[int, int] | None = None

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes at ``offset``; the caller has checked that they are inside."""
        raise NotImplementedError

    def beginning(self, size: int) -> bytes:
        """Return up to ``size`` first bytes, with as little work as that takes."""
        return self.read(0, min(size, self.size))

    def pieces(self, offset: int, size: int) -> Iterator[memoryview]:
        """Yield the bytes of a range in bounded pieces, valid until the next is asked for."""
        for at in range(offset, offset + size, limits.CHUNK):
            yield memoryview(self.read(at, min(limits.CHUNK, offset + size - at)))

    def buffer(self, offset: int, size: int) -> memoryview:
        """Return a range as one read-only buffer: the bytes themselves if they are in memory, else a copy."""
        return memoryview(self.read(offset, size))

    def once(self, offset: int, size: int) -> Iterator[memoryview]:
        """Yield what :meth:`pieces` does, for a reader that does not come back: nothing is kept for it."""
        return self.pieces(offset, size)

    def once_size(self, offset: int, size: int) -> int:
        """Return how many bytes of memory :meth:`once` may take beside what is in memory already, 0 for a few."""
        return 0

    def find(self, needle: bytes, start: int, end: int) -> int:
        """Return the first offset at or after ``start`` where ``needle`` lies wholly before ``end``, or -1."""
        at, step = start, READ_AHEAD // 2
        overlap = len(needle) - 1
        while (at := self.skip_hole(at, end) if needle[0] else at) + overlap < end:
            block = self.read(at, min(step, end - at))
            hit = block.find(needle)
            if hit >= 0:
                return at + hit
            at += len(block) - overlap
            step = min(2 * step, limits.CHUNK)  # small at first: a near hit must not cost a large read
        return -1

    def skip_hole(self, start: int, end: int) -> int:
        """Return the first offset from ``start`` on that may hold something else than zeros, at most ``end``."""
        return start

    def skip_zeros(self, start: int, end: int) -> int:
        """Return the first offset from ``start`` on that holds something else than zero, at most ``end``."""
        step = READ_AHEAD - start % READ_AHEAD  # small at first: most runs of zeros end in the page they start in
        while start < end:
            block = self.read(start, min(step, end - start))
            if not _is_zero(block):
                return start + _zeros_before(block)
            start += len(block)
            if end - start > READ_AHEAD:
                start = self.skip_hole(start, end)
            step = min(2 * step, limits.CHUNK) if start % READ_AHEAD == 0 else READ_AHEAD - start % READ_AHEAD
        return end

    def beside(self, name: str, most: int) -> bytes | None:
        """Return the first ``most`` bytes of the file of a name beside this one, in its folder or package.

        None where there is none, and for bytes that lie in neither. ``name`` never comes from a file's content. Raises
        ``OSError`` when it cannot be read, FormatError and Unsupported for what its package holds.
        """
        return None if self.neighbours is None else self.neighbours.read(name, most)

    def names_beside(self, suffix: str) -> list[str]:
        """Return the names of the files beside this one that end so, in order. Raises ``OSError``."""
        return [] if self.neighbours is None else self.neighbours.names(suffix)

    def fileno(self) -> int | None:
        """Return a descriptor whose offsets are this source's, for kernel-side copies; None if there is none."""
        return None

    def check(self) -> None:
        """Raise FormatError if the bytes are known to be others than were stored, which takes reading all of them.

        What packages hold has checksums that are at its end, or beside it; plain files have none.
        """

    def give_way(self) -> None:
        """Let another file have the name of this one, if it is a file; what was read is not lost."""

    def rest(self) -> None:
        """Free what is only needed while reading; the next read takes it again."""

    def keep(self, inflated: Source) -> None:
        """Note that bytes inflated from here were taken into memory, and let older ones go that are too much now.

        A thread that reads ahead only notes them: what it would let go of may be what waits for it to end.
        """
        from fatpack.concurrency.threads import is_reading_ahead

        too_old: list[Source] = []
        is_noted_only = is_reading_ahead()
        with _KEEPING:
            if self._inflated is None:
                self._inflated = {}
            self._inflated_size += inflated.size - self._inflated.pop(inflated, 0)
            self._inflated[inflated] = inflated.size
            while not is_noted_only and self._inflated_size > limits.INFLATED_KEPT and len(self._inflated) > 1:
                oldest = next(iter(self._inflated))
                self._inflated_size -= self._inflated.pop(oldest)
                too_old.append(oldest)
        # Another thread may have read one of these by now. It is noted again when it is read next (is_kept).
        for source in too_old:
            source.rest()

    def is_kept(self, inflated: Source) -> bool:
        """Return whether it is noted that bytes inflated from here are in memory."""
        return inflated in (self._inflated or ())

    def let_go(self) -> None:
        """Let everything go that was inflated from here."""
        with _KEEPING:
            kept, self._inflated, self._inflated_size = self._inflated, None, 0
        for source in kept or ():
            source.rest()

    def draw(self, start: int, size: int) -> bool:
        """Draw from the budget what the compressed data at ``start`` inflates to, ``size`` bytes from its beginning on.

        What was drawn for it already is not drawn again. Return whether that was possible. Up to
        ``limits.INFLATED_AT_ONCE`` bytes of each are free: a library has a hundred thousand, and all would be noted.
        """
        if size <= limits.INFLATED_AT_ONCE:
            return True
        with _KEEPING:
            drawn = (self._drawn or {}).get(start, 0)
            if size > drawn:
                if not self.budget.inflate(size - drawn):
                    return False
                self._drawn = self._drawn or {}
                self._drawn[start] = size
        return True

    def is_drawable(self, start: int, size: int) -> bool:
        """Return whether :meth:`draw` would be possible."""
        return self.budget.is_inflatable(size - (self._drawn or {}).get(start, 0))

    def __getstate__(self) -> dict[str, object]:
        """Return what another process needs to read the same bytes: nothing that was inflated from here."""
        kept_here = ("_inflated", "_inflated_size", "_drawn", "neighbours")
        return {name: value for name, value in vars(self).items() if name not in kept_here}

    def close(self) -> None:
        """Give the file back; views of it cannot be read afterwards. No thread inflates from it then."""
        self.let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def view(self) -> View:
        """Return a view of everything."""
        return View(self, 0, self.size, (self.name,) if self.name else ())


def _is_zero(block: bytes) -> bool:
    return block == (_ZEROS[: len(block)] if len(block) <= READ_AHEAD else bytes(len(block)))


def _zeros_before(block: bytes) -> int:
    """Return how many zeros a block starts with; comparing halves of them is much faster than stripping."""
    at, step = 0, len(block) >> 1
    while step >= 32:
        part = block[at : at + step]
        if part == (_ZEROS[:step] if step <= READ_AHEAD else bytes(step)):
            at += step
        step = step >> 1
    return len(block) - len(block[at:].lstrip(b"\0"))


class Span(Record):
    """The half-open byte range ``[start, end)`` of a source; ``source`` is the chain of names that leads to it."""

    start: int
    end: int
    source: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """The number of bytes in the span."""
        return self.end - self.start

    def __repr__(self) -> str:
        chain = f" of {' → '.join(self.source)}" if self.source else ""
        return f"[{format_hex(self.start)}, {format_hex(self.end)}){chain}"


class View(Record):
    """The bytes ``[start, end)`` of ``source``; ``chain`` names the file and the parts that lead here.

    Positions given to its methods are relative to ``start``; :meth:`offset` makes them absolute. Reading outside
    the view raises :class:`~fatpack.errors.Truncated`, so parsers need no unchecked arithmetic.
    """

    source: Source
    start: int
    end: int
    chain: tuple[str, ...] = ()

    def __len__(self) -> int:
        return self.end - self.start

    def offset(self, at: int) -> int:
        """Return the absolute offset of a position: in the file if ``source.is_file``."""
        return self.start + at

    def span(self, at: int = 0, size: int | None = None) -> Span:
        """Return the absolute span of a part of the view (all of it by default)."""
        return Span(self.start + at, self.end if size is None else self.start + at + size, self.chain)

    def read(self, at: int, size: int) -> bytes:
        """Return ``size`` bytes at ``at``. Raises Truncated when the view does not hold them all."""
        offset = self.start + at
        if at < 0 or size < 0 or offset + size > self.end:
            raise Truncated(needed=size, left=len(self) - at, offset=offset, chain=self.chain)
        return self.source.read(offset, size)

    def head(self, at: int, size: int) -> bytes:
        """Return up to ``size`` bytes at ``at``: fewer at the end, none outside."""
        offset = self.start + at
        left = self.end - offset
        if at < 0 or left <= 0:
            return b""
        return self.source.read(offset, size if size < left else left)

    def tobytes(self) -> bytes:
        """Return a copy of all bytes. For bulk data prefer :meth:`pieces`, which stays within bounded memory."""
        return self.source.read(self.start, self.end - self.start)

    def tobuffer(self) -> memoryview:
        """Return all bytes as one read-only buffer, for numpy and others that take one.

        Nothing is copied where the bytes are in memory: given as a buffer (bytes, an array, a mapped file), or inflated
        and still kept. What lies in a file is read, as :meth:`tobytes` does. The buffer stays valid when the file is
        closed. From Python 3.12 on a view is such a buffer itself (PEP 688): ``memoryview(image.data)``.
        """
        return self.source.buffer(self.start, self.end - self.start)

    def __buffer__(self, _flags: int) -> memoryview:
        return self.tobuffer()

    def __bytes__(self) -> bytes:
        return self.tobytes()

    def pieces(self) -> Iterator[memoryview]:
        """Yield all bytes in bounded pieces; each is valid until the next is asked for."""
        return self.source.pieces(self.start, self.end - self.start)

    def once(self) -> Iterator[memoryview]:
        """Yield what :meth:`pieces` does, for a reader that does not come back: nothing is kept for it."""
        return self.source.once(self.start, self.end - self.start)

    def find(self, needle: bytes, at: int = 0) -> int:
        """Return the first position of ``needle`` at or after ``at``, or -1; memory stays bounded."""
        hit = self.source.find(needle, self.start + at, self.end)
        return hit - self.start if hit >= 0 else -1

    def is_zero(self, at: int = 0, size: int | None = None) -> bool:
        """Return whether all bytes, or those of a part inside, are zero; holes of a sparse file are not read."""
        start = self.start + at
        end = self.end if size is None else start + size
        return self.source.skip_zeros(start, end) == end

    def skip_zeros(self, at: int = 0, end: int | None = None) -> int:
        """Return the first position from ``at`` on with another byte than zero, or ``end``: by default the view's."""
        return self.source.skip_zeros(self.start + at, self.end if end is None else self.start + end) - self.start

    def skip_hole(self, at: int) -> int:
        """Return the first position from ``at`` on that may hold something else than zeros; holes are not read."""
        return self.source.skip_hole(self.start + at, self.end) - self.start

    def slice(self, at: int, size: int, name: str = "") -> View:
        """Return a part of the view as a view; ``name`` extends the chain. Raises Truncated if it is not inside."""
        start = self.start + at
        if at < 0 or size < 0 or start + size > self.end:
            raise Truncated(needed=size, left=len(self) - at, offset=start, field=name, chain=self.chain)
        return View(self.source, start, start + size, (*self.chain, name) if name else self.chain)

    def named(self, name: str) -> View:
        """Return the same bytes with ``name`` added to the chain."""
        return View(self.source, self.start, self.end, (*self.chain, name))


def piece_parts(pieces: Iterable[Piece]) -> Iterator[bytes | bytearray | memoryview]:
    """Yield the bytes of pieces: those of views in bounded parts, each valid until the next is asked for."""
    for piece in pieces:
        if isinstance(piece, View):
            yield from piece.pieces()
        else:
            yield piece


# Bytes in memory as a source.


class BytesSource(Source):
    """A buffer in memory; nothing is copied until ``read``."""

    is_concurrent = True

    def __init__(self, data: Buffer, name: str = "", *, present: int | None = None) -> None:
        self.name = name
        self._data = memoryview(data).cast("B")
        self.size = len(self._data)
        self.present = self.size if present is None else present

    def __getstate__(self) -> dict[str, object]:
        """Return the bytes, too: a view of a buffer cannot be pickled."""
        return super().__getstate__() | {"_data": self._data.tobytes()}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._data = memoryview(self._data)

    def read(self, offset: int, size: int) -> bytes:
        """Return a copy of ``size`` bytes at ``offset``."""
        return bytes(self._data[offset : offset + size])

    def buffer(self, offset: int, size: int) -> memoryview:
        """Return a range of the buffer itself, which cannot be written to."""
        return self._data[offset : offset + size].toreadonly()

    def pieces(self, offset: int, size: int) -> Iterator[memoryview]:
        """Yield the range as one view, without copying."""
        if size:
            yield self._data[offset : offset + size]


# Pieces as a source: what a writer would write, read without writing it.


class PiecesSource(Source):
    """Bytes and views that follow each other, as one source; nothing is copied until it is read.

    The sources of the views stay the caller's to keep open.
    """

    def __init__(self, pieces: Sequence[Piece], name: str = "") -> None:
        from itertools import accumulate

        self.name = name
        self._pieces = [piece for piece in pieces if len(piece)]
        self._ends = list(accumulate(map(len, self._pieces)))
        self.size = self._ends[-1] if self._ends else 0
        self.present = self.size

    def __getstate__(self) -> dict[str, object]:
        """Return the pieces; buffers as their bytes."""
        pieces = [piece.tobytes() if isinstance(piece, memoryview) else piece for piece in self._pieces]
        return super().__getstate__() | {"_pieces": pieces}

    def read(self, offset: int, size: int) -> bytes:
        """Return a copy of ``size`` bytes at ``offset``."""
        return b"".join(self.pieces(offset, size))

    def pieces(self, offset: int, size: int) -> Iterator[memoryview]:
        """Yield the range in the pieces it lies in."""
        from bisect import bisect_right

        end = offset + size
        number = bisect_right(self._ends, offset)
        while offset < end:
            piece = self._pieces[number]
            start = offset - (self._ends[number] - len(piece))
            taken = min(len(piece) - start, end - offset)
            if isinstance(piece, (bytes, bytearray, memoryview)):
                yield memoryview(piece).cast("B")[start : start + taken]
            else:
                yield from piece.slice(start, taken).pieces()
            offset += taken
            number += 1


def sha256_of_pieces(pieces: Iterable[Piece]) -> bytes:
    """Return the SHA-256 of pieces, one behind the other. A view is one, too; reads all of them, in windows."""
    import hashlib

    digest = hashlib.sha256(usedforsecurity=False)
    for piece in pieces:
        for part in piece.once() if isinstance(piece, View) else (piece,):
            digest.update(part)
    return digest.digest()
