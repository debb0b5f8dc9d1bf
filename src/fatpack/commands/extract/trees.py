"""The run of ``fatpack extract`` for folders, patterns and packages: each file in them, into folders of its own.

The leaves are looked at twice: all names are made and checked before the first byte is written, and what is planned for
a file takes memory only while it is written. A name from a package or a folder is reduced to harmless words, and no
link below the output is followed.
"""

from __future__ import annotations

import errno
import os

from fatpack.command_line.messages import print_stderr
from fatpack.command_line.trees import FilesProgress, TreeSummary, report_unmatched, report_unused, summary_line
from fatpack.commands.extract.run import ExtractPlan, report_checksum_problems, report_problems, run_extract
from fatpack.edit.extract import plan_containers, plan_images
from fatpack.edit.verify import Verification
from fatpack.edit.write_containers import UnreadableImage
from fatpack.errors import FatpackError, UsageError, cli_or_api, pluralize
from fatpack.exit_codes import FINDINGS, FINE, error_message, exit_code, exit_code_for_findings, worst_exit_code
from fatpack.inputs.files import Filter, input_kind, walk_input
from fatpack.io.atomic_write import refuse_inputs
from fatpack.io.output_names import safe_word
from fatpack.io.write import check_space
from fatpack.limits import current_budget
from fatpack.scanner import FoundContainer
from fatpack.scanner.standalone_images import scan_with_standalone_images
from fatpack.selectors.no_match import PresentValues
from fatpack.text.findings import FindingList, finding_lines, finding_record, unlisted_records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.commands.extract.run import ExtractRequest
    from fatpack.inputs.files import InputFile
    from fatpack.io.source import View

#: LIMIT: folders that are tried for one leaf, where others have their images under the same names already.
_TRIED = 10_000

#: LIMIT: folders around an image, and characters of their path: systems allow some 4096, and makedirs recurses.
_DEEP, _LONG = 256, 2048


def extract_all(request: ExtractRequest, exclude: tuple[str, ...], view: View | None = None) -> int:
    """Extract from every file of an open package, or without a view, of a folder or a pattern; return the exit code.

    Raises UsageError before anything is written if anything cannot be written where it belongs.
    """
    if request.output is not None:
        raise UsageError(
            f"-o names one file, and {request.file} has many", hint="-d DIR for all of them, or name one of the files"
        )
    work = _Extraction(request, Filter(exclude, request.deep), view)
    work.plan()
    return work.run()


