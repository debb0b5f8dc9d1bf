"""The functions of a runtime that a stripped program has inside, named by what they are called with.

Nothing has a name there, but calls have a shape. Who is handed the address of a wrapper first registers it. Who is then
called with one string twice, third and fourth, registers a kernel if the second argument is code, or a pointer to code;
otherwise a variable. The function that a registered kernel's stub hands the kernel's own handle to launches it. Names
found so are likely at most.
"""

from __future__ import annotations

from fatpack.registration.analysis import functions, references, wrappers
from fatpack.registration.analysis.calls import ProgramCalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from fatpack.registration.analysis.registers import LinkedProgram
    from fatpack.registration.analysis.state import FollowedCall

#: LIMIT: functions that are followed for names, and bytes of them: a few show what all are called with
_FUNCTIONS, _BYTES = 512, 4 << 20

#: stubs that hand over their own address, and agree, for a name without any that is registered
_VOTES = 2


def identify_functions(program: LinkedProgram) -> bool:
    """Name what the calls of a program show; return whether there is any such name."""
    known = {each for each in program.imports.values() if each in functions.REGISTER_BINARY}
    found = False
    for model in functions.MODELS:
        registers = next(each for each, its in functions.REGISTER_BINARY.items() if its == model)
        places = {each.at for each in wrappers.find_wrappers(program) if each.model == model}
        if places and not known:
            shapes = _FunctionShapes(program, model)
            found = (shapes.can_follow() and shapes.named(places, registers)) or found
    return found


class _FunctionShapes:
    def __init__(self, program: LinkedProgram, model: str) -> None:
        self._program, self._model = program, model
        self._calls = ProgramCalls(program)
        self.can_follow = self._calls.can_follow
        self._followed: dict[int, list[FollowedCall]] = {}
        self._left = _BYTES

    def named(self, places: set[int], registers: str) -> bool:
        """Name the functions that wrappers at some places lead to; return whether there are any."""
        program = self._program
        binary: dict[int, int] = {}
        callers: set[int] = set()
        for start in sorted({program.start_of(at) for at, _ in references.find_code_references(program, places)}):
            for call in self._of(start):
                if call.target is not None and call.arguments[0] in places and self._is_code(call.target):
                    binary[call.target] = binary.get(call.target, 0) + 1
                    callers.add(start)
        target = _most(binary)
        if target is None:
            return False
        program.imports[target] = registers
        handles = self._name_functions(callers)
        self._name_launch(handles)
        return True

    def _name_functions(self, callers: set[int]) -> set[int]:
        """Name what registers kernels and variables, by the calls of who registers a wrapper and of those it calls."""
        program = self._program
        kernels: dict[int, int] = {}
        variables: dict[int, int] = {}
        handles: set[int] = set()
        next_ones = {call.target for start in callers for call in self._of(start) if call.target is not None}
        for start in sorted(callers | next_ones):
            for call in self._of(start):
                to, arguments = call.target, call.arguments
                if to is None or to in program.imports or len(arguments) < 4 or arguments[2] != arguments[3]:
                    continue
                if not arguments[1] or not arguments[2] or not program.string_at(arguments[2]):
                    continue
                if self._is_code(arguments[1]) or self._is_code(program.pointer_at(arguments[1])):
                    kernels[to] = kernels.get(to, 0) + 1
                    handles.add(arguments[1])
                else:
                    variables[to] = variables.get(to, 0) + 1
        for names, counts in ((functions.REGISTER_FUNCTION, kernels), (functions.REGISTER_VARIABLE, variables)):
            others = variables if counts is kernels else kernels
            target = _most({to: count for to, count in counts.items() if count >= others.get(to, 0)})
            if target is not None:
                program.imports.setdefault(target, next(each for each, its in names.items() if its == self._model))
        return handles

    def _name_launch(self, handles: set[int]) -> None:
        """Name what launches: by the stubs that hand over their own handle first."""
        program = self._program
        counts: dict[int, int] = {}
        for handle in sorted(handles):
            start = handle if self._is_code(handle) else program.pointer_at(handle) or 0
            for call in self._of(start):
                if call.target is not None and call.target not in program.imports and call.arguments[0] == handle:
                    counts[call.target] = counts.get(call.target, 0) + 1
                    break
        if not handles:
            counts = {to: count for to, count in self._own_addresses().items() if count >= _VOTES}
        target = _most(counts)
        if target is not None and (handles or len(counts) == 1):
            launch = {"cuda": "cudaLaunchKernel", "hip": "hipLaunchKernel"}[self._model]
            program.imports.setdefault(target, launch)

    def _own_addresses(self) -> dict[int, int]:
        """Return which functions are handed the address of their caller, or of a pointer to it, and how often."""
        program = self._program
        handles = dict(zip(program.begins(), program.begins(), strict=True))
        if self._model == "hip":
            handles = program.function_pointers()
        stubs: dict[int, set[int]] = {}
        for at, handle in references.address_taken(program, handles):
            start = program.start_of(at)
            if start == handles[handle]:
                stubs.setdefault(start, set()).add(handle)
        counts: dict[int, int] = {}
        for start in sorted(stubs)[:_FUNCTIONS]:
            for call in self._of(start):
                if call.target is not None and call.arguments[0] in stubs[start] and call.target != start:
                    counts[call.target] = counts.get(call.target, 0) + 1
                    break
        return counts

    def _of(self, start: int) -> Iterable[FollowedCall]:
        if start not in self._followed:
            function = self._program.function_at(start) if start else None
            if function is None or function.end - function.start > self._left or len(self._followed) >= _FUNCTIONS:
                return ()
            self._left -= function.end - function.start
            self._followed[start] = self._calls.calls_of(function)
        return self._followed[start]

    def _is_code(self, address: int | None) -> bool:
        section = self._program.section_at(address) if address else None
        return section is not None and section.is_code


def _most(counts: dict[int, int]) -> int | None:
    """Return what has most votes."""
    return max(counts, key=lambda each: (counts[each], -each)) if counts else None
