"""Many files at once: written on all cores, with as much memory as a few of them need.

Images of fat binaries are compressed each on its own, so writing them is mostly inflating, which lets other threads
run. What lies in a file as it is goes from file to file, whatever its size.
"""

from __future__ import annotations

from fatpack.concurrency.threads import ThreadTasks, thread_count
from fatpack.io.atomic_write import write_file
from fatpack.io.inflated import InflatedSource
from fatpack.io.source import View
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fatpack.io.source import Piece
    from fatpack.io.write import Progress

#: LIMIT: bytes that are inflated at a time for all files together. A file that needs more is written alone.
WINDOW = 128 << 20

#: Below this many bytes to inflate threads cost more than they save.
_LEAST = 4 << 20

#: LIMIT: what is inflated at a time is bounded by the window, but the C library keeps up to 40 MB for each thread that
#: had large results (glibc; with ``MALLOC_ARENA_MAX=2`` in the environment it does not).
_MOST_THREADS = 16


class NewFile(Record):
    """A file that is to be written: where, and its bytes in pieces."""

    path: str
    pieces: tuple[Piece, ...]


def write_files(
    files: Sequence[NewFile],
    *,
    force: bool = False,
    inputs: Sequence[View] = (),
    progress: Progress | None = None,
    threads: int | None = None,
    is_checked: bool = False,
) -> ThreadTasks[int]:
    """Write files, each as :func:`~fatpack.io.atomic_write.write_file` does; iterating yields their sizes in order.

    Writing starts at once. An error is raised in the place of its file; those behind it are written all the same, for
    as long as somebody iterates. Use as a context: leaving it waits for the files that are being written.
    """

    def task(file: NewFile, progress: Progress | None, room: _MemoryShare | None) -> Callable[[], int]:
        views = [piece for piece in file.pieces if isinstance(piece, View)]

        def write() -> int:
            return write_file(
                file.path, file.pieces, force=force, inputs=[*inputs, *views], progress=progress, is_checked=is_checked
            )

        def write_with_room() -> int:
            assert room is not None
            with room:
                return write()

        return write if room is None else write_with_room

    count = thread_count(_MOST_THREADS) if threads is None else threads
    needs = list(map(_needs, files))
    if count < 2 or sum(needs) < _LEAST:
        return ThreadTasks([task(file, progress, None) for file in files], threads=1)
    window, alone = _MemoryWindow(WINDOW), _MemoryWindow(0)

    def room(file: NewFile, size: int) -> _MemoryShare:
        return _MemoryShare(window, size) if _is_concurrent(file) else _MemoryShare(alone, 1)

    meter = None if progress is None else _Meter(progress)
    tasks = [task(file, meter, room(file, size)) for file, size in zip(files, needs, strict=True)]
    return ThreadTasks(tasks, threads=count)


def _needs(file: NewFile) -> int:
    """Return how many bytes of memory writing a file takes."""
    views = (piece for piece in file.pieces if isinstance(piece, View))
    return max((view.source.once_size(view.start, len(view)) for view in views), default=0)


def _is_concurrent(file: NewFile) -> bool:
    """Return whether a file can be written while others are.

    Parts of what is inflated as a whole cannot: they are best written one after the other, while it is kept.
    """
    views = (piece for piece in file.pieces if isinstance(piece, View))
    return all(view.source.is_concurrent and not _is_part(view) for view in views)


def _is_part(view: View) -> bool:
    return isinstance(view.source, InflatedSource) and len(view) != view.source.size


class _Meter:
    """Passes on to one caller's function what several threads report: one call at a time, and no lock is held."""

    def __init__(self, progress: Progress) -> None:
        from threading import Lock

        self._progress = progress
        self._lock = Lock()
        self._waiting = 0
        self._is_calling = False

    def __call__(self, size: int) -> None:
        """Report bytes, and those of other threads that come meanwhile; or leave them to the thread that reports."""
        with self._lock:
            self._waiting += size
            if self._is_calling:
                return
            self._is_calling = True
        while size := self._next():
            try:
                self._progress(size)
            except BaseException:
                self._is_calling = False
                raise

    def _next(self) -> int:
        with self._lock:
            size, self._waiting = self._waiting, 0
            self._is_calling = size > 0
            return size


class _MemoryWindow:
    """Room for so many bytes: who needs some waits for it, who needs more than all waits until nobody has any."""

    def __init__(self, size: int) -> None:
        from threading import Condition

        self._size = size
        self._used = 0
        self._changed = Condition()

    def take(self, size: int) -> None:
        with self._changed:
            while self._used and self._used + size > self._size:
                self._changed.wait()
            self._used += size

    def give(self, size: int) -> None:
        with self._changed:
            self._used -= size
            self._changed.notify_all()


class _MemoryShare:
    """Some of the room of a window, to be entered."""

    def __init__(self, window: _MemoryWindow, size: int) -> None:
        self._window = window
        self._size = size

    def __enter__(self) -> None:
        self._window.take(self._size)

    def __exit__(self, *_: object) -> None:
        self._window.give(self._size)
