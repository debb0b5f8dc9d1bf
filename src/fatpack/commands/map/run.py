"""The run of ``fatpack map``: a program runs for each selected image, and its results are put back or kept."""

from __future__ import annotations

import os
import sys

from fatpack.command_line.edit_io import EditDestination, EditTarget, check_output, write_substitution
from fatpack.command_line.messages import CopyProgress, print_findings, print_stderr, print_warnings
from fatpack.command_line.shared_options import allow_any_output, selector_from_options
from fatpack.commands.pack.request import ImageFile
from fatpack.errors import CommandFailed, UsageError, pluralize
from fatpack.exit_codes import FINDINGS, exit_code_for_findings, worst_exit_code
from fatpack.io.open import open_source
from fatpack.library.arguments import (
    check_bools,
    check_selector,
    check_type,
    issue_warnings,
    make_budget,
    open_input,
    write_edited,
)
from fatpack.printable import format_size, printable
from fatpack.record import Record
from fatpack.selectors.address import Address, find_location, parse_address
from fatpack.selectors.no_match import (
    NothingSelected,
    available_values,
    refuse_empty,
    unmatched_patterns,
    unread_findings,
)
from fatpack.text.style import write_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, Literal

    from typing_extensions import Buffer

    from fatpack.commands.map.map import CommandTemplate, MapJob, MappedImage, MapRun
    from fatpack.io.open import Input
    from fatpack.io.source import Source, View
    from fatpack.library.arguments import Output
    from fatpack.limits import Budget
    from fatpack.model import Finding
    from fatpack.scanner import FoundContainer, FoundImage
    from fatpack.selectors.address import Location
    from fatpack.selectors.select import Selector

    ImageFunction = Callable[[FoundImage], Buffer | ImageFile | None]


# A program, or a function, for each selected image, and what it makes put back: ``map_images``.

__all__ = ["map_images"]


def map_images(
    file: Input,
    command: Sequence[str] | ImageFunction,
    output: Output,
    selector: Selector | None = None,
    *,
    put: Literal["replace", "add"] = "replace",
    jobs: int | None = None,
    overwrite: bool = False,
    accept_damage: bool = False,
    accept_mismatch: bool = False,
    max_output: int | None = None,
) -> int:
    """Write a copy of a host with what a program makes of each selected image put back; return its size in bytes.

    ``command`` is a program and its arguments, with ``{in}`` and ``{out}`` for the files that it reads and writes, and
    ``{arch}``, ``{triple}`` and the like for what the image says (``{{`` is a brace). ``jobs`` of them run at once, by
    default one for each core. Or it is a function that takes the image and returns bytes, an :class:`ImageFile` of
    bytes with the ``triple`` and ``arch`` that they are for, or None to leave the image as it is; it is called for one
    image after the other.

    ``put`` is ``replace`` (in the place of the image) or ``add`` (beside it, in the same container). Images for a host
    are passed over unless the selector means them by ``offload`` or ``id``. A result is stored for what it says that it
    is for. What contradicts itself, or is for a target that is there already, raises UsageError unless
    ``accept_mismatch``; a damaged image raises FormatError unless ``accept_damage``; CommandFailed names the image for
    which a program failed, and has the program's output. Nothing is written then. ``overwrite`` and ``max_output`` are
    those of :func:`fatpack.extract`. Raises HostError and FormatError for a host that is not edited, as :func:`remove`
    does.
    """
    from fatpack.commands.map.map import list_jobs, plan_put_back
    from fatpack.edit.selection import select_for_edit

    if put not in ("replace", "add"):
        raise UsageError(f"put {put!r}", hint="choose from replace and add")
    if jobs is not None and check_type("jobs", jobs, int, "a whole number") < 1:
        raise UsageError(f"jobs is {jobs}", hint="give 1 at least")
    check_bools(overwrite=overwrite, accept_damage=accept_damage, accept_mismatch=accept_mismatch)
    budget = make_budget(max_output=max_output)
    chosen = check_selector(selector)
    with open_input("file", file, budget=budget) as source:
        refuse_empty(source.view())
        source.check()
        place = find_location(source.view(), Address(source.name, ""))
        edit = select_for_edit(place.view, chosen, "map")
        work = list_jobs(edit.images, edit.items, chosen, edit.titles, source.name)
        with _Results(command, work, jobs, budget) as made:
            plan = plan_put_back(
                edit,
                list(made),
                chosen,
                is_beside=put == "add",
                accept_damage=accept_damage,
                accept_mismatch=accept_mismatch,
            )
            issue_warnings(finding.text for finding in plan.damaged)
            pieces = list(plan.pieces)
            return write_edited(source.view(), pieces, output, overwrite=overwrite, check=plan.check_in(place))


