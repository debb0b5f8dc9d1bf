"""``make test-gpu`` records in docs/testing.md on what it ran."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.gpu.last_run import LastRun

PAGE = Path(__file__).parents[2] / "docs/testing.md"


def pytest_configure(config: pytest.Config) -> None:
    """Write the table after a run of the whole folder that needs a device: a part says nothing of the others."""
    if os.environ.get("FATPACK_REQUIRE_GPU") == "1" and not config.option.keyword and config.args == ["tests/gpu"]:
        config.pluginmanager.register(LastRun(PAGE), "last-run")
