"""Calls of runtime functions in programs, with their arguments.

::

    code ─► search: calls of stubs and slots ─► the run of instructions before each call sets its arguments
                                                     └─ not readable ─► the function is followed from its start

Most calls have their constants right before them, and reading those costs a microsecond or two. The others are
followed, up to a limit.
"""

from __future__ import annotations

from contextlib import closing

from fatpack.concurrency.processes import map_in_processes
from fatpack.record import Record
from fatpack.registration.analysis import model, references
from fatpack.registration.analysis.x86 import InstructionRuns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from fatpack.binary.memory import MemoryFunction, MemorySection
    from fatpack.registration.analysis.aarch64 import Aarch64Follower
    from fatpack.registration.analysis.references import CodePart
    from fatpack.registration.analysis.registers import FollowedCall, LinkedProgram, RegisterState
    from fatpack.registration.analysis.x86 import X86Follower

#: LIMIT: bytes of functions that are followed, a million of them in about a second: those that register, and those that
#: launch. A large library has a few hundred launches that need this, and tens of thousands that do not.
FOLLOWED, FOLLOWED_LAUNCHES = 6 << 20, 1 << 20

#: LIMIT: calls that are read; the parts of the code after them count as functions that were not followed. The largest
#: library known to us has 134,000.
_MOST = 1 << 20

#: the arguments that matter, for calls that register a container, and a named kernel
_BINARY, _NAMED = (0,), (1, 3)
_TRACKED = 1, 3, 2

#: address of a call, its target, its arguments by number (None: not read)
CallSite = tuple[int, int, tuple[int | None, ...] | None]


class CallSites(Record):
    """All calls of a runtime's functions in order.

    ``unfollowed`` is the number of functions that were not followed, ``skipped`` that of the calls that register
    kernels and are never executed: those in loops over tables without entries.
    """

    sites: list[CallSite]
    unfollowed: int
    skipped: int = 0


def wanted_arguments(name: str) -> tuple[int, ...]:
    """Return the numbers of the arguments of a function that matter."""
    if name in model.REGISTER_BINARY:
        return _BINARY
    if name in model.REGISTER_FUNCTION or name in model.REGISTER_VARIABLE:
        return _NAMED
    return (model.LAUNCH[name],) if name in model.LAUNCH else ()


