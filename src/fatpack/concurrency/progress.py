"""Bytes of files that were read so far, and that are to be read: noted by the readers, shown by the command line.

::

    with ReadProgress(len(view)) as progress:
        for container in scan(view):
            ...                                    # reading it may note progress, too
            progress.reach(container.span.end)

    bytes_read()  # (done, known) of the outermost reading of which the size is known

Processes that share the work have no part in it: their results are counted when they arrive.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

#: what is being read in this process, outermost first
_running: list[ReadProgress] = []


class ReadProgress:
    """The progress of one reading, while its ``with`` block runs; ``known`` is None while its size is not known."""

    def __init__(self, known: int | None) -> None:
        self.known = known
        self.done = 0
        #: bytes that are being read, of which other readings inside this one may know more
        self._current = 0

    def __enter__(self) -> Self:
        _running.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        # A generator that another one has left behind may end after those that began later.
        if self in _running:
            _running.remove(self)

    def begin(self, size: int) -> None:
        """Note that the next bytes are being read in this process."""
        self._current = size

    def advance(self, size: int) -> None:
        """Note that bytes were read."""
        self._current = 0
        self.done += size

    def reach(self, position: int) -> None:
        """Note that all bytes before a position were read."""
        self.done = max(self.done, position)

    def part(self, inside: float) -> float:
        """Return the part that was read, from 0 to 1, after that part of the current bytes; 0 if nothing is known."""
        return min(1.0, (self.done + self._current * inside) / self.known) if self.known else 0.0


def bytes_read() -> tuple[int, int] | None:
    """Return the bytes read so far and the bytes that are to be read in all; None if that is not known."""
    running = list(_running)
    if not running or not running[0].known:
        return None
    part = 0.0
    for each in reversed(running):
        part = each.part(part)
    return int(part * running[0].known), running[0].known
