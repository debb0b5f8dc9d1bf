"""A run of tests against a changed copy of the sources, and what its end says: of samples and of traps alike."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

#: Words of pytest about a ``conftest.py`` that cannot be imported, which ends it as wrong arguments do.
_CONFTEST = "while loading conftest"


def tests_fail(
    arguments: Sequence[str],
    sources: Path,
    seconds: float,
    *,
    settings: Mapping[str, str] | None = None,
    preexec_fn: Callable[[], None] | None = None,
) -> bool:
    """Run pytest against a folder of sources; return True if a test fails, cannot be imported, or does not end.

    Tests that take longer than some seconds do not end, and so do those that a signal ends.

    Raises:
        SystemExit: pytest did not try the tests: it had none, wrong arguments, or failed itself.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(sources), "PYTHONDONTWRITEBYTECODE": "1", **(settings or {})}
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=seconds,
            preexec_fn=preexec_fn,
        )
    except subprocess.TimeoutExpired:
        return True
    said = f"{done.stdout[-2000:]}{done.stderr[-2000:]}"
    if done.returncode in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED):
        return done.returncode != pytest.ExitCode.OK
    if done.returncode < 0 or (done.returncode == pytest.ExitCode.USAGE_ERROR and _CONFTEST in said):
        return True
    raise SystemExit(f"{arguments[-1]}: pytest ended with {done.returncode} and tried no test\n{said}")
