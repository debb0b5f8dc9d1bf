"""What is wrong with files of which no listing is shown, as lines for messages."""

from __future__ import annotations

from fatpack.commands.inspect.text import not_searched_lines
from fatpack.text.findings import finding_lines
from fatpack.words_printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def problem_lines(path: str, record: dict[str, Any]) -> list[str]:
    """Return lines about what is wrong with a file, and about what was not searched where that may matter."""
    serious = [item for item in record["findings"] if item["severity"] != "note"]
    unlisted = [item for item in record.get("unlisted_findings", ()) if item["severity"] != "note"]
    lines = list(finding_lines(serious, unlisted=unlisted))
    if record.get("found_outside"):
        lines += not_searched_lines(record)
    return [f"{printable(path)}: {line}\n" for line in lines]
