"""The commands of docs/how-to/what-an-installer-takes.md print what stands there."""

from __future__ import annotations

import re
import shlex
import zipfile
from pathlib import Path

import pytest
from tests.builders.policy_files import library
from tests.builders.variants import file_name, write_release

from fatpack.main import main

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "what-an-installer-takes.md"
COMMANDS = re.findall(r"^```console\n\$ (.*?)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)

#: the code of each wheel of the page, and the architectures of its variant
CODE = {"sm80": "80 p80", "sm90": "90", "sm100": "100a", "null": "75", None: "75 80 90 p90"}
ARCHS = {"sm80": ["80_real"], "sm90": ["90_real"], "sm100": ["100_real"]}


def make(folder: Path) -> None:
    """Write a release into ``dist``, and install its wheel for 9.0 into ``.venv``."""
    variants = {label: {"nvidia": {"sm_arch": archs}} for label, archs in ARCHS.items()}
    files = {label: {"demo/lib.so": library(code)} for label, code in CODE.items()}
    write_release(folder / "dist", "demo", variants, files=files)
    with zipfile.ZipFile(folder / "dist" / file_name("demo", "sm90")) as archive:
        archive.extractall(folder / ".venv" / "lib" / "python3.12" / "site-packages")
    (folder / ".venv" / "lib" / "python3.12" / "site-packages" / "demo-1.0.dist-info" / "INSTALLER").write_text("uv")
    (folder / ".venv" / "pyvenv.cfg").write_text("")


@pytest.mark.parametrize(("command", "printed"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_a_command_prints_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str, printed: str
) -> None:
    make(tmp_path)
    monkeypatch.chdir(tmp_path)
    main(shlex.split(command)[1:])
    out = capsys.readouterr().out
    shown = printed.partition("…\n")
    assert out.startswith(shown[0]) if shown[1] else out == printed


def test_there_are_commands() -> None:
    assert len(COMMANDS) == 4
