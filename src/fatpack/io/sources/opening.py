"""Opening what a caller names or hands over: a path, standard input, bytes or a binary file."""

from __future__ import annotations

import errno
import os
import stat

from fatpack.errors import UsageError
from fatpack.io import limits
from fatpack.io.sources.file import FileSource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO, TypeAlias

    from typing_extensions import Buffer

    from fatpack.io.source import Source

    Input: TypeAlias = str | os.PathLike[str] | Buffer | BinaryIO
    """What every public function accepts as input: a path ("-" is standard input), bytes, or a binary file."""


#: What files of /sys give as their size
_PAGE = 4096


def open_source(data: Input, *, name: str = "", resting: bool = False, budget: limits.Budget | None = None) -> Source:
    """Return a source for a path, ``"-"`` (standard input), a buffer or a binary file object.

    A path must be a readable file; a pipe, a terminal or a file of /proc is spooled to an unnamed temporary file first.
    A file object stays the caller's to close; its position is ignored if it is a regular file. ``resting`` files given
    by path are closed between uses. Without a ``budget`` the source gets that of the command
    (:func:`fatpack.io.limits.opened_with`). Raises ``OSError`` as the system does, ``IsADirectoryError`` for a
    directory, and TypeError, with the words for what is needed, for anything else.
    """
    source = _opened(data, name, resting=resting)
    source.budget = limits.budget_now() if budget is None else budget
    return source


def _opened(data: Input, name: str, *, resting: bool) -> Source:
    if isinstance(data, (bytes, bytearray, memoryview)):
        return _in_memory(data, name)
    if isinstance(data, (str, os.PathLike)):
        path = os.fspath(data)
        if "\0" in path:
            raise UsageError("a path cannot contain a NUL character")
        if path == "-":
            return _from_descriptor(0, name or "<stdin>", owned=False)
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return _from_descriptor(fd, name or path, owned=True, path=path, rests=resting)
    if hasattr(data, "read") and hasattr(data, "fileno"):
        try:
            fd = data.fileno()
        except (OSError, AttributeError):  # a file object in memory
            return _in_memory(data.read(), name)
        path = getattr(data, "name", "")  # that of a descriptor is its number
        return _from_descriptor(fd, name or str(path), owned=False, path=path if isinstance(path, str) else None)
    return _in_memory(data, name)


def _in_memory(data: Buffer, name: str) -> Source:
    from fatpack.io.sources.memory import BytesSource

    try:
        return BytesSource(data, name)
    except TypeError:
        raise TypeError(f"a path, bytes or a binary file, not {type(data).__name__}") from None


def _from_descriptor(fd: int, name: str, *, owned: bool, path: str | None = None, rests: bool = False) -> Source:
    status = os.fstat(fd)
    mode = status.st_mode
    if stat.S_ISREG(mode) and not _is_made_when_read(fd, status, name):
        return FileSource(fd, name, owned=owned, path=path, rests=rests)
    try:
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        is_device = stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and not os.isatty(fd))
        if is_device:
            if stat.S_ISBLK(mode) or os.read(fd, 1):
                raise UsageError(f"{name} is a device", hint="give a file or a pipe; a device may never end")
            return _in_memory(b"", name)  # /dev/null, which compilers give where there is no host code
        return FileSource(_spool(fd), name)
    finally:
        if owned:
            os.close(fd)


def _is_made_when_read(fd: int, status: os.stat_result, name: str) -> bool:
    """Return whether a file has other bytes than its size says, as those of /proc (none) and /sys (a page) have."""
    if status.st_blocks or status.st_size > _PAGE:
        return False
    try:
        return len(os.pread(fd, status.st_size + 1, 0)) != status.st_size
    except OSError as error:
        raise type(error)(error.errno, error.strerror, name) from error


def _spool(fd: int) -> int:
    """Copy a pipe into an unnamed temporary file and return that file's descriptor: memory stays bounded."""
    import tempfile

    with tempfile.TemporaryFile() as spool:
        while block := os.read(fd, limits.CHUNK):
            spool.write(block)
        spool.flush()
        return os.dup(spool.fileno())