class _Extraction:
    """The leaves of one name, planned and then written in the same order."""

    def __init__(self, request: ExtractRequest, rules: Filter, view: View | None) -> None:
        self._request, self._rules, self._view = request, rules, view
        self._output = request.directory or ""
        #: path of a leaf → folder and paths of its images; several where a package has a name more than once
        self._places: dict[str, list[tuple[str, list[str]]]] = {}
        self._meter = FilesProgress()

    def _leaves(self, summary: TreeSummary) -> Iterator[InputFile]:
        rules, counts = self._rules, summary.counts
        for batch in walk_input(self._request.file, self._view, rules, counts, summary.unmatched):
            for node in batch:
                yield from node.leaves(rules, counts)

    def _summary(self) -> TreeSummary:
        return TreeSummary(self._request.file, input_kind(self._request.file, self._view))

    def plan(self) -> None:
        """Find a folder for the images of every leaf; raise UsageError for what must not be written there."""
        places = OutputFolders(self._output)
        total = 0
        try:
            for leaf in self._leaves(self._summary()):
                if leaf.view is None:
                    continue
                try:
                    planned = self._planned(leaf, leaf.view)
                except UsageError:
                    raise
                except (FatpackError, OSError):  # said when it is its turn to be written
                    continue
                self._meter(bool(planned.extracts))
                if not planned.extracts:
                    continue
                folder, paths = places.take(leaf.parts, [item.name for item in planned.extracts])
                self._places.setdefault(leaf.path, []).append((folder, paths))
                inputs = [leaf.view if self._view is None else self._view]
                check_places(self._output, folder, paths, inputs, force=self._request.force)
                total += sum(item.size for item in planned.extracts)
        finally:
            self._meter.finish()
        if not self._request.force:
            current_budget().check_output(total)
        check_space(self._output, total)

    def _planned(self, leaf: InputFile, view: View) -> ExtractPlan:
        """Return what to write of a leaf. Raises FatpackError, ``OSError``."""
        request, name = self._request, leaf.parts[-1] if leaf.parts else "image"
        unreadable: list[UnreadableImage] = []
        items = scan_with_standalone_images(view, deep=request.deep)
        if request.containers:
            extracts = plan_containers(items, request.selector, name)
        else:
            extracts = plan_images(items, request.selector, name, unreadable)
        return ExtractPlan(items, name, tuple(extracts), unreadable=tuple(unreadable))

    def run(self) -> int:
        """Write what is planned, say what was not, and return the exit code."""
        summary = self._summary()
        code, images, selected_count = FINE, 0, 0
        present = PresentValues(self._request.selector)
        unreadable: list[UnreadableImage] = []
        for leaf in self._leaves(summary):
            if leaf.view is None:
                code = worst_exit_code((code, self._tell(leaf)))
                summary.unread += leaf.error is not None
                continue
            try:
                try:
                    plan = self._planned(leaf, leaf.view)
                    folder = self._place(leaf.path, plan)
                except OSError as error:  # of reading this file; one of writing is the end
                    failure = error if error.filename else OSError(error.errno, error.strerror or str(error), leaf.path)
                    print_stderr(f"fatpack: error: {error_message(failure)}")
                    code = worst_exit_code((code, exit_code(failure)))
                    summary.unread += 1
                    continue
                count = sum(len(item.images) for item in plan.items if isinstance(item, FoundContainer))
                summary.add(count or None, len(leaf.view))
                selected_count += len(plan.extracts)
                if not selected_count:
                    present.add(plan.items)
                one = self._request.replace(file=leaf.path, directory=folder)
                found, late = self._run(one, plan, leaf.view)
                code = worst_exit_code((code, found))
                images += len(plan.extracts) - len(late)
                unreadable += [*plan.unreadable, *late]
            except UsageError:
                raise
            except FatpackError as error:
                print_stderr(f"fatpack: error: {error_message(error)}")
                code = worst_exit_code((code, exit_code(error)))
        return self._end(summary, code, images, unreadable, None if selected_count else present)

    def _place(self, path: str, plan: ExtractPlan) -> str:
        """Return the folder that was found for the images of a leaf. Raises ``OSError`` if these were not planned."""
        if not plan.extracts:
            return self._output
        waiting = self._places.get(path, [])
        for number, (folder, paths) in enumerate(waiting):
            if paths == [os.path.join(folder, item.name) for item in plan.extracts]:
                del waiting[number]
                return folder
        text = "the file changed, or could not be read, when the names of all images were checked; extract it again"
        raise OSError(errno.ESTALE, text, path)

    def _run(self, one: ExtractRequest, plan: ExtractPlan, view: View) -> tuple[int, tuple[UnreadableImage, ...]]:
        """Write the images of a leaf; return the exit code, and the images that could only then not be read."""
        if not plan.extracts and not plan.unreadable:
            report_problems(one, plan.items)
            return plan.code, ()
        report_checksum_problems(one, plan.items, view.source)
        with Verification(plan.items if one.is_everything else ()) as checks:
            return run_extract(one, plan, self._view or view, checks)

    def _tell(self, leaf: InputFile) -> int:
        """Say why a leaf cannot be read, or what is wrong with a package, and return the exit code."""
        wrong = [item for item in leaf.findings if item.severity != "note"]
        found = FindingList()
        found.extend(wrong)
        records = [finding_record(item) for item in found.kept]
        for text in finding_lines(records, unlisted=unlisted_records(found), title=leaf.path):
            print_stderr(f"fatpack: {text}")
        code = exit_code_for_findings((item.severity, item.code) for item in wrong if item.severity == "error")
        if leaf.error is None:
            return code
        print_stderr(f"fatpack: error: {error_message(leaf.error)}")
        return worst_exit_code((code, exit_code(leaf.error)))

    def _end(
        self,
        summary: TreeSummary,
        code: int,
        images: int,
        unreadable: Sequence[UnreadableImage],
        present: PresentValues | None,
    ) -> int:
        """Say what was extracted, and without a match what is ``present``; return the exit code."""
        request = self._request
        what = "container" if request.containers else "image"
        report_unmatched(summary)
        report_unused(self._rules.exclude, [summary], quiet=request.quiet)
        if present is not None and not request.allow_missing:
            asked = f" that match {request.selector.describe()}" if not request.selector.is_empty() else ""
            there = f"; {present.words()}" if present.words() else ""
            print_stderr(f"fatpack: {request.file}: no {what}s{asked}{there}", quiet=request.quiet and code == FINE)
            code = worst_exit_code((code, FINDINGS))
        verb = "would be extracted" if request.dry_run else "extracted"
        failed = f", {len(unreadable)} not: {_why_not(unreadable)}" if unreadable else ""
        files = summary_line([summary], deep=request.deep)
        print_stderr(f"{pluralize(images, what)} {verb}{failed}; {files}", quiet=request.quiet)
        return worst_exit_code((code, FINDINGS)) if summary.unmatched else code


