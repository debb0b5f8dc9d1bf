"""The run of ``fatpack extract``, in three steps: a request is checked, a plan is made of it, the plan is run."""

from __future__ import annotations

import os
import sys

from fatpack.command_line.messages import (
    CopyProgress,
    print_findings,
    print_stderr,
    print_warnings,
    warn_stale_temp_files,
)
from fatpack.command_line.shared_options import allow_any_output, check_output_name, selector_from_options
from fatpack.edit.extract import (
    OutputFile,
    check_paths,
    check_size,
    plan_archive,
    plan_containers,
    plan_images,
    readable_images,
    source_containers,
    write_plan,
)
from fatpack.edit.verify import CONTENT_CODES, Verification, deferred_damage, verify_content
from fatpack.edit.write_containers import PER_IMAGE_ERRORS, UnreadableImage
from fatpack.errors import FormatError, UsageError, truncate_words
from fatpack.exit_codes import FINDINGS, FINE, exit_code_for_findings, worst_exit_code
from fatpack.io.atomic_write import check_target, write_file
from fatpack.io.write import write_pieces
from fatpack.model import Finding
from fatpack.printable import format_size, printable
from fatpack.record import Record
from fatpack.scanner import FoundContainer
from fatpack.selectors.no_match import available_values, missing_ids_reason, unmatched_patterns, unread_findings
from fatpack.selectors.select import Selector, id_choices, ids_in_file
from fatpack.text.style import write_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, Self

    from fatpack.inputs.nested import NestedFile
    from fatpack.io.source import Source, View


class ExtractRequest(Record):
    """The options of the command, with the selectors as one value."""

    file: str
    output: str | None
    directory: str | None
    containers: bool
    archive: bool
    allow_missing: bool
    dry_run: bool
    deep: bool
    force: bool
    quiet: bool
    selector: Selector

    @classmethod
    def of(cls, options: dict[str, Any]) -> Self:
        """Return the request that the options of the command make. Raises UsageError if they exclude each other."""
        own = {name: value for name, value in options.items() if name in cls._fields}
        selectors = {name: value for name, value in options.items() if name not in cls._fields}
        request = cls(**own, selector=selector_from_options(selectors))
        allow_any_output(request.force)
        check_output_name(request.output)
        if request.directory == "":
            raise UsageError("the directory has no name", hint='"." is the current one')
        if request.output is not None and request.directory is not None:
            raise UsageError("-o and -d exclude each other", hint="-o names one file, -d a directory for many")
        if request.archive and (request.output is None or request.containers):
            raise UsageError("--archive makes one file of images", hint="name it with -o, and leave out --containers")
        return request

    @property
    def is_everything(self) -> bool:
        """True if every image of the file is to be written."""
        return self.selector.is_empty() and not self.containers and not self.dry_run


class ExtractPlan(Record):
    """The files to write for a request, from the items of a scan; ``reason`` says why there is nothing to write.

    ``name`` is what files are named after. ``members`` are the images of an archive, and ``unreadable`` those that were
    meant and cannot be taken out.
    """

    items: tuple[FoundContainer | Finding, ...]
    name: str
    extracts: tuple[OutputFile, ...] = ()
    reason: str = ""
    members: tuple[OutputFile, ...] = ()
    unreadable: tuple[UnreadableImage, ...] = ()

    @property
    def errors(self) -> list[Finding]:
        """The parts of the file that cannot be read, and the images that cannot be taken out."""
        read = [item for item in self.items if isinstance(item, Finding) and item.severity == "error"]
        return [*read, *(item.finding for item in self.unreadable)]

    @property
    def code(self) -> int:
        """The exit code for them."""
        return exit_code_for_findings((item.severity, item.code) for item in self.errors)


def report_problems(request: ExtractRequest, items: Sequence[FoundContainer | Finding]) -> None:
    """Print what of the file is damaged, and what was not read."""
    print_findings(request.file, [item for item in items if isinstance(item, Finding) and item.severity == "error"])
    print_warnings((item for item in unread_findings(items) if item.severity != "error"), quiet=request.quiet)


