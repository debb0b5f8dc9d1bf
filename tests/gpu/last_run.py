"""The table of runs on a device in docs/testing.md: ``make test-gpu`` writes the row of the device that it ran on."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from tests.gpu.driver import Driver
from tests.gpu.requirements import cuda

BEGIN, END = "<!-- runs on a device: make test-gpu writes them -->\n", "<!-- end of the runs -->"

HEAD = "| device | driver | last run | passed | failed | skipped |\n|---|---|---|---:|---:|---:|\n"

#: Of the module that the kernel has loaded.
VERSION = Path("/sys/module/nvidia/version")


def with_row(page: str, row: str) -> str:
    """Return the page with a row in the place of the one for the same device, or after the others.

    Raises:
        ValueError: the page has no place for it.
    """
    before, begin, rest = page.partition(BEGIN)
    table, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"no {BEGIN.strip()} and {END} in the page")
    kept = [line for line in table.removeprefix(HEAD).splitlines() if line.split("|")[1] != row.split("|")[1]]
    return before + begin + HEAD + "".join(f"{line}\n" for line in [*kept, row]) + end + after


def named(driver: Driver) -> str:
    """Return the first two cells of a row: the device and its driver."""
    version = VERSION.read_text().strip() if VERSION.exists() else "of unknown version"
    return f"{driver.name}, {driver.sm / 10} | {version}, CUDA {cuda(driver.version)}"


class LastRun:
    """A plug-in of pytest's that writes the table of a page after a run with a device."""

    def __init__(self, page: Path) -> None:
        self._page = page
        #: Set by the first test that has a device.
        self.device: str | None = None

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.device is None:
            return
        stats = terminalreporter.stats
        numbers = [len(stats.get("passed", ())), len(stats.get("failed", ())) + len(stats.get("error", ()))]
        numbers.append(len(stats.get("skipped", ())))
        row = f"| {self.device} | {date.today()} | {' | '.join(map(str, numbers))} |"
        self._page.write_text(with_row(self._page.read_text(), row))
        terminalreporter.line(f"{self._page.name} has the new row: {row}")
