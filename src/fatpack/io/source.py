"""Sources of bytes, and views of them.

A :class:`Source` is a file, a buffer, or the result of a decompression. A :class:`View` is a half-open range of a
source with the path of names that leads to it; parsers get views and never see files. Headers are read with ``pread``,
a few hundred bytes at a time, and the kernel copies bulk bytes: a file is never mapped or read as a whole, because a
mapped file counts as resident memory even if only its headers were touched.
"""

from __future__ import annotations

from _thread import allocate_lock  # threading, which is the public name, takes a millisecond to import
from io import BytesIO

from fatpack import limits
from fatpack.errors import Truncated, format_hex
from fatpack.limits import UNCOUNTED
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Protocol, Self, TypeAlias, overload

    from typing_extensions import Buffer

    from fatpack.limits import Budget

    Piece: TypeAlias = "bytes | bytearray | memoryview | View"
    """Output of a writer: bytes, or a view whose bytes are copied from their source."""

    class SiblingFiles(Protocol):
        """Reads the files in the same folder of a package as a given file."""

        def read(self, name: str, most: int) -> bytes | None: ...  # noqa: D102
        def names(self, suffix: str) -> list[str]: ...  # noqa: D102
else:

    def overload(function):  # noqa: D103  (typing loads half the library; this is its decorator)
        return function


#: Small reads fetch a page of this size, so that header, entry and strings of one container cost one system call.
READ_AHEAD = 16384

#: One page of zeros, for comparisons.
_ZEROS = bytes(READ_AHEAD)

#: Protects the record of inflated sources: bundles are compressed in several threads. While it is held, nothing reads,
#: joins or closes: the thread being waited for may itself wait for this lock.
_KEEPING = allocate_lock()


class VirtualName(str):
    """The name, in a chain, of something with bytes of its own: a decompressed stream, or a member of a thin archive.

    Offsets after it in the chain are not offsets in the file that was opened.
    """

    __slots__ = ()


def is_in_file(chain: Iterable[str]) -> bool:
    """Return whether offsets along a chain of names are offsets in the outermost file."""
    return not any(isinstance(name, VirtualName) for name in chain)


