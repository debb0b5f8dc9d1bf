"""Programs that run: what they say is kept and bounded, how they end is told, and none is left."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from fatpack.commands.map.map import ProcessPool
from fatpack.errors import CommandFailed


def python(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def test_what_a_program_says_is_kept_on_both_streams() -> None:
    with ProcessPool() as programs:
        said = programs.run(python("import sys; print('out', flush=True); print('err', file=sys.stderr)"), "0.0")
    assert said.text.split() == ["out", "err"]
    assert said.dropped == 0


def test_of_much_the_end_is_kept_and_the_rest_is_counted() -> None:
    with ProcessPool() as programs:
        said = programs.run(python("print('x' * 1_000_000 + 'end', end='')"), "0.0")
    assert said.text.endswith("xend")
    assert len(said.text) + said.dropped == 1_000_003
    assert len(said.text) <= 1 << 17


def test_a_program_that_fails_is_named_with_its_image_and_what_it_said() -> None:
    with (
        ProcessPool() as programs,
        pytest.raises(CommandFailed, match=r"0\.1 cuda: .* ended with exit code 3") as caught,
    ):
        programs.run(python("import sys; print('because'); sys.exit(3)"), "0.1 cuda")
    assert (caught.value.returncode, caught.value.output.strip(), caught.value.words) == (3, "because", "0.1 cuda")


def test_a_program_that_a_signal_ends_is_reported_by_its_name() -> None:
    with ProcessPool() as programs, pytest.raises(CommandFailed, match="was ended by SIGABRT"):
        programs.run(python("import os; os.abort()"), "0.0")


def test_a_program_that_is_not_there_is_an_error_of_the_system() -> None:
    with ProcessPool() as programs, pytest.raises(FileNotFoundError):
        programs.run(["/no/such/program"], "0.0")


def test_programs_get_nothing_on_stdin_and_the_environment_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OWN", "kept")
    text = "import os, sys; print(repr(sys.stdin.read()), os.environ['OWN'], os.getcwd())"
    with ProcessPool() as programs:
        assert programs.run(python(text), "0.0").text.split() == ["''", "kept", os.getcwd()]


def test_leaving_the_block_ends_programs_and_what_they_started(tmp_path: Path) -> None:
    note = tmp_path / "note"
    inner = f"import time, os; open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    errors: list[BaseException] = []

    def run() -> None:
        try:
            programs.run(python(outer), "0.0")
        except CommandFailed as error:
            errors.append(error)

    with ProcessPool() as programs:
        thread = threading.Thread(target=run)
        thread.start()
        while not note.exists() or not note.read_text():
            time.sleep(0.01)
    thread.join()
    pid = int(note.read_text())
    assert "ended by SIGTERM" in str(errors[0])
    while subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout[:1] not in "Z":
        time.sleep(0.01)
    with pytest.raises(CommandFailed, match="was not run"):
        programs.run(python(""), "0.0")
