"""``fatpack inspect FILE...``: reads files, folders and packages, and prints their listings or totals."""

from __future__ import annotations

import sys

from fatpack.command_line.messages import print_stderr
from fatpack.command_line.terminal import get_style, write_text
from fatpack.command_line.terminal import get_style as terminal_style
from fatpack.commands.inspect.record import FileInspection, InspectOptions, failure_record
from fatpack.commands.inspect.text import ListingRows, not_searched_lines, render_inspect
from fatpack.errors import FatpackError
from fatpack.exit_codes import FINDINGS, FINE, error_message, exit_code, exit_code_for_findings, worst_exit_code
from fatpack.findings import finding
from fatpack.io.open import is_tree, resolve_url
from fatpack.io.source import Span
from fatpack.model import arch_name
from fatpack.printable import printable
from fatpack.record import Record, gc_paused
from fatpack.scanner.context import detect_package
from fatpack.selectors.address import open_argument
from fatpack.text.findings import FindingList, finding_lines, finding_record, unlisted_records
from fatpack.text.schemas import INSPECT as SCHEMA
from fatpack.text.style import colorize, write_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, TypeGuard

    from fatpack.command_line.trees import ShownFile, TreeListing
    from fatpack.commands.inspect.listing import AnyFile, ContainerRecord, FileRecord, OptionalFacts
    from fatpack.inputs.files import InputFile
    from fatpack.io.source import View
    from fatpack.text.style import Style


# The run of ``fatpack inspect`` for folders, patterns and packages: the record of each file with device code.
#
# Except for the path, each record is that of ``inspect`` for the file alone. Other files are counted, unless they have
# findings.


class InspectTrees(Record):
    """Reads a file of a tree with ``options``, and shows it as lines, JSON (``json``), a ``record``, or ``sums``.

    ``by`` are the keys of sums, which come with lines about what is wrong.
    """

    options: InspectOptions
    form: str = "lines"
    verbose: int = 0
    keep: Callable[[ContainerRecord], Any] | None = None
    by: tuple[str, ...] = ()

    def __call__(self, leaf: InputFile) -> ShownFile:
        """Return what is shown of a leaf."""
        from fatpack.command_line.trees import ShownFile

        if leaf.error is not None:
            failed = failure_record(leaf.path, leaf.error)
            return self._shown(failed, exit_code(leaf.error), is_file=not leaf.package)
        if leaf.package:
            code = exit_code_for_findings((item.severity, item.code) for item in leaf.findings)
            return self._shown(_package(leaf), code, is_file=False) if code else ShownFile(is_file=False)
        assert leaf.view is not None
        with gc_paused():
            return self._of(leaf.path, leaf.view)

    def _of(self, path: str, view: View) -> ShownFile:
        from fatpack.command_line.trees import ShownFile

        try:
            is_brief = self.form == "lines" and not self.verbose and not self.options.kernels
            inspection = FileInspection(view, self.options, self.keep)
            record: AnyFile = inspection.record(ListingRows()) if is_brief else inspection.record([])
            code, count = record_exit_code(record), image_count(record)
        except (FatpackError, OSError) as error:
            return self._shown(failure_record(path, error), exit_code(error))
        if not code and (count is None or (not count and record.get("left_out"))):
            return ShownFile(size=len(view))
        return self._shown(record, code, images=count, size=len(view))

    def _shown(self, record: AnyFile, code: int, **facts: Any) -> ShownFile:
        from fatpack.command_line.trees import ShownFile
        from fatpack.text.json import PreparedJson, json_text

        error = record["error"]["message"] if record.get("error") else ""
        content: Any = record
        if self.form == "lines":
            content = None if error else list(render_inspect(record, verbose=self.verbose))
        elif self.form == "json":
            content = PreparedJson(json_text(record, "\n  "))
        elif self.form == "sums":
            content = None
            if not error and has_containers(record):
                from fatpack.commands.inspect.totals import compute_totals

                totals = compute_totals([record], self.by)
                content = (problem_lines(record["path"], record), totals)
                if facts.get("images") is not None:
                    facts["images"] = totals.total["images"]  # the total and the summary count alike
        return ShownFile(content, code, error, **facts)


def has_containers(record: AnyFile) -> TypeGuard[FileRecord]:
    """Return whether a listing has the records of containers, and not only the rows of the short text."""
    return not isinstance(record["containers"], ListingRows)


