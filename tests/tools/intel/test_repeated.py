"""One command for many names: what stands for what, and programs that run beside each other."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from fatpack.tools.intel.llvm_foreach import RunningPrograms, create_output, substitute


@pytest.mark.parametrize(
    ("word", "values", "expected"),
    [
        ("-in={}", {"{}": "a"}, "-in=a"),
        ("{}{}", {"{}": "a"}, "a{}"),
        ("{}-@", {"{}": "@", "@": "b"}, "@-b"),
        ("-o=out.o,in={}", {"out.o": "x", "{}": "a"}, "-o=x,in=a"),
        ("out_{}", {"{}": "a", "out_{}": "x"}, "x"),
        ("ab", {"a": "1", "ab": "2"}, "2"),
        ("", {"": "x"}, ""),
    ],
)
def test_marks_mean_values(word: str, values: dict[str, str], expected: str) -> None:
    assert substitute(word, values) == expected


def test_names_of_outputs_are_new_and_the_files_are_there(tmp_path: Path) -> None:
    paths = {create_output(str(tmp_path), "a", "spv") for _ in range(50)}
    assert len(paths) == 50 == len(list(tmp_path.glob("a-??????.spv")))
    assert create_output(str(tmp_path), "a", "", mode=0o600).endswith(tuple("0123456789abcdef"))
    with pytest.raises(FileNotFoundError):
        create_output(str(tmp_path / "no"), "a", "spv")


def test_programs_run_beside_each_other_and_tell_how_they_ended(tmp_path: Path) -> None:
    ended = []
    script = 'while [ ! -e go ]; do sleep 0.01; done; exit "$0"'
    with RunningPrograms(2) as running:
        running.start(0, "/bin/sh", ["sh", "-c", f"cd {tmp_path}; {script}", "3"])
        running.start(1, "/bin/sh", ["sh", "-c", f"touch {tmp_path}/go; kill -9 $$"])
        while len(ended) < 2:
            found = running.made_room()
            assert found is not None
            ended.append(found)
            running.start(len(ended) + 1, "/bin/sh", ["sh", "-c", "exit 0"])
        assert sorted((one.number, one.code) for one in ended if one.number < 2) in ([(0, 3), (1, -9)], [(1, -9)])
        assert next(one.words for one in ended if one.number == 1) == "Killed"
        assert len(list(running.rest())) == 2


def test_what_cannot_be_run_is_an_error_and_leaves_the_rest() -> None:
    with RunningPrograms(2) as running:
        running.start(0, "/bin/sh", ["sh", "-c", "exit 4"])
        with pytest.raises(FileNotFoundError):
            running.start(1, "/no/program", ["program"])
        assert [(one.number, one.code) for one in running.rest()] == [(0, 4)]


def test_nothing_runs_when_the_block_ends_early(tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt), RunningPrograms(1) as running:
        running.start(0, "/bin/sh", ["sh", "-c", "exec sleep 60"])
        (process,) = running._numbers
        raise KeyboardInterrupt
    assert time.monotonic() - started < 50
    with pytest.raises(ChildProcessError):
        os.waitpid(process, os.WNOHANG)
