"""The page docs/how-to/look-into-packages.md: its commands run as they stand there, and print what it shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from tests.builders import packages as build
from tests.laws.rooms import FIXTURES

from fatpack.main import main

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "look-into-packages.md"

SINGLE = (FIXTURES / "cuda_fatbin" / "hosts" / "single.o").read_bytes()
FILES = {
    "kernels/__init__.py": b"",
    "kernels/lib/libk.so": SINGLE,
    "kernels/lib/libhip.so": (FIXTURES / "elf" / "clang-22-hip.o").read_bytes(),
    "kernels/data.bin": b"no code",
}


def test_the_commands_print_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("kernels-1.0-py3-none-any.whl").write_bytes(build.zipped(FILES))
    for name, content in FILES.items():
        path = Path("site-packages") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    packed = build.COMPRESSORS["xz"](build.tarred({"old/libk.so": SINGLE}))
    Path("site-packages/kernels.tar.xz").write_bytes(packed)
    shown = 0
    for block in re.findall(r"^```console\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            capfd.readouterr()
            assert main(shlex.split(command)[1:]) == 0, command
            assert capfd.readouterr().out == expected
            shown += 1
    assert shown == 7
    assert Path("k.cubin").read_bytes().startswith(b"\x7fELF")
