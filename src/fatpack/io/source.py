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

from fatpack.errors import BadValue, Truncated, UsageError
from fatpack.io import limits
from fatpack.model import Span
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType
    from typing import BinaryIO, TypeAlias

    from typing_extensions import Buffer, Self

    Input: TypeAlias = str | os.PathLike[str] | Buffer | BinaryIO
    """What every public function accepts as input: a path ("-" is standard input), bytes, or a binary file."""

#: Small reads fetch this much at once, so that header, entry and strings of one container cost one system call.
READ_AHEAD = 4096


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
    #: bytes present on disk (or given by the caller) that this came from: what limits on inflation are based on
    present: int
    #: what was inflated from here and is still in memory, oldest first
    _inflated: tuple[InflatedSource, ...] = ()

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes at ``offset``; the caller has checked that they are inside."""
        raise NotImplementedError

    def pieces(self, offset: int, size: int) -> Iterator[memoryview]:
        """Yield the bytes of a range in bounded pieces, valid until the next is asked for."""
        raise NotImplementedError

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

    def is_zero(self, start: int, end: int) -> bool:
        """Return whether a range holds zeros only; reads it in bounded pieces, up to the first that does not."""
        while (start := self.skip_hole(start, end)) < end:
            size = min(limits.CHUNK, end - start)
            if any(bytes(piece).strip(b"\0") for piece in self.pieces(start, size)):
                return False
            start += size
        return True

    def fileno(self) -> int | None:
        """Return a descriptor whose offsets are this source's, for kernel-side copies; None if there is none."""
        return None

    def rest(self) -> None:
        """Free what is only needed while reading; the next read takes it again."""

    def keep(self, inflated: InflatedSource) -> None:
        """Note that bytes inflated from here were taken into memory, and let older ones go that are too much now."""
        kept = [source for source in self._inflated if source is not inflated]
        self._inflated = (*kept, inflated)
        total = sum(source.size for source in self._inflated)
        for source in kept:
            if total <= limits.INFLATED_KEPT:
                break
            source.rest()
            total -= source.size
            self._inflated = self._inflated[1:]

    def close(self) -> None:
        """Give the file back; views of it cannot be read afterwards."""
        self._inflated = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def view(self) -> View:
        """Return a view of everything."""
        return View(self, 0, self.size, (self.name,) if self.name else ())


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
        self._ahead = b""
        self._ahead_at = 0

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes at ``offset``, from the block read last if it holds them."""
        start = offset - self._ahead_at
        if start >= 0 and start + size <= len(self._ahead):
            return self._ahead[start : start + size]
        if size >= READ_AHEAD:
            return self._pread(offset, size)
        self._ahead = self._pread(offset, min(READ_AHEAD, self.size - offset))
        self._ahead_at = offset
        return self._ahead[:size]

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
        """Close the file if it can be opened again."""
        if self._path is not None and self._fd >= 0:
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
    ``data`` are the bytes, if they are at hand already.
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
    ) -> None:
        self.name = name
        self.size = size
        self.present = present
        self._inflate = inflate
        self._origin = origin
        self._data: memoryview | None = None
        if data is not None:
            self._take(data)

    def _take(self, inflated: Buffer) -> memoryview:
        data = memoryview(inflated).cast("B")
        if len(data) != self.size:
            raise BadValue("inflated size differs", expected=str(self.size), found=str(len(data)), chain=(self.name,))
        self._data = data
        if self._origin is not None:
            self._origin.keep(self)
        return data

    def _bytes(self) -> memoryview:
        return self._take(self._inflate()) if self._data is None else self._data

    def rest(self) -> None:
        """Let the inflated bytes go, and what was inflated from them."""
        self._data = None
        for source in self._inflated:
            source.rest()
        self._inflated = ()

    def read(self, offset: int, size: int) -> bytes:
        """Return a copy of ``size`` inflated bytes at ``offset``."""
        return bytes(self._bytes()[offset : offset + size])

    def pieces(self, offset: int, size: int) -> Iterator[memoryview]:
        """Yield the range as one view of the inflated bytes."""
        if size:
            yield self._bytes()[offset : offset + size]


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
        if at < 0 or size < 0 or at + size > self.end - self.start:
            raise Truncated(needed=size, left=len(self) - at, offset=self.start + at, chain=self.chain)
        return self.source.read(self.start + at, size)

    def head(self, at: int, size: int) -> bytes:
        """Return up to ``size`` bytes at ``at``: fewer at the end, none outside."""
        left = self.end - self.start - at
        return self.source.read(self.start + at, min(size, left)) if at >= 0 and left > 0 else b""

    def tobytes(self) -> bytes:
        """Return a copy of all bytes. For bulk data prefer :meth:`pieces`, which stays within bounded memory."""
        return self.source.read(self.start, self.end - self.start)

    def pieces(self) -> Iterator[memoryview]:
        """Yield all bytes in bounded pieces; each is valid until the next is asked for."""
        return self.source.pieces(self.start, self.end - self.start)

    def find(self, needle: bytes, at: int = 0) -> int:
        """Return the first position of ``needle`` at or after ``at``, or -1; memory stays bounded."""
        hit = self.source.find(needle, self.start + at, self.end)
        return hit - self.start if hit >= 0 else -1

    def is_zero(self) -> bool:
        """Return whether all bytes are zero; holes of a sparse file are not read."""
        return self.source.is_zero(self.start, self.end)

    def slice(self, at: int, size: int, name: str = "") -> View:
        """Return a part of the view as a view; ``name`` extends the chain. Raises Truncated if it is not inside."""
        if at < 0 or size < 0 or at + size > self.end - self.start:
            raise Truncated(needed=size, left=len(self) - at, offset=self.start + at, field=name, chain=self.chain)
        return View(self.source, self.start + at, self.start + at + size, (*self.chain, name) if name else self.chain)

    def named(self, name: str) -> View:
        """Return the same bytes with ``name`` added to the chain."""
        return View(self.source, self.start, self.end, (*self.chain, name))


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
        if stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and not os.isatty(fd) and os.read(fd, 1)):
            raise UsageError(f"{name} is a device", hint="give a file or a pipe; a device may never end")
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