class _Results:
    """The results of a program or a function for each image, readable until the end of the block."""

    def __init__(
        self, command: Sequence[str] | ImageFunction, work: Sequence[MapJob], jobs: int | None, budget: Budget
    ) -> None:
        from fatpack.commands.map.map import MapRun, parse_template

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


def run_map(
    file: str,
    command: Sequence[str],
    selectors: dict[str, Any],
    labels: tuple[str | None, str | None],
    to: EditDestination,
    *,
    put: Sequence[str],
    directory: str | None,
    quiet: bool,
) -> int:
    """Run a command for each selected image of a file, and return the exit code.

    Raises UsageError for options that exclude each other, CommandFailed, FatpackError for the file, ``OSError``.
    """
    allow_any_output(to.force)
    address = parse_address(file)
    if len(put) + (directory is not None) > 1:
        raise UsageError("--add, --replace and -d exclude each other")
    request = MapRequest(
        path=address.path,
        put="".join(put),
        directory=directory,
        labels=labels,
        to=to,
        quiet=quiet,
        selector=selector_from_options(selectors),
    )
    words = request.checked(command)
    with open_source(address.path) as source:
        refuse_empty(source.view())
        source.check()
        place = find_location(source.view(), address)
        try:
            return _put_back(request, words, source.view(), place) if request.put else _keep(request, words, place)
        except NothingSelected as error:
            print_stderr(f"fatpack: {error}", quiet=quiet)
            return FINDINGS


class MapRequest(Record):
    """The options of ``map`` except the command; ``put`` is ``add``, ``replace`` or "", ``labels`` triple and arch."""

    path: str
    put: str
    directory: str | None
    labels: tuple[str | None, str | None]
    to: EditDestination
    quiet: bool
    selector: Selector

    def checked(self, command: Sequence[str]) -> CommandTemplate:
        """Return the command. Raises UsageError for one that cannot be, and for options that exclude each other."""
        from fatpack.commands.map.map import parse_template

        if self.to.output is not None and "{out}" in self.to.output:
            raise UsageError("-o {out} is an option of map here, and none of the command", hint="write -- before it")
        if self.directory == "":
            raise UsageError("the directory has no name", hint='"." is the current one')
        if self.put:
            check_output(self.path, self.to)
        elif self.to.output is not None or self.to.in_place:
            raise UsageError("-o and --in-place go with --add or --replace", hint="-d DIR keeps the results as files")
        elif self.labels != (None, None):
            raise UsageError("--set-arch and --set-triple go with --add or --replace")
        return parse_template(command, wants_output=bool(self.put) or self.directory is not None)


def _put_back(request: MapRequest, words: CommandTemplate, whole: View, place: Location) -> int:
    """Run the command and write the file with the results; return the exit code."""
    from fatpack.commands.map.map import MapRun, list_jobs, plan_put_back
    from fatpack.edit.selection import select_for_edit

    edit = select_for_edit(place.view, request.selector, "map")
    jobs = list_jobs(edit.images, edit.items, request.selector, edit.titles, request.path)
    with MapRun(jobs, words, labels=request.labels) as mapping:
        made = _run(request, words, mapping, jobs)
        force = request.to.force
        plan = plan_put_back(
            edit,
            made,
            request.selector,
            is_beside=request.put == "add",
            accept_damage=force,
            accept_mismatch=force,
        )
        done = [*plan.changed, _summary(words, jobs)]
        # The new content is made from the file itself.
        file = EditTarget(whole, whole, request.path, place, request.to)
        return write_substitution(plan, file, done=done, quiet=request.quiet)