class Source:
    """Random access to bytes. ``name`` is used in reports; ``is_file`` is true if offsets are file offsets."""

    name: str
    size: int
    is_file = False
    #: whether reading some bytes inflates all bytes before them
    is_streamed = False
    #: whether the bytes are decompressed when they are read
    is_inflated = False
    #: bytes on disk (or passed by the caller) that this was made from: limits on inflation are based on it
    present: int
    #: budget of the command for inflated and written bytes; sources inflated from the file share it
    budget: Budget = UNCOUNTED
    #: whether the bytes can be read without inflating them first
    is_at_hand = True
    #: whether the bytes cannot be read: every read raises the reason
    is_refused = False
    #: whether several threads may read at once
    is_concurrent = False
    #: whether its package stores it without its holes, and so without a digest of all its bytes
    is_sparse = False
    #: changes if the bytes change, if a server says so (ETag, time of change); "" if nothing does
    identity = ""
    #: path by which the file was opened; None if the source has no folder of its own
    path: str | None = None
    #: reads sibling files if the source is a member of a package; set by the code that unpacks it
    siblings: SiblingFiles | None = None
    #: sources inflated from this one that are still in memory, oldest first, and their total size
    _inflated: dict[Source, int] | None = None
    _inflated_size = 0
    #: start of compressed data → number of inflated bytes that were charged to the budget
    _drawn: dict[int, int] | None = None

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes at ``offset``; the caller has checked that the range is inside."""
        raise NotImplementedError

    def beginning(self, size: int) -> bytes:
        """Return up to ``size`` first bytes with as little work as possible."""
        return self.read(0, min(size, self.size))

    def pieces(self, offset: int, size: int) -> Iterator[memoryview]:
        """Yield the bytes of a range in bounded pieces; each is valid until the next is requested."""
        for at in range(offset, offset + size, limits.CHUNK):
            yield memoryview(self.read(at, min(limits.CHUNK, offset + size - at)))

    def buffer(self, offset: int, size: int) -> memoryview:
        """Return a range as one read-only buffer: the bytes themselves if they are in memory, else a copy."""
        return memoryview(self.read(offset, size))

    def read_once(self, offset: int, size: int) -> Iterator[memoryview]:
        """Yield the same pieces as :meth:`pieces` for a reader that reads them once: nothing is kept in memory."""
        return self.pieces(offset, size)

    def read_once_size(self, offset: int, size: int) -> int:
        """Return how much additional memory :meth:`read_once` may take, in bytes; 0 if it is little."""
        return 0

    def parts(self, view: View) -> Iterator[View]:
        """Yield views that together have the bytes of a view of this source.

        A source that is made of others yields views of these.
        """
        yield view

    def find(self, needle: bytes, start: int, end: int) -> int:
        """Return the first offset from ``start`` on at which ``needle`` ends by ``end``, or -1."""
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
        """Return the first offset from ``start`` on that is not in a hole of a sparse file, at most ``end``."""
        return start

    def skip_zeros(self, start: int, end: int) -> int:
        """Return the first offset from ``start`` on that holds a byte other than zero, at most ``end``."""
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

    def sibling(self, name: str, most: int) -> bytes | None:
        """Return the first ``most`` bytes of the file called ``name`` in the same folder or package.

        None if there is no such file, or if the source has no folder. ``name`` never comes from a file's content.
        Raises ``OSError`` if it cannot be read, FormatError and Unsupported for errors in its package.
        """
        return None if self.siblings is None else self.siblings.read(name, most)

    def sibling_names(self, suffix: str) -> list[str]:
        """Return the sorted names in the same folder or package that end with ``suffix``. Raises ``OSError``."""
        return [] if self.siblings is None else self.siblings.names(suffix)

    def fileno(self) -> int | None:
        """Return a descriptor whose offsets are this source's, for kernel-side copies; None if there is none."""
        return None

    def check(self) -> None:
        """Raise FormatError if the bytes differ from the stored ones; reads all of them.

        Members of packages have checksums, after their bytes or in another member; plain files have none.
        """

    def release_name(self) -> None:
        """Allow another file to take the name of this one, if it is a file; it stays readable."""

    def release_buffers(self) -> None:
        """Free buffers that are needed only while reading; the next read allocates them again."""

    def keep(self, inflated: Source) -> None:
        """Record that ``inflated`` was taken into memory, and release the oldest ones if they are too many.

        A thread that reads ahead only records it: a source that it would release may be waiting for it to end.
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
            source.release_buffers()

    def is_kept(self, inflated: Source) -> bool:
        """Return whether ``inflated`` is recorded as being in memory."""
        return inflated in (self._inflated or ())

    def drop_cache(self) -> None:
        """Release everything that was inflated from this source."""
        with _KEEPING:
            kept, self._inflated, self._inflated_size = self._inflated, None, 0
        for source in kept or ():
            source.release_buffers()

    def charge(self, start: int, size: int) -> bool:
        """Charge ``size`` inflated bytes of the compressed data at ``start``; return whether the budget allows it.

        Bytes that were charged before are not charged again. Up to ``limits.INFLATED_AT_ONCE`` bytes of each stream are
        free: a library has a hundred thousand streams, and all of them would be recorded.
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

    def charge_all(self, charges: Mapping[int, int]) -> bool:
        """Charge the bytes that another process has inflated, by the starts of their streams: all, or nothing."""
        if not self.budget.is_inflatable(sum(max(0, size - self.charged(start)) for start, size in charges.items())):
            return False
        return all(self.charge(start, size) for start, size in charges.items())

    def take_charges(self) -> Mapping[int, int]:
        """Return the inflated bytes that were charged, by the starts of their streams, and forget them."""
        charges, self._drawn = self._drawn or {}, None
        return charges

    def charged(self, start: int) -> int:
        """Return the number of inflated bytes that were charged for the compressed data at ``start``."""
        return (self._drawn or {}).get(start, 0)

    def can_charge(self, start: int, size: int) -> bool:
        """Return whether :meth:`charge` would return true."""
        return size <= limits.INFLATED_AT_ONCE or self.budget.is_inflatable(size - self.charged(start))

    def __getstate__(self) -> dict[str, object]:
        """Return the state that another process needs to read the same bytes, without anything that was inflated."""
        kept_here = ("_inflated", "_inflated_size", "_drawn", "siblings")
        return {name: value for name, value in vars(self).items() if name not in kept_here}

    def close(self) -> None:
        """Close the file; its views cannot be read afterwards. No thread may be inflating from it."""
        self.drop_cache()

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
    """Return the number of zeros at the start of a block; comparing halves is much faster than stripping."""
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
    """The bytes ``[start, end)`` of ``source``; ``chain`` names the file and the parts that lead to them.

    Positions passed to its methods are relative to ``start``; :meth:`offset` makes them absolute. Reading outside
    the view raises :class:`~fatpack.errors.Truncated`, so parsers need no unchecked arithmetic.
    """

    source: Source
    start: int
    end: int
    chain: tuple[str, ...] = ()

    def __len__(self) -> int:
        return self.end - self.start

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> bytes: ...  # noqa: F811
    def __getitem__(self, at: int | slice) -> int | bytes:  # noqa: F811
        """Return a byte as a number, or the bytes of a slice, as ``bytes`` does; no other bytes are read."""
        size = self.end - self.start
        if not isinstance(at, slice):
            position = at + size if at < 0 else at
            if not 0 <= position < size:
                raise IndexError(f"position {at} of {size} bytes")
            return self.read(position, 1)[0]
        start, end, step = at.indices(size)
        if step != 1:
            return self.tobytes()[at]
        return self.read(start, max(0, end - start))

    def offset(self, at: int) -> int:
        """Return the absolute offset of a position: in the file if ``source.is_file``."""
        return self.start + at

    def span(self, at: int = 0, size: int | None = None) -> Span:
        """Return the absolute span of a part of the view (all of it by default)."""
        return Span(self.start + at, self.end if size is None else self.start + at + size, self.chain)

    def read(self, at: int, size: int) -> bytes:
        """Return ``size`` bytes at ``at``. Raises Truncated if they are not all in the view."""
        offset = self.start + at
        if at < 0 or size < 0 or offset + size > self.end:
            raise Truncated(needed=size, left=len(self) - at, offset=offset, chain=self.chain)
        return self.source.read(offset, size)

    def head(self, at: int, size: int) -> bytes:
        """Return up to ``size`` bytes at ``at``: fewer at the end, none outside the view."""
        offset = self.start + at
        left = self.end - offset
        if at < 0 or left <= 0:
            return b""
        return self.source.read(offset, size if size < left else left)

    def tobytes(self) -> bytes:
        """Return a copy of all bytes. For bulk data use :meth:`pieces`, which needs bounded memory."""
        return self.source.read(self.start, self.end - self.start)

    def tobuffer(self) -> memoryview:
        """Return all bytes as one read-only buffer, for numpy and other readers of buffers.

        Nothing is copied if the bytes are in memory: a buffer of the caller (bytes, an array, a mapped file), or
        inflated bytes that are still kept. Bytes of a file are read, as by :meth:`tobytes`. The buffer stays valid
        after the file is closed. From Python 3.12 on a view is such a buffer itself (PEP 688):
        ``memoryview(image.data)``.
        """
        return self.source.buffer(self.start, self.end - self.start)

    def __buffer__(self, _flags: int) -> memoryview:
        return self.tobuffer()

    def __bytes__(self) -> bytes:
        return self.tobytes()

    def pieces(self) -> Iterator[memoryview]:
        """Yield all bytes in bounded pieces; each is valid until the next is requested."""
        return self.source.pieces(self.start, self.end - self.start)

    def read_once(self) -> Iterator[memoryview]:
        """Yield the same pieces as :meth:`pieces` for a reader that reads them once: nothing is kept in memory."""
        return self.source.read_once(self.start, self.end - self.start)

    def find(self, needle: bytes, at: int = 0) -> int:
        """Return the first position of ``needle`` at or after ``at``, or -1; memory stays bounded."""
        hit = self.source.find(needle, self.start + at, self.end)
        return hit - self.start if hit >= 0 else -1

    def is_zero(self, at: int = 0, size: int | None = None) -> bool:
        """Return whether all bytes of the view, or of a part, are zero; holes of a sparse file are not read."""
        start = self.start + at
        end = self.end if size is None else start + size
        return self.source.skip_zeros(start, end) == end

    def skip_zeros(self, at: int = 0, end: int | None = None) -> int:
        """Return the first position from ``at`` on with a byte other than zero, or ``end`` (default: all)."""
        return self.source.skip_zeros(self.start + at, self.end if end is None else self.start + end) - self.start

    def skip_hole(self, at: int) -> int:
        """Return the first position from ``at`` on that is not in a hole of a sparse file."""
        return self.source.skip_hole(self.start + at, self.end) - self.start

    def slice(self, at: int, size: int, name: str = "") -> View:
        """Return a part of the view as a view; ``name`` extends the chain. Raises Truncated if it is not inside."""
        start = self.start + at
        if at < 0 or size < 0 or start + size > self.end:
            raise Truncated(needed=size, left=len(self) - at, offset=start, field=name, chain=self.chain)
        return View(self.source, start, start + size, (*self.chain, name) if name else self.chain)

    def parts(self) -> Iterator[View]:
        """Yield views that together have the same bytes; see :meth:`Source.parts`."""
        return self.source.parts(self)

    def named(self, name: str) -> View:
        """Return the same bytes with ``name`` added to the chain."""
        return View(self.source, self.start, self.end, (*self.chain, name))


