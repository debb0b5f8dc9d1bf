"""An image that does not look like its stored form is not healthy; a listing only notes it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.builders import fatbin

import fatpack

TEXT = b".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n\0"


@pytest.mark.parametrize(("text", "verdict"), [(TEXT, "healthy"), (b"hello world " * 10, "suspect")])
def test_ptx_that_is_none_is_suspect(text: bytes, verdict: str, tmp_path: Path) -> None:
    path = tmp_path / "x.fatbin"
    path.write_bytes(fatbin.fatbin(fatbin.entry(text, fatbin.PTX, sm=90, options=b"", code=(0, 8))))
    found = fatpack.doctor(path)
    assert (found.verdict, found.exit_code) == (verdict, int(verdict != "healthy"))
