"""Signals end a command cleanly, and what a killed one left is named by the next."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.conftest import Ran

from fatpack.concurrency import signals
from fatpack.io import temporary

#: The command line, in which a write to a file takes one byte, says so on stdout, and waits for the signal.
SLOW = """
import os, sys, time
real = os.write
def slow(fd, data):
    size = real(fd, data[:1])
    if fd > 2:
        real(1, b"+")
        time.sleep(30 if not {linger} else 0.05)
    return size
os.write = slow
from fatpack.main import main
sys.exit(main(sys.argv[1:]))
"""
#: A command to which the signal comes in a destructor: Python drops what is raised there.
IN_DESTRUCTOR = """
import os, signal, sys, time
from fatpack.concurrency.signals import SignalHandlers
class Dropping:
    def __del__(self):
        os.kill(os.getpid(), signal.{name})
        for _ in range(1000):
            pass
with SignalHandlers() as signals:
    try:
        Dropping()
        time.sleep(20)
    except KeyboardInterrupt:
        sys.exit(signals.exit_code)
"""
#: A block that finishes its output: the signal comes in it, and then it goes on, or hangs.
IN_BLOCK = """
import os, signal, sys, time
from fatpack.concurrency.signals import DeferSignals, SignalHandlers, raise_if_interrupted
with SignalHandlers() as signals:
    try:
        with DeferSignals():
            os.kill(os.getpid(), signal.{name})
            raise_if_interrupted()
            time.sleep(0.01)
            os.write(1, b"+")
            {rest}
        os.write(1, b"after the block")
    except KeyboardInterrupt:
        os.write(1, b"raised")
        sys.exit(signals.exit_code)
