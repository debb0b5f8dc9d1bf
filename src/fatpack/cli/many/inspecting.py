"""What ``fatpack inspect`` shows of folders, patterns and packages: the record of each file with device code.

Each is what ``inspect`` of that file alone shows, but for its path. Other files are counted, unless something is wrong
with them. They are searched where device code is kept; ``--deep`` searches them to their last byte.
"""

from __future__ import annotations

import gc

from fatpack.cli.many.summary import FilesMeter, Summary, say_unmatched
from fatpack.errors import FatpackError
from fatpack.outcomes import FINDINGS, FINE, code_of, exit_code, worst
from fatpack.record import Record
from fatpack.report.finding_list import FindingList, finding_record, unlisted_records
from fatpack.report.inspect_text import render
from fatpack.report.inspection import failure, inspection, listing
from fatpack.report.json_text import Written, json_text
from fatpack.report.places import Places
from fatpack.trees.leaves import Rules, batches_of, kind_of
from fatpack.trees.sharing import made_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from fatpack.io.source import View
    from fatpack.report.inspection import InspectOptions
    from fatpack.trees.leaves import Leaf


class Shown(Record):
    """What is shown of a leaf, and what it adds to the summary.

    ``content`` are lines, JSON or a record, None where the leaf is only counted; ``error`` says why there is none to be
    read. ``images`` is None without device code.
    """

    content: Any = None
    code: int = FINE
    error: str = ""
    images: int | None = None
    size: int = 0
    is_file: bool = True


class Showing(Record):
    """How leaves are shown: with which options they are read, and as lines, JSON (``json``), a ``record``, or ``sums``.

    ``by`` are the keys of sums, which come with lines about what is wrong.
    """

    options: InspectOptions
    form: str = "lines"
    verbose: int = 0
    keep: Callable[[dict[str, Any]], Any] | None = None
    by: tuple[str, ...] = ()

    def __call__(self, leaf: Leaf) -> Shown:
        """Return what is shown of a leaf."""
        if leaf.error is not None:
            record = failure(leaf.path, leaf.error)
            return self._shown(record, exit_code(leaf.error), is_file=not leaf.package)
        if leaf.package:
            code = code_of((item.severity, item.code) for item in leaf.findings)
            return self._shown(_package(leaf), code, is_file=False) if code else Shown(is_file=False)
        assert leaf.view is not None
        # Records form no cycles: the collector would walk thousands of them again and again, and free nothing.
        gc.disable()
        try:
            return self._of(leaf.path, leaf.view)
        finally:
            gc.enable()

    def _of(self, path: str, view: View) -> Shown:
        try:
            record = self._record(view, self.options.replace(thorough=False))
            count = image_count(record)
            if count is None and _is_worth_telling(record):
                record = self._record(view, self.options)  # as if it was named itself
                count = image_count(record)
        except (FatpackError, OSError) as error:
            return self._shown(failure(path, error), exit_code(error))
        found = (*record["findings"], *record.get("unlisted_findings", ()))
        code = code_of((item["severity"], item["code"]) for item in found)
        if count is None and not code:
            return Shown(size=len(view))
        return self._shown(record, code, images=count, size=len(view))

    def _record(self, view: View, options: InspectOptions) -> dict[str, Any]:
        is_brief = self.form == "lines" and not self.verbose and not options.kernels
        return listing(view, options) if is_brief else inspection(view, options, keep=self.keep)

    def _shown(self, record: dict[str, Any], code: int, **facts: Any) -> Shown:
        error = record["error"]["message"] if record.get("error") else ""
        content: Any = record
        if self.form == "lines":
            content = None if error else list(render(record, verbose=self.verbose))
        elif self.form == "json":
            content = Written(json_text(record, "\n  "))
        elif self.form == "sums":
            from fatpack.report.several.sums import sums
            from fatpack.report.several.wrong import problem_lines

            content = None
            if not error:
                content = (problem_lines(record["path"], record), sums([record], self.by))
                if facts.get("images") is not None:
                    facts["images"] = content[1]["total"]["images"]  # the total and the summary count alike
        return Shown(content, code, error, **facts)


def image_count(record: dict[str, Any]) -> int | None:
    """Return how many images the record of a file has, without those inside images; None without device code."""
    containers, members = record["containers"], record.get("member_images", ())
    if not containers and not members and not record["image"]:
        # A program whose code lies in kpack archives is listed, and a manifest of such archives too.
        return 0 if record.get("kpack") or record.get("manifest") else None
    if isinstance(containers, Places):
        inside = sum(len(place.rows) for place in containers.places)
    else:
        inside = sum(len(container["images"]) for container in containers)
    return inside + len(members) + bool(record["image"])


def _is_worth_telling(record: dict[str, Any]) -> bool:
    return any(item["severity"] != "note" for item in (*record["findings"], *record.get("unlisted_findings", ())))


def _package(leaf: Leaf) -> dict[str, Any]:
    """Return the record of a package with which something is wrong."""
    from fatpack.packages import room

    found = FindingList()
    found.extend(leaf.findings)
    unlisted = unlisted_records(found)
    return {
        "path": leaf.path,
        "size": leaf.size,
        "host": "raw",
        "format": None,
        "kind": room(leaf.package).DOC.title,
        "package": leaf.package,
        "image": None,
        "containers": [],
        "findings": [finding_record(item) for item in found.kept],
        **({"unlisted_findings": unlisted} if unlisted else {}),
    }


class Trees:
    """The folders, patterns and packages that one command was given, and what was met in them."""

    def __init__(self, showing: Showing, exclude: tuple[str, ...]) -> None:
        self._showing = showing
        self._rules = Rules(exclude, showing.options.deep)
        self.summaries: list[Summary] = []
        self.code = FINE

    def shown(self, path: str, view: View | None = None) -> Iterator[Shown]:
        """Yield what is shown of the leaves of a name: of an open package, or without a view, of a folder or pattern.

        Those that are only counted are not among them.
        """
        summary = Summary(path, kind_of(path, view))
        self.summaries.append(summary)
        rules, counts, meter = self._rules, summary.counts, FilesMeter()
        batches = batches_of(path, view, rules, counts, summary.unmatched)
        is_local = view is None or view.source.fileno() is not None
        try:
            for item in made_of(batches, self._showing, rules, counts, is_local=is_local):
                meter(item.images is not None)
                if item.is_file:
                    summary.add(item.images, item.size, is_read=not item.error)
                self.code = worst((self.code, item.code))
                if item.content is not None or item.error:
                    meter.finish()
                    yield item
        finally:
            meter.finish()
        if say_unmatched(summary):
            self.code = worst((self.code, FINDINGS))
