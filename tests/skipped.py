"""A run of tests ends with the tools and packages that were missing, and how many tests each of them skipped."""

from __future__ import annotations

import re
from collections import Counter

import pytest

#: The reasons of ``tests.reference.missing``, of ``pytest.importorskip`` and of tests that look for a tool themselves.
REASON = re.compile(r"^(?:Skipped: )?(?:reference tool )?(.+?) is not installed|could not import '([^']+)'")


class Judges:
    """A plug-in of pytest's that counts the tests that were skipped because a judge of them was missing."""

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        reasons = [report.longrepr[2] for report in terminalreporter.stats.get("skipped", ())]
        missing = Counter(found[1] or found[2] for found in map(REASON.search, reasons) if found)
        names = ", ".join(f"{name} {number}" for name, number in sorted(missing.items()))
        terminalreporter.line(f"judges skipped: {missing.total()}" + f" ({names})" * bool(names))
