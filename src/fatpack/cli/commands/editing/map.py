"""``fatpack map``: a program for every selected image, and what it makes put back, or kept in files."""

from __future__ import annotations

import os
import sys

from fatpack.cli.editing import Destination, Opened, check_output, output_options, write_substitution
from fatpack.cli.grammar.declared import argument, option, takes
from fatpack.cli.grammar.kinds import DIRECTORY, INPUT, TARGET, TRIPLE, Number
from fatpack.cli.messages import Meter, say, warn
from fatpack.cli.options import (
    allow_any_output,
    color_option,
    limit_option,
    max_inflated_option,
    max_output_option,
    quiet_option,
    selector,
    selector_options,
)
from fatpack.cli.reporting import report
from fatpack.errors import CommandFailed, UsageError, counted
from fatpack.io.sources.opening import open_source
from fatpack.ops.choose.address import find, parse_address
from fatpack.ops.choose.presence import NothingSelected, instead, refuse_empty, unmatched, unseen
from fatpack.outcomes import FINDINGS, code_of, worst
from fatpack.record import Record
from fatpack.report.text import write_lines
from fatpack.words.printable import printable
from fatpack.words.sizes import size_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from fatpack.io.source import View
    from fatpack.model import Finding
    from fatpack.ops.choose.address import Place
    from fatpack.ops.choose.select import Selector
    from fatpack.ops.mapping.mapping import Job, Made, Mapping
    from fatpack.ops.mapping.placeholders import Template
    from fatpack.scanner import Found


@takes(
    argument("file", INPUT),
    argument("command", metavar="-- COMMAND...", is_many=True),
    *selector_options,
    option("--add", is_flag=True, help="Put each result beside the image that it was made of."),
    option("--replace", is_flag=True, help="Put each result in the place of the image that it was made of."),
    option("--directory", "-d", type=DIRECTORY, metavar="DIR", help="Keep the results as files here."),
    option(
        "--set-arch",
        type=TARGET,
        metavar="ARCH",
        help="With --add and --replace: the architecture that the results are for.",
    ),
    option(
        "--set-triple",
        type=TRIPLE,
        metavar="TRIPLE",
        help="The same for the triple. Default: what each result says of itself.",
    ),
    option("--jobs", "-j", type=Number(1), metavar="N", help="Run N at once. Default: one for each core."),
    *output_options,
    max_inflated_option,
    max_output_option,
    limit_option,
    color_option,
    quiet_option,
)
def command(
    file: str,
    command: tuple[str, ...],
    add: bool,
    replace: bool,
    directory: str | None,
    set_arch: str | None,
    set_triple: str | None,
    jobs: int | None,
    output: str | None,
    in_place: bool,
    break_links: bool,
    force: bool,
    quiet: bool,
    **selectors: Any,
) -> int:
    """Run COMMAND for every selected image of FILE: map x.o --form ptx --add -o y.o -- ptxas -arch=sm_90 {in} -o {out}

    With --add or --replace the results go back into FILE (an object, an archive, a container), for what each says that
    it is for; with -d they become files, of any FILE that can be read. Without these, COMMAND only looks at images.

    In each argument {in} is a file with the image, {out} the file to write; {arch}, {processor}, {triple}, {offload},
    {form}, {id}, {container} and {index} are what the image says; {{ is a brace. There is no shell. Images for a host
    are passed over, unless --offload or --id means them. If one COMMAND fails, nothing is written.
    """
    to = Destination(output, in_place, break_links, force)
    allow_any_output(force)
    address = parse_address(file)
    if add + replace + (directory is not None) > 1:
        raise UsageError("--add, --replace and -d exclude each other")
    request = Request(
        path=address.path,
        put="add" if add else "replace" if replace else "",
        directory=directory,
        labels=(set_triple, set_arch),
        jobs=jobs,
        to=to,
        quiet=quiet,
        selector=selector(selectors),
    )
    words = request.checked(command)
    with open_source(address.path) as source:
        refuse_empty(source.view())
        place = find(source.view(), address)
        try:
            return _put_back(request, words, source.view(), place) if request.put else _keep(request, words, place)
        except NothingSelected as error:
            say(f"fatpack: {error}", quiet=quiet)
            return FINDINGS


class Request(Record):
    """What the user asks for, beside the command; ``put`` is ``add``, ``replace`` or "", ``labels`` triple and arch."""

    path: str
    put: str
    directory: str | None
    labels: tuple[str | None, str | None]
    jobs: int | None
    to: Destination
    quiet: bool
    selector: Selector

    def checked(self, command: Sequence[str]) -> Template:
        """Return the command. Raises UsageError for one that cannot be, and for options that exclude each other."""
        from fatpack.ops.mapping.placeholders import template

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
        return template(command, wants_output=bool(self.put) or self.directory is not None)


