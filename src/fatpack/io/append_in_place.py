"""Files that grow in place: new bytes behind the end, then a few changed ones before. The rest is not copied.

::

    1  old header │ old bytes │ new bytes     written behind the end, and checked
    2  synced to disk
    3  new header │ old bytes │ new bytes     the header changed in one write, inside one sector
    4  synced to disk

Until the third step the file is the old one with bytes behind its end that nothing leads to; from then on it is the new
one. Whatever fails before the end, but for the machine itself, takes the file back to what it was.
"""

from __future__ import annotations

import os

from fatpack.concurrency import system
from fatpack.io.file import FileSource
from fatpack.io.source import PiecesSource, View
from fatpack.io.write import write_pieces
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fatpack.io.atomic_write import FileMetadata
    from fatpack.io.source import Piece
    from fatpack.io.write import Progress

#: Disks write sectors of this size, or larger ones, whole or not at all.
_SECTOR = 512


class AppendPlan(Record):
    """How a file becomes another: ``patch`` replaces the bytes ``before`` at ``at``, ``tail`` comes behind the end.

    ``before`` is read while nothing is written yet: afterwards the file has the patch there, whoever reads it.
    """

    at: int
    before: bytes
    patch: bytes
    tail: tuple[Piece, ...]


def plan_append(old: View, pieces: Iterable[Piece]) -> AppendPlan | None:
    """Return how a file becomes these pieces by growing; None if it has to be written anew."""
    at = 0
    patches: list[tuple[int, bytes]] = []
    tail: list[Piece] = []
    for piece in pieces:
        if at >= len(old):
            tail.append(piece)
        elif not isinstance(piece, View):
            if not isinstance(piece, (bytes, bytearray, memoryview)) or at + len(piece) > len(old):
                return None
            patches.append((at, bytes(piece)))
        elif piece.source is not old.source or piece.start != old.start + at or piece.end > old.end:
            return None
        at += len(piece)
    if at <= len(old) or len(patches) != 1:
        return None
    start, patch = patches[0]
    is_in_sector = start // _SECTOR == (start + len(patch) - 1) // _SECTOR
    return AppendPlan(start, old.read(start, len(patch)), patch, tuple(tail)) if is_in_sector else None


def append_in_place(
    path: str,
    old: View,
    change: AppendPlan,
    *,
    like: FileMetadata,
    verify: Callable[[View], None],
    progress: Progress | None = None,
) -> int | None:
    """Change the file that ``old`` is all of, and return its size; None if it cannot be opened for writing.

    ``like`` is what the file is beside its bytes: writing takes some of that away. ``verify`` sees the new file before
    the old one is given up. Raises what it raises, and ``OSError``; the file is the old one then.
    """
    own = old.source.fileno()
    try:
        fd = os.open(path, os.O_RDWR | system.PLAIN)
    except OSError:  # read-only, or a program that runs: a new file can still take its name
        return None
    try:
        size = len(old)
        if own is None or not os.path.samestat(os.fstat(fd), os.fstat(own)) or os.fstat(fd).st_size != size:
            return None  # it was replaced or changed meanwhile: what was read is what counts
        try:
            return _grow(fd, path, old, change, like, verify, progress)
        except BaseException as error:
            system.write_at(fd, change.before, change.at)
            os.ftruncate(fd, size)
            if isinstance(error, OSError) and error.filename is None:
                raise type(error)(error.errno, error.strerror, path) from error
            raise
    finally:
        os.close(fd)


def _grow(
    fd: int,
    path: str,
    old: View,
    change: AppendPlan,
    like: FileMetadata,
    verify: Callable[[View], None],
    progress: Progress | None,
) -> int:
    from fatpack.io.atomic_write import apply_metadata

    size = len(old)
    os.lseek(fd, size, os.SEEK_SET)
    size += write_pieces(fd, change.tail, progress)
    after = change.at + len(change.patch)
    written = FileSource(fd, path, owned=False).view()
    pieces: list[Piece] = [old.slice(0, change.at), change.patch, old.slice(after, len(old) - after)]
    verify(PiecesSource([*pieces, written.slice(len(old), size - len(old))], path).view())
    os.fsync(fd)
    done = 0
    while done < len(change.patch):
        done += system.write_at(fd, change.patch[done:], change.at + done)
    os.fsync(fd)
    apply_metadata(fd, like, path)
    return size
