"""Fuzzing itself: targets accept their seeds, changes change something, and planted faults are found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from tests.effort import some
from tools.fuzz import seeds
from tools.fuzz.checks import Failure, file_fields
from tools.fuzz.mutate import Field, Mutator, Seed
from tools.fuzz.plain import fuzz
from tools.fuzz.targets import TARGETS, Target
from tools.fuzz.watch import Watch

from fatpack import binary, formats
from fatpack.tools import TOOLS

ROOT = Path(__file__).parents[2]
FOUND = sorted(path for path in seeds.FOUND.rglob("*") if path.is_file())
each_target = pytest.mark.parametrize("name", TARGETS)


def test_every_room_and_every_stand_in_is_a_target() -> None:
    rooms = {*formats.MODULES, *binary.MODULES} - {"cir-offload-container"} | {"cir-text", "cir-bytecode"}
    assert rooms <= TARGETS.keys()
    first_of = {module: name for name, module in reversed(TOOLS.items())}  # others are names of the same
    assert {f"tool-{name}" for name in first_of.values()} <= TARGETS.keys()
    assert {"inspect", "rows", "image", "packages", "embed", "replace", "remove", "relay"} <= TARGETS.keys()


def in_process(name: str, *arguments: str) -> dict[str, object]:
    """Return the output of a target in its own process."""
    command = [sys.executable, "-m", "tools.fuzz", "--worker", name, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


@each_target
def test_a_target_holds_for_its_first_files_and_some_changes_of_them(name: str) -> None:
    number = len(TARGETS[name].first()) + len(seeds.found(name))
    assert number
    changes = len(some(range(60), 3))
    outcome = in_process(name, f"--executions={number + changes}", "--seconds=60")
    assert outcome["faults"] == []
    assert outcome["executions"] == number + changes
    assert int(outcome["memory"]) < 500 << 20  # type: ignore[call-overload]


@pytest.mark.parametrize("path", FOUND, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_was_found_is_mended(path: Path) -> None:
    assert Watch(TARGETS[path.parent.name]).run(path.read_bytes())[1] is None


@each_target
def test_the_numbers_of_a_file_lie_in_it(name: str) -> None:
    target = TARGETS[name]
    for data in target.first()[:20]:
        assert all(0 <= at <= at + size <= len(data) and size <= 8 for at, size in target.fields(data))


def test_the_numbers_are_those_that_the_layouts_name() -> None:
    data = (seeds.FIXTURES / "offload_binary" / "llvm-22-one.bin").read_bytes()
    fields = file_fields(data)
    assert Field(8, 8) in fields  # the size of the binary
    assert Field(0, 4) in fields  # the magic


def test_the_same_number_gives_the_same_changes() -> None:
    seed, other = Seed(bytes(range(100)), [Field(10, 8)]), Seed(b"x" * 50, [])
    made = [
        [Mutator(Random(number), [b"word"], is_text=True, largest=200).mutated(seed, other) for _ in range(1)]
        for number in (*range(50), *range(50))
    ]
    assert made[:50] == made[50:]
    assert len({data for (data,) in made}) > 30
    assert all(len(data) <= 200 for (data,) in made)


def planted(data: bytes) -> str:
    """Fail when the second number of a file is larger than the file."""
    if int.from_bytes(data[8:16], "little") > len(data) > 20:
        raise Failure("planted")
    return str(len(data) // 16)


def slow(data: bytes) -> str:
    if data[0:1] == b"\xff":
        while True:
            pass
    return ""


def test_a_planted_mistake_is_found_and_made_small() -> None:
    first = lambda: [bytes(8) + b"\x30" + bytes(7 + 80)]  # noqa: E731
    target = Target("planted", planted, first, lambda _: [Field(8, 8)], [b"word"])
    outcome = fuzz(target, seconds=20, executions=3000, number=0)
    ((fault, data),) = outcome.faults
    assert "planted" in fault.key
    assert len(data) == 21
    assert outcome.reached > 3


def test_a_run_without_end_is_ended() -> None:
    watch = Watch(Target("slow", slow, lambda: [b""], lambda _: [], []))
    assert watch.run(b"x")[1] is None
    fault = watch.run(b"\xff")[1]
    assert fault is not None
    assert fault.key.startswith("TooSlow")
    assert watch.slowest > 1


def test_a_run_that_is_slow_once_only_is_no_mistake() -> None:
    runs = []

    def slow_once(data: bytes) -> str:
        runs.append(data)
        return slow(data) if len(runs) == 1 else "fast"

    watch = Watch(Target("slow", slow_once, lambda: [b""], lambda _: [], []))
    assert watch.run(b"\xff") == ("fast", None)
    assert len(runs) == 2
    assert watch.slowest < 1


def test_the_command_prints_a_line_per_target() -> None:
    options = ["--engine=plain", "--executions=30", "--seconds=30"]
    command = [sys.executable, "-m", "tools.fuzz", *options, "archive", "bitcode"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[1].split() == ["target", "executions", "a", "second", "reached", "slowest", "memory", "faults"]
    assert [line.split()[0] for line in lines[2:]] == ["archive", "bitcode", "all"]
    assert lines[-1].split()[1] == "60"