def _put_back(request: Request, words: Template, whole: View, place: Place) -> int:
    """Run the command and write the file with the results; return the exit code."""
    from fatpack.ops.edit.meant import choose
    from fatpack.ops.mapping.mapping import Mapping, jobs_of
    from fatpack.ops.mapping.putting import put_back

    meant = choose(place.view, request.selector, "map")
    jobs = jobs_of(meant.images, meant.items, request.selector, meant.titles, request.path)
    with Mapping(jobs, words, count=request.jobs, labels=request.labels) as mapping:
        made = _run(request, words, mapping, jobs)
        plan = put_back(meant, made, request.selector, is_beside=request.put == "add", force=request.to.force)
        done = [*plan.changed, _summary(words, jobs)]
        # What goes into the file is made of the file itself.
        file = Opened(whole, whole, request.path, place, request.to)
        return write_substitution(plan, file, done=done, quiet=request.quiet)


def _keep(request: Request, words: Template, place: Place) -> int:
    """Run the command and write the results as files, if they are wanted; return the exit code."""
    from fatpack.model import Finding
    from fatpack.ops.choose.select import select
    from fatpack.ops.extract import write_plan
    from fatpack.ops.mapping.mapping import Mapping, jobs_of
    from fatpack.ops.mapping.putting import files_of
    from fatpack.scanner import scan

    items: list[Found | Finding] = list(scan(place.view))
    findings = [item for item in items if isinstance(item, Finding)]
    report(request.path, [item for item in findings if item.severity == "error"])
    code = code_of((item.severity, item.code) for item in findings if item.severity == "error")
    warn(unseen(items), quiet=request.quiet)
    for text in unmatched(items, request.selector):
        say(f"fatpack: warning: {text}", quiet=request.quiet)
    rows = list(select(items, request.selector))
    if not rows:
        asked = f" that matches {request.selector.describe()}" if not request.selector.is_empty() else ""
        there = instead(items, request.selector)
        say(f"fatpack: {request.path}: no image{asked}{'; ' if there else ''}{there}", quiet=request.quiet)
        return worst((FINDINGS, code))
    jobs = jobs_of(rows, items, request.selector, {}, request.path)
    with Mapping(jobs, words, count=request.jobs) as mapping:
        made = _run(request, words, mapping, jobs)
        if request.directory is not None:
            plan = files_of(made, place.name)
            paths = write_plan(plan, request.directory, force=request.to.force, inputs=[place.view])
            named = zip(paths, plan, strict=True)
            lines = (path if request.quiet else f"{path}  {item.what}, {size_words(item.size)}" for path, item in named)
            write_lines(map(printable, lines), sys.stdout)
    say(_summary(words, jobs), quiet=request.quiet)
    return code


def _run(request: Request, words: Template, mapping: Mapping, jobs: Sequence[Job]) -> list[Made]:
    """Return what the command made of all images; what it says is printed under the image that it was run for."""
    meter = Meter(len(jobs), f"running {os.path.basename(words.words[0])}", quiet=request.quiet)
    made = []
    try:
        for item in mapping:
            meter(1)
            made.append(item)
            if item.said.text.strip():
                meter.finish()
                lines = _told(item.job.words, item.said.text, item.said.dropped)
                if item.data is None:  # what it says is all that was asked for
                    write_lines(map(printable, lines), sys.stdout)
                else:
                    _say_all(lines, quiet=request.quiet)
    except CommandFailed as error:
        meter.finish()
        if error.said.strip():
            _say_all(_told(error.words, error.said, error.dropped))
        raise
    finally:
        meter.finish()
    return made


#: lines that are shown of what a command said
_LINES = 40


def _told(words: str, said: str, dropped: int) -> list[str]:
    """Return what a command said, under the image that it was run for."""
    lines = said.rstrip().splitlines()
    cut = dropped or len(lines) > _LINES
    return [f"{words}:{' (only the end)' if cut else ''}", *(f"  {line}" for line in lines[-_LINES:])]


def _say_all(lines: Sequence[str], *, quiet: bool = False) -> None:
    for line in lines:
        say(line, quiet=quiet)


def _summary(words: Template, jobs: Sequence[Job]) -> str:
    return f"ran {os.path.basename(words.words[0])} for {counted(len(jobs), 'image')}"
