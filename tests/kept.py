"""Fixtures stay as they are: a run in which one changed, or a file appeared beside them, fails and names it.

Some tools write beside what they read, ``llvm-objdump --offloading`` for one: such a test copies its input first.
"""

from __future__ import annotations

from pathlib import Path

import pytest


class Kept:
    """A plug-in of pytest's that looks at the files of a folder before the first test and after the last."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._before: dict[str, tuple[int, int]] = {}
        self._changed: list[str] = []

    def pytest_sessionstart(self) -> None:
        self._before = self._files()

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        after = self._files()
        names = sorted(self._before.keys() | after.keys())
        self._changed = [name for name in names if self._before.get(name) != after.get(name)]
        if self._changed and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._changed:
            terminalreporter.section("files that no test may change", red=True)
            for name in self._changed:
                terminalreporter.line(f"{self._folder / name}: changed, made or removed during this run")

    def _files(self) -> dict[str, tuple[int, int]]:
        """Return name → size and time of every file."""
        found = {path: path.stat() for path in self._folder.rglob("*") if path.is_file()}
        return {path.relative_to(self._folder).as_posix(): (at.st_size, at.st_mtime_ns) for path, at in found.items()}