class ProgramCalls:
    """Finds the calls of a program and reads them."""

    def __init__(self, program: LinkedProgram) -> None:
        self._program = program
        wanted = {address: wanted_arguments(name) for address, name in program.imports.items()}
        passed = len(program.arguments)  # in registers: arguments on the stack are not read
        self._wanted = {at: each if all(number < passed for number in each) else () for at, each in wanted.items()}
        self._runs: dict[tuple[int, tuple[int, ...]], InstructionRuns] = {}
        self._follower: Aarch64Follower | X86Follower | None = None
        self._skipped = 0

    def sites(self) -> CallSites:
        """Return the calls. Without capstone, functions of x86-64 are not followed."""
        program = self._program
        parts = list(references.code_parts(program))
        for section in references.code_sections(program):  # made once, for all workers: the regular expressions
            for wanted in {each for each in self._wanted.values() if each}:
                self._run(section, wanted)
        found: list[CallSite] = []
        whole: set[int] = set()
        left = 0
        with closing(map_in_processes(parts, self._part, references.part_size, least=references.PART)) as shared:
            for part, made in shared:
                if len(found) > _MOST:
                    left += 1
                    continue
                sites, starts = self._part(part) if made is None else made.value
                found += sites
                whole.update(starts)
        if not any(program.imports[target] in model.REGISTER_BINARY for _, target, _ in found):
            whole.update(program.start_of(at) for at in references.find_offsets(program, program.slots))
        return self._completed(found, whole, left)

    def _part(self, part: CodePart) -> tuple[list[CallSite], list[int]]:
        """Return the calls in a part of a section, and the functions that call through a register."""
        section, low, high = part
        program, base = self._program, section.address
        found: list[CallSite] = []
        starts: list[int] = []
        start = stop = before = 0
        slots = program.slots - program.jumped
        is_read = program.machine == "x86-64"
        runs = {to: self._run(section, wanted) for to, wanted in self._wanted.items() if wanted and is_read}
        for step in range(low, high, references.STEP):
            end = min(step + references.STEP, high)
            for at, after, target in references.find_calls(program, section, step, end, program.imports):
                values = None
                if target in runs:
                    if not start <= at < stop:
                        start, stop = program.bounds(at)
                    if start >= base:
                        values = runs[target].values(max(before, start) - base, at - base)
                found.append((at, target, None if values is None else _agreed(values)))
                before = after
            if slots:
                starts += [program.start_of(at) for at in references.pointer_loads(program, section, step, end, slots)]
        return found, starts

    def _run(self, section: MemorySection, wanted: tuple[int, ...]) -> InstructionRuns:
        """Return the reader of runs of instructions in a section, for some arguments."""
        program, key = self._program, (section.number, wanted)
        if key not in self._runs:
            registers = [program.arguments[number] for number in _tracked(wanted)]
            self._runs[key] = InstructionRuns(program.content(section), section.address, registers, program.loaded)
        return self._runs[key]

    def _completed(self, found: list[CallSite], whole: set[int], unfollowed: int) -> CallSites:
        """Return the calls; those with unknown arguments are read by following their functions from the start."""
        program = self._program
        inside = {at for at in program.imports if at not in program.slots and program.function_at(at) is not None}
        todo: dict[int, int] = {}
        for start in whole:
            todo[start] = 0
        for at, target, values in found:
            if values is None and self._wanted[target]:
                start = program.start_of(at)
                rank = 1 if program.imports[target] in model.LAUNCH else 0
                todo[start] = min(rank, todo.get(start, rank))
        ranges = {start: program.function_at(start) for start in todo if start not in inside}
        left = [FOLLOWED, FOLLOWED_LAUNCHES] if self.can_follow() else [0, 0]
        followed: dict[int, list[CallSite]] = {}
        for start in sorted(ranges, key=lambda start: (todo[start], _size(ranges[start]))):
            function = ranges[start]
            if function is None:
                continue
            if _size(function) > left[todo[start]]:
                unfollowed += 1
                continue
            left[todo[start]] -= _size(function)
            followed[start] = list(self.followed(function))
        if not followed:
            return CallSites(found, unfollowed, self._skipped)
        kept = [site for site in found if program.start_of(site[0]) not in followed]
        for sites in followed.values():
            kept += sites
        return CallSites(sorted(kept, key=lambda site: site[0]), unfollowed, self._skipped)

    def followed(self, function: MemoryFunction) -> Iterable[CallSite]:
        """Yield the calls of a runtime's functions in one function, which is followed from its start."""
        state = self._state_of(function)
        skipped = state.drop_skipped() if state is not None else []
        names = [self._program.imports.get(each.target or 0) for each in skipped]
        self._skipped += sum(name in model.REGISTER_FUNCTION for name in names)
        for each in state.calls if state is not None else ():
            if each.target in self._wanted:
                wanted = self._wanted[each.target]
                yield each.at, each.target, tuple(each.arguments[number] for number in wanted)

    def calls_of(self, function: MemoryFunction) -> list[FollowedCall]:
        """Return all calls and jumps out of a function. Raises ImportError if capstone is needed and not installed."""
        state = self._state_of(function)
        return [] if state is None else state.calls

    def _state_of(self, function: MemoryFunction) -> RegisterState | None:
        section = self._program.section_at(function.start)
        if section is None:
            return None
        at = function.start - section.address
        code = self._program.content(section)[at : at + function.end - function.start]
        return self._follow(code, function.start)

    def can_follow(self) -> bool:
        """Return whether functions can be followed: for x86-64 this needs capstone."""
        if self._program.machine == "aarch64":
            return True
        from fatpack.registration.analysis.x86 import is_available

        return is_available()

    def _follow(self, code: bytes, start: int) -> RegisterState:
        if self._follower is None:
            if self._program.machine == "aarch64":
                from fatpack.registration.analysis.aarch64 import Aarch64Follower

                self._follower = Aarch64Follower(self._program)
            else:
                from fatpack.registration.analysis.x86 import X86Follower

                self._follower = X86Follower(self._program)
        return self._follower.follow(code, start)


def _agreed(values: list[int | None]) -> tuple[int | None, ...] | None:
    """Return the arguments of a call; None if one is unknown, or if the two arguments for a name differ."""
    if None in values:
        return None
    if len(values) == len(_TRACKED):
        return (values[0], values[1]) if values[1] == values[2] else None
    return tuple(values)


def _tracked(wanted: tuple[int, ...]) -> tuple[int, ...]:
    """Return the numbers of the arguments to read: a name is passed twice, and both must be the same."""
    return _TRACKED if wanted == _NAMED else wanted


def _size(function: MemoryFunction | None) -> int:
    return 0 if function is None else function.end - function.start
