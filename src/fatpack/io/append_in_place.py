"""Append to a file in place, then change a few bytes before its old end. The rest is not copied.

::

    1  old header │ old bytes │ new bytes     written after the end, and checked
    2  synced to disk
    3  new header │ old bytes │ new bytes     the header changed in one write, inside one sector
    4  synced to disk

Until step 3 the file is the old one, followed by unreferenced bytes; from step 3 on it is the new one. Every failure
before the end, except a crash of the machine, restores the old file.
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

#: Disks write sectors of this size, or of a multiple, atomically.
_SECTOR = 512


class AppendPlan(Record):
    """A change of a file in place: ``patch`` replaces the bytes ``before`` at ``at``, ``tail`` is appended.

    ``before`` is read before anything is written: later reads of the file see the patch.
    """

    at: int
    before: bytes
    patch: bytes
    tail: tuple[Piece, ...]


def plan_append(old: View, pieces: Iterable[Piece]) -> AppendPlan | None:
    """Return the change that turns ``old`` into these pieces by appending; None if the file must be written anew."""
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
    """Change the file that ``old`` is a view of; return its new size, or None if it cannot be opened for writing.

    ``like`` is the file's metadata, some of which writing removes. ``verify`` is called with the new file before the
    header is changed. Raises its errors and ``OSError``; the old file is then restored.
    """
    own = old.source.fileno()
    try:
        fd = os.open(path, os.O_RDWR | system.PLAIN)
    except OSError:  # read-only, or a running program: a new file can still replace it
        return None
    try:
        size = len(old)
        if own is None or not os.path.samestat(os.fstat(fd), os.fstat(own)) or os.fstat(fd).st_size != size:
            return None  # the file was replaced or changed since it was read
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
