"""Small files are read step by step, larger ones by expressions that step over much at once: both find the same."""

from __future__ import annotations

import pytest

from fatpack.formats.cir.text import window


@pytest.fixture(params=[0, window.MIN_COMPILED_SIZE], ids=["as-long", "as-short"])
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "MIN_COMPILED_SIZE", request.param)
