"""Sources that are read by ranges: an object of the caller's, a file in a store, a URL.

Each request costs a round trip, so bytes come in pages, and pages that were read lately stay in memory. Pages that are
missing side by side come with one request. Where reading goes on behind the page that came last, each request asks for
twice as many pages; where it jumps, for one.
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
        """What a source of a caller's own offers. ``name``, a text for messages, may be there too."""

        @property
        def size(self) -> int:
            """How many bytes there are."""

        def read_at(self, offset: int, size: int) -> bytes:
            """Return ``size`` bytes at ``offset``. It is asked for bytes inside only, by one thread or by several."""


#: Bytes of a page. Headers of images lie hundreds of kilobytes apart in large libraries: more would be read in vain.
PAGE = 16 << 10

#: LIMIT: pages that one request asks for beyond those that are needed: 256 KiB, about what a line brings in the time
#: that one request takes.
AHEAD = 16

#: LIMIT: bytes of pages that are kept per source: the tables of a library with some thousand containers.
CACHE_SIZE = 8 << 20

#: Reads of more than this are images and searches, which nobody repeats: they are not kept.
BULK = 256 << 10

#: LIMIT: bytes of images that one request asks for; they are in memory while they are written.
PIECE = 4 << 20


class RangedSource(Source):
    """Bytes that come in ranges from an object with ``read_at`` and ``size`` (``ReadAt``).

    What ``read_at`` returns must be as long as what was asked for; anything else raises ``OSError`` with the place. The
    size is taken once.
    """

    is_file = True
    is_concurrent = True

    def __init__(self, reader: ReadAt, name: str, *, owned: bool = False) -> None:
        size = getattr(reader, "size", None)
        if not isinstance(size, int):
            raise TypeError(f"an object with read_at and size, a number of bytes, got {type(size).__name__}")
        if not 0 <= size <= sys.maxsize:  # no view is longer
            raise OSError(errno.EIO, f"it says that its size is {size}", name)
        self.name = name
        self.size = self.present = size
        self.identity = getattr(reader, "identity", "")
        self._reader: ReadAt | None = reader
        self._owned = owned
        self._start()

    def _start(self) -> None:
        self._lock = allocate_lock()
        #: number of a page → its bytes, the one used last at the end
        self._pages: dict[int, bytes] = {}
        self._newest = -1
        #: the page behind those that came last, and how many came
        self._next = -1
        self._run = 1

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes at ``offset``, from the pages read lately if they hold them. Raises ``OSError``."""
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
        """Return pages, from the cache or with one request for those that it lacks."""
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
        """Return where a request from page ``start`` to ``end`` is to end, with what is read ahead."""
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
        """Return what the object gives for one request. Raises ``OSError`` unless that is what was asked for."""
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
        """Return the most that is in memory at a time."""
        return min(size, PIECE)

    def release_buffers(self) -> None:
        """Let the pages go."""
        with self._lock:
            self._pages.clear()

    def close(self) -> None:
        """Let everything go; what the caller gave stays open."""
        super().close()
        reader, self._reader = self._reader, None
        self.release_buffers()
        close = getattr(reader, "close", None)
        if self._owned and close is not None:
            close()

    def __getstate__(self) -> dict[str, object]:
        """Return what reads the same bytes in another process: the object as it is pickled, not the bytes."""
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


# Ranges of a file object that can seek, and the way back: a view as such a file, for other people's readers.


def read_from_file(file: BinaryIO, size: int, name: str) -> bytes:
    """Return up to ``size`` bytes from where a file stands. Raises ``OSError``, and TypeError for a file of text."""
    try:
        block: object = file.read(size)
    except foreign_errors() as error:
        raise as_os_error(error, name) from error
    if isinstance(block, bytes):
        return block
    if isinstance(block, (bytearray, memoryview)):
        return bytes(block)
    raise TypeError(f"a path, bytes or a binary file, not one that reads {type(block).__name__}")


class SeekableReader:
    """``read_at`` of a file object that can seek: one thread after the other moves its position.

    With ``opens_again`` the object itself can be pickled, and opens the same file elsewhere.
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
        """Return ``size`` bytes at ``offset``, fewer where the file ends. Raises ``OSError``."""
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
        """Close the file, which is called where it is no caller's."""
        self._file.close()

    def __getstate__(self) -> dict[str, object]:
        """Return what opens the file again elsewhere. Raises PicklingError for a file that only exists here."""
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
        """It can be read."""
        return True

    def seekable(self) -> bool:
        """It has positions."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a position."""
        self._at = max(0, offset + (0, self._at, len(self._view))[whence])
        return self._at

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Return up to ``size`` bytes from the position on."""
        left = max(0, len(self._view) - self._at)
        data = self._view.head(self._at, left if size < 0 else min(size, left))
        self._at += len(data)
        return data

    def readinto(self, buffer: Buffer) -> int:
        """Fill a buffer as far as there are bytes, and return how many these are."""
        target = memoryview(buffer).cast("B")
        data = self.read(len(target))
        target[: len(data)] = data
        return len(data)
