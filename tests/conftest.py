"""The effort of a quick run, the sweeps that only CI runs, and files that no run may change."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import pytest
from hypothesis import settings
from tests.effort import EXAMPLES
from tests.kept import Kept
from tests.laws.rooms import FIXTURES
from tests.skipped import Judges

from fatpack.main import main

settings.register_profile("fatpack", deadline=None, max_examples=EXAMPLES)
settings.load_profile("fatpack")


def pytest_configure(config: pytest.Config) -> None:
    """Look at the fixtures and count missing judges once, not in each process that runs a part of the tests."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Kept(Path(__file__).parent / "fixtures"))
        config.pluginmanager.register(Judges())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark cases of tests that are marked ``sweep(N)`` as slow, all but the first and about one of N others.

    The name of a case decides, so these are the same in every run, and combined parameters meet in all ways.
    """
    begun: set[str] = set()
    for item in items:
        sweep = item.get_closest_marker("sweep")
        if sweep is None:
            continue
        test = item.nodeid.partition("[")[0]
        if test in begun and crc32(item.name.encode()) % sweep.args[0]:
            item.add_marker(pytest.mark.slow)
        begun.add(test)


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