def piece_parts(pieces: Iterable[Piece]) -> Iterator[bytes | bytearray | memoryview]:
    """Yield the bytes of pieces; views come in bounded parts, each valid until the next is requested."""
    for piece in pieces:
        if isinstance(piece, View):
            yield from piece.pieces()
        else:
            yield piece


# Buffers and sequences of pieces as sources


class BytesSource(Source):
    """A buffer in memory; nothing is copied until ``read``."""

    is_concurrent = True

    def __init__(self, data: Buffer, name: str = "", *, present: int | None = None) -> None:
        self.name = name
        self._data = memoryview(data).cast("B")
        self.size = len(self._data)
        self.present = self.size if present is None else present

    def __getstate__(self) -> dict[str, object]:
        """Return the state with the bytes themselves: a view of a buffer cannot be pickled."""
        return super().__getstate__() | {"_data": self._data.tobytes()}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._data = memoryview(self._data)

    def read(self, offset: int, size: int) -> bytes:
        """Return a copy of ``size`` bytes at ``offset``."""
        return bytes(self._data[offset : offset + size])

    def buffer(self, offset: int, size: int) -> memoryview:
        """Return a read-only range of the buffer itself."""
        return self._data[offset : offset + size].toreadonly()

    def pieces(self, offset: int, size: int) -> Iterator[memoryview]:
        """Yield the range as one view, without copying."""
        if size:
            yield self._data[offset : offset + size]


