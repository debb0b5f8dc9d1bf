"""Which tests reach a function, so that a change of it is tried by these first: a plug-in for pytest, and its record.

It only puts tests in order: a change counts as noticed by whatever test of the folder notices it.
"""

from __future__ import annotations

import ast
import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

#: Where the plug-in writes its record, and where it finds the names of the tests that come first.
RECORD, FIRST = "FATPACK_MUTATION_RECORD", "FATPACK_MUTATION_FIRST"


class Reach:
    """The tests of a folder from the quickest on, and those of them that call a function."""

    def __init__(self, record: Path) -> None:
        said = json.loads(record.read_text())
        self._tests: list[str] = sorted(said["seconds"], key=lambda test: (said["seconds"][test], test))
        self._called: dict[str, list[str]] = said["called"]

    def order(self, module: Path, line: int) -> list[str]:
        """Return the names of all tests: first those that call the innermost function around a line of a module."""
        called = set(self._called.get(f"{module}:{_first_line(module, line)}", ()))
        return sorted(self._tests, key=lambda test: test not in called)


def _first_line(module: Path, line: int) -> int:
    """Return the first line of the innermost function around a line, decorators too, as code objects have it."""
    functions = [
        min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    return max(functions, default=0)


class _Recorder:
    """Notes the functions below a folder that each test calls, and its processor time, that of its processes too."""

    def __init__(self, sources: Path, record: Path) -> None:
        self._sources, self._record = str(sources) + os.sep, record
        self._seconds: dict[str, float] = {}
        self._called: dict[str, list[str]] = {}
        self._seen: set[CodeType] = set()

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            self._seen.add(frame.f_code)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._seen.clear()
        begun = sum(os.times()[:4])
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        try:
            return (yield)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
            self._seconds[item.nodeid] = sum(os.times()[:4]) - begun
            for code in self._seen:
                if code.co_filename.startswith(self._sources):
                    self._called.setdefault(f"{code.co_filename}:{code.co_firstlineno}", []).append(item.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._record.write_text(json.dumps({"seconds": self._seconds, "called": self._called}))


class _Order:
    """Runs tests in a given order."""

    def __init__(self, names: list[str]) -> None:
        self._place = {name: place for place, name in enumerate(names)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: self._place.get(item.nodeid, len(self._place)))


def pytest_configure(config: pytest.Config) -> None:
    """Record, or put in order, if the environment says so."""
    if record := os.environ.get(RECORD):
        import fatpack

        config.pluginmanager.register(_Recorder(Path(fatpack.__file__).parent, Path(record)))
    if first := os.environ.get(FIRST):
        config.pluginmanager.register(_Order(json.loads(Path(first).read_text())))
