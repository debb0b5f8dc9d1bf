"""What systems differ in when files are opened, read, written and looked for: POSIX, and what Windows has of it.

Windows has no ``pread``: there the position of the descriptor moves and comes back, one thread at a time. Without
``O_BINARY`` it changes line ends. Programs that it starts inherit a descriptor unless it is opened otherwise, as on
POSIX; and its folders cannot be opened. Programs have ``.exe`` behind their names.
"""

from __future__ import annotations

import errno
import os
from _thread import allocate_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import NoReturn

#: for every file that is opened: its bytes as they are, and for this process alone
PLAIN = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOINHERIT", 0) | getattr(os, "O_BINARY", 0)

#: for what may be a pipe that nobody writes to: it must not be waited for
AT_ONCE = getattr(os, "O_NONBLOCK", 0)

#: whether files that are open keep their names from others, as Windows has it: close first, then rename
OPEN_FILES_LOCK_NAMES = os.name == "nt"

#: permission bits without which a file cannot be written, renamed or removed, be it one's own: Windows' read-only
NEEDED_MODE = 0o200 if os.name == "nt" else 0

#: held while the position of a descriptor is another than its owner left it at
_moving = allocate_lock()


def open_to_read(path: str, flags: int = 0) -> int:
    """Return a descriptor for reading. Raises ``OSError`` as the system does, and IsADirectoryError."""
    try:
        return os.open(path, os.O_RDONLY | PLAIN | flags)
    except PermissionError:
        if os.path.isdir(path):
            refuse_folder(path)
        raise


def refuse_folder(path: str) -> NoReturn:
    """Raise IsADirectoryError for a path."""
    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path) from None


def read_at(fd: int, size: int, offset: int) -> bytes:
    """Return up to ``size`` bytes at ``offset``, and leave the position of the descriptor where it is."""
    if hasattr(os, "pread"):
        return os.pread(fd, size, offset)
    with _At(fd, offset):
        return os.read(fd, size)


def read_into(fd: int, part: memoryview, offset: int) -> int:
    """Fill memory with the bytes at ``offset`` as :func:`read_at` does; return how many there were."""
    if hasattr(os, "preadv"):
        return os.preadv(fd, [part], offset)
    data = read_at(fd, len(part), offset)
    part[: len(data)] = data
    return len(data)


def write_at(fd: int, data: bytes | memoryview, offset: int) -> int:
    """Write at ``offset``, and leave the position where it is; return how many bytes were written."""
    if hasattr(os, "pwrite"):
        return os.pwrite(fd, data, offset)
    with _At(fd, offset):
        return os.write(fd, data)


def find_programs(names: Iterable[str], first: Iterable[str] = ()) -> Iterator[str]:
    """Yield the paths of programs of some names: in the folders that come first, then in those of PATH.

    ``shutil.which`` does the same for one; it takes longer to load than a stand-in runs.
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
    """A descriptor stands at an offset in this block, and afterwards where it stood before."""

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