def _keep(request: MapRequest, words: CommandTemplate, place: Location) -> int:
    """Run the command and write the results as files, if they are wanted; return the exit code."""
    from fatpack.commands.map.map import MapRun, files_to_write, list_jobs
    from fatpack.edit.extract import write_plan
    from fatpack.model import Finding
    from fatpack.scanner import scan
    from fatpack.selectors.select import select_images

    items: list[FoundContainer | Finding] = list(scan(place.view))
    findings = [item for item in items if isinstance(item, Finding)]
    print_findings(request.path, [item for item in findings if item.severity == "error"])
    code = exit_code_for_findings((item.severity, item.code) for item in findings if item.severity == "error")
    print_warnings(unread_findings(items), quiet=request.quiet)
    for text in unmatched_patterns(items, request.selector):
        print_stderr(f"fatpack: warning: {text}", quiet=request.quiet)
    rows = list(select_images(items, request.selector))
    if not rows:
        asked = f" that matches {request.selector.describe()}" if not request.selector.is_empty() else ""
        there = available_values(items, request.selector)
        print_stderr(f"fatpack: {request.path}: no image{asked}{'; ' if there else ''}{there}", quiet=request.quiet)
        return worst_exit_code((FINDINGS, code))
    jobs = list_jobs(rows, items, request.selector, (), request.path)
    with MapRun(jobs, words) as mapping:
        made = _run(request, words, mapping, jobs)
        if request.directory is not None:
            plan = files_to_write(made, place.name)
            paths = write_plan(plan, request.directory, force=request.to.force, inputs=[place.view])
            named = zip(paths, plan, strict=True)
            lines = (
                path if request.quiet else f"{path}  {item.what}, {format_size(item.size)}" for path, item in named
            )
            write_lines(map(printable, lines), sys.stdout)
    print_stderr(_summary(words, jobs), quiet=request.quiet)
    return code


def _run(request: MapRequest, words: CommandTemplate, mapping: MapRun, jobs: Sequence[MapJob]) -> list[MappedImage]:
    """Return what the command made of all images; what it says is printed under the image that it was run for."""
    meter = CopyProgress(len(jobs), f"running {os.path.basename(words.words[0])}", quiet=request.quiet)
    made = []
    try:
        for item in mapping:
            meter(1)
            made.append(item)
            if item.said.text.strip():
                meter.finish()
                if item.said.path:  # its output is the result
                    write_lines(_whole(item.job.words, item.said.path), sys.stdout)
                else:
                    _say_all(_told(item.job.words, item.said.text, item.said.dropped), quiet=request.quiet)
    except CommandFailed as error:
        meter.finish()
        if error.output.strip():
            _say_all(_told(error.words, error.output, error.dropped))
        raise
    finally:
        meter.finish()
    return made


#: lines that are shown of what a command said
_LINES = 40


#: characters of one line that are read at once; a line that is longer becomes several
_LONGEST = 1 << 20


def _whole(words: str, path: str) -> Iterator[str]:
    """Yield all that a command said, under the image that it was run for, with its tabs; the file goes then."""
    yield printable(f"{words}:")
    with open(path, encoding="utf-8", errors="replace") as said:
        while line := said.readline(_LONGEST):
            yield "  " + "\t".join(map(printable, line.removesuffix("\n").split("\t")))
    os.unlink(path)


def _told(words: str, said: str, dropped: int) -> list[str]:
    """Return what a command said, under the image that it was run for."""
    lines = said.rstrip().splitlines()
    cut = dropped or len(lines) > _LINES
    return [f"{words}:{' (only the end)' if cut else ''}", *(f"  {line}" for line in lines[-_LINES:])]


def _say_all(lines: Sequence[str], *, quiet: bool = False) -> None:
    for line in lines:
        print_stderr(line, quiet=quiet)


def _summary(words: CommandTemplate, jobs: Sequence[MapJob]) -> str:
    return f"ran {os.path.basename(words.words[0])} for {pluralize(len(jobs), 'image')}"