"""
PACK = ["pack", "--image=file=k.ptx,triple=t", "-o", "out.bin"]


def _heard() -> None:
    """Hear the signals that whoever runs the tests ignores."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def started(arguments: Sequence[str], *, linger: bool = False, **options: object) -> subprocess.Popen[bytes]:
    """Return a command that is in the middle of writing."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", SLOW.format(linger=linger), *arguments]
    options.setdefault("preexec_fn", _heard)
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)  # type: ignore[call-overload]
    assert process.stdout.read(1) == b"+"
    return process  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "arguments",
    [PACK, ["tool", "llvm-offload-binary", "--image=file=k.ptx,triple=t", "-o", "out.bin"]],
    ids=["pack", "stand-in"],
)
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_leaves_the_old_file_and_nothing_else(folder: Path, name: str, arguments: list[str]) -> None:
    Path("out.bin").write_bytes(b"old")
    before = sorted(os.listdir(folder))
    process = started([*arguments, *(["--force"] if arguments[0] == "pack" else [])])
    assert any(entry.startswith(".fatpack.") for entry in os.listdir(folder))
    number = getattr(signal, name)
    process.send_signal(number)
    _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (128 + number, b"")
    assert sorted(os.listdir(folder)) == before
    assert Path("out.bin").read_bytes() == b"old"


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_in_a_destructor_ends_the_command_all_the_same(name: str) -> None:
    code = IN_DESTRUCTOR.format(name=name)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=15, preexec_fn=_heard)
    assert (done.returncode, done.stderr) == (128 + getattr(signal, name), b"")


@pytest.mark.parametrize("rest", ["pass", "raise OSError"])
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_in_a_block_that_finishes_its_output_is_raised_at_its_end(name: str, rest: str) -> None:
    code = IN_BLOCK.format(name=name, rest=rest)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=15, preexec_fn=_heard)
    assert (done.returncode, done.stdout, done.stderr) == (128 + getattr(signal, name), b"+raised", b"")


@pytest.mark.parametrize("second", ["SIGINT", "SIGTERM"])
def test_a_second_signal_ends_a_block_that_hangs(second: str) -> None:
    code = IN_BLOCK.format(name="SIGINT", rest="time.sleep(60)")
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        preexec_fn=_heard,  # noqa: PLW1509  (it takes no lock)
    )
    assert process.stdout is not None
    assert process.stdout.read(1) == b"+"
    process.send_signal(getattr(signal, second))
    rest, _ = process.communicate(timeout=15)
    assert (process.returncode, rest) == (128 + getattr(signal, second), b"")


def test_other_exceptions_in_a_destructor_are_printed_as_ever() -> None:
    code = IN_DESTRUCTOR.replace("os.kill(os.getpid(), signal.{name})", "raise ValueError('mine')")
    code = code.replace("(20)", "(0)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=15)
    assert done.returncode == 0
    assert "ValueError: mine" in done.stderr


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL"])
def test_a_signal_leaves_nothing_of_a_new_file(folder: Path, name: str) -> None:
    before = sorted(os.listdir(folder))
    process = started(PACK)
    if name == "SIGKILL" and sorted(os.listdir(folder)) != before:
        process.terminate()
        process.communicate()
        pytest.skip("this file system has no files without a name")
    process.send_signal(getattr(signal, name))
    process.communicate(timeout=20)
    assert sorted(os.listdir(folder)) == before


def test_threads_that_write_stop_too(folder: Path) -> None:
    """Each image of a compressed fat binary is inflated and written by a thread of its own."""
    text = os.urandom(3 << 20).hex().encode()
    Path("big.ptx").write_bytes(b".version 8.0\n.target sm_80\n.address_size 64\n// " + text)
    images = [f"--image=file=big.ptx,check=no,arch=compute_{arch}" for arch in (75, 80, 90)]
    packing = [sys.executable, "-c", "import sys; from fatpack.main import main; sys.exit(main())", "pack", *images]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    options = ["--format=fatbin", "-o", "x.fatbin", "-q", "--force"]
    # With warnings: the PTX is for sm_80.
    assert subprocess.run([*packing, *options], env=environment).returncode == 1
    process = started(["extract", "x.fatbin", "-d", "out"], linger=True)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == 143
    assert not Path("out").exists() or os.listdir("out") == []


def test_an_ignored_hangup_stays_ignored(folder: Path) -> None:
    """As under nohup."""
    process = started(PACK, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    process.send_signal(signal.SIGHUP)
    time.sleep(0.2)
    assert process.poll() is None
    process.terminate()
    process.communicate(timeout=20)
    assert process.returncode == 143


#: A program that is interrupted while it loads the command line.
INTERRUPTED = """\
import os, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "fatpack.concurrency.signals":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
from fatpack.main import main
sys.exit(main())
"""


@pytest.mark.parametrize(("name", "is_ours"), [("fatpack", True), ("program", False)])
def test_an_interrupt_while_the_command_loads_ends_it_without_words(tmp_path: Path, name: str, is_ours: bool) -> None:
    """Of a program that loads fatpack the interrupt is its own: an exception, as Python has it."""
    (tmp_path / name).write_text(INTERRUPTED)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, tmp_path / name, "--version"]
    done = subprocess.run(command, env=environment, capture_output=True, preexec_fn=_heard)
    assert done.returncode == -signal.SIGINT
    assert (done.stderr == b"") == is_ours
    assert (b"KeyboardInterrupt" in done.stderr) != is_ours


def test_handlers_are_there_only_while_a_command_runs() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with signals.SignalHandlers():
        assert signal.getsignal(signal.SIGTERM) != before
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            signals.raise_if_interrupted()
    assert signal.getsignal(signal.SIGTERM) == before
    signals.raise_if_interrupted()


def test_what_a_killed_run_left_is_named_and_stays(folder: Path, fatpack: Callable[..., Ran]) -> None:
    process = started([*PACK, "--force"])  # what may replace a file has a temporary name
    process.kill()
    process.communicate()
    (left,) = (entry for entry in os.listdir(folder) if entry.startswith(".fatpack."))
    assert "killed" not in fatpack(*PACK, "--force").err  # it could still be written
    old = time.time() - temporary.STALE_SECONDS - 60
    os.utime(left, (old, old))
    ran = fatpack(*PACK, "--force")
    assert ran.code == 0
    assert ran.err.splitlines()[0] == (
        "fatpack: note: this folder has 1 unfinished file of runs that were killed (1 B); no command uses it any more: "
        f"rm ./{left}"
    )
    assert fatpack(*PACK, "--force", "-q").err == ""
    assert Path(left).exists()
    subprocess.run(ran.err.splitlines()[0].rpartition(": ")[2], shell=True, check=True)
    assert "killed" not in fatpack(*PACK, "--force").err


@pytest.mark.parametrize(
    "command",
    [
        ["extract", "pkg.bin", "-d", "out"],
        ["convert", "pkg.bin", "-o", "out/x", "--lossy", "--format=bundle"],
        ["remove", "pkg.bin", "--index=0", "--container=0", "-o", "out/y"],
        ["extract", "pkg.bin", "--index=0", "--container=0", "-o", "out/z"],
    ],
    ids=lambda command: command[0],
)
def test_every_command_that_writes_names_it(folder: Path, fatpack: Callable[..., Ran], command: list[str]) -> None:
    os.mkdir("out")
    for number in range(6):
        left = Path(f"out/.fatpack.{number}.part")
        left.write_bytes(bytes(number))
        os.utime(left, (0, 0))
    (line,) = (line for line in fatpack(*command).err.splitlines() if "killed" in line)
    assert "out has 6 unfinished files of runs that were killed (15 B); no command uses them any more" in line
    assert line.endswith("rm ./out/.fatpack.5.part ./out/.fatpack.4.part ./out/.fatpack.3.part ./out/.fatpack.2.part")
