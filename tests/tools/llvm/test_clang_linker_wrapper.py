"""The listing of ``--dry-run`` against clang-linker-wrapper 22 and 23: the same device links, files and host's link."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.builders import link_lines
from tests.reference import llvm_tool

from fatpack.main import main

NAME = "clang-linker-wrapper"
VERSIONS = ["22", "23"]

_DEVICE = re.compile(r' "[^"]*clang(?:-\d+)?" --no-default-config -o (\S+) (.*)')
_HOST = re.compile(r' "/bin/true" (.*)')


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("link")
    link_lines.make_folder(path)
    return path


def _listed(text: str) -> tuple[list[tuple[str, str, list[str]]], list[str]]:
    """Return target, architecture and files of each device link, and the words of the host's link.

    Names are those without the folder and the digits of temporary files.
    """
    links = []
    for _, rest in _DEVICE.findall(text):
        target, arch = re.findall(r"--target=(\S+)(?: -m(?:cpu|arch)=(\S+))?", rest)[0]
        links.append((target, arch, [_name(word) for word in rest.split() if word.endswith(".o")]))
    hosts = _HOST.findall(text)
    return links, [_name(word) if ".wrapper" in word else word for word in hosts[0].split()] if hosts else []


def _name(word: str) -> str:
    return re.sub(r"-[0-9a-f]{6}\.o$", ".o", word.rpartition("/")[2])


@pytest.mark.reference
@pytest.mark.parametrize("version", VERSIONS)
def test_the_listing_is_that_of_llvm(
    version: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    chance = random.Random(11)
    linked = 0
    for _ in range(12):
        words = link_lines.random_line(chance, [], asks=version != "22")
        line = ["--dry-run", "--linker-path=/bin/true", f"--host-triple={link_lines.X86}", "-o", "out", *words]
        real = llvm_tool(NAME, version)
        done = subprocess.run([real, *line], capture_output=True, text=True)
        code = main(["tool", f"--as={version}", real, *line])
        expected, found = _listed(done.stderr), _listed(capfd.readouterr().err)
        assert found[0] == expected[0], line
        if not done.returncode:  # it looks for the bundlers of vendors, which dry runs do not need
            assert (code, found[1]) == (0, expected[1]), line
        linked += len(expected[0])
    assert linked > 6


def test_without_a_linker_it_ends_as_llvm_does(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    assert main(["tool", NAME, "--dry-run", "missing.o", "-o", "x"]) == 1
    assert capfd.readouterr().err == f"{NAME}: error: linker path missing, must pass 'linker-path'\n"


def test_links_are_left_to_the_original(tmp_path: Path) -> None:
    program = f"import sys; sys.path[:0] = {sys.path!r}\nfrom fatpack.main import main\nsys.exit(main(sys.argv[1:]))"
    for words in (["x.o"], ["--dry-run", "--save-temps", "x.o"], ["--dry-run", "--device-linker=-v", "x.o"]):
        command = [sys.executable, "-I", "-c", program, "tool", NAME, *words]
        done = subprocess.run(command, capture_output=True, text=True, env={"PATH": str(tmp_path)})
        assert done.returncode == 1
        assert "fatpack offers --dry-run alone" in done.stderr
