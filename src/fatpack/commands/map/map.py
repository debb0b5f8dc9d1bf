"""A program, or a function, for every selected image: what it makes of each, before any of it is put anywhere.

::

    images ──► jobs ──► a private folder: in, out ──► the program, several at once ──► made: bytes and what they are for
                                                                                        │
                                  files (``extract``'s way) ◄───────────────────────────┴──► back into the host
"""

from __future__ import annotations

import os
from threading import Lock

from fatpack import images
from fatpack.budget import current_budget
from fatpack.commands.map.placeholders import CommandTemplate, placeholder_values
from fatpack.commands.map.running import ProcessOutput, ProcessPool
from fatpack.concurrency.threads import ThreadTasks, core_count
from fatpack.edit.extract import image_pieces
from fatpack.edit.successor import ReplacementMetadata
from fatpack.errors import CommandFailed, cli_or_api
from fatpack.images.container_mismatch import arch_contradiction, triple_contradiction
from fatpack.io.open import open_source
from fatpack.io.temporary import PrivateFolder, size_or_problem, write_for_reading
from fatpack.record import Record
from fatpack.selectors.no_match import NothingSelected
from fatpack.selectors.select import describe_image, with_positions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fatpack.budget import Budget
    from fatpack.images import ImageInfo
    from fatpack.io.source import View
    from fatpack.model import Finding
    from fatpack.scanner import FoundContainer, FoundImage
    from fatpack.selectors.select import Selector


_NOTHING_SAID = ProcessOutput("")


class MapJob(Record):
    """An image that something is to be made of: the ``number`` among all of the file, and ``words`` for messages."""

    number: int
    position: str
    found: FoundContainer
    image: FoundImage
    words: str


class MappedImage(Record):
    """What was made of an image: its bytes, if any were asked for, what they are, and what they are for."""

    job: MapJob
    data: View | None
    labels: ReplacementMetadata
    recognised: images.ImageInfo
    said: ProcessOutput = _NOTHING_SAID


def list_jobs(
    rows: Sequence[tuple[str, FoundContainer, FoundImage]],
    items: Sequence[FoundContainer | Finding],
    selector: Selector,
    titles: dict[int, str],
    path: str,
) -> list[MapJob]:
    """Return a job for each selected image of the ``items`` of a file.

    Those for a host are meant only where the selector says so: by ``offload`` or ``id``, or by a position. Raises
    NothingSelected if no image is left.
    """
    is_said = bool(selector.offload or selector.id) or None not in (selector.container, selector.index)
    numbers = {position: number for number, (position, _, _) in enumerate(with_positions(items))}
    jobs = [
        MapJob(numbers[position], position, found, image, titles.get(id(found), "") + describe_image(position, image))
        for position, found, image in rows
        if is_said or image.target.offload != "host"
    ]
    if not jobs:
        means = cli_or_api("--offload=host", 'Selector(offload="host")')
        raise NothingSelected("all images that match are for a host", hint=f"{means} means them", chain=(path,))
    return jobs


