"""Stand-ins beside their originals: if the original accepts a file, both must print and write the same.

Starting a process for every file makes these targets slow, so they run only with ``--differential``. A stand-in may
refuse a file that its original accepts: the pages below ``docs/tools`` list these.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from tools.fuzz.checks import Failure, fresh_folder

from fatpack.errors import FatpackError

#: Folders searched for originals before PATH, as in the reference tests.
_FOLDERS = ("/usr/lib/llvm-22/bin", *os.environ.get("FATPACK_REFERENCE_BIN", "").split(os.pathsep))


def original(name: str) -> str | None:
    """Return the path of an original, None if it is not installed."""
    paths = [Path(folder) / name for folder in _FOLDERS if folder]
    return next((str(path) for path in paths if path.exists()), shutil.which(name))


def same_as(name: str, *command_lines: list[str]) -> Callable[[bytes], str]:
    """Return a function that runs command lines of a tool and of its stand-in; the file is called ``in``."""

    def run(data: bytes) -> str:
        path = original(name)
        if path is None:
            raise FileNotFoundError(name)
        words = []
        for arguments in command_lines:
            fresh_folder(data)
            try:
                done = subprocess.run([path, *arguments], capture_output=True, stdin=subprocess.DEVNULL, timeout=10)
            except subprocess.TimeoutExpired:
                words.append("endless")
                continue
            theirs = _written()
            if done.returncode:
                words.append("refused")
                continue
            fresh_folder(data)
            code, printed = _stand_in(name, arguments)
            if code:
                words.append("stricter")
                continue
            for what, own, other in (("prints", printed, done.stdout), ("writes", _written(), theirs)):
                if own != other:
                    raise Failure(f"{' '.join(arguments)} {what} something else: {_head(own)}, not {_head(other)}")
            words.append("same")
        return " ".join(words)

    return run


def _head(value: object) -> str:
    return str(value)[:300]


def _written() -> dict[str, bytes]:
    return {name: Path(name).read_bytes() for name in sorted(os.listdir(".")) if name != "in"}


def _stand_in(name: str, arguments: list[str]) -> tuple[int, bytes]:
    from fatpack.tools import run_stand_in

    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="surrogateescape") for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = run_stand_in([name, *arguments])
        except (FatpackError, OSError):
            code = 1
    out.flush()
    return code, out.buffer.getvalue()
