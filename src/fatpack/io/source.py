"""Input: sources of bytes, and views of them. The only module that opens input files.

A :class:`Source` is a file, a buffer, or the result of a decompression. A :class:`View` is a half-open range of a
source with the names that lead to it; parsers get views and never see files. Headers come by ``pread`` of a few
hundred bytes, and bulk bytes are copied by the kernel: a file is never mapped or read whole (a mapped file counts
as resident memory although only its headers were touched).
"""

from __future__ import annotations

import errno
import os
import stat
from _thread import allocate_lock  # threading, which is the public name, takes a millisecond to import

from fatpack.errors import BadValue, Truncated, UsageError
from fatpack.io import limits
from fatpack.model import Span
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType
    from typing import BinaryIO, Self, TypeAlias

    from typing_extensions import Buffer

    Input: TypeAlias = str | os.PathLike[str] | Buffer | BinaryIO
    """What every public function accepts as input: a path ("-" is standard input), bytes, or a binary file."""

#: Small reads fetch a page of this size, so that header, entry and strings of one container cost one system call.
READ_AHEAD = 16384

#: LIMIT: so many pages are kept: those of one bundle with its images, or of a cubin with its tables.
_PAGES = 32

#: LIMIT: so many runs of zeros are remembered: those between the images of a container are asked for again and again.
_RUNS = 32

#: One page of zeros, to compare with.
_ZEROS = bytes(READ_AHEAD)

#: Held while what is kept of inflated bytes changes: bundles are compressed in several threads.
_KEEPING = allocate_lock()


class Derived(str):
    """The name, in a chain, of something with bytes of its own: what a decompressor made, a file an archive points at.

    Offsets behind it are no offsets in the file that was opened.
    """

    __slots__ = ()


def is_in_file(chain: Iterable[str]) -> bool:
    """Return whether offsets along a chain of names are offsets in the outermost file."""
    return not any(isinstance(name, Derived) for name in chain)


class Source:
    """Random access to bytes. ``name`` is what reports call it; ``is_file`` is true when offsets are file offsets."""

    name: str
    size: int
    is_file = False
    #: whether reading inflates what lies before the bytes, too
    is_streamed = False
    #: bytes present on disk (or given by the caller) that this came from: what limits on inflation are based on
    present: int
    #: whether reading costs no more than reading: false for bytes that would have to be inflated first
    is_at_hand = True
    #: whether several threads may read at once
    is_concurrent = False
    #: what was inflated from here and is still in memory, oldest first, and how many bytes that are
    _inflated: dict[InflatedSource, int] | None = None
    _inflated_size = 0

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes at ``offset``; the caller has checked that they are inside."""
        raise NotImplementedError

    def pieces(self, offset: int, size: int) -> Iterator[memoryview]:
        """Yield the bytes of a range in bounded pieces, valid until the next is asked for."""
        raise NotImplementedError

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

    def fileno(self) -> int | None:
        """Return a descriptor whose offsets are this source's, for kernel-side copies; None if there is none."""
        return None

    def rest(self) -> None:
        """Free what is only needed while reading; the next read takes it again."""

    def keep(self, inflated: InflatedSource) -> None:
        """Note that bytes inflated from here were taken into memory, and let older ones go that are too much now."""
        with _KEEPING:
            if self._inflated is None:
                self._inflated = {}
            self._inflated_size += inflated.size - self._inflated.pop(inflated, 0)
            self._inflated[inflated] = inflated.size
            while self._inflated_size > limits.INFLATED_KEPT and len(self._inflated) > 1:
                oldest = next(iter(self._inflated))
                self._inflated_size -= self._inflated.pop(oldest)
                oldest.rest()

    def let_go(self) -> None:
        """Let everything go that was inflated from here."""
        kept, self._inflated, self._inflated_size = self._inflated, None, 0
        for source in kept or ():
            source.rest()

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