class MapRun:
    """The results for some jobs, one after the other in their order; several programs run at the same time.

    ``count`` of them, by default one for each core. ``labels`` are the triple and arch that the results are for, None
    for what they say themselves. They lie in a private folder until the end of the block, and can be read as long.
    Leaving the iteration early ends all programs.
    """

    def __init__(
        self,
        jobs: Sequence[MapJob],
        command: CommandTemplate,
        *,
        count: int | None = None,
        labels: tuple[str | None, str | None] = (None, None),
        budget: Budget | None = None,
    ) -> None:
        self._labels = labels
        self._jobs, self._command = jobs, command
        self._wants_output = "out" in command.names
        self._values = [placeholder_values(job.position, job.image, command.names) for job in jobs]
        self._count = min(count or core_count(), len(jobs))
        self._reading = Lock()
        self._budget = budget or current_budget()
        self._folder = PrivateFolder()
        self._programs = ProcessPool()

    def __enter__(self) -> MapRun:
        self._folder.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._programs.__exit__()
        self._folder.__exit__()

    def __iter__(self) -> Iterator[MappedImage]:
        tasks: list[Callable[[], tuple[str, ProcessOutput]]] = [self._task(number) for number in range(len(self._jobs))]
        # The programs end first: threads wait for them.
        with ThreadTasks(tasks, threads=self._count) as results, self._programs:
            for job, (path, said) in zip(self._jobs, results, strict=True):
                yield self._made(job, path, said)

    def _task(self, number: int) -> Callable[[], tuple[str, ProcessOutput]]:
        return lambda: self._run(number)

    def _run(self, number: int) -> tuple[str, ProcessOutput]:
        """Run the command for an image; return the path of its output, "" for none, and what it said."""
        job = self._jobs[number]
        folder = self._folder.folder(str(number))
        extension = images.EXTENSIONS.get(job.image.form, "bin")
        given, result = os.path.join(folder, f"in.{extension}"), os.path.join(folder, "out")
        with self._reading:  # streams that are inflated are read by one thread at a time
            write_for_reading(given, image_pieces(job.found, job.image))
        arguments = self._command.filled({**self._values[number], "in": given, "out": result})
        try:
            if not self._wants_output:  # what it says is all that is asked for, and some say more than memory holds
                said_at = os.path.join(folder, "said")
                return "", self._programs.run(arguments, job.words, said_at, self._budget.check_output)
            said = self._programs.run(arguments, job.words)
            size = size_or_problem(result)
            if isinstance(size, str):
                problem = f"{job.words}: {arguments[0]} ended well, but {size}"
                raise CommandFailed(problem, words=job.words, said=said.text, dropped=said.dropped)
        except CommandFailed as error:
            error.hint = "nothing was written" if self._wants_output else ""
            raise
        finally:
            if os.path.lexists(given):
                os.unlink(given)
        self._budget.check_output(size)
        return result, said

    def _made(self, job: MapJob, path: str, said: ProcessOutput) -> MappedImage:
        if not path:
            return MappedImage(job, None, ReplacementMetadata(), images.UNKNOWN, said)
        data = open_source(path, name=job.words, resting=True, budget=self._budget).view()
        triple, arch = self._labels
        return mapped_image(job, data, triple=triple, arch=arch, said=said)


def mapped_image(
    job: MapJob, data: View, *, triple: str | None = None, arch: str | None = None, said: ProcessOutput = _NOTHING_SAID
) -> MappedImage:
    """Return what was made of an image; where it does not say what it is for, ``triple`` and ``arch`` may."""
    recognised = images.identify_image(data)
    return MappedImage(job, data, replacement_labels(job.image, recognised, triple, arch), recognised, said)


def replacement_labels(
    old: FoundImage, recognised: ImageInfo, triple: str | None, arch: str | None
) -> ReplacementMetadata:
    """Return in what labels a new image differs from the one that it was made of.

    What is given holds, then what the image says of itself, unless its container said so, too: ``gfx90a`` serves what
    claims ``gfx90a:xnack+``, and ``sm_100f`` a cubin that claims sm_100.
    """
    target = old.target
    if triple is None and recognised.triple and (not target.triple or triple_contradiction(target.triple, recognised)):
        triple = recognised.triple
    if arch is None and recognised.arch and not _is_served(old, recognised, triple):
        arch = recognised.arch
    form = recognised.form if recognised.form and recognised.form != old.form else None
    return ReplacementMetadata(triple, arch, form)


def _is_served(old: FoundImage, recognised: ImageInfo, triple: str | None) -> bool:
    """Return whether the stored architecture of an image is right for another one that claims its own."""
    stored = old.target.arch
    if (
        not stored
        or stored == "generic"
        or triple is not None
        or arch_contradiction(stored, old.target.triple, recognised)
    ):
        return False
    if _processor(stored) == _processor(recognised.arch):
        return True
    # PTX may be stored for a higher architecture than it says: what was made of such an image, for the same.
    return recognised.form == "ptx" and images.identify_image(old.data).arch == recognised.arch


def _processor(arch: str) -> str:
    return arch.partition(":")[0].rstrip("f")
