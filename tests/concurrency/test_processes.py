"""Forked workers: results in order, and missing results are left to the caller.

A process with threads is not forked, and pytest may have some: each test is a program of its own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.laws.rooms import FIXTURES

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="nothing is forked there")

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

START = """
import json, os, sys, time
from fatpack.concurrency import processes
from fatpack.concurrency.processes import map_in_processes
processes.core_count = lambda: 2
me = os.getpid()
def cost(item):
    return item % 4 and 10
def values(work, count=40, least=0):
    return [made and made.value for item, made in map_in_processes(range(count), work, cost, least=least)]
def is_alone():
    try:
        os.waitpid(-1, 0)
    except ChildProcessError:
        return True
"""


def answer(program: str) -> Any:
    """Return the JSON that a program prints."""
    done = subprocess.run(
        [sys.executable, "-c", START + program], env=ENVIRONMENT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_results_come_in_order_and_from_others() -> None:
    made, pids, is_alone = answer(
        "found = values(lambda item: (item, os.getpid()))\n"
        "print(json.dumps([[f and f[0] for f in found], sorted({f[1] == me for f in found if f}), is_alone()]))"
    )
    assert made == [item if item % 4 else None for item in range(40)]
    assert (pids, is_alone) == ([False], True)


def test_large_results_come_whole() -> None:
    assert answer(
        "print(json.dumps([v and [v[:1], len(v)] for v in values(lambda n: 'ab'[n % 2] * 3_000_000, 6)]))"
    ) == [
        None,
        ["b", 3_000_000],
        ["a", 3_000_000],
        ["b", 3_000_000],
        None,
        ["b", 3_000_000],
    ]


@pytest.mark.parametrize(
    "failure",
    [
        "raise ValueError",
        "raise MemoryError",
        "os.kill(os.getpid(), 9)",
        "os._exit(1)",
        "sys.exit(3)",
        "return None",
        "return lambda: 0",
    ],
)
def test_what_a_worker_cannot_give_is_left_to_the_caller(failure: str) -> None:
    program = f"def work(item):\n    if item == 7:\n        {failure}\n    return item\n"
    made, is_alone = answer(program + "print(json.dumps([values(work), is_alone()]))")
    wanted = [item if item % 4 else None for item in range(40)]
    assert is_alone
    assert (made[7], made[5]) == (None, 5)
    assert all(value in (None, right) for value, right in zip(made, wanted, strict=True))
    if "exit(1)" not in failure and "kill" not in failure:
        assert made == [*wanted[:7], None, *wanted[8:]]


def test_workers_that_all_die_leave_everything_to_the_caller() -> None:
    assert answer("print(json.dumps([values(lambda item: os._exit(1)), is_alone()]))") == [[None] * 40, True]


@pytest.mark.parametrize(
    "reason",
    [
        "values_ = values(lambda item: item, least=10_000)",
        "processes.core_count = lambda: 1\nvalues_ = values(lambda item: item)",
        "sys.platform = 'another'\nvalues_ = values(lambda item: item)",
        "import threading\nthreading.Thread(target=time.sleep, args=(30,), daemon=True).start()\n"
        "values_ = values(lambda item: item)",
    ],
    ids=["few bytes", "one core", "another system", "other threads"],
)
def test_nothing_is_forked(reason: str) -> None:
    program = f"def refuse():\n    raise AssertionError\nos.fork = refuse\n{reason}\n"
    assert answer(program + "print(json.dumps(values_)); sys.stdout.flush(); os._exit(0)") == [None] * 40


def test_a_system_without_processes_is_none() -> None:
    program = "def refuse():\n    raise BlockingIOError\nos.fork = refuse\n"
    assert answer(program + "print(json.dumps(values(lambda item: item)))") == [None] * 40


def test_leaving_early_ends_the_workers() -> None:
    program = (
        "def work(item): return time.sleep(60 * (item > 1)) or item\n"
        "made = map_in_processes(range(1, 40), work, lambda _: 1, least=0)\n"
        "first = next(made)[1].value\nmade.close()\nprint(json.dumps([first, is_alone()]))"
    )
    assert answer(program) == [1, True]


def test_workers_that_are_far_ahead_wait(tmp_path: Path) -> None:
    log = tmp_path / "log"
    program = (
        "def work(item):\n"
        f"    with open({str(log)!r}, 'ab', 0) as log:\n        log.write(b'x')\n"
        "    time.sleep(1 if item == 1 else 0)\n    return 'x' * 500_000\n"
        "made = map_in_processes(range(1, 400), work, lambda _: 1, least=0)\n"
        f"next(made)\nprint(json.dumps(os.path.getsize({str(log)!r})))\nmade.close()"
    )
    assert answer(program) < 20


LIBRARY = """
import os, sys
from fatpack.concurrency import processes
processes.core_count = lambda: 2
processes.MIN_BYTES_FOR_WORKERS = 0
real, forks = os.fork, []
def fork():
    forks.append(1)
    return real()
