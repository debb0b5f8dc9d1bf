"""``fatpack inspect FILE...``: reads files, folders and packages, and prints their listings or totals."""

from __future__ import annotations

import sys

from fatpack.command_line.messages import print_stderr
from fatpack.command_line.terminal import get_style, write_text
from fatpack.commands.inspect.record import FileInspection, InspectOptions, failure_record
from fatpack.commands.inspect.text import ListingRows, not_searched_lines, render_inspect
from fatpack.errors import FatpackError
from fatpack.exit_codes import FINDINGS, FINE, exit_code, exit_code_for_findings, worst_exit_code
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

    from fatpack.command_line.trees import ShownFile, TreeListing, TreeSummary
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
        if not count and record.get("left_out"):
            count = None  # of the images that were asked for it has none
        if not code and count is None:
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
    shown = _shown_files(options, exclude, as_json=as_json, verbose=verbose, one_program=one_program)
    found: Iterable[Any] = shown.read(files)
    code = FINE
    if as_json or one_program:
        found = map(_content, found)
    if one_program:
        found = all_of_them = list(found)
        code = FINDINGS if add_differences(all_of_them) else FINE
    if as_json:
        from fatpack.text.json import document_pieces

        head = {"schema": SCHEMA}
        sys.stdout.writelines(document_pieces(head, "files", found, written=_flush, tail=shown.tree_records))
    else:
        style = get_style()
        if verbose:
            style = style.replace(width=0)  # addresses and names are there to be copied
        for record in found:
            _write(record, verbose, style)
        if shown.summaries:
            write_text([shown.summary_line()])
    if exclude:
        sys.stdout.flush()
        shown.say_unused()
    if (options.arch or options.position) and not shown.images and shown.code in (FINE, FINDINGS):
        _flush()
        from fatpack.selectors.no_match import right_spelling

        meant = [right for right in map(right_spelling, options.arch) if right]
        hint = f"; did you mean {', '.join(meant)}?" if meant else ""
        print_stderr(f"fatpack: no image matches {options.asked}{hint}")
        code = FINDINGS
    return worst_exit_code((code, shown.code))


class ArgumentFiles:
    """Reads the files that arguments name, and keeps the worst exit code and the summaries of trees.

    ``reader`` says what is shown of the files in folders, patterns and packages. The record of any other file has the
    containers that its ``keep`` returns, or rows of text if ``is_brief``.
    """

    def __init__(self, reader: InspectTrees, exclude: tuple[str, ...], *, is_brief: bool = False) -> None:
        self._reader, self._exclude, self._is_brief = reader, exclude, is_brief
        self._trees: TreeListing | None = None
        self.code = FINE
        #: how many images the files have, without those inside images
        self.images = 0

    @property
    def summaries(self) -> Sequence[TreeSummary]:
        """Counts of what was met in each tree."""
        return self._trees.summaries if self._trees is not None else ()

    def read(self, names: Iterable[str]) -> Iterator[AnyFile | ShownFile]:
        """Yield the record of each file, with its ``error`` if it has one, and what is shown of files in trees."""
        for name in names:
            if is_tree(name):
                yield from self._of_tree(name)
                continue
            path = name
            record: AnyFile
            try:
                path = resolve_url(name)
                source, view = open_argument(path)
                with source:
                    if detect_package(view):
                        yield from self._of_tree(view.chain[0] if view.chain else path, view)
                        continue
                    inspection = FileInspection(view, self._reader.options, self._reader.keep)
                    record = inspection.record(ListingRows()) if self._is_brief else inspection.record([])
                    code = record_exit_code(record)
            except (FatpackError, OSError) as error:
                record, code = failure_record(path, error), exit_code(error)
            self.code = worst_exit_code((self.code, code))
            self.images += 0 if record.get("error") else image_count(record) or 0
            yield record

    def _of_tree(self, path: str, view: View | None = None) -> Iterator[ShownFile]:
        from fatpack.command_line.trees import TreeListing
        from fatpack.inputs.files import Filter

        if self._trees is None:
            options = self._reader.options
            rules = Filter(self._exclude, options.deep)
            self._trees = TreeListing(self._reader, rules, shares_inside=options.reads_kernels)
        yield from self._trees.shown(path, view)
        self.images += self._trees.summaries[-1].images
        self.code = worst_exit_code((self.code, self._trees.code))

    def end(self) -> None:
        """Print to stderr which patterns left nothing out of trees, and how much was met in them."""
        if self._trees is not None:
            self.say_unused()
            print_stderr(self.summary_line())

    def say_unused(self) -> None:
        """Say which patterns left nothing out of trees."""
        if self._trees is not None and self._exclude:
            from fatpack.command_line.trees import report_unused

            report_unused(self._exclude, self._trees.summaries)

    def tree_records(self) -> dict[str, object]:
        """Return what JSON says of the trees after their files: how much was met in each."""
        return {"trees": [item.record() for item in self.summaries]} if self.summaries else {}

    def summary_line(self) -> str:
        """Return the line that ends what is shown of trees."""
        from fatpack.command_line.trees import summary_line

        return summary_line(self.summaries, deep=self._reader.options.deep, asked=self._reader.options.asked)


