"""What ``fatpack inspect`` shows of folders, patterns and packages: the record of each file with device code.

Each is what ``inspect`` of that file alone shows, but for its path. Other files are counted, unless something is wrong
with them. They are searched as if they were named alone.
"""

from __future__ import annotations

from fatpack.command_line.showing import ShownFile
from fatpack.commands.inspect.places import ListingRows
from fatpack.commands.inspect.record import failure_record, make_file_listing, make_file_record
from fatpack.commands.inspect.text import render_inspect
from fatpack.errors import FatpackError
from fatpack.exit_codes import exit_code, exit_code_for_findings
from fatpack.record import Record, gc_paused
from fatpack.text.finding_list import FindingList, finding_record, unlisted_records
from fatpack.text.json import PreparedJson, json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from fatpack.commands.inspect.record import InspectOptions
    from fatpack.inputs.files import InputFile
    from fatpack.io.source import View


class InspectTrees(Record):
    """How leaves are shown: with which options they are read, and as lines, JSON (``json``), a ``record``, or ``sums``.

    ``by`` are the keys of sums, which come with lines about what is wrong.
    """

    options: InspectOptions
    form: str = "lines"
    verbose: int = 0
    keep: Callable[[dict[str, Any]], Any] | None = None
    by: tuple[str, ...] = ()

    def __call__(self, leaf: InputFile) -> ShownFile:
        """Return what is shown of a leaf."""
        if leaf.error is not None:
            record = failure_record(leaf.path, leaf.error)
            return self._shown(record, exit_code(leaf.error), is_file=not leaf.package)
        if leaf.package:
            code = exit_code_for_findings((item.severity, item.code) for item in leaf.findings)
            return self._shown(_package(leaf), code, is_file=False) if code else ShownFile(is_file=False)
        assert leaf.view is not None
        with gc_paused():
            return self._of(leaf.path, leaf.view)

    def _of(self, path: str, view: View) -> ShownFile:
        try:
            record = self._record(view, self.options)
            count = image_count(record)
        except (FatpackError, OSError) as error:
            return self._shown(failure_record(path, error), exit_code(error))
        found = (*record["findings"], *record.get("unlisted_findings", ()))
        code = exit_code_for_findings((item["severity"], item["code"]) for item in found)
        if count is None and not code:
            return ShownFile(size=len(view))
        return self._shown(record, code, images=count, size=len(view))

    def _record(self, view: View, options: InspectOptions) -> dict[str, Any]:
        is_brief = self.form == "lines" and not self.verbose and not options.kernels
        return make_file_listing(view, options) if is_brief else make_file_record(view, options, keep=self.keep)

    def _shown(self, record: dict[str, Any], code: int, **facts: Any) -> ShownFile:
        error = record["error"]["message"] if record.get("error") else ""
        content: Any = record
        if self.form == "lines":
            content = None if error else list(render_inspect(record, verbose=self.verbose))
        elif self.form == "json":
            content = PreparedJson(json_text(record, "\n  "))
        elif self.form == "sums":
            from fatpack.commands.inspect.totals import compute_totals
            from fatpack.commands.inspect.wrong import problem_lines

            content = None
            if not error:
                content = (problem_lines(record["path"], record), compute_totals([record], self.by))
                if facts.get("images") is not None:
                    facts["images"] = content[1]["total"]["images"]  # the total and the summary count alike
        return ShownFile(content, code, error, **facts)


def image_count(record: dict[str, Any]) -> int | None:
    """Return how many images the record of a file has, without those inside images; None without device code."""
    containers, members = record["containers"], record.get("member_images", ())
    if not containers and not members and not record["image"]:
        # A program whose code lies in kpack archives is listed, and a manifest of such archives too.
        return 0 if record.get("kpack") or record.get("manifest") else None
    if isinstance(containers, ListingRows):
        inside = sum(len(place.rows) for place in containers.places)
    else:
        inside = sum(len(container["images"]) for container in containers)
    return inside + len(members) + bool(record["image"])


def _package(leaf: InputFile) -> dict[str, Any]:
    """Return the record of a package with which something is wrong."""
    from fatpack.packages import get_package

    found = FindingList()
    found.extend(leaf.findings)
    unlisted = unlisted_records(found)
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
        **({"unlisted_findings": unlisted} if unlisted else {}),
    }
