"""Portable file operations: the functions that POSIX has, and their replacements on Windows.

Windows has no ``pread``: the position of the descriptor is moved and restored, by one thread at a time. Without
``O_BINARY`` it converts line ends, without ``O_NOINHERIT`` child processes inherit descriptors. It cannot open folders,
and its programs are called ``NAME.exe``.
"""

from __future__ import annotations

import errno
import os
import sys
from _thread import allocate_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import NoReturn

#: flags for every file that is opened: binary, and not inherited by child processes
PLAIN = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOINHERIT", 0) | getattr(os, "O_BINARY", 0)

#: flag for paths that may be a pipe: opening must not wait for a writer
AT_ONCE = getattr(os, "O_NONBLOCK", 0)

#: whether an open file cannot be replaced or renamed, as on Windows: close it first
OPEN_FILES_LOCK_NAMES = os.name == "nt"

#: permission bits without which the owner cannot write, rename or remove a file: Windows' read-only bit
NEEDED_MODE = 0o200 if os.name == "nt" else 0

#: held while the position of a descriptor is moved
_moving = allocate_lock()


def open_to_read(path: str, flags: int = 0) -> int:
    """Return a descriptor for reading. Raises ``OSError`` as the system does, IsADirectoryError for a folder."""
    try:
        return os.open(path, os.O_RDONLY | PLAIN | flags)
    except PermissionError:
        if os.path.isdir(path):
            refuse_folder(path)
        raise


def refuse_folder(path: str) -> NoReturn:
    """Raise IsADirectoryError for ``path``."""
    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path) from None


def read_at(fd: int, size: int, offset: int) -> bytes:
    """Return up to ``size`` bytes at ``offset`` without changing the position of the descriptor."""
    if hasattr(os, "pread"):
        return os.pread(fd, size, offset)
    with _At(fd, offset):
        return os.read(fd, size)


def read_into(fd: int, part: memoryview, offset: int) -> int:
    """Read bytes at ``offset`` into memory, as :func:`read_at` does; return their number."""
    if hasattr(os, "preadv"):
        return os.preadv(fd, [part], offset)
    data = read_at(fd, len(part), offset)
    part[: len(data)] = data
    return len(data)


def write_at(fd: int, data: bytes | memoryview, offset: int) -> int:
    """Write bytes at ``offset`` without changing the position of the descriptor; return how many were written."""
    if hasattr(os, "pwrite"):
        return os.pwrite(fd, data, offset)
    with _At(fd, offset):
        return os.write(fd, data)


def find_programs(names: Iterable[str], first: Iterable[str] = ()) -> Iterator[str]:
    """Yield the paths of programs with these names: in the folders ``first``, then in those of PATH.

    ``shutil.which`` finds one; importing it takes longer than running a replacement tool.
    """
    names = list(names)
    if os.name == "nt":
        names += [f"{name}.exe" for name in names]
    for folder in filter(None, (*first, *os.environ.get("PATH", "").split(os.pathsep))):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and os.access(path, os.X_OK):
                yield path


class _At:
    """A context manager that moves the position of a descriptor, and restores it."""

    def __init__(self, fd: int, offset: int) -> None:
        self._fd, self._offset = fd, offset

    def __enter__(self) -> None:
        _moving.acquire()
        try:
            self._before = os.lseek(self._fd, 0, os.SEEK_CUR)
            os.lseek(self._fd, self._offset, os.SEEK_SET)
        except BaseException:
            _moving.release()
            raise

    def __exit__(self, *_: object) -> None:
        try:
            os.lseek(self._fd, self._before, os.SEEK_SET)
        finally:
            _moving.release()


#: numbers of parameters of glibc's allocator (malloc.h)
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def return_freed_memory(least: int) -> None:
    """Let blocks of ``least`` bytes or more go back to the system as soon as they are freed, from now on.

    glibc keeps up to 64 MB of freed blocks for each thread that ran, which no other thread uses: a process that
    inflates and compresses in threads keeps what all of them took. Other C libraries return them anyhow.
    """
    if sys.platform != "linux":
        return
    import ctypes

    set_parameter = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_parameter is not None:
        set_parameter(_M_MMAP_THRESHOLD, least)
        set_parameter(_M_TRIM_THRESHOLD, least)
