"""What ``fatpack inspect --runtime`` shows of folders, patterns and packages: the files that register or launch.

Others are counted, unless something is wrong with them.
"""

from __future__ import annotations

from fatpack.command_line.showing import ShownFile, TreeListing
from fatpack.commands.inspect.registration import failed_registration_record, registration_record
from fatpack.commands.inspect.texts import render_registration
from fatpack.errors import FatpackError
from fatpack.exit_codes import exit_code, exit_code_for_findings
from fatpack.inputs.files import Filter
from fatpack.record import Record
from fatpack.text.finding_list import finding_record
from fatpack.text.json import PreparedJson, json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fatpack.inputs.files import InputFile


class _RegistrationReader(Record):
    """What makes of a leaf what is shown of it."""

    as_json: bool

    def __call__(self, leaf: InputFile) -> ShownFile:
        if leaf.error is not None:
            return self._made(
                failed_registration_record(leaf.path, leaf.error), exit_code(leaf.error), is_file=not leaf.package
            )
        if leaf.package:
            found = [finding_record(item) for item in leaf.findings]
            code = exit_code_for_findings((item["severity"], item["code"]) for item in found)
            record: dict[str, Any] = {"path": leaf.path, "size": leaf.size, "units": [], "findings": found}
            return self._made(record, code, is_file=False) if code else ShownFile(is_file=False)
        assert leaf.view is not None
        try:
            record = registration_record(leaf.view)
        except (FatpackError, OSError) as error:
            return self._made(failed_registration_record(leaf.path, error), exit_code(error))
        record["path"], size = leaf.path, len(leaf.view)
        code = exit_code_for_findings((item["severity"], item["code"]) for item in record["findings"])
        count = len(record["units"])
        return self._made(record, code, images=count or None, size=size) if count or code else ShownFile(size=size)

    def _made(self, record: dict[str, Any], code: int, **facts: Any) -> ShownFile:
        error = record["error"]["message"] if record.get("error") else ""
        if self.as_json:
            return ShownFile(PreparedJson(json_text(record, "\n  ")), code, error, **facts)
        return ShownFile(None if error else list(render_registration(record)), code, error, **facts)


def registration_trees(exclude: tuple[str, ...], *, as_json: bool) -> TreeListing:
    """Return what shows the folders, patterns and packages that one command was given."""
    return TreeListing(_RegistrationReader(as_json), Filter(exclude))
