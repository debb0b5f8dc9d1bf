"""Measuring: commands run in turns, the best time and the largest peak of each, and the targets of figures."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
LAUNCHER = Path(__file__).with_name("launcher.py")

#: The command as a user gets it: the console script beside this interpreter.
FATPACK = Path(sys.executable).with_name("fatpack")

#: Folders searched for peer tools before PATH, as in the reference tests.
FOLDERS = ("/usr/lib/llvm-22/bin", os.environ.get("LLVM_BIN", ""), os.environ.get("FATPACK_REFERENCE_BIN", ""))

MB = 10**6

#: Cores that commands may use here, and those of the machine that is modelled
CORES, MODELLED = len(os.sched_getaffinity(0)), 16

#: Headings of a table of figures.
HEADS = ("what", "measured", "target", "verdict", "made of")


class BenchError(Exception):
    """A measurement cannot be made here; the message says why."""


def peer(name: str) -> str | None:
    """Return the path of a tool to compare with, None if it is not installed."""
    for folder in filter(None, FOLDERS):
        path = Path(folder) / name
        if path.exists():
            return str(path)
    return shutil.which(name)


def need(name: str) -> str:
    """Return the path of a tool that builds an input. Raises BenchError if it is missing."""
    path = peer(name)
    if path is None:
        raise BenchError(f"{name} is not installed")
    return path


@dataclass(frozen=True, slots=True)
class Command:
    """A command line to measure. ``outputs`` are files and folders removed before every run.

    ``is_bulk`` commands write much: pending writes of earlier runs are flushed before each. ``codes`` are the exit
    codes of success.
    """

    words: tuple[str, ...]
    outputs: tuple[Path, ...] = ()
    is_bulk: bool = False
    codes: tuple[int, ...] = (0,)

    def remove_outputs(self) -> None:
        """Remove the outputs of an earlier run."""
        for path in self.outputs:
            if path.is_dir():
                shutil.rmtree(path)
            path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Sample:
    """The shortest time and the least processor time of several runs in seconds, and the largest peak in bytes."""

    seconds: float
    processor: float
    peak: int

    def merged(self, other: Sample) -> Sample:
        """Return the sample of both runs."""
        return Sample(
            min(self.seconds, other.seconds), min(self.processor, other.processor), max(self.peak, other.peak)
        )


def command(
    *words: str | Path, outputs: Sequence[Path] = (), is_bulk: bool = False, codes: Sequence[int] = (0,)
) -> Command:
    """Return a command; the first word is looked up on PATH if it is no path."""
    first = str(words[0]) if os.sep in str(words[0]) else need(str(words[0]))
    return Command((first, *map(str, words[1:])), tuple(outputs), is_bulk, tuple(codes))


def fatpack(
    *words: str | Path, outputs: Sequence[Path] = (), is_bulk: bool = False, codes: Sequence[int] = (0,)
) -> Command:
    """Return a command line of fatpack."""
    return command(FATPACK, *words, outputs=outputs, is_bulk=is_bulk, codes=codes)


def measure(commands: Mapping[str, Command], rounds: int, *, is_warm: bool = False) -> dict[str, Sample]:
    """Run all commands once per round, so that a slow moment of the machine hits them all; return the best of each.

    One round before is not counted: it fills the page cache and the caches of compiled modules. ``is_warm`` says that
    something else did. Raises BenchError when a command fails.
    """
    samples: dict[str, Sample] = {}
    for number in range(is_warm, rounds + 1):
        for name, one in commands.items():
            sample = _run(one)
            old = samples.get(name)
            if number and old:
                samples[name] = old.merged(sample)
            elif number:
                samples[name] = sample
    return samples


def environment() -> dict[str, str]:
    """Return the environment of a measured command.

    Variables that set the folder of compiled modules, or trace imports, would be measured too, and are removed.
    """
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def _run(one: Command) -> Sample:
    one.remove_outputs()
    if one.is_bulk:
        os.sync()
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(LAUNCHER), *one.words], capture_output=True, text=True, env=environment()
    )
    facts = done.stdout.split()
    if done.returncode or len(facts) != 4 or int(facts[3]) not in one.codes:
        said = (done.stderr.strip() or f"exit code {facts[-1:]}").splitlines()[-1]
        raise BenchError(f"{' '.join(one.words[:3])} failed: {said}")
    return Sample(float(facts[0]), float(facts[1]), int(facts[2]) << 10)


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured number and its target. ``limit`` None: for information; ``is_floor``: larger is better.

    ``facts`` are the measurements it was made of, in words. ``peer`` is what a ratio of times compares us with: its
    time over ours if ``is_floor``, else ours over its. Figures that have one are drawn. ``points`` of a figure about
    growth: fatpack and its peers by name, each with amount of work, seconds of processor time and peak in bytes.
    """

    what: str
    value: float
    unit: str
    limit: float | None
    facts: str = ""
    is_floor: bool = False
    peer: str = ""
    points: tuple[tuple[str, tuple[tuple[int, float, int], ...]], ...] = ()

    @property
    def times_ours(self) -> float:
        """The peer's time as a multiple of fatpack's."""
        return self.value if self.is_floor else 1 / self.value

    @property
    def verdict(self) -> str:
        """``PASS``, ``over`` (or ``under`` a minimum), or ``-`` without a target."""
        if self.limit is None:
            return "-"
        if self.is_floor:
            return "PASS" if self.value >= self.limit else "under"
        return "PASS" if self.value <= self.limit else "over"

    def row(self) -> tuple[str, str, str, str, str]:
        """Return name, value, target, verdict and facts as printed."""
        target = "" if self.limit is None else f"{'>=' if self.is_floor else '<='} {self.limit:g}"
        return self.what, f"{self.value:.2f} {self.unit}", target, self.verdict, self.facts


def milliseconds(sample: Sample) -> str:
    """Return a sample's times in words; far less processor time than time means that something else kept it waiting."""
    return f"{sample.seconds * 1e3:.1f} ms (cpu {sample.processor * 1e3:.0f})"


def memory(what: str, sample: Sample, limit: float | None = 64) -> Figure:
    """Return the figure of a peak of memory, in MB."""
    return Figure(what, sample.peak / MB, "MB", limit)


def against(what: str, ours: Sample, peers: Sample | None, name: str, at_least: float | None = None) -> Figure:
    """Return the figure of a peer's time as a multiple of fatpack's."""
    if peers is None:
        return Figure(what, float("nan"), "x", None, f"{name} is not installed")
    facts = f"{name} {milliseconds(peers)}, {peers.peak / MB:.0f} MB"
    return Figure(what, peers.seconds / ours.seconds, "x", at_least, facts, is_floor=True, peer=name)


def on_more_cores(what: str, one: float, all: float, least: float) -> Figure:
    """Return what 16 cores would make of it by Amdahl's law, from the times on one and on the cores that are here."""
    serial = max((CORES * all - one) / (CORES - 1), 0)
    modelled = serial + (one - serial) / MODELLED
    facts = f"one core {one:.2f} s, {CORES} cores {all:.2f} s: serial {serial:.2f} s"
    return Figure(f"{what}: {MODELLED} cores, modelled", one / modelled, "x one core", least, facts, is_floor=True)
