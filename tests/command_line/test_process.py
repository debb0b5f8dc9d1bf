"""A refusal by the system gives one line and a documented exit code: memory, streams, reading, time."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import Ran
from tests.laws.rooms import FIXTURES

from fatpack import codecs
from fatpack.codecs.compress import compress
from fatpack.concurrency import threads
from fatpack.errors import UsageError
from fatpack.io.open import open_source
from fatpack.selectors import select
from fatpack.selectors.select import KernelPattern

Fatpack = Callable[..., Ran]
MAIN = "import sys; from fatpack.main import main; sys.exit(main())"
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", MAIN, *arguments], env=ENVIRONMENT, capture_output=True, text=True, **options
    )  # type: ignore[call-overload]


@pytest.mark.sweep(4)
@pytest.mark.parametrize("megabytes", [64, 80, 100, 130, 160])
@pytest.mark.parametrize(
    "arguments",
    [
        ["pack", "--format=bundle", "--compress", "--image=file=big,triple=amdgcn-amd-amdhsa,kind=hip", "-o", "x"],
        ["pack", "--container-version=3", "--compress", "--image=file=big,triple=t", "-o", "x"],
        ["tool", "llvm-offload-binary", "--image=file=big,triple=t", "-o", "x"],
        ["inspect", "--json", "big"],
    ],
    ids=["bundle", "offload", "tool", "inspect"],
)
def test_too_little_memory_is_one_line(folder: Path, arguments: list[str], megabytes: int) -> None:
    Path("big").write_bytes(os.urandom(1 << 20) * 40)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))

    done = run(*arguments, preexec_fn=limit)
    lines = done.stderr.splitlines()
    assert done.returncode in (0, 5), done.stderr
    if done.returncode:
        assert len(lines) == 1
        assert lines[0].startswith(
            ("fatpack: error: not enough memory", "fatpack: error: a part of the program cannot")
        )
        assert not Path("x").exists()
    assert not [name for name in os.listdir(folder) if name.startswith(".")]


def test_memory_does_run_out_there(folder: Path) -> None:
    """The test above would hold if nothing ever failed."""
    Path("big").write_bytes(os.urandom(1 << 20) * 40)
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (64 << 20, 64 << 20))  # noqa: E731
    arguments = ["pack", "--format=bundle", "--compress", "--image=file=big,triple=amdgcn-amd-amdhsa,kind=hip"]
    done = run(*arguments, "-o", "x", preexec_fn=limit)
    assert (done.returncode, done.stderr) == (5, "fatpack: error: not enough memory\n")


def test_a_codec_without_memory_does_not_call_the_stream_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    import zstandard

    def refuse(*_: object, **__: object) -> None:
        raise zstandard.ZstdError("zstd decompress error: Allocation error : not enough memory")

    class Refusing:
        read = refuse

    packed = open_source(compress([bytes(5000)], "zstd", 5000)).view()
    monkeypatch.setattr(codecs, "_zstd_stream", lambda _: (Refusing(), zstandard.ZstdError))
    with pytest.raises(MemoryError):
        list(codecs.inflate_pieces(packed, "zstd", 5000, format="x"))
    monkeypatch.setattr(zstandard, "ZstdCompressor", refuse)
    with pytest.raises(MemoryError):
        compress([b"abc"], "zstd", 3)


def test_without_threads_the_work_is_done_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    def refuse(_self: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with threads.ThreadTasks([lambda: 1, lambda: 2], threads=4) as tasks:
        assert list(tasks) == [1, 2]
    assert list(threads.read_ahead(iter([1, 2, 3]), 2)) == [1, 2, 3]


#: What is told of it is more than stdout holds back: the rest is still to be written when the command fails.
KPACK = FIXTURES / "kpack" / "needs.plain.kpack"


@pytest.mark.parametrize(
    "command",
    [
        "inspect pkg.bin",
        "inspect --json pkg.bin",
        f"inspect --kernels --json {KPACK}",
        "--version",
        "pack {image} -o -",
    ],
)
@pytest.mark.parametrize(
    ("stdout", "reason"), [(">&-", errno.EBADF), (">/dev/full", errno.ENOSPC)], ids=["closed", "full"]
)
def test_output_that_is_not_read_is_an_error(folder: Path, command: str, stdout: str, reason: int) -> None:
    arguments = command.format(image="--image=file=k.ptx,triple=t")
    shell = f"{sys.executable} -c '{MAIN}' {arguments} {stdout}"
    done = subprocess.run(["sh", "-c", shell], env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 5
    assert done.stderr.startswith("fatpack: error: ")
    assert done.stderr.endswith(f"{os.strerror(reason)}\n")
    assert done.stderr.count("\n") == 1


def test_output_that_was_not_requested_is_none(folder: Path) -> None:
    shell = f"{sys.executable} -c '{MAIN}' pack --image=file=k.ptx,triple=t -o x -q >&- 2>&-"
    assert subprocess.run(["sh", "-c", shell], env=ENVIRONMENT).returncode == 0
    assert Path("x").exists()


def test_a_disk_that_cannot_be_read_is_named(folder: Path, fatpack: Fatpack, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    for name in ("pread", "preadv", "copy_file_range"):
        monkeypatch.setattr(os, name, broken)
    for command in (["inspect", "pkg.bin"], ["extract", "pkg.bin"], ["pack", "--image=file=k.ptx,triple=t", "-o", "x"]):
        ran = fatpack(*command)
        assert ran.code == 5
        assert ran.err in (
            "fatpack: error: pkg.bin: Input/output error\n",
            "fatpack: error: k.ptx: Input/output error\n",
        )
    assert not Path("x").exists()


COMMANDS = [
    ["inspect", "{}"],
    ["extract", "{}"],
    ["convert", "{}", "-o", "x"],
    ["remove", "{}", "-o", "x"],
    ["replace", "{}", "pkg.bin", "-o", "x"],
    ["normalize", "{}", "-o", "x"],
    ["embed", "{}", "pkg.bin", "-o", "x"],
    ["embed", "host.o", "{}", "-o", "x"],
    ["replace", "host.o", "{}", "-o", "x"],
    ["pack", "--image=file={},triple=t", "-o", "x"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: "-".join(command[:2]))
def test_an_empty_file_gets_one_answer(folder: Path, fatpack: Fatpack, command: list[str]) -> None:
    Path("empty").touch()
    ran = fatpack(*(word.format("empty") for word in command))
    assert ran.code == (0 if command[0] == "inspect" else 1)
    assert "empty: the file is empty" in ran.out + ran.err


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: "-".join(command[:2]))
def test_files_that_are_made_when_they_are_read_have_content(
    folder: Path, fatpack: Fatpack, command: list[str]
) -> None:
    """They say that they are empty (/proc), or a page long (/sys)."""
    for path in ("/proc/self/maps", "/sys/kernel/mm/transparent_hugepage/enabled"):
        if not os.path.exists(path):
            continue
        ran = fatpack(*(word.format(path) for word in command), *(["--force"] if command[0] == "pack" else []))
        assert "is empty" not in ran.out + ran.err
        assert "changed while reading" not in ran.out + ran.err
        if command[0] == "pack":
            assert Path("x").stat().st_size > 104  # the container alone


def test_an_expression_that_never_ends_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select, "BUDGET", 0.2)
    start = time.process_time()
    with pytest.raises(UsageError, match=r"takes more than 0.2 s for the kernels of one image"):
        KernelPattern("(a+)+$").finds(["a" * 200 + "b"])
    assert time.process_time() - start < 5
    assert signal.getsignal(signal.SIGVTALRM) == signal.SIG_DFL
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)
    assert KernelPattern("add$").finds(["sub", "vadd"])
    assert not KernelPattern("^add").finds(["sub", "vadd"])


@pytest.mark.parametrize("text", ["(", "[z-a]", "(" * 100_000, "a{99999999999999}"])
def test_what_is_no_expression_is_a_usage_error(fatpack: Fatpack, folder: Path, text: str) -> None:
    ran = fatpack("extract", "pkg.bin", f"--kernel={text}", "--dry-run")
    assert ran.code == 2
    assert "is no regular expression" in ran.err


@pytest.mark.parametrize(("words", "said"), [(["inspect", "--nope"], "--nope"), ([], "Usage: fatpack")])
def test_usage_errors_need_no_name_that_click_has_only_since_8_2(words: list[str], said: str) -> None:
    older = "import click.exceptions; vars(click.exceptions).pop('NoArgsIsHelpError', None)"
    done = subprocess.run([sys.executable, "-c", f"{older}; {MAIN}", *words], capture_output=True, text=True)
    assert done.returncode == 2
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_matching_leaves_the_timer_of_others_alone() -> None:
    def theirs(*_: object) -> None:
        raise AssertionError

    signal.signal(signal.SIGVTALRM, theirs)
    try:
        assert KernelPattern("a").finds(["a"])
        assert signal.getsignal(signal.SIGVTALRM) == theirs
    finally:
        signal.signal(signal.SIGVTALRM, signal.SIG_DFL)


def test_ctrl_c_during_start_up_prints_no_traceback(folder: Path) -> None:
    """Whenever it comes: before the first line of fatpack runs the interpreter answers, behind it `main` does."""
    command = folder / "fatpack"  # by its name it is a process of its own, not a program that imports fatpack
    command.write_text(MAIN)
    codes = set()
    for wait in range(0, 120, 4):
        process = subprocess.Popen(
            [sys.executable, command, "inspect", "--json", str(FIXTURES / "offload_binary" / "llvm-22-four.bin")],
            env=ENVIRONMENT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        time.sleep(wait / 1000)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
        ours = [line for line in err.splitlines() if "fatpack/" in line]
        assert all("<module>" in line for line in ours), err  # of the first import, which nothing can stand around
        codes.add(process.returncode)
    assert codes & {0, 130}


#: A command to which the interrupt comes while a class is being made, as a module that is imported makes some.
IN_A_CLASS = """
import os, signal, sys
import fatpack.main
class Naming:
    def __set_name__(self, owner, name):
        os.kill(os.getpid(), signal.SIGINT)
def run(arguments):
    class Made:
        name = Naming()
fatpack.main._run = run
sys.exit(fatpack.main.main())
"""


def test_an_interrupt_while_a_class_is_made_ends_the_command_as_ever(folder: Path) -> None:
    command = folder / "fatpack"
    command.write_text(IN_A_CLASS)
    done = subprocess.run([sys.executable, command], env=ENVIRONMENT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "")