def image_count(record: AnyFile) -> int | None:
    """Return how many images the record of a file has, without those inside images; None without device code."""
    containers, members = record["containers"], record.get("member_images", ())
    if not containers and not members and not record["image"]:
        # A program whose code lies in kpack archives is listed, and a manifest of such archives too.
        return 0 if record.get("kpack") or record.get("manifest") else None
    if isinstance(containers, ListingRows):
        inside = sum(place.count_images() for place in containers.places)
    else:
        kept: Sequence[Any] = containers  # `keep` may have made the text of containers already
        inside = sum(
            len(container["images"]) if isinstance(container, dict) else container.images for container in kept
        )
    return inside + len(members) + bool(record["image"])


def _package(leaf: InputFile) -> FileRecord:
    """Return the record of a package with which something is wrong."""
    from fatpack.packages import get_package

    found = FindingList()
    found.extend(leaf.findings)
    unlisted = unlisted_records(found)
    not_listed: OptionalFacts = {"unlisted_findings": unlisted} if unlisted else {}
    return {
        "path": leaf.path,
        "size": leaf.size,
        "host": "raw",
        "format": None,
        "kind": get_package(leaf.package).DOC.title,
        "package": leaf.package,
        "image": None,
        "containers": [],
        "findings": [finding_record(item) for item in found.kept],
        **not_listed,
    }


# Comparing the files of one program, from the records of ``inspect``: same architectures, same forms.
#
# A part is a file, or a member of an archive; what has no device code is none. Merged and linked files are one part
# each: what is to be compared are the objects and archives that the linker gets.

DIFFERENCE_CODE = "FP1420"


def add_differences(records: Sequence[FileRecord]) -> bool:
    """Add a finding to the record of every file with a part that is not built as the first; return if there is any."""
    from fatpack.commands.pack.formats import DIFFERENCE_HINT, arch_differences

    parts: dict[str, dict[str, None]] = {}
    files: dict[str, FileRecord] = {}
    for record in records:
        for member, label in _labels(record.get("containers", ())):
            name = f"{record['path']}({member})" if member else record["path"]
            parts.setdefault(name, {})[label] = None
            files[name] = record
    found = False
    for name, text in arch_differences(parts):
        difference = finding_record(finding(DIFFERENCE_CODE, Span(0, 0), text, DIFFERENCE_HINT))
        difference["offset"] = None
        files[name]["findings"].append(difference)
        found = True
    return found


def _labels(containers: Sequence[ContainerRecord], outer: str | None = None) -> Iterator[tuple[str | None, str]]:
    """Yield the member that every image for a device is in, and what the image is for, with its form."""
    for container in containers:
        member = outer or container["member"]
        for image in container["images"]:
            if image["containers"]:
                yield from _labels(image["containers"], member)
            elif image["offload"] != "host":
                target = arch_name(image["arch"], image["form"] or "") or image["triple"]
                yield member, f"{target} ({image['form'] or 'unknown'})"


#: The default options of a listing.
TABLES = InspectOptions(inflate=False)


def show_files(
    files: Sequence[str],
    options: InspectOptions = TABLES,
    *,
    as_json: bool = False,
    verbose: int = 0,
    one_program: bool = False,
    exclude: tuple[str, ...] = (),
) -> int:
    """Print what is in the files and return the exit code: 1 for warnings, 3 for damage, 4 for what this
    version cannot read, 5 for unreadable files.

    What is read follows from ``options`` alone, and so does the exit code; by default the images of large compressed
    containers are taken from their tables. ``one_program`` compares the files too. Of folders, patterns and packages
    every file with device code is shown, and a summary ends the output; ``exclude`` are patterns of files left out.
    """
    shown = _ShownFiles(options, exclude, as_json=as_json, verbose=verbose, one_program=one_program)
    found: Iterable[Any] = shown.records(files)
    code = FINE
    if one_program:
        found = all_of_them = list(found)
        code = FINDINGS if add_differences(all_of_them) else FINE
    if as_json:
        from fatpack.text.json import document_pieces

        head = {"schema": SCHEMA}
        sys.stdout.writelines(document_pieces(head, "files", found, written=_flush, tail=shown.tail))
    else:
        style = terminal_style()
        if verbose:
            style = style.replace(width=0)  # addresses and names are there to be copied
        for record in found:
            _write(record, verbose, style)
        shown.end()
    shown.say_unused()
    if (options.arch or options.position) and not shown.images and shown.code in (FINE, FINDINGS):
        _flush()
        asked = "--image {}.{}".format(*options.position) if options.position else f"--arch {','.join(options.arch)}"
        print_stderr(f"fatpack: no image matches {asked}")
        code = FINDINGS
    return worst_exit_code((code, shown.code))