def report_checksum_problems(
    request: ExtractRequest, items: Sequence[FoundContainer | Finding], source: Source | NestedFile
) -> None:
    """Print what :func:`report_problems` does of a file that is read to its end for its checksum.

    Raises FormatError for one that has another, which is then not said with the findings too.
    """
    try:
        source.check()
    except FormatError as error:
        report_problems(request, [item for item in items if not isinstance(item, Finding) or not _says(item, error)])
        raise
    report_problems(request, items)


def _says(item: Finding, error: FormatError) -> bool:
    return item.message.endswith(error.describe())


def plan_extract(request: ExtractRequest, items: tuple[FoundContainer | Finding, ...], name: str) -> ExtractPlan:
    """Return what to write; files are named after ``name``. The choice for each bundle ID of the request is printed."""
    for text in unmatched_patterns(items, request.selector):
        print_stderr(f"fatpack: warning: {text}", quiet=request.quiet)
    missing_ids = _choose(request, items) if request.selector.id else []
    extracts: list[OutputFile] = []
    unreadable: list[UnreadableImage] = []
    if not missing_ids or request.allow_missing:
        if request.containers:
            extracts = plan_containers(items, request.selector, name)
        else:
            extracts = plan_images(items, request.selector, name, unreadable)
    members: tuple[OutputFile, ...] = ()
    if extracts and request.archive:
        extracts, members = _archive(extracts, name, unreadable)
    plan = ExtractPlan(items, name, tuple(extracts), members=members, unreadable=tuple(unreadable))
    if extracts:
        return plan
    if unreadable:
        return plan.replace(reason="none of the selected images can be extracted")
    if not request.allow_missing or plan.errors:
        return plan.replace(reason=_nothing(request, items, missing_ids))
    # A build step that asks with --allow-missing expects the file to be there afterwards, if with no content.
    return plan.replace(extracts=(OutputFile("", (), "no image"),)) if request.output is not None else plan


def _archive(
    images: Sequence[OutputFile], name: str, unreadable: list[UnreadableImage]
) -> tuple[list[OutputFile], tuple[OutputFile, ...]]:
    """Return the archive of images, if any can be a member, and its members."""
    archive = plan_archive(images, name, unreadable)
    if not archive.images:
        return [], ()
    # Images and extracts may be equal; those of this plan are meant, which lives as long as these keys.
    inside = {id(image) for image in archive.images}
    return [archive], tuple(item for item in images if id(item.images[0]) in inside)


def run_extract(
    request: ExtractRequest, plan: ExtractPlan, file: View, checks: Verification
) -> tuple[int, tuple[UnreadableImage, ...]]:
    """Write what is planned, print what was written and what is wrong with it.

    Return the exit code, and the planned images that could not be read when they were to be written. ``file`` is never
    written over. ``checks`` runs already if everything is to be written.
    """
    print_findings(request.file, [item.finding for item in plan.unreadable])
    if plan.reason:
        print_stderr(f"fatpack: {request.file}: {plan.reason}", quiet=request.quiet and not plan.errors)
        return worst_exit_code((FINDINGS, plan.code)), ()
    if request.output is not None and not request.archive:
        _check_one(plan, file)
    if request.output != "-" and not request.dry_run:
        folder = request.directory or "" if request.output is None else os.path.dirname(request.output)
        warn_stale_temp_files(folder, quiet=request.quiet)
    write = _try if request.dry_run else _write_many if request.output is None else _write_one
    known = len(plan.unreadable)
    plan, cut = write(request, plan, file)
    # Small compressed content was checked when it was read: errors are reported already, the rest is with the others.
    used = source_containers(plan.items, plan.extracts)
    found_before = [item for found in used for item in found.container.findings if item.code in CONTENT_CODES]
    checked = [item for item in found_before if item.severity != "error"]
    wrong = [*_doubts(plan), *cut, *checked, *(checks.findings() if request.is_everything else verify_content(used))]
    return _outcome(request, plan, wrong), plan.unreadable[known:]


