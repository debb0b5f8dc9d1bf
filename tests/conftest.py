"""How much a quick run tries, what it leaves to the sweeps that CI runs, and what no run may change."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import settings
from tests.effort import EXAMPLES
from tests.kept import Kept

settings.register_profile("fatpack", deadline=None, max_examples=EXAMPLES)
settings.load_profile("fatpack")


def pytest_configure(config: pytest.Config) -> None:
    """Look at the fixtures once, not in each process that runs a part of the tests."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Kept(Path(__file__).parent / "fixtures"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark cases of tests that are marked ``sweep(N)`` as slow, all but the first and about one of N others.

    The name of a case decides, so these are the same in every run, and combined parameters meet in all ways.
    """
    begun: set[str] = set()
    for item in items:
        sweep = item.get_closest_marker("sweep")
        if sweep is None:
            continue
        test = item.nodeid.partition("[")[0]
        if test in begun and crc32(item.name.encode()) % sweep.args[0]:
            item.add_marker(pytest.mark.slow)
        begun.add(test)
