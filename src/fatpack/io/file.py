"""Files and binary file objects as sources.

Regular files are read with ``pread``; file objects without a descriptor are read through ``seek``, or copied to a
temporary file if they cannot seek.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import sys

from fatpack import limits
from fatpack.concurrency import system
from fatpack.errors import BadValue, Truncated, UsageError
from fatpack.io.source import READ_AHEAD, Source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, BinaryIO


#: LIMIT: cached pages: enough for a bundle with its images, or a cubin with its tables.
_PAGES = 32

#: LIMIT: runs of zeros that are remembered: the padding between images of a container is skipped again and again.
_RUNS = 32

#: Errors that mean "no such file": the name is too long, or a parent is not a folder.
_MISSING = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ENXIO)


class FileSource(Source):
    """A regular file, read with ``pread`` (:mod:`fatpack.concurrency.system`); its size is read once, on opening.

    With ``path`` it can be opened again if it is still the same, unchanged file: in another process after a view was
    pickled, and in this one after :meth:`release_buffers` if it ``may_close`` between uses, so that one command can
    read more files than a process can have open.
    """

    is_file = True
    _fd = -1

    def __init__(
        self, fd: int, name: str, *, owned: bool = True, path: str | None = None, may_close: bool = False
    ) -> None:
        status = os.fstat(fd)
        self.name = name
        self.size = self.present = status.st_size
        self._identity = _identity(status)
        self._fd = fd
        self._owned = owned
        self._path = path
        self._may_close = may_close
        #: page number → its bytes, which never change: threads may read at the same time
        self._pages: dict[int, bytes] = {}
        #: start of a run of zeros → the first byte after it
        self._zeros: dict[int, int] = {}

    @property
    def path(self) -> str | None:  # type: ignore[override]  # it cannot be changed here
        """The path that the file was opened by; None for a descriptor and for a file unpacked from a package."""
        return self._path if self._owned and self.siblings is None else None

    @property
    def is_concurrent(self) -> bool:  # type: ignore[override]  # release_buffers closes the file for all threads
        """True if several threads may read at once: not if the file is closed between uses."""
        return not self._may_close

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes at ``offset``, from cached pages if they hold them."""
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
        """Read a page and cache it; the last one of the file may be short."""
        offset = number * READ_AHEAD
        page = self._pread(offset, min(READ_AHEAD, self.size - offset))
        if len(self._pages) >= _PAGES:
            self._pages.clear()
        self._pages[number] = page
        return page

    def _pread(self, offset: int, size: int) -> bytes:
        fd = self.fileno()
        try:
            data = system.read_at(fd, size, offset)
            while len(data) < size:
                more = system.read_at(fd, size - len(data), offset + len(data))
                if not more:
                    raise self._changed(size, len(data), offset)
                data += more
        except OSError as error:
            raise self._failed(error) from error
        return data

    def _failed(self, error: OSError) -> OSError:
        """Return the error with the name of the file: the system's error names no file."""
        return type(error)(error.errno, error.strerror, self.name)

    def _changed(self, needed: int, left: int, offset: int) -> Truncated:
        return Truncated(
            needed=needed, left=left, offset=offset, field="file changed while reading", chain=(self.name,)
        )

    def pieces(self, offset: int, size: int) -> Iterator[memoryview]:
        """Yield the range in pieces of ``limits.CHUNK`` bytes, all in one reused buffer."""
        buffer = memoryview(bytearray(min(size, limits.CHUNK)))
        while size:
            part = buffer[: min(size, len(buffer))]
            try:
                count = system.read_into(self.fileno(), part, offset)
            except OSError as error:
                raise self._failed(error) from error
            if not count:
                raise self._changed(size, 0, offset)
            yield part[:count]
            offset += count
            size -= count

    def skip_zeros(self, start: int, end: int) -> int:
        """Return the first offset from ``start`` on that holds a byte other than zero, at most ``end``."""
        found = self._zeros.get(start)
        if found is None:
            found = super().skip_zeros(start, end)
            if found < end:
                if len(self._zeros) >= _RUNS:
                    self._zeros.clear()
                self._zeros[start] = found
        return min(found, end)

    def skip_hole(self, start: int, end: int) -> int:
        """Return the offset of the next data of a sparse file, at most ``end``."""
        if start >= end or not hasattr(os, "SEEK_DATA"):
            return start
        try:
            return min(os.lseek(self.fileno(), start, os.SEEK_DATA), end)
        except OSError as error:
            # ENXIO: only a hole up to the end of the file. Any other error: the file system does not report holes.
            return end if error.errno == errno.ENXIO else start

    def sibling(self, name: str, most: int) -> bytes | None:
        """Return the first ``most`` bytes of a file in the same folder, if this file was opened by its path."""
        if self._path is None or not self._owned or self.siblings is not None:
            return super().sibling(name, most)
        path = os.path.join(os.path.dirname(self._path), name)
        try:
            # AT_ONCE: opening a pipe must not wait for a writer.
            fd = system.open_to_read(path, system.AT_ONCE)
        except OSError as error:
            if error.errno in _MISSING:
                return None
            raise
        with os.fdopen(fd, "rb") as file:
            return file.read(most) if stat.S_ISREG(os.fstat(fd).st_mode) else None

    def sibling_names(self, suffix: str) -> list[str]:
        """Return the sorted names in the same folder that end with ``suffix``, if this file was opened by its path."""
        if self._path is None or not self._owned or self.siblings is not None:
            return super().sibling_names(suffix)
        return sorted(name for name in os.listdir(os.path.dirname(self._path) or os.curdir) if name.endswith(suffix))

    def fileno(self) -> int:
        """Return the descriptor; opens the file again if it was closed between uses."""
        if self._fd < 0:
            if self._path is None or not self._may_close:
                raise ValueError(f"{self.name} is closed")
            fd = system.open_to_read(self._path, system.AT_ONCE)  # a pipe may have taken its place
            found = _identity(os.fstat(fd))
            if found != self._identity:
                os.close(fd)
                raise _other_file(self.name, self._identity, found)
            self._fd = fd
        return self._fd

    def release_buffers(self) -> None:
        """Close the file if it can be opened again, and drop its pages: a command may read thousands of files."""
        if self._may_close and self._fd >= 0:
            self._pages.clear()
            os.close(self._fd)
            self._fd = -1

    def release_name(self) -> None:
        """Close the file until the next read on systems on which an open file cannot be replaced (Windows)."""
        if system.OPEN_FILES_LOCK_NAMES and self._owned and self._path is not None:
            self._may_close = True
            self.release_buffers()

    def close(self) -> None:
        """Close the file, unless the caller opened it."""
        super().close()
        if self._owned and self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self._may_close = False

    def __getstate__(self) -> dict[str, object]:
        """Return the state that opens the same file in another process, in which the descriptor is not valid."""
        from pickle import PicklingError

        path = None if self._path is None else os.path.abspath(self._path)
        if path is None:
            text = "it was given as a descriptor; open it by its path, or read it as bytes"
            raise PicklingError(f"{self.name} cannot be opened by another process: {text}")
        found = _identity(os.stat(path))
        if found != self._identity:
            raise _other_file(self.name, self._identity, found)
        taken = {"_path": path, "_fd": -1, "_owned": True, "_may_close": True, "_pages": {}, "_zeros": {}}
        return super().__getstate__() | taken

    def __del__(self) -> None:
        # A file that was opened again in another process has no other owner.
        if self._fd >= 0 and self._owned:
            os.close(self._fd)