class _ShownFiles:
    """Records or text of each argument, and the exit code so far."""

    def __init__(
        self, options: InspectOptions, exclude: tuple[str, ...], *, as_json: bool, verbose: int, one_program: bool
    ) -> None:
        self._options, self._exclude, self._verbose = options, exclude, verbose
        self._form = "record" if one_program else "json" if as_json else "lines"
        self._is_brief = not (as_json or verbose or one_program or options.kernels)
        self._keep: Callable[[ContainerRecord], Any] | None = None
        self._trees: TreeListing | None = None
        self.code = FINE
        #: how many images were shown
        self.images = 0
        if options.kernels:
            from fatpack.commands.inspect.text import with_kernel_tables
            from fatpack.text.json import prepared_container

            # The facts about a hundred thousand kernels take far more memory than the text that is made of them.
            self._keep = with_kernel_tables if not as_json else None if one_program else prepared_container

    def records(self, names: Iterable[str]) -> Iterator[Any]:
        """Yield the record of each file, read lazily, and of each file in a tree."""
        for name in names:
            if is_tree(name):
                yield from self._of_tree(name)
                continue
            path = name
            try:
                path = resolve_url(name)
                source, view = open_argument(path)
                with source:
                    if detect_package(view):
                        yield from self._of_tree(view.chain[0] if view.chain else path, view)
                        continue
                    record: AnyFile
                    inspection = FileInspection(view, self._options, self._keep)
                    record = inspection.record(ListingRows()) if self._is_brief else inspection.record([])
                    problem = record_exit_code(record)
            except (FatpackError, OSError) as error:
                record, problem = failure_record(path, error), exit_code(error)
            self.code = worst_exit_code((self.code, problem))
            self.images += 0 if record.get("error") else image_count(record) or 0
            yield record

    def _of_tree(self, path: str, view: View | None = None) -> Iterator[Any]:
        from fatpack.command_line.trees import TreeListing
        from fatpack.inputs.files import Filter

        if self._trees is None:
            keep = self._keep if self._form == "lines" else None
            self._trees = TreeListing(
                InspectTrees(self._options, self._form, self._verbose, keep), Filter(self._exclude, self._options.deep)
            )
        for item in self._trees.shown(path, view):
            yield item if self._form == "lines" else item.content
        self.images += self._trees.summaries[-1].images
        self.code = worst_exit_code((self.code, self._trees.code))

    def tail(self) -> dict[str, object]:
        """Return what JSON says of the trees after their files: how much was met in each."""
        return {"trees": [item.record() for item in self._trees.summaries]} if self._trees is not None else {}

    def end(self) -> None:
        """Print the line that ends what is shown of trees."""
        if self._trees is not None:
            from fatpack.command_line.trees import summary_line

            write_text([summary_line(self._trees.summaries, deep=self._options.deep)])

    def say_unused(self) -> None:
        """Say which patterns left nothing out of trees."""
        if self._trees is not None and self._exclude:
            from fatpack.command_line.trees import report_unused

            sys.stdout.flush()
            report_unused(self._exclude, self._trees.summaries)