def _shown_files(
    options: InspectOptions, exclude: tuple[str, ...], *, as_json: bool, verbose: int, one_program: bool
) -> ArgumentFiles:
    """Return the reader of the files that are printed one by one."""
    keep: Callable[[ContainerRecord], Any] | None = None
    if options.kernels:
        from fatpack.commands.inspect.text import with_kernel_tables
        from fatpack.text.json import prepared_container

        # The facts about a hundred thousand kernels take far more memory than the text that is made of them.
        keep = with_kernel_tables if not as_json else None if one_program else prepared_container
    form = "record" if one_program else "json" if as_json else "lines"
    is_brief = not (as_json or verbose or one_program or options.kernels)
    return ArgumentFiles(InspectTrees(options, form, verbose, keep), exclude, is_brief=is_brief)


def _content(item: AnyFile | ShownFile) -> Any:
    return item if isinstance(item, dict) else item.content


def _flush() -> None:
    """Give out what was written so far: readers need not wait for the next file."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError:
        pass  # it is still there, and said when the command ends


def print_error(text: str) -> None:
    """Print an error to stderr, after what was written to stdout before."""
    sys.stdout.flush()
    print_stderr(f"fatpack: error: {text}")


def _write(record: AnyFile | ShownFile, verbose: int, style: Style) -> None:
    if not isinstance(record, dict):
        if record.error:
            print_error(record.error)
        else:
            write_lines(colorize(record.content, style), sys.stdout)
        return
    if record.get("error"):
        print_error(record["error"]["message"])
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
    found.add(files)
    if as_json:
        sys.stdout.writelines(json_pieces(found.sums.record()))
        sys.stdout.write("\n")
    elif found.is_any_read:
        write_lines(totals_table(found.sums, get_style()), sys.stdout)
    found.end()
    return found.code


class _TotalsOverFiles(ArgumentFiles):
    """The sums over all arguments."""

    def __init__(self, options: InspectOptions, by: Sequence[str], exclude: tuple[str, ...]) -> None:
        from fatpack.commands.inspect.totals import Totals

        super().__init__(InspectTrees(options, "sums", by=tuple(by)), exclude)
        self.sums = Totals(by)
        #: Zeros after nothing but errors would look like an answer.
        self.is_any_read = False

    def add(self, paths: Iterable[str]) -> None:
        """Add the images of files, and of all files in trees."""
        for item in self.read(paths):
            if not isinstance(item, dict):
                if item.error:
                    print_error(item.error)
                else:
                    lines, part = item.content
                    _say_all(lines)
                    self.sums.merge(part)
            elif item.get("error"):
                print_error(item["error"]["message"])
            else:
                self.is_any_read = True
                _say_all(problem_lines(item["path"], item))
                assert has_containers(item)
                self.sums.add(item)

    def _of_tree(self, path: str, view: View | None = None) -> Iterator[ShownFile]:
        yield from super()._of_tree(path, view)
        self.is_any_read |= self.summaries[-1].files > 0 or not self.code


def _say_all(lines: Iterable[str]) -> None:
    for line in lines:
        print_stderr(line.rstrip("\n"))
