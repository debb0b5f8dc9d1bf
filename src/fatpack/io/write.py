"""Writing pieces to a descriptor: small ones are joined, ranges of files are copied by the kernel.

Bytes are charged to a budget before they are written (:mod:`fatpack.limits`).
"""

from __future__ import annotations

import errno
import os

from fatpack import limits
from fatpack.concurrency import signals
from fatpack.errors import Unsupported
from fatpack.io.source import View
from fatpack.limits import output_budget

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from fatpack.io.source import Piece
    from fatpack.limits import Budget

    Progress = Callable[[int], None]
    """Called with the number of bytes written since the last call."""


# Images that share bytes: written separately they could fill a disk from a small file.


def refuse_shared_bytes(views: Iterable[View]) -> None:
    """Raise Unsupported if the views add up to much more than twice the size of their sources.

    The size of a compressed source is its decompressed size.
    """
    views = list(views)
    total = shared_size(views)
    if total:
        raise Unsupported(
            f"the images share their bytes; written separately they would take {total} bytes",
            hint="extract the image you need and pack it again",
            chain=views[-1].chain,
        )


def shared_size(views: Iterable[View]) -> int:
    """Return the total size of views if it is much more than twice the size of their sources, else 0."""
    total, present = 0, {}
    for view in views:
        total += len(view)
        # Sources are compared as objects: two of one name may be different files.
        present[id(view.source)] = view.source.size
    return total if total > 2 * sum(present.values()) + limits.CHUNK else 0


#: Bytes per kernel-side copy, so that progress is shown and Ctrl-C works.
KERNEL_CHUNK = 64 << 20

#: Kernels copy whole pages of this size, or of a multiple of it.
_PAGE = 4096

#: Up to this size, one read and one write are faster than a kernel-side copy.
_SMALL = 128 << 10

#: Smaller outputs are written without checking the free space first.
_LARGE = 64 << 20

#: Errors of a kernel-side copy after which reading and writing may work, or give the real error.
_CANNOT_COPY = {
    errno.EBADF,
    errno.EINVAL,
    errno.EIO,
    errno.ENOSYS,
    errno.EOPNOTSUPP,
    errno.EPERM,
    errno.ETXTBSY,
    errno.EXDEV,
}


def write_pieces(
    fd: int, pieces: Iterable[Piece], progress: Progress | None = None, *, budget: Budget | None = None
) -> int:
    """Write all pieces to a descriptor at its position; return the number of bytes written.

    They are charged to a budget, by default that of the command. Raises UsageError before the piece that exceeds it, or
    before the first one if all sizes are known. The charge is reverted if writing fails.
    """
    drawing = _BudgetDraw(budget or output_budget())
    try:
        return _write(fd, drawing.of(pieces), progress)
    except BaseException:
        drawing.give_back()
        raise


def check_size(pieces: Iterable[Piece], budget: Budget, path: str = "") -> None:
    """Raise UsageError, or ``OSError`` if the disk is full, before writing, if all pieces are known and too large."""
    if isinstance(pieces, (list, tuple)):
        size = written_size(pieces)
        budget.check_output(size)
        check_space(path, size)


def check_space(path: str, size: int) -> None:
    """Raise ``OSError`` (``ENOSPC``) if the file system of ``path`` has too little space for ``size`` bytes.

    The path and its folders need not exist yet. Small outputs are not checked: writing them fails soon enough.
    """
    if size < _LARGE or not hasattr(os, "statvfs"):
        return
    folder = os.path.abspath(path)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    system = os.statvfs(folder)
    free = system.f_bavail * system.f_frsize
    if size > free:
        raise OSError(errno.ENOSPC, f"{size} bytes would be written, and {folder} has room for {free}", path)


def written_size(pieces: Iterable[Piece]) -> int:
    """Return the number of bytes that are written for pieces: pieces that cannot be read take none."""
    return sum(len(piece) for piece in pieces if not (isinstance(piece, View) and piece.source.is_refused))


class _BudgetDraw:
    """The charge of one output to a budget."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._drawn = 0

    def of(self, pieces: Iterable[Piece]) -> Iterable[Piece]:
        """Return the pieces, charging them first: all at once if all are known."""
        if isinstance(pieces, (list, tuple)):
            self._draw(written_size(pieces))
            return pieces
        return self._one_by_one(pieces)

    def give_back(self) -> None:
        """Note that nothing was written."""
        self._budget.give_back(self._drawn)

    def _one_by_one(self, pieces: Iterable[Piece]) -> Iterator[Piece]:
        for piece in pieces:
            self._draw(written_size([piece]))
            yield piece

    def _draw(self, size: int) -> None:
        self._budget.write(size)
        self._drawn += size


def _write(fd: int, pieces: Iterable[Piece], progress: Progress | None) -> int:
    total = 0
    pending: list[bytes | bytearray | memoryview] = []
    pending_size = 0

    def flush() -> None:
        nonlocal pending_size
        if pending:
            _write_all(fd, b"".join(pending) if len(pending) > 1 else pending[0])
            if progress:
                progress(pending_size)
            pending.clear()
            pending_size = 0

    for piece in pieces:
        if isinstance(piece, (bytes, bytearray, memoryview)):
            # Headers come in many small pieces: one system call for all of them.
            pending.append(piece)
            pending_size += len(piece)
            total += len(piece)
            if pending_size >= limits.CHUNK:
                flush()
            continue
        flush()
        total += len(piece)
        source = piece.source.fileno() if isinstance(piece, View) else None
        if isinstance(piece, View) and source is not None:
            _copy_range(source, piece, fd, progress)
            piece.source.release_buffers()
        else:
            for part in piece.read_once() if isinstance(piece, View) else piece.pieces():
                _write_all(fd, part)
                if progress:
                    progress(len(part))
    flush()
    return total


def _write_all(fd: int, data: bytes | bytearray | memoryview) -> None:
    rest = memoryview(data).cast("B")
    while rest:
        signals.raise_if_interrupted()
        rest = rest[os.write(fd, rest) :]


def _copy_range(source: int, view: View, fd: int, progress: Progress | None) -> None:
    """Copy a file range by the fastest means: inside the kernel where whole pages line up, else through one buffer.

    Measured on ext4 with 512 MB: if offsets are not multiples of a page, copy_file_range and sendfile move single
    pages through a pipe and take 1.6 times as long as cp; a buffer of 1 MB takes 1.1 times as long.
    """
    at, left = view.start, len(view)
    try:
        while left > _SMALL and _lines_up(at, fd):
            signals.raise_if_interrupted()
            count = os.copy_file_range(source, fd, min(left, KERNEL_CHUNK), at)
            if not count:
                break  # the file shrank; the loop below finds out
            at += count
            left -= count
            if progress:
                progress(count)
    except OSError as error:
        if error.errno not in _CANNOT_COPY:
            raise
    for part in view.source.pieces(at, left):
        _write_all(fd, part)
        if progress:
            progress(len(part))


def _lines_up(at: int, fd: int) -> bool:
    """Return whether both files are positioned at the start of a page, and the kernel can copy between files at all."""
    if at % _PAGE or not hasattr(os, "copy_file_range"):
        return False
    try:
        return os.lseek(fd, 0, os.SEEK_CUR) % _PAGE == 0
    except OSError:  # a pipe has no position
        return False