class PiecesSource(Source):
    """A sequence of bytes and views as one source; nothing is copied until it is read.

    The caller keeps the sources of the views open. Used to read the output of a writer without writing it.
    """

    def __init__(self, pieces: Sequence[Piece], name: str = "") -> None:
        from itertools import accumulate

        self.name = name
        self._pieces = [piece for piece in pieces if len(piece)]
        self._ends = list(accumulate(map(len, self._pieces)))
        self.size = self._ends[-1] if self._ends else 0
        self.present = self.size

    def __getstate__(self) -> dict[str, object]:
        """Return the state with buffers as bytes."""
        pieces = [piece.tobytes() if isinstance(piece, memoryview) else piece for piece in self._pieces]
        return super().__getstate__() | {"_pieces": pieces}

    def read(self, offset: int, size: int) -> bytes:
        """Return a copy of ``size`` bytes at ``offset``."""
        return join_read_pieces(self.pieces(offset, size))

    def pieces(self, offset: int, size: int) -> Iterator[memoryview]:
        """Yield the range in the pieces that contain it."""
        for piece, start, taken in self._ranges(offset, size):
            if isinstance(piece, View):
                yield from piece.slice(start, taken).pieces()
            else:
                yield memoryview(piece).cast("B")[start : start + taken]

    def parts(self, view: View) -> Iterator[View]:
        """Yield a view of this source in parts: of the pieces that are views themselves, and between them."""
        at = view.start
        for piece, start, taken in self._ranges(at, len(view)):
            yield piece.slice(start, taken) if isinstance(piece, View) else View(self, at, at + taken, view.chain)
            at += taken

    def _ranges(self, offset: int, size: int) -> Iterator[tuple[Piece, int, int]]:
        """Yield the pieces that contain a range, each with the start and the size of its part of it."""
        from bisect import bisect_right

        end = offset + size
        number = bisect_right(self._ends, offset)
        while offset < end:
            piece = self._pieces[number]
            start = offset - (self._ends[number] - len(piece))
            taken = min(len(piece) - start, end - offset)
            yield piece, start, taken
            offset += taken
            number += 1


def join_read_pieces(pieces: Iterable[memoryview]) -> bytes:
    """Return what :meth:`Source.pieces` yields as one: ``bytes.join`` would take all pieces before it copies the first,
    and each is valid only until the next is requested.
    """
    joined = BytesIO()
    joined.writelines(pieces)
    return joined.getvalue()


def sha256_of_pieces(pieces: Iterable[Piece]) -> bytes:
    """Return the SHA-256 of concatenated pieces; reads each piece in bounded parts. A view is a piece."""
    import hashlib

    digest = hashlib.sha256(usedforsecurity=False)
    for piece in pieces:
        for part in piece.read_once() if isinstance(piece, View) else (piece,):
            digest.update(part)
    return digest.digest()