class FileSource(Source):
    """A regular file, read with ``pread``: its size is taken once, when it is opened.

    With ``path`` it can be closed between uses (:meth:`rest`), so that one command may read more files than a
    process may have open.
    """

    is_file = True

    def __init__(self, fd: int, name: str, *, owned: bool = True, path: str | None = None) -> None:
        status = os.fstat(fd)
        self.name = name
        self.size = self.present = status.st_size
        self._identity = (status.st_dev, status.st_ino, status.st_size)
        self._fd = fd
        self._owned = owned
        self._path = path
        #: number of a page → its bytes, which never change: threads may read at once
        self._pages: dict[int, bytes] = {}
        #: start of zeros → first byte behind them
        self._zeros: dict[int, int] = {}

    @property
    def is_concurrent(self) -> bool:  # type: ignore[override]  # resting closes the file for all
        """Whether several threads may read at once: not a file that is closed between uses."""
        return self._path is None

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes at ``offset``, from the pages read lately if they hold them."""
        number = offset // READ_AHEAD
        start = offset - number * READ_AHEAD
        page = self._pages.get(number)
        if page is not None and start + size <= len(page):
            return page[start : start + size]
        if size > READ_AHEAD or (start and size == READ_AHEAD):
            return self._pread(offset, size)
        if page is None:
            page = self._page(number)
        part = page[start : start + size]
        return part if len(part) == size else part + self.read(offset + len(part), size - len(part))

    def _page(self, number: int) -> bytes:
        """Return a page, and keep it for the reads after this; the last one of the file may be short."""
        offset = number * READ_AHEAD
        page = self._pread(offset, min(READ_AHEAD, self.size - offset))
        if len(self._pages) >= _PAGES:
            self._pages.clear()
        self._pages[number] = page
        return page

    def _pread(self, offset: int, size: int) -> bytes:
        fd = self.fileno()
        data = os.pread(fd, size, offset)
        while len(data) < size:
            more = os.pread(fd, size - len(data), offset + len(data))
            if not more:
                raise self._changed(size, len(data), offset)
            data += more
        return data

    def _changed(self, needed: int, left: int, offset: int) -> Truncated:
        return Truncated(
            needed=needed, left=left, offset=offset, field="file changed while reading", chain=(self.name,)
        )

    def pieces(self, offset: int, size: int) -> Iterator[memoryview]:
        """Yield the range in pieces of ``limits.CHUNK`` bytes, all in one reused buffer."""
        buffer = memoryview(bytearray(min(size, limits.CHUNK)))
        while size:
            part = buffer[: min(size, len(buffer))]
            count = os.preadv(self.fileno(), [part], offset)
            if not count:
                raise self._changed(size, 0, offset)
            yield part[:count]
            offset += count
            size -= count

    def skip_zeros(self, start: int, end: int) -> int:
        """Return the first offset from ``start`` on that holds something else than zero, at most ``end``."""
        found = self._zeros.get(start)
        if found is None:
            found = super().skip_zeros(start, end)
            if found < end:
                if len(self._zeros) >= _RUNS:
                    self._zeros.clear()
                self._zeros[start] = found
        return min(found, end)

    def skip_hole(self, start: int, end: int) -> int:
        """Return where the next data of a sparse file is, at most ``end``."""
        if start >= end or not hasattr(os, "SEEK_DATA"):
            return start
        try:
            return min(os.lseek(self.fileno(), start, os.SEEK_DATA), end)
        except OSError as error:
            # ENXIO: nothing but a hole up to the end of the file; anything else: a file system that cannot tell.
            return end if error.errno == errno.ENXIO else start

    def fileno(self) -> int:
        """Return the descriptor, opening the file again if it rests."""
        if self._fd < 0:
            if self._path is None:
                raise ValueError(f"{self.name} is closed")
            self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            status = os.fstat(self._fd)
            if (status.st_dev, status.st_ino, status.st_size) != self._identity:
                raise self._changed(self.size, status.st_size, 0)
        return self._fd

    def rest(self) -> None:
        """Close the file if it can be opened again, and forget its pages: one command may have thousands of files."""
        if self._path is not None and self._fd >= 0:
            self._pages.clear()
            os.close(self._fd)
            self._fd = -1

    def close(self) -> None:
        """Close the file, unless the caller opened it."""
        super().close()
        if self._owned and self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self._path = None


class BytesSource(Source):
    """A buffer in memory; nothing is copied until ``read``."""

    is_concurrent = True

    def __init__(self, data: Buffer, name: str = "", *, present: int | None = None) -> None:
        self.name = name
        self._data = memoryview(data).cast("B")
        self.size = len(self._data)
        self.present = self.size if present is None else present

    def read(self, offset: int, size: int) -> bytes:
        """Return a copy of ``size`` bytes at ``offset``."""
        return bytes(self._data[offset : offset + size])

    def pieces(self, offset: int, size: int) -> Iterator[memoryview]:
        """Yield the range as one view, without copying."""
        if size:
            yield self._data[offset : offset + size]


class InflatedSource(Source):
    """Bytes that come out of a decompressor when they are first read.

    They stay in memory until :meth:`rest`, or until so much else was inflated from the same ``origin`` (the source
    that holds the compressed bytes) that ``limits.INFLATED_KEPT`` is reached; the next read inflates them again.
    ``data`` are the bytes, if they are at hand already. ``stream`` yields them in pieces, which costs a reader that
    needs them only once ``piece_size`` bytes of memory at a time.
    """

    def __init__(
        self,
        size: int,
        inflate: Callable[[], Buffer],
        name: str = "",
        *,
        present: int,
        origin: Source | None = None,
        data: Buffer | None = None,
        stream: Callable[[], Iterator[bytes | bytearray]] | None = None,
        piece_size: int | None = None,
    ) -> None:
        self.name = name
        self.size = size
        self.present = present
        self._inflate = inflate
        self._once = stream
        self._piece_size = size if piece_size is None else piece_size
        self._origin = origin
        self._data: memoryview | None = None
        if data is not None:
            self._take(data)

    def _checked(self, inflated: Buffer) -> memoryview:
        data = memoryview(inflated).cast("B")
        if len(data) != self.size:
            raise self._other_size(str(len(data)))
        return data

    def _other_size(self, found: str) -> BadValue:
        return BadValue("inflated size differs", expected=str(self.size), found=found, chain=(self.name,))

    def _take(self, inflated: Buffer) -> memoryview:
        self._data = data = self._checked(inflated)
        if self._origin is not None:
            self._origin.keep(self)
        return data

    def _bytes(self) -> memoryview:
        return self._take(self._inflate()) if self._data is None else self._data

    @property
    def is_at_hand(self) -> bool:  # type: ignore[override]  # of all other sources it never changes
        """Whether the bytes are in memory."""
        return self._data is not None

    def rest(self) -> None:
        """Let the inflated bytes go, and what was inflated from them."""
        self._data = None
        self.let_go()

    def read(self, offset: int, size: int) -> bytes:
        """Return a copy of ``size`` inflated bytes at ``offset``."""
        return bytes(self._bytes()[offset : offset + size])

    def pieces(self, offset: int, size: int) -> Iterator[memoryview]:
        """Yield the range as one view of the inflated bytes."""
        if size:
            yield self._bytes()[offset : offset + size]

    @property
    def is_concurrent(self) -> bool:  # type: ignore[override]  # it is what the origin is
        """Whether several threads may each read another source of the same origin, once."""
        return self._origin is not None and self._origin.is_at_hand and self._origin.is_concurrent

    def _is_passing(self, offset: int, size: int) -> bool:
        """Return whether a range is everything, and has to be inflated: a part of it is kept for those of the rest."""
        return self._data is None and not offset and size == self.size

    def once(self, offset: int, size: int) -> Iterator[memoryview]:
        """Yield the range; if it is everything, in the pieces in which it is inflated, and nothing is kept."""
        if not self._is_passing(offset, size):
            yield from self.pieces(offset, size)
            return
        if self._once is None:
            yield self._checked(self._inflate())
            return
        for piece in self._once():
            if len(piece) > size:
                raise self._other_size(f"more than {self.size}")
            size -= len(piece)
            yield memoryview(piece)
        if size:
            raise self._other_size(str(self.size - size))

    def once_size(self, offset: int, size: int) -> int:
        """Return the bytes that are inflated at a time."""
        return self._piece_size if self._is_passing(offset, size) else size


class View(Record):
    """The bytes ``[start, end)`` of ``source``; ``chain`` names the file and the parts that lead here.

    Positions given to its methods are relative to ``start``; :meth:`offset` makes them absolute. Reading outside
    the view raises :class:`~fatpack.errors.Truncated`, so parsers need no unchecked arithmetic.
    """

    source: Source
    start: int
    end: int
    chain: tuple[str, ...] = ()

    # Listing a library makes ten views per image: this takes a third of the time of the general way.
    def __init__(self, source: Source, start: int, end: int, chain: tuple[str, ...] = ()) -> None:
        _put_source(self, source)
        _put_start(self, start)
        _put_end(self, end)
        _put_chain(self, chain)

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

    def slice(self, at: int, size: int, name: str = "") -> View:
        """Return a part of the view as a view; ``name`` extends the chain. Raises Truncated if it is not inside."""
        start = self.start + at
        if at < 0 or size < 0 or start + size > self.end:
            raise Truncated(needed=size, left=len(self) - at, offset=start, field=name, chain=self.chain)
        return View(self.source, start, start + size, (*self.chain, name) if name else self.chain)

    def named(self, name: str) -> View:
        """Return the same bytes with ``name`` added to the chain."""
        return View(self.source, self.start, self.end, (*self.chain, name))


_put_source, _put_start, _put_end, _put_chain = View._setters


def open_source(data: Input, *, name: str = "", resting: bool = False) -> Source:
    """Return a source for a path, ``"-"`` (standard input), a buffer or a binary file object.

    A path must be a readable file; a pipe or terminal is spooled to an unnamed temporary file first. A file object
    stays the caller's to close; its position is ignored if it is a regular file. ``resting`` files given by path are
    closed between uses. Raises ``OSError`` as the system does, ``IsADirectoryError`` for a directory.
    """
    if isinstance(data, (bytes, bytearray, memoryview)):
        return BytesSource(data, name)
    if isinstance(data, (str, os.PathLike)):
        path = os.fspath(data)
        if "\0" in path:
            raise UsageError("a path cannot contain a NUL character")
        if path == "-":
            return _from_descriptor(0, name or "<stdin>", owned=False)
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return _from_descriptor(fd, name or path, owned=True, path=path if resting else None)
    if hasattr(data, "read") and hasattr(data, "fileno"):
        try:
            fd = data.fileno()
        except (OSError, AttributeError):  # a file object in memory
            return BytesSource(data.read(), name)
        return _from_descriptor(fd, name or str(getattr(data, "name", "")), owned=False)
    try:
        return BytesSource(data, name)
    except TypeError:
        raise UsageError(f"cannot read from {type(data).__name__}: give a path, bytes or a binary file") from None


def _from_descriptor(fd: int, name: str, *, owned: bool, path: str | None = None) -> Source:
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return FileSource(fd, name, owned=owned, path=path)
    try:
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        is_device = stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and not os.isatty(fd))
        if is_device:
            if stat.S_ISBLK(mode) or os.read(fd, 1):
                raise UsageError(f"{name} is a device", hint="give a file or a pipe; a device may never end")
            return BytesSource(b"", name)  # /dev/null, which compilers give where there is no host code
        return FileSource(_spool(fd), name)
    finally:
        if owned:
            os.close(fd)


def _spool(fd: int) -> int:
    """Copy a pipe into an unnamed temporary file and return that file's descriptor: memory stays bounded."""
    import tempfile

    with tempfile.TemporaryFile() as spool:
        while block := os.read(fd, limits.CHUNK):
            spool.write(block)
        spool.flush()
        return os.dup(spool.fileno())
