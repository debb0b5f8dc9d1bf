"""The stand-in for cuobjdump prints what cuobjdump of CUDA 13.5 printed: text, streams and exit codes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.builders import archive
from tests.conftest import Ran
from tests.laws.rooms import FIXTURES

Fatpack = Callable[..., Ran]

FOLDERS = ("cuda/cubin", "cuda_fatbin", "cuda_fatbin/recorded", "cuda_fatbin/hosts", "cuobjdump/samples")

#: libraries of Windows: cuobjdump finds nothing in them, and here they read like the fat binary that is in them
WINDOWS = ("host/clang_win.dll", "host/clang_win.obj")
INSIDE = "fatbin/nvfatbin135_windows.fatbin"

#: the members of librdc.a
OBJECTS = ("k1.rdc.o", "main.rdc.o")


class Recorded(NamedTuple):
    options: list[str]
    ran: Ran


def _recorded() -> dict[str, list[Recorded]]:
    """Return what was recorded, by the name of the file."""
    found: dict[str, list[Recorded]] = {}
    for path in sorted((FIXTURES / "cuobjdump").glob("*.txt")):
        _, *blocks = path.read_text().split("### cuobjdump ")
        for block in blocks:
            *options, name = block.partition("\n")[0].split()
            text, _, code = block.partition("\n")[2].rpartition("### rc=")
            lines = text.splitlines(keepends=True)
            errors = [line.removeprefix("stderr: ") for line in lines if line.startswith("stderr: ")]
            out = "".join(line for line in lines if not line.startswith("stderr: "))
            found.setdefault(name, []).append(Recorded(options, Ran(int(code), out, "".join(errors))))
    return found


RECORDED = _recorded()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def place(name: str) -> None:
    """Put a file where it was when it was recorded."""
    path = Path(name)
    path.parent.mkdir()
    if path.name == "librdc.a":
        hosts = FIXTURES / "cuda_fatbin" / "hosts"
        members = [archive.member(f"{member}/".encode(), (hosts / member).read_bytes()) for member in OBJECTS]
        path.write_bytes(archive.GNU + archive.gnu_symbols([68] * 3) + b"".join(members))
    else:
        (source,) = (FIXTURES / folder / path.name for folder in FOLDERS if (FIXTURES / folder / path.name).exists())
        path.symlink_to(source)


def test_everything_was_recorded() -> None:
    assert len(RECORDED) == 61
    assert {len(runs) for runs in RECORDED.values()} == {7}
    assert {run.ran.code for name in WINDOWS for run in RECORDED[name]} == {255}


@pytest.mark.parametrize("name", RECORDED)
def test_text_streams_and_exit_codes_are_those_of_cuobjdump(folder: Path, fatpack: Fatpack, name: str) -> None:
    place(name)
    for options, expected in RECORDED[INSIDE if name in WINDOWS else name]:
        code, *streams = fatpack("tool", "cuobjdump", *options, name)
        assert (code, *(stream.replace(str(folder), "@DIR@") for stream in streams)) == expected, options
