"""An object with GCC's bytecode has no device code for any target yet, and ``doctor`` says so, as ``inspect`` does."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.builders import gcc_offload

from fatpack.main import main


@pytest.mark.reference
def test_an_object_of_gcc_waits_for_its_link(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = gcc_offload.build_program(tmp_path, "two.o", "-c")
    assert main(["doctor", str(path)]) == 1
    told = capsys.readouterr().out
    assert "no device code for any target yet: 1 file read" in told
    assert "whose target is chosen when it is linked" in told
    assert "files without device code" not in told
