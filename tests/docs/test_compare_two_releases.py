"""The page docs/how-to/compare-two-releases.md: its commands run as they stand there, and print what it shows."""

from __future__ import annotations

import io
import re
import shlex
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from tests.builders import wheels as build
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.main import main

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "compare-two-releases.md"

HOSTS = FIXTURES / "cuda_fatbin" / "hosts"
SINGLE, TWO = HOSTS / "single.o", HOSTS / "libtwo.so"


def wheel(version: str, files: dict[str, bytes]) -> None:
    name = f"kernels-{version}"
    metadata = f"Metadata-Version: 2.1\nName: kernels\nVersion: {version}\n".encode()
    packed = build.packed(build.files_of(files, info=f"{name}.dist-info", metadata=metadata))
    Path(f"{name}-py3-none-any.whl").write_bytes(packed)


def rebuilt() -> bytes:
    """Return a library with another note in one of its images, and another instruction in a kernel of the second."""
    data = bytearray(SINGLE.read_bytes())
    rows = [row for row in fatpack.rows(SINGLE) if row.form == "cubin"]
    assert [row.arch for row in rows] == ["sm_80", "sm_90"]
    for row, name in zip(rows, (".note.nv.tkinfo", ".text._Z5scaleIfEvPT_S0_"), strict=True):
        assert row.offset is not None
        cubin = ELFFile(io.BytesIO(data[row.offset :]))
        section = cubin.get_section_by_name(name)
        assert section is not None, [each.name for each in cubin.iter_sections()]
        at = row.offset + section["sh_offset"] + (section["sh_size"] - 4 if name.startswith(".note") else 4)
        data[at] ^= 1
    return bytes(data)


def slimmed(path: Path) -> bytes:
    fatpack.slim(path, "slim.so", drop=["sm_75"])
    return Path("slim.so").read_bytes()


@pytest.fixture
def releases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wheel("1.0", {"kernels/lib/libk.so": SINGLE.read_bytes(), "kernels/lib/libtwo.so.1.0": TWO.read_bytes()})
    hip = (FIXTURES / "elf" / "clang-22-hip.o").read_bytes()
    files = {"kernels/lib/libk.so": rebuilt(), "kernels/lib/libtwo.so.1.1": slimmed(TWO), "kernels/lib/libhip.so": hip}
    wheel("1.1", files)


@pytest.mark.usefixtures("releases")
def test_the_commands_print_what_the_page_shows(capfd: pytest.CaptureFixture[str]) -> None:
    shown = 0
    for block in re.findall(r"^```console\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            capfd.readouterr()
            assert main(shlex.split(command)[1:]) == 1, command
            assert capfd.readouterr().out == expected, command
            shown += 1
    assert shown == 3


@pytest.mark.usefixtures("releases")
def test_the_program_runs(capfd: pytest.CaptureFixture[str]) -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    exec(program, {})
    assert capfd.readouterr().out == "kernels/lib/libtwo.so.1.1 sm_75 cubin 1\n"
