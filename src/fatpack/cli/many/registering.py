"""What ``fatpack inspect --runtime`` shows of folders, patterns and packages: the files that register or launch.

Others are counted, unless something is wrong with them.
"""

from __future__ import annotations

from fatpack.cli.many.summary import FilesMeter, Summary, say_unmatched
from fatpack.errors import FatpackError
from fatpack.outcomes import FINDINGS, FINE, code_of, exit_code, worst
from fatpack.record import Record
from fatpack.report.finding_list import finding_record
from fatpack.report.json_text import Written, json_text
from fatpack.report.registration.records import failed, registration
from fatpack.report.registration.texts import render
from fatpack.trees.leaves import Rules, batches_of, kind_of
from fatpack.trees.sharing import made_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from fatpack.io.source import View
    from fatpack.trees.leaves import Leaf


class Registers(Record):
    """What is shown of a leaf: lines or JSON, None where it is only counted; ``units`` is how many it has."""

    content: Any = None
    code: int = FINE
    error: str = ""
    units: int = 0
    size: int = 0
    is_file: bool = True


class _Making(Record):
    """What makes of a leaf what is shown of it."""

    as_json: bool

    def __call__(self, leaf: Leaf) -> Registers:
        if leaf.error is not None:
            return self._made(failed(leaf.path, leaf.error), exit_code(leaf.error), is_file=not leaf.package)
        if leaf.package:
            found = [finding_record(item) for item in leaf.findings]
            code = code_of((item["severity"], item["code"]) for item in found)
            record: dict[str, Any] = {"path": leaf.path, "size": leaf.size, "units": [], "findings": found}
            return self._made(record, code, is_file=False) if code else Registers(is_file=False)
        assert leaf.view is not None
        try:
            record = registration(leaf.view, thorough=False)
        except (FatpackError, OSError) as error:
            return self._made(failed(leaf.path, error), exit_code(error))
        record["path"], size = leaf.path, len(leaf.view)
        code = code_of((item["severity"], item["code"]) for item in record["findings"])
        count = len(record["units"])
        return self._made(record, code, units=count, size=size) if count or code else Registers(size=size)

    def _made(self, record: dict[str, Any], code: int, **facts: Any) -> Registers:
        error = record["error"]["message"] if record.get("error") else ""
        if self.as_json:
            return Registers(Written(json_text(record, "\n  ")), code, error, **facts)
        return Registers(None if error else list(render(record)), code, error, **facts)


class Registering:
    """The folders, patterns and packages that one command was given, and what was met in them."""

    def __init__(self, exclude: tuple[str, ...], *, as_json: bool) -> None:
        self._making, self._rules = _Making(as_json), Rules(exclude)
        self.summaries: list[Summary] = []
        self.code = FINE

    def shown(self, path: str, view: View | None = None) -> Iterator[Registers]:
        """Yield what is shown of the leaves of a name: of an open package, or without a view, of a folder or pattern.

        Those that are only counted are not among them.
        """
        summary = Summary(path, kind_of(path, view))
        self.summaries.append(summary)
        counts, meter = summary.counts, FilesMeter()
        batches = batches_of(path, view, self._rules, counts, summary.unmatched)
        is_local = view is None or view.source.fileno() is not None
        try:
            for item in made_of(batches, self._making, self._rules, counts, is_local=is_local):
                meter(bool(item.units))
                if item.is_file:
                    summary.add(item.units or None, item.size, is_read=not item.error)
                self.code = worst((self.code, item.code))
                if item.content is not None or item.error:
                    meter.finish()
                    yield item
        finally:
            meter.finish()
        if say_unmatched(summary):
            self.code = worst((self.code, FINDINGS))
