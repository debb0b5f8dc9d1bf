"""Two tar archives read forwards side by side, compressed as conda compresses them, by Python's ``tarfile``."""

from __future__ import annotations

import bz2
import io
import tarfile

from fatpack import codecs, limits, magic_numbers
from fatpack.errors import BadValue
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO, Protocol

    from typing_extensions import Buffer

    from fatpack.io.source import View

    class MemberContent(Protocol):
        """A file that is read forwards."""

        def read(self, size: int, /) -> bytes: ...  # noqa: D102


#: what has to be as it was of every file
SAME = ("name", "mode", "uid", "gid", "mtime", "type", "linkname", "uname", "gname", "devmajor", "devminor")


class TarEntry(Record):
    """A file, folder or link of an archive: ``content`` is read before the next entry, None for what has none."""

    info: tarfile.TarInfo
    content: MemberContent | None


def read_tar_entries(view: View) -> Iterator[TarEntry]:
    """Yield what is in an archive that zstd or bzip2 compressed.

    What it inflates to is drawn from the budget. Raises FormatError and LimitExceeded.
    """
    reader = io.BufferedReader(_PiecesFile(_inflated(view)), limits.CHUNK)
    try:
        with tarfile.open(fileobj=reader, mode="r|") as archive:
            while (info := archive.next()) is not None:
                content = archive.extractfile(info) if info.isreg() else None
                yield TarEntry(info, None if content is None else _Content(content, view, info.name))
                archive.members.clear()  # type: ignore[attr-defined]  # it would grow with the archive
    except _FAILURES as error:
        raise _damaged(error, view, "archive") from error


#: what ``tarfile`` raises of damaged archives
_FAILURES = (tarfile.TarError, ValueError, OverflowError, EOFError)


def _damaged(error: Exception, view: View, field: str) -> BadValue:
    text = str(error) or "it is no tar archive"
    return BadValue(text, format="tar", field=field, hint="get the package again", chain=view.chain)


class _Content:
    """A file of an archive. ``tarfile`` raises its own errors where the archive ends in it."""

    def __init__(self, file: IO[bytes], view: View, name: str) -> None:
        self._file, self._view, self._name = file, view, name

    def read(self, size: int) -> bytes:
        """Return up to ``size`` next bytes. Raises BadValue."""
        try:
            return self._file.read(size)
        except _FAILURES as error:
            raise _damaged(error, self._view, f"file {self._name}") from error


def _inflated(view: View) -> Iterator[bytes]:
    if view.head(0, 4).startswith(magic_numbers.BZIP2):
        return _bunzipped(view)
    return codecs.inflate_pieces(view, "zstd", None, format="conda")


def _bunzipped(view: View) -> Iterator[bytes]:
    """Yield what one or more bzip2 streams hold."""
    stream, size = bz2.BZ2Decompressor(), 0
    try:
        for piece in view.once():
            data = bytes(piece)
            while data or not (stream.needs_input or stream.eof):
                if stream.eof:
                    stream = bz2.BZ2Decompressor()
                made = stream.decompress(data, max_length=limits.CHUNK)
                data = stream.unused_data if stream.eof else b""
                size += len(made)
                if not view.source.draw(view.start, size):
                    raise codecs.inflation_limit_error(view, None, format="conda")
                yield made
    except (OSError, ValueError) as error:  # bz2's
        raise BadValue(str(error), format="bzip2", field="stream", chain=view.chain) from error
    if not stream.eof:
        text = "the bzip2 data end early"
        raise BadValue(text, format="bzip2", field="stream", hint="get the package again", chain=view.chain)


class _PiecesFile(io.RawIOBase):
    """Pieces as a file that is read forwards."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        target = memoryview(buffer).cast("B")
        while not self._left:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._left = memoryview(piece)
        size = min(len(target), len(self._left))
        target[:size], self._left = self._left[:size], self._left[size:]
        return size
