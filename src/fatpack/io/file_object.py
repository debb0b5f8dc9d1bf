"""Binary file objects as sources: read where somebody asks, if they can seek, and spooled otherwise."""

from __future__ import annotations

import io
import os
import sys

from fatpack import limits
from fatpack.errors import UsageError
from fatpack.io.file import FileSource
from fatpack.io.ranges import RangedSource
from fatpack.io.seekable import SeekableReader, read_from_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, BinaryIO

    from fatpack.io.source import Source

#: Modules whose files inflate from the start again to go back.
_INFLATING = ("gzip", "bz2", "lzma", "zipfile")


def find_descriptor(file: Any) -> int | None:
    """Return the descriptor behind a file object if its bytes are those of the object, None otherwise.

    A ``GzipFile`` has the descriptor of the compressed file, a response of a server that of its connection. Raises
    UsageError for a file that is closed.
    """
    if getattr(file, "closed", False) is True:
        raise UsageError(f"{_name_of(file) or 'the file'} is closed", hint="give an open file, or its path")
    file = getattr(file, "buffer", file)
    if not isinstance(getattr(file, "raw", file), io.FileIO):
        return None
    return int(file.fileno())


def open_object(file: Any, name: str) -> Source:
    """Return a source for a file object without a descriptor; it stays the caller's to close.

    Its position moves if it can seek. If it cannot, or inflates, what is left of it is copied to an unnamed temporary
    file. Raises ``OSError`` for what reading it raises.
    """
    name = name or _name_of(file)
    if isinstance(file, io.TextIOBase):
        raise TypeError("a path, bytes or a binary file, got str")
    if type(file) is io.BytesIO:
        from fatpack.io.memory import BytesSource

        return BytesSource(file.getvalue(), name)
    from fatpack.io import remote

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
    if getattr(file, "size", 0) is None:  # a stream of fsspec's, which says all the same that it can
        return False
    return hasattr(file, "seek") and (seekable is None or bool(seekable()))


def _inflates(file: BinaryIO) -> bool:
    """Return whether going back in a file costs as much as reading it from the start."""
    if type(file).__module__ not in _INFLATING:
        return False
    # Python 3.13 seeks in what a zip file only stores; older versions read all that lies before.
    return getattr(file, "_compress_type", 8) != 0 or sys.version_info < (3, 13)


def _blocks(file: BinaryIO, name: str) -> Iterator[bytes]:
    while block := read_from_file(file, limits.CHUNK, name):
        yield block


def _spool(blocks: Iterator[bytes]) -> int:
    """Copy blocks into an unnamed temporary file and return its descriptor: memory stays bounded."""
    import tempfile

    with tempfile.TemporaryFile() as spool:
        for block in blocks:
            spool.write(block)
        spool.flush()
        return os.dup(spool.fileno())
