"""Share the containers of a file out among processes.

What reading a container takes of the limits on a file counts as if this process had read it, so answers do not depend
on the number of processes.
"""

from __future__ import annotations

from contextlib import closing, nullcontext

from fatpack.concurrency.processes import map_in_processes
from fatpack.concurrency.progress import ReadProgress
from fatpack.model import Finding
from fatpack.scanner.results import bytes_of_images, bytes_to_inflate, has_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
    from typing import TypeVar

    from fatpack.scanner.results import FoundContainer

    T = TypeVar("T")
    Item = TypeVar("Item", bound=FoundContainer | Finding)


class ImageRoom:
    """The bytes of images that are still read of a file, ``left``; negative after the first image that is not read.

    A budget is not enough: entries may share their bytes, and small streams have large content.
    """

    __slots__ = ("left", "size")

    def __init__(self, size: int) -> None:
        self.size = self.left = size

    def take(self, size: int) -> bool:
        """Take the room for an image of ``size`` bytes; return whether there was enough."""
        if self.left >= 0:
            self.left -= size
        return self.left >= 0


def share_containers(
    items: Iterable[Item],
    work: Callable[[FoundContainer, int], T | None],
    room: ImageRoom | None = None,
    *,
    is_read: bool = True,
    size: int | None = None,
) -> Generator[tuple[Item, T | None]]:
    """Yield the items of a scan in order, with the result of ``work`` in another process; None without one.

    ``work`` gets a container and its number in the file; it returns None if the caller has to do the work. So do
    findings, containers with containers in their images, and containers at which ``room`` or the budget end. Without
    ``is_read`` nothing of the images is read, and all is left to the caller. ``size`` are the bytes of the file whose
    progress this is; without it none is noted. Close the iterator to end the processes.
    """
    room = room or ImageRoom(0)

    def elsewhere(item: tuple[int, Item]) -> tuple[T, int, Mapping[int, int]] | None:
        number, found = item
        if isinstance(found, Finding):
            return None
        source = found.view.source
        budget = source.budget
        source.take_charges()
        before, room.left = budget.drawn, room.size
        value = work(found, number)
        charges = source.take_charges()
        # Only this process knows the streams of other sources that were inflated.
        is_whole = budget.drawn - before <= sum(charges.values()) and not budget.has_refused
        if value is None or not is_whole or room.left < 0 or has_files(found):
            return None
        return value, room.size - room.left, charges

    def cost(item: tuple[int, Item]) -> int:
        return bytes_to_inflate(item[1]) if is_read else 0

    progress = ReadProgress(size)
    numbered = _numbered(items, progress, is_read=is_read)
    with (
        closing(map_in_processes(numbered, elsewhere, cost)) as made_ahead,
        nullcontext() if size is None else progress,
    ):
        for (number, found), made in made_ahead:
            if isinstance(found, Finding):
                yield found, None
                continue
            value = None
            if made is not None:
                result, used, charges = made.value
                if used <= room.left and found.view.source.charge_all(charges):
                    room.take(used)
                    value = result
            yield found, value
            progress.reach(number + 1)


def _numbered(items: Iterable[Item], progress: ReadProgress, *, is_read: bool) -> Iterator[tuple[int, Item]]:
    """Yield what was found with the number of each container; a finding has that of the next.

    They are taken ahead of the work, up to a thousand: so all of it is known before the first is done, if no more are
    found.
    """
    number = 0
    for item in items:
        if not isinstance(item, Finding):
            progress.expect(1 + bytes_of_images(item) if is_read else 1)
        yield number, item
        number += not isinstance(item, Finding)
    progress.is_whole = True
