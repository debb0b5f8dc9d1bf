"""Sources that are read by ranges: an object of the caller, a remote file, a URL; and views as binary files.

Each request costs a round trip, so bytes are read in pages, and recent pages stay in memory. Consecutive missing pages
are one request. If reading continues after the last page that was fetched, each request fetches twice as many pages as
the one before; a read elsewhere fetches one.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from _thread import allocate_lock

from fatpack.io.source import Source
from fatpack.io.url import as_os_error, foreign_errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO, Protocol

    from typing_extensions import Buffer

    from fatpack.io.source import View

    class ReadAt(Protocol):
        """The interface of a caller's own source. It may also have ``name``, a text for messages."""

        @property
        def size(self) -> int:
            """Number of bytes."""

        def read_at(self, offset: int, size: int) -> bytes:
            """Return ``size`` bytes at ``offset``, which are always inside. Several threads may call this."""


#: Bytes of a page. Headers of images are hundreds of kilobytes apart in large libraries: larger pages would be a waste.
PAGE = 16 << 10

#: LIMIT: pages that one request reads ahead: 256 KiB, about what a connection transfers during one round trip.
AHEAD = 16

#: LIMIT: bytes of cached pages per source: enough for the tables of a library with some thousand containers.
CACHE_SIZE = 8 << 20

#: Larger reads are images and searches, which are not repeated: they are not cached.
BULK = 256 << 10

#: LIMIT: bytes per request for images; they are in memory while they are written.
PIECE = 4 << 20


class RangedSource(Source):
    """Bytes that are read in ranges from an object with ``read_at`` and ``size`` (``ReadAt``).

    If ``read_at`` returns another number of bytes than requested, reading raises ``OSError`` with the offset. The size
    is read once.
    """

    is_file = True
    is_concurrent = True

    def __init__(self, reader: ReadAt, name: str, *, owned: bool = False) -> None:
        size = getattr(reader, "size", None)
        if not isinstance(size, int):
            raise TypeError(f"an object with read_at and size, a number of bytes, got {type(size).__name__}")
        if not 0 <= size <= sys.maxsize:  # len() of a view cannot be larger
            raise OSError(errno.EIO, f"it says that its size is {size}", name)
        self.name = name
        self.size = self.present = size
        self.identity = getattr(reader, "identity", "")
        self._reader: ReadAt | None = reader
        self._owned = owned
        self._start()

    def _start(self) -> None:
        self._lock = allocate_lock()
        #: page number → its bytes, in order of last use
        self._pages: dict[int, bytes] = {}
        self._newest = -1
        #: the page after the last request, and the number of pages that it fetched
        self._next = -1
        self._run = 1

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes at ``offset``, from cached pages if they hold them. Raises ``OSError``."""
        number = offset // PAGE
        start = offset - number * PAGE
        if start + size <= PAGE:
            page = self._pages.get(number)
            if page is not None:
                if number != self._newest:
                    self._used(number)
                return page[start : start + size]
        if not size:
            return b""
        if size > BULK:
            return self._fetched(offset, size)
        last = (offset + size - 1) // PAGE
        pages = self._between(number, last)
        return b"".join(pages)[start : start + size]

    def _used(self, number: int) -> None:
        with self._lock:
            page = self._pages.pop(number, None)
            if page is not None:
                self._pages[number] = page
                self._newest = number

    def _between(self, first: int, last: int) -> list[bytes]:
        """Return pages from the cache; one request fetches the missing ones."""
        with self._lock:
            have = {number: self._pages[number] for number in range(first, last + 1) if number in self._pages}
            missing = [number for number in range(first, last + 1) if number not in have]
            if missing:
                start, end = missing[0], self._end(missing[0], missing[-1] + 1)
        if missing:
            data = self._fetched(start * PAGE, min(end * PAGE, self.size) - start * PAGE)
            came = {start + at // PAGE: data[at : at + PAGE] for at in range(0, len(data), PAGE)}
            have |= came
            with self._lock:
                self._keep(came)
        return [have[number] for number in range(first, last + 1)]

    def _end(self, start: int, end: int) -> int:
        """Return the page at which a request for ``start`` to ``end`` ends, including pages that are read ahead."""
        self._run = min(2 * self._run, AHEAD) if start == self._next else 1
        end = max(end, min(start + self._run, -(-self.size // PAGE)))
        while end - 1 > start and end - 1 in self._pages:
            end -= 1
        self._next = end
        return end

    def _keep(self, pages: dict[int, bytes]) -> None:
        for number, page in pages.items():
            self._pages.pop(number, None)
            self._pages[number] = page
            self._newest = number
        while len(self._pages) * PAGE > CACHE_SIZE:
            del self._pages[next(iter(self._pages))]

    def _fetched(self, offset: int, size: int) -> bytes:
        """Return the bytes of one request. Raises ``OSError`` if the object returns anything else."""
        if self._reader is None:
            raise ValueError(f"{self.name} is closed")
        data = self._reader.read_at(offset, size)
        if isinstance(data, bytes) and len(data) == size:
            return data
        try:
            data = bytes(memoryview(data))
        except TypeError:
            found = type(data).__name__
        else:
            if len(data) == size:
                return data
            found = f"{len(data)} bytes"
        text = f"asked for {size} bytes at {offset:#x} of {self.size}, it gave {found}; it is cut short, or has changed"
        raise OSError(errno.EIO, text, self.name)

    def pieces(self, offset: int, size: int) -> Iterator[memoryview]:
        """Yield the range in pieces of at most ``PIECE`` bytes, one request each."""
        while size:
            part = memoryview(self.read(offset, min(size, PIECE)))
            yield part
            offset += len(part)
            size -= len(part)

    def read_once_size(self, offset: int, size: int) -> int:
        """Return the largest number of bytes in memory at a time."""
        return min(size, PIECE)

    def release_buffers(self) -> None:
        """Drop the cached pages."""
        with self._lock:
            self._pages.clear()

    def close(self) -> None:
        """Close the object if it is owned; an object of the caller stays open."""
        super().close()
        reader, self._reader = self._reader, None
        self.release_buffers()
        close = getattr(reader, "close", None)
        if self._owned and close is not None:
            close()

    def __getstate__(self) -> dict[str, object]:
        """Return the state that reads the same bytes in another process: the pickled object, without cached pages."""
        import pickle

        if self._reader is None:
            raise ValueError(f"{self.name} is closed")
        try:
            reader = pickle.dumps(self._reader)
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            text = f"{self.name} cannot be opened by another process: {error}"
            raise pickle.PicklingError(text) from error
        kept = ("name", "size", "present", "budget")
        return {key: value for key, value in vars(self).items() if key in kept} | {"_reader": reader, "_owned": True}

    def __setstate__(self, state: dict[str, object]) -> None:
        import pickle

        reader = state.pop("_reader")
        assert isinstance(reader, bytes)
        vars(self).update(state, _reader=pickle.loads(reader))
        self._start()


# File objects that can seek as objects with read_at, and views as file objects for other libraries


def read_from_file(file: BinaryIO, size: int, name: str) -> bytes:
    """Return up to ``size`` bytes from a file's position. Raises ``OSError``, and TypeError if it is a text file."""
    try:
        block: object = file.read(size)
    except foreign_errors() as error:
        raise as_os_error(error, name) from error
    if isinstance(block, bytes):
        return block
    if isinstance(block, (bytearray, memoryview)):
        return bytes(block)
    raise TypeError(f"a path, bytes or a binary file, got a file whose read() returns {type(block).__name__}")


