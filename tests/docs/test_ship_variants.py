"""The page docs/how-to/ship-variants.md: its commands run as they stand there, with uv and an index on this machine."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from tests import reference
from tests.builders import releases

from fatpack.commands.split.request import with_settings
from fatpack.main import main

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "ship-variants.md"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def commands(text: str) -> list[tuple[str, str]]:
    """Return the commands of a block, each with what it prints."""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    return [(command, printed) for command, _, printed in (part.partition("\n") for part in parts)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    more = {"demo/libold.so": releases.library("75 80", toolkit=12)}
    data = releases.wheel("75 80 86 90 100a 120 p120@8.7", more=more, toolkit=12)
    (tmp_path / f"{releases.NAME}.whl").write_bytes(data)
    return tmp_path


def printed_by(command: str, capfd: pytest.CaptureFixture[str], *, codes: tuple[int, ...] = (0,)) -> str:
    capfd.readouterr()
    assert main(shlex.split(command)[1:]) in codes, command
    return capfd.readouterr().out


def test_the_dry_run_prints_what_the_page_shows(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ((command, shown),) = commands(blocks("console")[0])
    lines = printed_by(command, capfd).splitlines()
    assert lines[: len(shown.splitlines())] == shown.splitlines()
    for line in blocks("text")[0].splitlines():
        assert any(each.startswith(line.partition("…")[0]) for each in lines), line


def test_the_wheels_are_written_and_proved(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for command, shown in commands(blocks("console")[1]):
        if command.startswith("ls "):
            assert sorted(os.listdir(command.split()[1])) == sorted(shown.splitlines())
        else:
            assert printed_by(command, capfd) == shown


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_uv_installs_from_the_folder(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    uv, python = reference.variant_tool("uv"), reference.variant_tool("python")
    assert main(["split", f"{releases.NAME}.whl", "-d", "variants", "-q"]) == 0
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("UV_", "NV_VARIANT"))}
    steps = commands(blocks("console")[2])
    assert steps[0][0] == "python -m http.server --bind 127.0.0.1 --directory variants 8000 &"
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory="variants"))
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        for command, shown in steps[1:]:
            words = shlex.split(command.replace("127.0.0.1:8000", f"127.0.0.1:{server.server_port}"))
            if words[0] == "export":
                environment |= dict(word.split("=", 1) for word in words[1:])
            elif words[0] == "uv":
                words = [uv, *words[1:], "--python", python, "--no-cache", "--no-config"]
                subprocess.run(words, env=environment, check=True, capture_output=True, timeout=300)
            else:
                printed = printed_by(command, capfd, codes=(0, 1))
                assert printed == shown or not shown
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_settings_are_read(folder: Path) -> None:
    Path("pyproject.toml").write_text(blocks("toml")[0])
    settings, path = with_settings({}, None, reads=True)
    assert Path(path).name == "pyproject.toml"
    assert settings == {"by": ["sm_80", "sm_90", "blackwell=sm_100+sm_120"], "null": "fat", "directory": "variants"}


def test_the_workflow_runs_the_commands_of_the_page(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    Path("dist").mkdir()
    Path(f"{releases.NAME}.whl").rename(f"dist/{releases.NAME}.whl")
    steps = re.findall(r"- run: (fatpack .*)", blocks("yaml")[0])
    assert len(steps) == 3
    for step in steps:
        words = [name for word in shlex.split(step) for name in (sorted(map(str, Path().glob(word))) or [word])]
        assert main(words[1:]) == 0, (step, capfd.readouterr())
