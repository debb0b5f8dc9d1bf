"""The page docs/how-to/verify-a-file.md: its commands print what it shows, and its tables are complete."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from tests.builders import wheels
from tests.laws.rooms import FIXTURES

from fatpack.commands.doctor.model import known_bugs
from fatpack.main import main

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "verify-a-file.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^```console\n\$ (.*?)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def prepare(folder: Path) -> None:
    """Write the files of the page: a wheel, the same with one byte changed, a bundle that zlib-ng may have written."""
    files = {
        "kernels/__init__.py": b"",
        "kernels/libtwo.so": (FIXTURES / "cuda_fatbin" / "hosts" / "libtwo.so").read_bytes(),
    }
    described = wheels.files_of(files, info="kernels-1.0.dist-info")
    (folder / "kernels-1.0-py3-none-any.whl").write_bytes(wheels.packed(described))
    described["kernels/__init__.py"] = b"import os\n"
    (folder / "changed-1.0-py3-none-any.whl").write_bytes(wheels.packed(described))
    bundle = bytearray((FIXTURES / "clang_bundle" / "fatpack-v3-zlib.bundle").read_bytes())
    bundle[-20] ^= 0xFF
    (folder / "Kernels.co").write_bytes(bundle)


@pytest.mark.parametrize(("command", "printed"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_a_command_prints_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str, printed: str
) -> None:
    monkeypatch.chdir(tmp_path)
    prepare(tmp_path)
    main(shlex.split(command)[1:])
    assert capsys.readouterr().out == printed


def test_the_page_shows_four_commands() -> None:
    assert len(COMMANDS) == 4


def test_the_page_names_every_known_bug() -> None:
    assert re.findall(r"^\| ([a-z-]+) \| (?:producer|reader) \|", PAGE, re.MULTILINE) == [
        bug.name for bug in known_bugs()
    ]
    for bug in known_bugs():
        assert all(source in PAGE for source in bug.sources), bug.name


def test_the_example_in_python_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    prepare(tmp_path)
    (example,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    exec(compile(example, "verify-a-file.md", "exec"), {})
