"""A reader that goes away is no error, and never looks like a finding."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES

PACKED = str(FIXTURES / "offload_binary" / "llvm-22-four.bin")


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", PACKED],
        ["inspect", "-v", PACKED],
        ["inspect", "--json", PACKED],
        ["inspect", "--bytes", PACKED],
        ["extract", PACKED, "--arch=sm_70", "-o", "-"],
        ["targets"],
    ],
    ids=" ".join,
)
def test_a_closed_pipe_is_silent_and_exits_141(arguments: list[str], tmp_path: Path) -> None:
    program = f"import sys; sys.path[:0] = {sys.path!r}; from fatpack.main import main; sys.exit(main())"
    arguments = [Path(word).name if "/" in word else word for word in arguments]
    (tmp_path / Path(PACKED).name).write_bytes(Path(PACKED).read_bytes())
    command = [sys.executable, "-c", program, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert process.wait() == 141