def _why_not(unreadable: Sequence[UnreadableImage]) -> str:
    """Return why images were not written, in a few words; the findings have the rest."""
    if any(not item.what.endswith(" ltoir") for item in unreadable):
        return "they cannot be read"
    # Of the forms in fat binaries, NVIDIA's tools obfuscate LTO-IR alone.
    return "LTO-IR that cannot be read; --form cubin,ptx leaves it out"


def check_places(output: str, folder: str, paths: Sequence[str], inputs: Sequence[View], *, force: bool) -> None:
    """Raise UsageError or ``OSError`` for a folder or a file that exists already, where a file cannot be written."""
    below = os.path.relpath(folder or os.curdir, output or os.curdir).split(os.sep)
    path = output
    for part in below if below != [os.curdir] else []:
        path = os.path.join(path, part)
        _refuse_link(path)
        if os.path.lexists(path) and not os.path.isdir(path):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    for path in paths:
        if force:
            _refuse_link(path)
            refuse_inputs(path, inputs)
        elif os.path.lexists(path):
            hint = cli_or_api(
                "give another directory with -d, or --force to overwrite", "give another one, or overwrite=True"
            )
            raise UsageError(f"{path} exists", hint=hint)


class OutputFolders:
    """The folders of images: below the output, named as the folders around their file, if the names are harmless.

    Files whose images would have the same names as those of another (``a.o`` beside ``a.so``, names that differ in what
    is harmful only, a name that is twice in a package) get a folder of their own name, with a number if need be.
    """

    def __init__(self, output: str) -> None:
        self._output = output
        self._taken: set[str] = set()
        self._folders: set[str] = set()

    def take(self, parts: Sequence[str], names: Sequence[str]) -> tuple[str, list[str]]:
        """Return the folder for the images of a file, and their paths, which no other file gets."""
        around = os.path.join(self._output, *_innermost([safe_word(part) or "_" for part in parts[:-1]]))
        own = safe_word(parts[-1] if parts else "") or "_"
        for number in range(_TRIED):
            folder = around if not number else os.path.join(around, own if number == 1 else f"{own}.{number}")
            paths = [os.path.join(folder, name) for name in names]
            if self._taken.isdisjoint((*paths, folder)) and self._folders.isdisjoint(paths):
                self._taken.update(paths)
                self._folders.add(folder)
                return folder, paths
        raise UsageError(f"too many files have the name {own}", hint="extract them one by one")


def _refuse_link(path: str) -> None:
    if os.path.islink(path):
        raise UsageError(f"{path} is a link: nothing is written through it", hint="give another directory")


def _innermost(folders: list[str]) -> list[str]:
    """Return as many of the folders around a file as a path can have: a package may name any number of them."""
    left = _LONG
    for count, folder in enumerate(reversed(folders)):
        left -= len(folder) + 1
        if left < 0 or count == _DEEP:
            return folders[len(folders) - count :]
    return folders
