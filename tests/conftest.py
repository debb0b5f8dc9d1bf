"""How much a quick run tries, and what it leaves to the sweeps that CI runs."""

from __future__ import annotations

from zlib import crc32

import pytest
from hypothesis import settings
from tests.effort import EXAMPLES

settings.register_profile("fatpack", deadline=None, max_examples=EXAMPLES)
settings.load_profile("fatpack")


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
