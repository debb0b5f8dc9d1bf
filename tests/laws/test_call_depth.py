"""The calls from the command line to the reader of a format: few enough that a debugger shows them on one screen."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

import pytest

from fatpack.exit_codes import FINDINGS, FINE
from fatpack.main import main

FIXTURES = Path(__file__).parents[1] / "fixtures"
#: case → a file, and architectures of which it has images
FILES = {
    "a library": (FIXTURES / "cuda_fatbin" / "hosts" / "librel.so", "sm_9*"),
    "an object": (FIXTURES / "elf" / "clang-22-openmp-gfx90a.o", "gfx90a"),
    "a container": (FIXTURES / "offload_binary" / "llvm-22-four.bin", "sm_80,gfx90a"),
}

#: case → its command and options, and the most frames from ``main`` to ``parse`` of a format, both counted; a slimmed
#: file is read again when it is verified, before it gets its name
COMMANDS = {
    "inspect": (["inspect"], 13),
    "check": (["check", "--forbid", "sm_50"], 21),
    "slim to show": (["slim", "--keep", "{keep}", "--allow-empty", "--dry-run"], 19),
    "slim to write": (["slim", "--keep", "{keep}", "--allow-empty", "-o", "slimmed"], 22),
}


class Deepest:
    """The deepest stack from ``main`` to the ``parse`` of a format while it profiles."""

    def __init__(self) -> None:
        self.stack: list[str] = []

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_name == "parse" and "/fatpack/formats/" in frame.f_code.co_filename:
            stack, caller = [], frame
            while caller.f_code is not main.__code__ and caller.f_back is not None:
                stack.append(caller.f_code.co_qualname)
                caller = caller.f_back
            self.stack = max(self.stack, [*stack, "main"], key=len)


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("command", COMMANDS)
def test_few_calls_lead_to_the_reader_of_a_format(
    command: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ((name, *options), most), (path, keep) = COMMANDS[command], FILES[file]
    deepest = Deepest()
    before = sys.getprofile()
    sys.setprofile(deepest)
    try:
        code = main([name, str(path), *(option.format(keep=keep) for option in options)])
    finally:
        sys.setprofile(before)
    assert code == (FINDINGS if name == "check" and file == "a container" else FINE)
    assert deepest.stack, f"{command} of {file} reads no container"
    assert len(deepest.stack) <= most, "\n".join(reversed(deepest.stack))
