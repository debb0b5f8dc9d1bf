"""The page docs/how-to/kernel-caches.md: its commands print what stands there, for a cache that Triton wrote."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from tests.builders.elf import Elf, Section
from tests.laws.rooms import FIXTURES

from fatpack.main import main

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "kernel-caches.md").read_text(encoding="utf-8")
CACHE = FIXTURES / "triton"


def test_the_commands_print_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(CACHE / "sm_90", tmp_path / "4CQ")
    shutil.copytree(CACHE / "sm_90", tmp_path / "mixed")
    shutil.copytree(CACHE, tmp_path / "cache")
    shutil.copy(CACHE / "gfx942" / "sum_kernel.json", tmp_path / "mixed")
    program = Elf()
    program.sections += [
        Section(".text", bytes(100)),
        Section(".rodata", (CACHE / "sm_90" / "sum_kernel.cubin").read_bytes()),
    ]
    (tmp_path / "model.o").write_bytes(program.build())
    shutil.copy(FIXTURES / "tile_ir" / "add.v13.4.tileirbc", tmp_path / "add.tileirbc")
    monkeypatch.chdir(tmp_path)
    shown = re.findall(r"```console\n\$ fatpack (.*)\n((?:.*\n)*?)```", PAGE)
    assert len(shown) == 5
    for (command, output), code in zip(shown, (0, 1, 0, 0, 0), strict=True):
        assert main(command.split()) == code
        assert capsys.readouterr().out == output