def _identity(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _other_file(name: str, expected: tuple[int, ...], found: tuple[int, ...]) -> BadValue:
    """Return the error for a file that differs from the one that was opened, with the properties that differ."""
    words = ("device", "inode", "size", "time of change")
    differing = [word for word, one, other in zip(words, expected, found, strict=True) if one != other]
    text = f"the file changed since it was opened: another {' and another '.join(differing)}"
    return BadValue(text, hint="scan it again", chain=(name,))


# Binary file objects: read through seek if they can seek, and copied to a temporary file otherwise

#: Modules whose files decompress from the start to seek backwards.
_INFLATING = ("gzip", "bz2", "lzma", "zipfile")


def find_descriptor(file: Any) -> int | None:
    """Return the descriptor of a file object if it reads the same bytes, None otherwise.

    A ``GzipFile`` has the descriptor of the compressed file, an HTTP response that of its connection. Raises
    UsageError if the file is closed.
    """
    if getattr(file, "closed", False) is True:
        raise UsageError(f"{_name_of(file) or 'the file'} is closed", hint="give an open file, or its path")
    file = getattr(file, "buffer", file)
    if not isinstance(getattr(file, "raw", file), io.FileIO):
        return None
    return int(file.fileno())


def open_object(file: Any, name: str) -> Source:
    """Return a source for a file object without a descriptor; the caller closes the object.

    Reading moves its position if it can seek. If it cannot, or decompresses, the rest of it is copied to an unnamed
    temporary file. Raises ``OSError`` if reading fails.
    """
    name = name or _name_of(file)
    if isinstance(file, io.TextIOBase):
        raise TypeError("a path, bytes or a binary file, got a text file; open it with mode 'rb'")
    if type(file) is io.BytesIO:
        from fatpack.io.source import BytesSource

        return BytesSource(file.getvalue(), name)
    from fatpack.io import remote
    from fatpack.io.ranges import RangedSource, SeekableReader

    if remote.is_buffered(file):
        return RangedSource(SeekableReader(remote.without_cache(file), name, opens_again=True), name)
    if not _can_seek(file):
        return FileSource(_spool(_blocks(file, name)), name)
    if _inflates(file):
        SeekableReader(file, name).rewind()
        return FileSource(_spool(_blocks(file, name)), name)
    return RangedSource(SeekableReader(file, name), name)


def _name_of(file: BinaryIO) -> str:
    from fatpack.io.url import find_scheme, redact_url

    name = getattr(file, "full_name", None) or getattr(file, "name", "")
    if not isinstance(name, str):
        return ""
    return redact_url(name) if find_scheme(name) else name


def _can_seek(file: BinaryIO) -> bool:
    seekable = getattr(file, "seekable", None)
    if getattr(file, "size", 0) is None:  # a stream of fsspec, whose seekable() returns True
        return False
    return hasattr(file, "seek") and (seekable is None or bool(seekable()))


def _inflates(file: BinaryIO) -> bool:
    """Return whether seeking backwards costs as much as reading from the start."""
    if type(file).__module__ not in _INFLATING:
        return False
    # Python 3.13 seeks in stored members of zip files; older versions read everything before the position.
    return getattr(file, "_compress_type", 8) != 0 or sys.version_info < (3, 13)


def _blocks(file: BinaryIO, name: str) -> Iterator[bytes]:
    from fatpack.io.ranges import read_from_file

    while block := read_from_file(file, limits.CHUNK, name):
        yield block


def _spool(blocks: Iterator[bytes]) -> int:
    """Copy blocks into an unnamed temporary file, in bounded memory, and return its descriptor."""
    import tempfile

    with tempfile.TemporaryFile() as spool:
        for block in blocks:
            spool.write(block)
        spool.flush()
        return os.dup(spool.fileno())
