"""The commands of docs/how-to/check-kpack.md print what stands there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from tests.builders.kpack_site import sound

from fatpack.commands.check_kpack.command import VARIABLES
from fatpack.findings import CODES
from fatpack.main import main

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "check-kpack.md").read_text()
COMMANDS = re.findall(r"^```console\n\$ (.*?)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("command", "printed"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_a_command_prints_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str, printed: str
) -> None:
    monkeypatch.chdir(tmp_path)
    sound(tmp_path / "site-packages")
    assert main(shlex.split(command)[1:]) == ("gfx1101" in command)
    assert capsys.readouterr().out == printed


def test_the_page_shows_three_commands() -> None:
    assert len(COMMANDS) == 3


def test_the_page_explains_every_finding_of_the_check() -> None:
    own = {code for code in CODES if code.startswith("FP31")} - {"FP3110"}
    assert set(re.findall(r"^\| (FP\d{4}) \|", PAGE, re.MULTILINE)) == own


def test_the_page_names_every_variable() -> None:
    assert all(f"`{name}`" in PAGE for name in VARIABLES)