def extract_range(request: ExtractRequest, data: View, file: View) -> int:
    """Write the bytes that an address names, and return the exit code; ``file`` is never written over."""
    if request.containers or request.dry_run or request.directory is not None or not request.selector.is_empty():
        hint = "leave out selectors, --containers, --dry-run and -d"
        raise UsageError("an address names its bytes already", hint=hint)
    if request.output is None:
        raise UsageError("an address needs an output", hint='name it with -o; "-" is stdout')
    if request.output == "-":
        write_pieces(1, [data])
    else:
        write_file(request.output, [data], force=request.force, inputs=[data, file])
    return FINE


def _choose(request: ExtractRequest, items: Sequence[FoundContainer | Finding]) -> list[str]:
    """Print which images the bundle IDs mean, and why, and return the IDs that mean none."""
    from fatpack.selectors.bundle_id_match import missing_ids

    chosen = id_choices(items, request.selector)
    numbers: dict[str, int] = {}
    for choice in chosen:  # a library has thousands of containers, and the same is chosen in most of them
        numbers[choice.text] = numbers.get(choice.text, 0) + 1
    for text, number in numbers.items():
        print_stderr(text if number == 1 else f"{text}: {number} images", quiet=request.quiet)
    return missing_ids(chosen, request.selector.ids)


def _nothing(request: ExtractRequest, items: Sequence[FoundContainer | Finding], missing_ids: Sequence[str]) -> str:
    """Return why nothing is written, and what there is instead."""
    if missing_ids:
        ids = ids_in_file(items)
        why = missing_ids_reason(items, request.selector, missing_ids)
        what = f"no image for the bundle ID {' nor '.join(missing_ids)}{why}"
        present = f"present are {', '.join(ids)}" if ids else ""
    else:
        asked = f" that match {request.selector.describe()}" if not request.selector.is_empty() else ""
        what = f"no {'containers' if request.containers else 'images'}{asked}"
        present = available_values(items, request.selector)
        if not present:
            from fatpack.tabular.image_sets import undecided_words

            present = undecided_words(items)
    return truncate_words(f"{what}; {present}" if present else what)


def _check_one(plan: ExtractPlan, file: View) -> None:
    """Raise UsageError if there is more than -o takes."""
    matches = [*(item.what for item in plan.extracts), *(item.what for item in plan.unreadable)]
    if len(matches) > 1:
        named = "; ".join(matches[:4])
        more = f"; and {len(matches) - 4} more" if len(matches) > 4 else ""
        raise UsageError(
            f"{file.chain[0]}: {len(matches)} images match, and -o takes one: {named}{more}",
            hint="select one with --arch, --form, or --container and --index, or give -d DIR",
        )


def _try(request: ExtractRequest, plan: ExtractPlan, file: View) -> tuple[ExtractPlan, list[Finding]]:
    """Do all that writing would do, and write nothing; return as :func:`_write_many` does."""
    if request.output is None:
        paths = check_paths(plan.extracts, request.directory or "", [file], force=request.force)
    else:
        check_size(plan.extracts, [file], force=request.force)
        paths = [request.output]
        if request.output != "-":
            check_target(request.output, request.force, [file])
    unreadable: list[UnreadableImage] = []
    if request.archive:
        plan = _without_unreadable(request, plan)
        written = list(plan.extracts)
    else:
        written = readable_images(plan.extracts, unreadable)
        print_findings(request.file, [item.finding for item in unreadable])
    kept = {id(item) for item in written}  # as objects: see _archive
    if request.output is None:
        paths = [path for path, item in zip(paths, plan.extracts, strict=True) if id(item) in kept]
    _print(paths if written else (), written, quiet=request.quiet)
    cut = [item for extract in written for item in _late_damage(extract, "")]
    return plan.replace(unreadable=(*plan.unreadable, *unreadable)), cut


def _write_many(request: ExtractRequest, plan: ExtractPlan, file: View) -> tuple[ExtractPlan, list[Finding]]:
    """Write files into the directory; return the plan with what could not be written, and what is cut short."""
    unreadable: list[UnreadableImage] = []
    meter = CopyProgress(sum(item.size for item in plan.extracts), "extracting", quiet=request.quiet)
    try:
        paths = write_plan(
            plan.extracts,
            request.directory or "",
            force=request.force,
            inputs=[file],
            progress=meter,
            unreadable=unreadable,
        )
    finally:
        meter.finish()
    print_findings(request.file, [item.finding for item in unreadable])
    names = {os.path.basename(path) for path in paths}
    written = [item for item in plan.extracts if item.name in names]
    _print(paths, written, quiet=request.quiet)
    cut = [item for path, extract in zip(paths, written, strict=True) for item in _late_damage(extract, path)]
    return plan.replace(unreadable=(*plan.unreadable, *unreadable)), cut


