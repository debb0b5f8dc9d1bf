"""Whether files that go into one program are built alike, from the records of ``inspect``.

A part is a file, or a member of an archive; what has no device code is none. Merged and linked files are one part each:
what is to be compared are the objects and archives that the linker gets.
"""

from __future__ import annotations

from fatpack.commands.pack.uniform import DIFFERENCE_HINT, arch_differences
from fatpack.findings import finding
from fatpack.io.source import Span
from fatpack.text.finding_list import finding_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

DIFFERENCE_CODE = "FP1420"


def add_differences(records: Sequence[dict[str, Any]]) -> bool:
    """Add a finding to the record of every file with a part that is not built as the first; return if there is any."""
    parts: dict[str, dict[str, None]] = {}
    files: dict[str, dict[str, Any]] = {}
    for record in records:
        for member, label in _labels(record.get("containers", ())):
            name = f"{record['path']}({member})" if member else record["path"]
            parts.setdefault(name, {})[label] = None
            files[name] = record
    found = False
    for name, text in arch_differences(parts):
        record = finding_record(finding(DIFFERENCE_CODE, Span(0, 0), text, DIFFERENCE_HINT))
        files[name]["findings"].append({**record, "offset": None})
        found = True
    return found


def _labels(containers: Sequence[dict[str, Any]], outer: str | None = None) -> Iterator[tuple[str | None, str]]:
    """Yield the member that every image for a device is in, and what the image is for, with its form."""
    for container in containers:
        member = outer or container["member"]
        for image in container["images"]:
            if image["containers"]:
                yield from _labels(image["containers"], member)
            elif image["offload"] != "host":
                yield member, f"{image['arch'] or image['triple']} ({image['form'] or 'unknown'})"
