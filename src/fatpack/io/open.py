"""Open an input of a caller: a path, standard input, bytes, a binary file, or a URL."""

from __future__ import annotations

import os
import stat

from fatpack import limits
from fatpack.concurrency import system
from fatpack.errors import UsageError
from fatpack.io.file import FileSource
from fatpack.limits import current_budget

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO, TypeAlias

    from typing_extensions import Buffer

    from fatpack.io.ranges import ReadAt
    from fatpack.io.source import Source
    from fatpack.limits import Budget

    Input: TypeAlias = str | os.PathLike[str] | Buffer | BinaryIO | ReadAt
    """The types of input that every public function accepts.

    A path ("-" is standard input), a URL, bytes, a binary file, or an object with ``read_at`` and ``size``.
    """


#: Characters that make a name a pattern, if there is no file of that name.
PATTERN_CHARACTERS = "*?["

#: Size that files of /sys report.
_PAGE = 4096


def resolve_url(text: str) -> str:
    """Return a path or a :class:`~fatpack.io.url.Url` for text from a user; :func:`open_source` opens both.

    Only text that passes through here can become a URL, so no name inside a file causes a request. A file of exactly
    that name has precedence. Raises UsageError for an unsupported scheme.
    """
    if "://" not in text or hasattr(text, "full_url") or os.path.lexists(text):
        return text
    from fatpack.io import url

    return url.parse_url(text)


def is_tree(name: str) -> bool:
    """Return whether a name is a folder, or a pattern that matches files."""
    return os.path.isdir(name) or is_pattern(name)


def is_pattern(name: str) -> bool:
    """Return whether a name is a pattern: it has pattern characters, and no file has that name."""
    if not any(char in name for char in PATTERN_CHARACTERS):
        return False
    is_other = "://" in name or "?offset=" in name or "\0" in name  # a URL, an address, an invalid name
    return not is_other and not os.path.lexists(name)


def open_source(data: Input, *, name: str = "", may_close: bool = False, budget: Budget | None = None) -> Source:
    """Return a source for a path, ``"-"`` (standard input), a buffer, a binary file object, or one with ``read_at``.

    A path must be a readable file; a pipe, a terminal or a file of /proc is copied to an unnamed temporary file first.
    The caller closes a file object; its position is ignored if it is a file or can seek. ``may_close`` allows closing
    a file opened by path between uses. A URL is the result of :func:`resolve_url`. Without a ``budget`` the source
    gets that of the command (:func:`fatpack.limits.sources_with_budget`). Raises ``OSError`` as the system does,
    ``IsADirectoryError`` for a directory, and TypeError for anything else.
    """
    source = _opened(data, name, may_close=may_close)
    source.budget = current_budget() if budget is None else budget
    # A source without a name counts as a file of its own.
    source.budget.opened(source.name or id(source), source.size)
    return source


def read_regular_file(path: str, most: int, hint: str = "") -> bytes:
    """Return up to ``most`` bytes of a file that has a fixed name in a folder.

    Raises UsageError for what is no regular file, and ``OSError``. A pipe of that name is not waited for.
    """
    fd = system.open_to_read(path, system.AT_ONCE)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise UsageError(f"{path} is no regular file", hint=hint)
        with os.fdopen(fd, "rb", closefd=False) as file:
            return file.read(most)
    finally:
        os.close(fd)


def _opened(data: Input, name: str, *, may_close: bool) -> Source:
    if isinstance(data, (bytes, bytearray, memoryview)):
        return _in_memory(data, name)
    if isinstance(data, (str, os.PathLike)):
        return _from_path(data, name, may_close=may_close)
    return _from_object(data, name)


def _from_object(data: Any, name: str) -> Source:
    """Return a source for an object with ``read_at``, a buffer, or a file object."""
    given = getattr(data, "name", "")  # an integer if the object was opened from a descriptor
    path = given if isinstance(given, str) else None
    if hasattr(data, "read_at"):
        from fatpack.io.ranges import RangedSource

        return RangedSource(data, name or path or "")
    if not hasattr(data, "read") or _is_buffer(data):
        return _in_memory(data, name)
    from fatpack.io.file import find_descriptor, open_object

    fd = find_descriptor(data)
    if fd is None:
        return open_object(data, name)
    return _from_descriptor(fd, name or str(given), owned=False, path=path)


def _from_path(data: str | os.PathLike[str], name: str, *, may_close: bool) -> Source:
    path = os.fspath(data)
    if hasattr(path, "full_url"):
        from fatpack.io.remote import open_url

        return open_url(path.full_url, path)
    if "\0" in path:
        raise UsageError("a path cannot contain a NUL character")
    if path == "-":
        return _from_descriptor(0, name or "<stdin>", owned=False)
    fd = system.open_to_read(path)
    return _from_descriptor(fd, name or path, owned=True, path=path, may_close=may_close)


def _in_memory(data: Buffer, name: str) -> Source:
    from fatpack.io.source import BytesSource

    try:
        return BytesSource(data, name)
    except TypeError:
        raise TypeError(f"a path, bytes or a binary file, got {type(data).__name__}") from None


def _is_buffer(data: object) -> bool:
    """Return whether a file-like object supports the buffer protocol, as ``mmap`` does."""
    try:
        memoryview(data)  # type: ignore[arg-type]
    except TypeError:
        return False
    return True


def _from_descriptor(fd: int, name: str, *, owned: bool, path: str | None = None, may_close: bool = False) -> Source:
    status = os.fstat(fd)
    mode = status.st_mode
    if stat.S_ISREG(mode) and not _is_made_when_read(fd, status, name):
        return FileSource(fd, name, owned=owned, path=path, may_close=may_close)
    try:
        if stat.S_ISDIR(mode):
            system.refuse_folder(name)
        is_device = stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and not os.isatty(fd))
        if is_device:
            if stat.S_ISBLK(mode) or os.read(fd, 1):
                raise UsageError(f"{name} is a device", hint="give a file or a pipe; a device may never end")
            return _in_memory(b"", name)  # /dev/null, which compilers pass if there is no host code
        return FileSource(_spool(fd), name)
    finally:
        if owned:
            os.close(fd)


def _is_made_when_read(fd: int, status: os.stat_result, name: str) -> bool:
    """Return whether reading returns another number of bytes than st_size, as in /proc (0) and /sys (one page)."""
    if status.st_size > _PAGE or not hasattr(status, "st_blocks") or status.st_blocks:
        return False
    try:
        return len(system.read_at(fd, status.st_size + 1, 0)) != status.st_size
    except OSError as error:
        raise type(error)(error.errno, error.strerror, name) from error


def _spool(fd: int) -> int:
    """Copy a pipe into an unnamed temporary file, in bounded memory, and return its descriptor."""
    import tempfile

    with tempfile.TemporaryFile() as spool:
        while block := os.read(fd, limits.CHUNK):
            spool.write(block)
        spool.flush()
        return os.dup(spool.fileno())
