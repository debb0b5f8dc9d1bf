"""What ``fatpack inspect --runtime`` shows of folders, patterns and packages: the files that register or launch.

Others are counted, unless something is wrong with them.
"""

from __future__ import annotations

from fatpack.cli.many.showing import Shown, Trees
from fatpack.errors import FatpackError
from fatpack.outcomes import code_of, exit_code
from fatpack.record import Record
from fatpack.report.finding_list import finding_record
from fatpack.report.json_text import Written, json_text
from fatpack.report.registration.records import failed, registration
from fatpack.report.registration.texts import render
from fatpack.trees.leaves import Rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fatpack.trees.leaves import Leaf


class _Making(Record):
    """What makes of a leaf what is shown of it."""

    as_json: bool

    def __call__(self, leaf: Leaf) -> Shown:
        if leaf.error is not None:
            return self._made(failed(leaf.path, leaf.error), exit_code(leaf.error), is_file=not leaf.package)
        if leaf.package:
            found = [finding_record(item) for item in leaf.findings]
            code = code_of((item["severity"], item["code"]) for item in found)
            record: dict[str, Any] = {"path": leaf.path, "size": leaf.size, "units": [], "findings": found}
            return self._made(record, code, is_file=False) if code else Shown(is_file=False)
        assert leaf.view is not None
        try:
            record = registration(leaf.view)
        except (FatpackError, OSError) as error:
            return self._made(failed(leaf.path, error), exit_code(error))
        record["path"], size = leaf.path, len(leaf.view)
        code = code_of((item["severity"], item["code"]) for item in record["findings"])
        count = len(record["units"])
        return self._made(record, code, images=count or None, size=size) if count or code else Shown(size=size)

    def _made(self, record: dict[str, Any], code: int, **facts: Any) -> Shown:
        error = record["error"]["message"] if record.get("error") else ""
        if self.as_json:
            return Shown(Written(json_text(record, "\n  ")), code, error, **facts)
        return Shown(None if error else list(render(record)), code, error, **facts)


def registering(exclude: tuple[str, ...], *, as_json: bool) -> Trees:
    """Return what shows the folders, patterns and packages that one command was given."""
    return Trees(_Making(as_json), Rules(exclude))
