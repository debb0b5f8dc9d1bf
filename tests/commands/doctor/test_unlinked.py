"""An object with GCC's bytecode has no device code for any target yet, and ``doctor`` says so, as ``inspect`` does."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.builders import gcc_offload
from tests.laws.rooms import FIXTURES

from fatpack.main import main


@pytest.mark.reference
def test_an_object_of_gcc_waits_for_its_link(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = gcc_offload.build_program(tmp_path, "two.o", "-c")
    assert main(["doctor", str(path)]) == 1
    told = capsys.readouterr().out
    assert "no device code for any target yet: 1 file read" in told
    assert "whose target is chosen when it is linked" in told
    assert "files without device code" not in told


def test_commands_that_take_images_say_why_there_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, words = str(FIXTURES / "gcc" / "o.acc.o"), "is GCC's bytecode for accelerators, whose target is chosen"
    for command, code in (
        (("slim", path, "--for", "gfx90a", "-o", str(tmp_path / "slim.o")), 0),
        (("extract", path, "-d", str(tmp_path / "images")), 1),
        (("report", path, "-o", str(tmp_path / "page.html")), 1),
    ):
        assert main([*command]) == code
        told = capsys.readouterr()
        assert words in told.out + told.err
