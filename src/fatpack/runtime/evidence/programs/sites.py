"""Calls of the runtimes' functions in programs, and what they are called with.

::

    code ─► search: calls of stubs and slots ─► what the run of instructions before each makes of its arguments
                                                     └─ not read that way ─► the function followed from its start

Most calls have their constants right before them, and reading those costs a microsecond or two. What is left is
followed, as far as the bound on that goes.
"""

from __future__ import annotations

from fatpack.processes import with_processes
from fatpack.record import Record
from fatpack.runtime.evidence import functions
from fatpack.runtime.evidence.programs import search
from fatpack.runtime.evidence.programs.x86_runs import Runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from fatpack.runtime.evidence.memory import Function, Section
    from fatpack.runtime.evidence.programs.a64 import A64
    from fatpack.runtime.evidence.programs.program import Program
    from fatpack.runtime.evidence.programs.state import Followed
    from fatpack.runtime.evidence.programs.x86 import X86

#: LIMIT: bytes of functions that are followed; a million of them takes about a second.
FOLLOWED = 6 << 20

#: bytes of code that one worker takes at a time
_PART = 1 << 22

#: what a call says → the arguments that matter
_BINARY, _NAMED, _LINK = (0,), (1, 3), (1,)

#: address of a call, where it leads to, its arguments by number (None: not read)
Site = tuple[int, int, tuple[int | None, ...] | None]


class Sites(Record):
    """All calls of a runtime's functions in order; ``unfollowed`` are the functions that nobody followed."""

    sites: list[Site]
    unfollowed: int


def wanted_of(name: str) -> tuple[int, ...]:
    """Return which arguments of a function matter, by number."""
    if name in functions.REGISTER_BINARY:
        return _BINARY
    if name in functions.REGISTER_FUNCTION or name in functions.REGISTER_VARIABLE:
        return _NAMED
    if name in functions.LAUNCH:
        return (functions.LAUNCH[name],)
    return _LINK if name.startswith(functions.LINKED_BINARY) else ()


class Calls:
    """Finds the calls of a program and reads them."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._wanted = {address: wanted_of(name) for address, name in program.imports.items()}
        self._runs: dict[tuple[int, tuple[int, ...]], Runs] = {}
        self._follower: A64 | X86 | None = None

    def sites(self) -> Sites:
        """Return the calls. Raises ImportError where code of x86-64 must be followed and capstone is not there."""
        program = self._program
        parts = [
            (section, low, min(low + _PART, len(section.data)))
            for section in search.code_of(program)
            for low in range(0, len(section.data), _PART)
        ]
        for section, _, _ in parts:
            program.content(section)  # read once, for all workers
        found: list[Site] = []
        whole: set[int] = set()
        for part, made in with_processes(parts, lambda part: self._part(*part), lambda part: part[2] - part[1]):
            sites, starts = self._part(*part) if made is None else made.value
            found += sites
            whole.update(starts)
        return self._completed(found, whole)

    def _part(self, section: Section, low: int, high: int) -> tuple[list[Site], list[int]]:
        """Return the calls in a part of a section, and the functions that call through a register."""
        program, base = self._program, section.address
        found: list[Site] = []
        starts: list[int] = []
        before = 0
        slots = program.slots - program.jumped
        for step in range(low, high, search.STEP):
            end = min(step + search.STEP, high)
            for at, after, target in search.calls(program, section, step, end, program.imports):
                wanted = self._wanted[target]
                values = None
                if wanted:
                    start = max(before, program.start_of(at))
                    values = self._values(section, start - base, at - base, wanted) if start >= base else None
                found.append((at, target, values))
                before = after
            if slots:
                starts += [program.start_of(at) for at in search.loads(program, section, step, end, slots)]
        return found, starts

    def _values(
        self, section: Section, start: int, call: int, wanted: tuple[int, ...]
    ) -> tuple[int | None, ...] | None:
        program = self._program
        if program.machine != "x86-64":
            return None
        key = section.number, wanted
        runs = self._runs.get(key)
        if runs is None:
            registers = [program.arguments[number] for number in _tracked(wanted)]
            runs = self._runs[key] = Runs(program.content(section), section.address, registers, program.loaded)
        values = runs.values(start, call)
        if values is None or None in values or (wanted == _NAMED and values[1] != values[2]):
            return None
        return tuple(values[: len(wanted)])

    def _completed(self, found: list[Site], whole: set[int]) -> Sites:
        """Return the calls with those whose arguments were not read followed from the start of their functions."""
        program = self._program
        inside = {at for at in program.imports if at not in program.slots and program.function_at(at) is not None}
        todo: dict[int, int] = {}
        for start in whole:
            todo[start] = 0
        for at, target, values in found:
            if values is None and self._wanted[target]:
                start = program.start_of(at)
                rank = 1 if program.imports[target] in functions.LAUNCH else 0
                todo[start] = min(rank, todo.get(start, rank))
        ranges = {start: program.function_at(start) for start in todo if start not in inside}
        left, unfollowed = FOLLOWED, 0
        followed: dict[int, list[Site]] = {}
        for start in sorted(ranges, key=lambda start: (todo[start], _size(ranges[start]))):
            function = ranges[start]
            if function is None:
                continue
            if _size(function) > left:
                unfollowed += 1
                continue
            left -= _size(function)
            followed[start] = list(self.followed(function))
        if not followed:
            return Sites(found, unfollowed)
        kept = [site for site in found if program.start_of(site[0]) not in followed]
        for sites in followed.values():
            kept += sites
        return Sites(sorted(kept, key=lambda site: site[0]), unfollowed)

    def followed(self, function: Function) -> Iterable[Site]:
        """Yield the calls of one function, by following it from its start."""
        program = self._program
        section = program.section_at(function.start)
        if section is None:
            return
        at = function.start - section.address
        code = program.content(section)[at : at + function.end - function.start]
        for each in self._follow(code, function.start):
            if each.target in self._wanted:
                wanted = self._wanted[each.target]
                in_registers = all(number < len(each.arguments) for number in wanted)
                values = tuple(each.arguments[number] for number in wanted) if in_registers else None
                yield each.at, each.target, values

    def _follow(self, code: bytes, start: int) -> list[Followed]:
        if self._follower is None:
            if self._program.machine == "aarch64":
                from fatpack.runtime.evidence.programs.a64 import A64

                self._follower = A64(self._program)
            else:
                from fatpack.runtime.evidence.programs.x86 import X86

                self._follower = X86(self._program)
        return self._follower.follow(code, start).calls


def _tracked(wanted: tuple[int, ...]) -> tuple[int, ...]:
    """Return which arguments are read: those with a name have it twice, which must be the same."""
    return (1, 3, 2) if wanted == _NAMED else wanted


def _size(function: Function | None) -> int:
    return 0 if function is None else function.end - function.start
