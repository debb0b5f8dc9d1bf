"""The page docs/how-to/slim-an-environment.md: its commands run as they stand there, and print what it shows."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from tests.builders import wheels as build
from tests.docs.test_slim_a_wheel import FILES, METADATA, run

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "slim-an-environment.md"

LOCK = "kernels==1.0 \\\n    --hash=sha256:{}\nplain==1.0\n"


def test_the_commands_print_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    files = build.files_of(FILES, info="kernels-1.0.dist-info", metadata=METADATA)
    for name, data in files.items():
        path = Path(".venv/lib/python3.12/site-packages") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    before = {path: path.read_bytes() for path in Path(".venv").rglob("*") if path.is_file()}
    Path("downloads").mkdir()
    Path("downloads/kernels-1.0-py3-none-any.whl").write_bytes(build.packed(files))
    plain = METADATA.replace(b"kernels", b"plain")
    Path("downloads/plain-1.0-py3-none-any.whl").write_bytes(
        build.packed(build.files_of({"plain.py": b""}, info="plain-1.0.dist-info", metadata=plain))
    )
    Path("requirements.lock").write_text(LOCK.format(build.hexadecimal(build.packed(files))))
    shown = 0
    for block in re.findall(r"^```console\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            assert run(command, capfd) == expected, command
            shown += 1
    assert shown == 7
    assert {path: path.read_bytes() for path in Path(".venv").rglob("*") if path.is_file()} == before
    assert sorted(os.listdir("wheelhouse")) == [
        "kernels-1.0-1sm90-py3-none-any.whl",
        "plain-1.0-py3-none-any.whl",
        "requirements.txt",
        "simple",
    ]
