"""The commands of docs/how-to/no-kernel-image.md print what stands there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from tests.builders import offered

from fatpack.main import main

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "no-kernel-image.md").read_text()
COMMANDS = re.findall(r"^```console\n\$ (.*?)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def fill(folder: Path) -> None:
    """Write the files that the page is about."""
    (folder / "libk.fatbin").write_bytes(offered.cuda("80 100a p90@8.8", kernels=()))
    (folder / "new.fatbin").write_bytes(offered.cuda("70 75 80 86 zstd"))
    (folder / "libk.hipfb").write_bytes(offered.hip("gfx1030 gfx90a:xnack- gfx1100"))


@pytest.mark.parametrize(("command", "printed"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_a_command_prints_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str, printed: str
) -> None:
    monkeypatch.chdir(tmp_path)
    fill(tmp_path)
    assert main(shlex.split(command)[1:]) == ("fails" in printed or "not known to run" in printed or "in no" in printed)
    assert capsys.readouterr().out == printed


def test_the_page_shows_six_commands() -> None:
    assert len(COMMANDS) == 6