def _flush() -> None:
    """Give out what was written so far: readers need not wait for the next file."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError:
        pass  # it is still there, and said when the command ends


def _print_inspect_error(text: str) -> None:
    from fatpack.command_line.messages import print_stderr

    sys.stdout.flush()
    print_stderr(f"fatpack: error: {text}")


def _write(record: AnyFile | ShownFile, verbose: int, style: Style) -> None:
    if not isinstance(record, dict):
        if record.error:
            _print_inspect_error(record.error)
        else:
            write_lines(colorize(record.content, style), sys.stdout)
        return
    if record.get("error"):
        _print_inspect_error(record["error"]["message"])
        return
    with gc_paused():
        write_lines(colorize(render_inspect(record, verbose=verbose), style), sys.stdout)


def record_exit_code(record: AnyFile) -> int:
    """Return the exit code for the record of a file that could be read."""
    found = (*record["findings"], *record.get("unlisted_findings", ()))
    return exit_code_for_findings((item["severity"], item["code"]) for item in found)


# Errors of files that have no listing, as lines for messages.


def problem_lines(path: str, record: AnyFile) -> list[str]:
    """Return lines about what is wrong with a file, and about what was not searched where that may matter."""
    serious = [item for item in record["findings"] if item["severity"] != "note"]
    unlisted = [item for item in record.get("unlisted_findings", ()) if item["severity"] != "note"]
    lines = list(finding_lines(serious, unlisted=unlisted))
    if record.get("found_outside"):
        lines += not_searched_lines(record)
    return [f"{printable(path)}: {line}\n" for line in lines]


# The run of ``fatpack inspect --by``: totals over the device code of files.


def show_totals(
    files: Sequence[str], by: Sequence[str], *, as_json: bool = False, deep: bool = False, exclude: tuple[str, ...] = ()
) -> int:
    """Print what the device code of the files adds up to, and return the exit code as ``inspect`` does.

    The findings that decide the exit code go to stderr, and so does what was not searched: incomplete sums do not look
    incomplete. Containers state the sizes and targets of their images: only sums by kernel need decompression.
    """
    from fatpack.commands.inspect.totals import totals_table
    from fatpack.text.json import json_pieces

    needs_kernels = "kernel" in by
    options = InspectOptions(deep=deep, code_sizes=needs_kernels, tables_only=not needs_kernels)
    found = _TotalsOverFiles(options, by, exclude)
    for path in files:
        found.add(path)
    if as_json:
        sys.stdout.writelines(json_pieces(found.sums.record()))
        sys.stdout.write("\n")
    elif found.is_any_read:
        write_lines(totals_table(found.sums, get_style()), sys.stdout)
    found.end()
    return found.code


class _TotalsOverFiles:
    """The sums over all names, and the exit code for what was read so far."""

    def __init__(self, options: InspectOptions, by: Sequence[str], exclude: tuple[str, ...]) -> None:
        self._options, self._by, self._exclude = options, by, exclude
        self._trees: TreeListing | None = None
        from fatpack.commands.inspect.totals import Totals

        self.sums = Totals(by)
        self.code = FINE
        #: Zeros after nothing but errors would look like an answer.
        self.is_any_read = False

    def add(self, path: str) -> None:
        """Add the images of a file, or of all files in a tree."""
        if is_tree(path):
            self._add_tree(path)
            return
        try:
            source, view = open_argument(path)
            with source:
                if detect_package(view):
                    self._add_tree(view.chain[0] if view.chain else path, view)
                    return
                record = FileInspection(view, self._options).record([])
                code = record_exit_code(record)
        except (FatpackError, OSError) as error:
            self.code = worst_exit_code((self.code, exit_code(error)))
            _print_totals_error(error_message(error))
            return
        self.is_any_read = True
        self.code = worst_exit_code((self.code, code))
        _say_all(problem_lines(path, record))
        assert has_containers(record)
        self.sums.add(record)

    def _add_tree(self, path: str, view: View | None = None) -> None:
        from fatpack.command_line.trees import TreeListing
        from fatpack.inputs.files import Filter

        if self._trees is None:
            self._trees = TreeListing(
                InspectTrees(self._options, "sums", by=tuple(self._by)), Filter(self._exclude, self._options.deep)
            )
        for item in self._trees.shown(path, view):
            if item.error:
                _print_totals_error(item.error)
            else:
                lines, part = item.content
                _say_all(lines)
                self.sums.merge(part)
        self.code = worst_exit_code((self.code, self._trees.code))
        self.is_any_read |= self._trees.summaries[-1].files > 0 or not self.code

    def end(self) -> None:
        """Print the counts of skipped files to stderr, because programs read the sums."""
        if self._trees is not None:
            from fatpack.command_line.trees import report_unused, summary_line

            report_unused(self._exclude, self._trees.summaries)
            print_stderr(summary_line(self._trees.summaries, deep=self._options.deep))


def _print_totals_error(text: str) -> None:
    print_stderr(f"fatpack: error: {text}")


def _say_all(lines: Iterable[str]) -> None:
    for line in lines:
        print_stderr(line.rstrip("\n"))
