"""A program, or a function, for each selected image, and what it makes put back: ``map_images``."""

from __future__ import annotations

from fatpack.commands.edit_request import warn_about_damage
from fatpack.commands.pack.request import ImageFile
from fatpack.errors import UsageError
from fatpack.library.arguments import check_selector, check_type, make_budget, open_input
from fatpack.library.output import write_edited
from fatpack.selectors.address import Address, find_location

__all__ = ["map_images"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Literal

    from typing_extensions import Buffer

    from fatpack.budget import Budget
    from fatpack.commands.map.map import MapJob, MappedImage
    from fatpack.io.open import Input
    from fatpack.io.source import Source
    from fatpack.library.output import Output
    from fatpack.scanner import FoundImage
    from fatpack.selectors.select import Selector

    ImageFunction = Callable[[FoundImage], Buffer | ImageFile | None]


def map_images(
    host: Input,
    command: Sequence[str] | ImageFunction,
    output: Output,
    selector: Selector | None = None,
    *,
    put: Literal["replace", "add"] = "replace",
    jobs: int | None = None,
    force: bool = False,
) -> int:
    """Write a copy of a host with what a program makes of each selected image put back; return its size in bytes.

    ``command`` is a program and its arguments, with ``{in}`` and ``{out}`` for the files that it reads and writes, and
    ``{arch}``, ``{triple}`` and the like for what the image says (``{{`` is a brace). ``jobs`` of them run at once, by
    default one for each core. Or it is a function that takes the image and returns bytes, an :class:`ImageFile` of
    bytes with the ``triple`` and ``arch`` that they are for, or None to leave the image as it is; it is called for one
    image after the other.

    ``put`` is ``replace`` (in the place of the image) or ``add`` (beside it, in the same container). Images for a host
    are passed over unless the selector means them by ``offload`` or ``id``. A result is stored for what it says that it
    is for. What contradicts itself, or is for a target that is there already, raises UsageError unless ``force``;
    CommandFailed says of which image a program failed, and what it said. Nothing is written then. Raises HostError and
    FormatError for a host that is not edited, as :func:`remove` does.
    """
    from fatpack.commands.map.map import list_jobs
    from fatpack.commands.map.putting import plan_put_back
    from fatpack.edit.selection import select_for_edit

    if put not in ("replace", "add"):
        raise UsageError(f"put {put!r}", hint="choose from replace and add")
    if jobs is not None and check_type("jobs", jobs, int, "a whole number") < 1:
        raise UsageError(f"jobs is {jobs}", hint="give 1 at least")
    budget = make_budget(force=force)
    chosen = check_selector(selector)
    with open_input("host", host, budget=budget) as source:
        place = find_location(source.view(), Address(source.name, ""))
        meant = select_for_edit(place.view, chosen, "map")
        work = list_jobs(meant.images, meant.items, chosen, meant.titles, source.name)
        with _Results(command, work, jobs, budget) as made:
            plan = plan_put_back(meant, list(made), chosen, is_beside=put == "add", force=force)
            warn_about_damage(plan.damaged)
            pieces = list(plan.pieces)
            return write_edited(source.view(), pieces, output, force=force, check=plan.check_in(place))


class _Results:
    """What a program or a function makes of images, readable until the end of the block."""

    def __init__(
        self, command: Sequence[str] | ImageFunction, work: Sequence[MapJob], jobs: int | None, budget: Budget
    ) -> None:
        from fatpack.commands.map.map import MapRun
        from fatpack.commands.map.placeholders import parse_template

        self._work, self._budget = work, budget
        self._function: ImageFunction | None = None
        self._mapping: MapRun | None = None
        self._opened: list[Source] = []
        if callable(command):
            self._function = command
            return
        if isinstance(command, (str, bytes)) or not hasattr(command, "__iter__"):
            raise TypeError("command is a program and its arguments in a list, or a function")
        words = [check_type(f"command[{number}]", word, str, "a text") for number, word in enumerate(command)]
        self._mapping = MapRun(work, parse_template(words, wants_output=True), count=jobs, budget=budget)

    def __enter__(self) -> Iterator[MappedImage]:
        return iter(self._mapping.__enter__()) if self._mapping is not None else self._called()

    def __exit__(self, *_: object) -> None:
        for source in self._opened:
            source.close()
        if self._mapping is not None:
            self._mapping.__exit__()

    def _called(self) -> Iterator[MappedImage]:
        from fatpack.commands.map.map import mapped_image

        assert self._function is not None
        for job in self._work:
            result = self._function(job.image)
            if result is None:
                continue
            item = result if isinstance(result, ImageFile) else ImageFile(result)
            source = open_input("the result", item.file, name=job.words, budget=self._budget)
            self._opened.append(source)
            yield mapped_image(job, source.view(), triple=item.triple or None, arch=item.arch or None)
