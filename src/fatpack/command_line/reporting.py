"""Findings about a file, on stderr: what is wrong with it, beside what a command does all the same."""

from __future__ import annotations

from fatpack.command_line.messages import print_stderr
from fatpack.text.finding_list import FindingList, finding_record, unlisted_records
from fatpack.text.findings import finding_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from fatpack.model import Finding


def print_findings(file: str, findings: Iterable[Finding]) -> None:
    """Print findings about the file: those of one kind in one place once."""
    found = FindingList()
    found.extend(findings)
    records = [finding_record(item) for item in found.kept]
    for line in finding_lines(records, unlisted=unlisted_records(found), title=file):
        print_stderr(f"fatpack: {line}")
