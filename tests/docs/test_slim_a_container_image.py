"""The page docs/how-to/slim-a-container-image.md: its commands run as they stand there, and print what it shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from tests.builders import container_images as build
from tests.laws.rooms import FIXTURES

from fatpack.main import main

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "slim-a-container-image.md"
HOSTS = FIXTURES / "cuda_fatbin" / "hosts"
SITE = "usr/lib/python3/dist-packages/kernels"


def image() -> build.Image:
    two, rel = ((HOSTS / name).read_bytes() for name in ("libtwo.so", "librel.so"))
    base = build.layer(build.file("usr/lib/libtwo.so", two), build.file("etc/os-release", b"ID=debian\n"))
    wheel = build.layer(build.file(f"{SITE}/libtwo.so", two), build.file(f"{SITE}/librel.so", rel))
    last = build.layer(build.file("app.py", b"import kernels\n"))
    return build.Image(
        [base, wheel, last],
        "",
        history=[
            {"created_by": "FROM base"},
            {"created_by": "RUN pip install kernels"},
            {"created_by": "COPY app.py /"},
        ],
    )


def test_the_commands_print_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    build.write_folder(image().layout(), Path("layout"))
    Path("app.tar").write_bytes(build.archive(image().saved()))
    shown = 0
    for block in re.findall(r"^```console\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            capfd.readouterr()
            assert main(shlex.split(command)[1:]) == 0, command
            printed = capfd.readouterr()
            assert printed.err + printed.out == expected, command
            shown += 1
    assert shown == 5