os.fork = fork
from fatpack.main import main
code = main(sys.argv[2:])
sys.stdout.flush()
sys.stderr.write(f"{len(forks)} forks")
sys.exit(code)
"""


def library(folder: Path) -> Path:
    """Return a file of several fat binaries, one of which is damaged."""
    parts = [path.read_bytes() for path in sorted((FIXTURES / "cuda_fatbin" / "recorded").glob("v1*.fatbin"))]
    assert len(parts) > 3
    damaged = bytearray(parts[0])
    damaged[-200:-100] = b"\xff" * 100
    path = folder / "many.fatbin"
    path.write_bytes(b"".join([*parts, bytes(damaged), *parts]))
    return path


@pytest.mark.parametrize(
    "command",
    [
        "inspect --kernels",
        "inspect --kernels -v",
        "inspect --kernels --json",
        "inspect --by kernel",
        "inspect --by kernel --json",
        "inspect --rows csv --digests",
        "inspect --rows jsonl --rows-of kernels --digests",
        "report --markdown",
        "report --svg treemap -o -",
        "report -o -",
        "doctor",
        "doctor --json",
    ],
)
def test_several_processes_say_what_one_says(command: str, tmp_path: Path) -> None:
    path = library(tmp_path)
    runs = []
    program = LIBRARY.replace("processes.core_count = lambda: 2\n", "")
    for jobs in ("2", "1"):
        done = subprocess.run(
            [sys.executable, "-c", program, "-", *command.split(), "--jobs", jobs, str(path)],
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            timeout=120,
        )
        text, _, forks = done.stderr.rpartition("\n")
        runs.append((done.returncode, done.stdout, text))
        assert (forks.strip()[0] == "0") == (jobs == "1"), done.stderr
    assert runs[0] == runs[1]
    assert runs[0][1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_of_them(number: int, tmp_path: Path) -> None:
    program = LIBRARY.replace(
        "from fatpack.main import main",
        "from fatpack.commands.inspect import record\n"
        "def slow(self, found, number):\n"
        "    os.write(1, b'+')\n"
        "    import time\n    time.sleep(60)\n"
        "record.FileInspection._elsewhere = slow\n"
        "from fatpack.main import main",
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, "-", "inspect", "--kernels", str(library(tmp_path))],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.read(1) == b"+"
    time.sleep(0.1)
    process.send_signal(number)
    # The pipe ends when all its writers are gone: no worker is left.
    process.communicate(timeout=30)
    assert process.returncode == 128 + number


#: A command whose work is shared out, and which says so and waits when it has the first result.
SUSPENDED = """
import signal
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)  # whoever runs the tests may ignore them
import fatpack.main as line
def run(arguments):
    shared = map_in_processes(range(1, 9), lambda item: time.sleep(40 * (item > 1)) or item, lambda _: 1, least=0)
    for item, made in shared:
        os.write(1, b"+")
        time.sleep(40)
line._run = run
sys.argv = ["fatpack"]
sys.exit(line.main())
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGKILL"])
def test_no_worker_outlives_a_command_that_is_between_two_results(name: str) -> None:
    command = [sys.executable, "-c", START + SUSPENDED]
    process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.read(1) == b"+"
    number = getattr(signal, name)
    process.send_signal(number)
    process.communicate(timeout=20)
    assert process.returncode == (-number if name == "SIGKILL" else 128 + number)


def test_names_of_files_that_were_finished_take_no_room(tmp_path: Path) -> None:
    program = """
from fatpack.io.atomic_write import write_file
processes._MOST_NAMES = 1000
def work(item):
    for number in range(40):
        write_file(FOLDER + f"/{item}.{number}", [b"text"], force=True)
    return item
print(json.dumps(values(work, 8)))
"""
    assert answer(program.replace("FOLDER", repr(str(tmp_path)))) == [None, 1, 2, 3, None, 5, 6, 7]
    assert len(os.listdir(tmp_path)) == 6 * 40
    assert not list(tmp_path.glob(".fatpack.*"))


def test_a_worker_with_too_many_files_at_a_time_leaves_the_work_to_the_caller(tmp_path: Path) -> None:
    program = """
from fatpack.io.atomic_write import OutputBatch
processes._MOST_NAMES = 1000
def work(item):
    with OutputBatch() as batch:
        for number in range(40):
            batch.add(FOLDER + f"/{item}.{number}", [b"text"])
        batch.publish()
    return item
print(json.dumps(values(work, 8)))
"""
    assert answer(program.replace("FOLDER", repr(str(tmp_path)))) == [None] * 8
    assert os.listdir(tmp_path) == []


def test_items_stay_in_order_if_making_them_starts_a_thread() -> None:
    program = """
import threading
def items():
    yield from range(1, 4)
    threading.Thread(target=time.sleep, args=(0.5,)).start()
    yield from range(5, 8)
print(json.dumps([item for item, _ in map_in_processes(items(), lambda item: item, cost, least=0)]))
"""
    assert answer(program) == [1, 2, 3, 5, 6, 7]


def test_items_are_shared_once_there_are_enough() -> None:
    program = """
def shared(count, size):
    found = map_in_processes(range(count), lambda item: item, lambda _: size, least=1000)
    return sum(made is not None for _, made in found)
print(json.dumps([shared(10, 100), shared(11, 100), shared(2500, 1), shared(2500, 2)]))
"""
    assert answer(program) == [0, 11, 1000, 2500]
