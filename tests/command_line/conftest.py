"""A command line in a folder with real images and an object."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.laws.rooms import FIXTURES

from fatpack.main import main


class Ran(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh current directory with a.cubin (sm_80), b.cubin (sm_90), k.ptx, host.o and pkg.bin (four images)."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_80.cubin", "a.cubin")
    shutil.copy(FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_90.cubin", "b.cubin")
    shutil.copy(FIXTURES / "cuda" / "ptx" / "k1.compute_80.ptx", "k.ptx")
    shutil.copy(FIXTURES / "demo" / "host.o", "host.o")
    shutil.copy(FIXTURES / "offload_binary" / "llvm-22-four.bin", "pkg.bin")
    return tmp_path


@pytest.fixture
def fatpack(capfd: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run one command; return exit code and both streams."""

    def run(*arguments: object) -> Ran:
        capfd.readouterr()
        code = main([str(argument) for argument in arguments])
        streams = capfd.readouterr()
        assert "Traceback" not in streams.err
        return Ran(code, streams.out, streams.err)

    return run
