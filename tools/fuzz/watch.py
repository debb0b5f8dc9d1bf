"""One run of a target with its exceptions, its time, and the memory of the process."""

from __future__ import annotations

import os
import resource
import signal
import time
import traceback
from typing import NamedTuple

from tools.fuzz.checks import Failure
from tools.fuzz.targets import Target

#: Seconds of processor time for a megabyte, and for the smallest file: reading, labelling and writing it several times.
SECONDS_PER_MB, LEAST_SECONDS = 2.0, 0.5

#: A run that takes this multiple of its allowed time is ended.
_PATIENCE = 4

#: LIMIT: bytes of the process in memory.
MEMORY = 500 << 20


class Fault(NamedTuple):
    """A fault of a file: ``key`` is the same for files that show the same mistake."""

    key: str
    text: str


class TooSlow(Exception):
    """The run was ended."""


class Watch:
    """Runs a target, and remembers the slowest file and the most memory."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.slowest = 0.0
        self.memory = _memory()
        signal.signal(signal.SIGPROF, _end)

    def run(self, data: bytes) -> tuple[str, Fault | None]:
        """Return the description of a run, and its fault, if any.

        A slow run is repeated: a busy machine can make any run slow, but rarely two.
        """
        words, fault, taken = self._once(data)
        if fault is not None and fault.key.startswith(("slow", TooSlow.__name__)):
            again = self._once(data)
            words, fault, taken = min((words, fault, taken), again, key=lambda run: run[2])
        self.slowest = max(self.slowest, taken)
        memory = _memory()
        if memory > MEMORY and self.memory <= MEMORY and fault is None:
            fault = Fault("memory", f"the process needs {memory >> 20} MB, {MEMORY >> 20} are allowed")
        self.memory = max(self.memory, memory)
        return words, fault

    def _once(self, data: bytes) -> tuple[str, Fault | None, float]:
        allowed = max(LEAST_SECONDS, SECONDS_PER_MB * len(data) / (1 << 20))
        signal.setitimer(signal.ITIMER_PROF, allowed * _PATIENCE)
        start = time.process_time()
        words, fault = "", None
        try:
            words = self._target.run(data)
        except Exception as error:  # noqa: BLE001  (any exception is a finding of the fuzzer)
            fault = _fault(error)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        taken = time.process_time() - start
        if fault is None and taken > allowed:
            fault = Fault(f"slow: {words[:40]}", f"{taken:.2f} s for {len(data)} bytes, {allowed:.2f} s are allowed")
        return words, fault, taken


def _fault(error: Exception) -> Fault:
    """Return an exception as a fault; its key is the place in fatpack that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/fatpack/" in frame.filename] or frames
    place = f"{ours[-1].filename.rpartition('/src/')[2]}:{ours[-1].name}"
    kind = type(error).__name__
    what = f"{kind} {error}"[:60] if isinstance(error, Failure) else kind
    return Fault(f"{what} in {place}", "".join(traceback.format_exception(error))[-4000:])


def _memory() -> int:
    """Return the peak memory of the process in bytes."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    if most > MEMORY and os.path.exists("/proc/self/status"):
        # Linux counts the parent's peak at the start of this program (getrusage(2)); VmHWM is the program's own.
        with open("/proc/self/status") as status:
            most = next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))
    return most


def _end(*_: object) -> None:
    raise TooSlow("it was ended")