def _write_one(request: ExtractRequest, plan: ExtractPlan, file: View) -> tuple[ExtractPlan, list[Finding]]:
    """Write the one image, container or archive where -o says; return as :func:`_write_many` does.

    Of an archive, images that turn out to be unreadable are left out.
    """
    if plan.members and request.output == "-":
        plan = _without_unreadable(request, plan)  # what is written to stdout is not taken back
    try:
        _write_output(request, plan.extracts[0], file)
    except PER_IMAGE_ERRORS:
        left = _without_unreadable(request, plan) if request.output != "-" else plan
        if not left.extracts or len(left.members) == len(plan.members):
            raise
        plan = left
        _write_output(request, plan.extracts[0], file)
    return plan, _late_damage(plan.extracts[0], request.output if request.output not in (None, "-") else "")


def _without_unreadable(request: ExtractRequest, plan: ExtractPlan) -> ExtractPlan:
    """Return the plan of an archive without the images that cannot be read to their end, which are reported."""
    unreadable: list[UnreadableImage] = []
    left = readable_images(plan.members, unreadable)
    if not unreadable:
        return plan
    print_findings(request.file, [item.finding for item in unreadable])
    archive, members = _archive(left, plan.name, unreadable) if left else ([], ())
    return plan.replace(extracts=tuple(archive), members=tuple(members), unreadable=(*plan.unreadable, *unreadable))


def _write_output(request: ExtractRequest, item: OutputFile, file: View) -> None:
    output = request.output or "-"
    check_size([item], [file], force=request.force)
    if output == "-":
        write_pieces(1, item.pieces)
        return
    meter = CopyProgress(item.size, "extracting", quiet=request.quiet)
    try:
        write_file(output, item.pieces, force=request.force, inputs=[file, *item.views], progress=meter)
    finally:
        meter.finish()
    print_stderr(f"wrote {output}: {item.what}, {format_size(item.size)}", quiet=request.quiet)


def _print(paths: Iterable[str], extracts: Iterable[OutputFile], *, quiet: bool) -> None:
    """Print what goes where: scripts read the paths."""
    named = zip(paths, extracts, strict=True)
    lines = (path if quiet else printable(f"{path}  {item.what}, {format_size(item.size)}") for path, item in named)
    write_lines(lines, sys.stdout)


def _late_damage(extract: OutputFile, path: str) -> list[Finding]:
    """Return what is damaged in images that were not verified before they were written; an archive is no image."""
    return deferred_damage(extract.images, path if len(extract.pieces) == 1 else "")


def _doubts(plan: ExtractPlan) -> list[Finding]:
    """Return the warnings about the very bytes that are written: several images glued together, or one cut short."""
    written = {view.span() for item in plan.extracts for view in item.views}
    doubts = [item for item in plan.items if isinstance(item, Finding) and item.severity == "warning"]
    # A container that is written as it is stored was not looked into for that.
    whole = {item.container.span for item in plan.items if isinstance(item, FoundContainer)} & written
    containers = (found for found in source_containers(plan.items, plan.extracts) if found.container.span not in whole)
    inside = (item for found in containers for image in found.images for item in image.findings)
    cut = [item for item in inside if item.code == "FP1104"]
    return [item for item in (*doubts, *cut) if item.span in written]


def _outcome(request: ExtractRequest, plan: ExtractPlan, wrong: Sequence[Finding]) -> int:
    """Print what is wrong with images and with the content of compressed bundles, and return the exit code."""
    wrong = [item for item in wrong if item.severity != "note"]
    print_findings(request.file, wrong)
    return worst_exit_code((plan.code, exit_code_for_findings((item.severity, item.code) for item in wrong)))
