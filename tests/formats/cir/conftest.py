"""Small files are parsed step by step, larger ones by expressions that skip much at once: both give the same result."""

from __future__ import annotations

import pytest

from fatpack.formats.cir.text import lexer


@pytest.fixture(params=[0, lexer.MIN_COMPILED_SIZE], ids=["as-long", "as-short"])
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexer, "MIN_COMPILED_SIZE", request.param)
