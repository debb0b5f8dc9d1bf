"""The page docs/how-to/slim-a-wheel.md: its commands run as they stand there, and print what it shows."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.builders import conda
from tests.builders import wheels as build
from tests.laws.rooms import FIXTURES
from tests.reference import package

from fatpack.main import main

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "slim-a-wheel.md"

HOSTS = FIXTURES / "cuda_fatbin" / "hosts"
METADATA = b"Metadata-Version: 2.1\nName: kernels\nVersion: 1.0\n"
FILES = {
    "kernels/__init__.py": b"",
    "kernels/libtwo.so": (HOSTS / "libtwo.so").read_bytes(),
    "kernels/librel.so": (HOSTS / "librel.so").read_bytes(),
}
BOTH = {
    "both/__init__.py": b"",
    "both/libcuda_kernels.so": (HOSTS / "libtwo.so").read_bytes(),
    "both/hip_kernels.o": (FIXTURES / "elf" / "clang-22-hip.o").read_bytes(),
}


def run(command: str, capfd: pytest.CaptureFixture[str]) -> str:
    """Return what a command prints; it must succeed."""
    capfd.readouterr()
    program, *arguments = shlex.split(command)
    if program == "fatpack":
        assert main(arguments) == 0, command
        return capfd.readouterr().out
    words = [sys.executable, *arguments] if program == "python" else [sys.executable, "-m", program, *arguments]
    environment = {"PIP_CONFIG_FILE": "/dev/null", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PATH": "/usr/bin:/bin"}
    return subprocess.run(words, check=True, capture_output=True, text=True, env=environment).stdout


@pytest.mark.reference
def test_the_commands_print_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    package("wheel")
    monkeypatch.chdir(tmp_path)
    wheel = Path("kernels-1.0-py3-none-any.whl")
    wheel.write_bytes(build.packed(build.files_of(FILES, info="kernels-1.0.dist-info", metadata=METADATA)))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall("site-packages")
    both = build.files_of(BOTH, info="both-1.0.dist-info", metadata=METADATA.replace(b"kernels", b"both"))
    Path("both-1.0-py3-none-any.whl").write_bytes(build.packed(both))
    Path("kernels-1.0-h12_0.conda").write_bytes(conda.package(FILES, "kernels", "1.0", "h12_0"))
    shown = 0
    for block in re.findall(r"^```console\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            assert run(command, capfd) == expected, command
            shown += 1
    assert shown == 12
    assert sorted(path.name for path in Path("dist").iterdir()) == [
        "kernels-1.0+sm90-py3-none-any.whl",
        "kernels-1.0-sm90_h12_0.conda",
    ]
    assert Path("sbom.json").read_text().count('"type": "file"') == 6  # the wheel and its five images
    assert (Path("slim-packages") / "kernels" / "__init__.py").exists()