class SeekableReader:
    """``read_at`` for a file object that can seek; a lock protects its position.

    With ``opens_again`` the file object can be pickled, and opens the same file in another process.
    """

    def __init__(self, file: BinaryIO, name: str, *, opens_again: bool = False) -> None:
        self.name = name
        self._opens_again = opens_again
        self._file = file
        self._lock = allocate_lock()
        try:
            file.seek(0, os.SEEK_END)
            self.size = file.tell()
        except foreign_errors() as error:
            raise as_os_error(error, name) from error

    def rewind(self) -> None:
        """Go back to the first byte."""
        try:
            self._file.seek(0)
        except foreign_errors() as error:
            raise as_os_error(error, self.name) from error

    def read_at(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes at ``offset``, fewer at the end of the file. Raises ``OSError``."""
        with self._lock:
            try:
                self._file.seek(offset)
            except foreign_errors() as error:
                raise as_os_error(error, self.name) from error
            data = read_from_file(self._file, size, self.name)
            while data and len(data) < size:
                more = read_from_file(self._file, size - len(data), self.name)
                if not more:
                    break
                data += more
        return data

    def close(self) -> None:
        """Close the file; called only if it does not belong to a caller."""
        self._file.close()

    def __getstate__(self) -> dict[str, object]:
        """Return the state that opens the file again. Raises PicklingError if the file cannot be opened again."""
        from pickle import PicklingError

        if not self._opens_again:
            raise PicklingError("it was given as an open file; open it by its path, or read it as bytes")
        return {"name": self.name, "_file": self._file, "size": self.size, "_opens_again": True}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._lock = allocate_lock()


class ViewFile(io.RawIOBase):
    """A view as a binary file."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._at = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a position, and return it."""
        self._at = max(0, offset + (0, self._at, len(self._view))[whence])
        return self._at

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Return up to ``size`` bytes from the position on; all if ``size`` is negative."""
        left = max(0, len(self._view) - self._at)
        data = self._view.head(self._at, left if size < 0 else min(size, left))
        self._at += len(data)
        return data

    def readinto(self, buffer: Buffer) -> int:
        """Read into a buffer; return the number of bytes read."""
        target = memoryview(buffer).cast("B")
        data = self.read(len(target))
        target[: len(data)] = data
        return len(data)
