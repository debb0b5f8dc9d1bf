"""Progress of reading: readers note the pieces of their work and those that are done; the command line shows it.

::

    with ReadProgress(len(view)) as progress:
        for container in scan(view):
            progress.expect(bytes_to_inflate(container))
        progress.is_whole = True                   # no piece of the work is unknown any more
        for number, container in enumerate(containers, 1):
            ...                                    # reading it may note progress, too
            progress.reach(number)

    read_state()  # of the outermost reading, if its size is known

How much was read is counted by what the pieces cost, not by where they lie: most bytes of a file hold no containers,
and are not read. Processes that share the work have no part in it: their results are counted when they arrive.
"""

from __future__ import annotations

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

#: what is being read in this process, outermost first
_running: list[ReadProgress] = []

#: The largest part of all work that may be done in one step, if the time of the rest is to be told from the steps.
_EVEN_STEP = 0.1


class ReadState(Record):
    """The bytes that were read, and all that are to be read.

    ``is_even`` is true if the rest is done in small steps, all of them known: its time can be told by that of those
    before.
    """

    done: int
    known: int
    is_even: bool


class ReadProgress:
    """The progress of one reading, while its ``with`` block runs; ``size`` is None while its bytes are not known.

    ``costs`` are those of all pieces of the work; without them the pieces are named by :meth:`expect`.
    """

    def __init__(self, size: int | None, costs: Iterable[int] | None = None) -> None:
        self.size = size
        #: whether all pieces are known
        self.is_whole = costs is not None
        self._costs = [*costs] if costs is not None else []
        self._total = sum(self._costs)
        #: pieces that are done, and their costs
        self._count = self._done = 0
        #: whether a reading inside this one has done all that it knew of the present piece
        self._is_inside_done = False

    def __enter__(self) -> Self:
        _running.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        # A generator that another one has left behind may end after those that began later.
        if self not in _running:
            return
        at = _running.index(self)
        del _running[at]
        if at and self.is_whole and self._count == len(self._costs) and self.is_present_in(_running[at - 1]):
            _running[at - 1]._is_inside_done = True

    def is_present_in(self, outer: ReadProgress) -> bool:
        """Return whether the bytes of this reading are all of the present piece of another: one package has many."""
        return outer._count < len(outer._costs) and outer._costs[outer._count] == self.size

    def expect(self, cost: int) -> None:
        """Note a further piece of the work."""
        self._costs.append(cost)
        self._total += cost

    def reach(self, count: int) -> None:
        """Note that so many pieces are done."""
        if count > self._count:
            self._done += sum(self._costs[self._count : count])
            self._count = count
            self._is_inside_done = False

    def part(self, inside: tuple[float, float]) -> tuple[float, float]:
        """Return the part of all work that is done, and the largest part that is still done in one step.

        ``inside`` are the same of the present piece. Of work that is not known as a whole nothing is done, in one step.
        """
        if not self.is_whole or not self._total:
            return 0.0, 1.0
        present, rest = sum(self._costs[self._count : self._count + 1]), self._costs[self._count + 1 :]
        part, step = (1.0, 0.0) if self._is_inside_done else inside
        return (self._done + present * part) / self._total, max(present * step, max(rest, default=0)) / self._total


def read_state() -> ReadState | None:
    """Return how much was read so far of the outermost reading; None if its size is not known."""
    running = list(_running)
    if not running or not running[0].size:
        return None
    part, step = 0.0, 1.0
    inner: ReadProgress | None = None
    for each in reversed(running):
        if inner is not None and not inner.is_present_in(each):
            part, step = 0.0, 1.0
        part, step = each.part((part, step))
        inner = each
    return ReadState(int(min(part, 1.0) * running[0].size), running[0].size, step <= _EVEN_STEP)
