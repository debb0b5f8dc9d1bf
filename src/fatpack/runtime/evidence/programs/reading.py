"""The evidence of a linked ELF program: its code followed where it calls a runtime, and from constructors to there."""

from __future__ import annotations

from fatpack.runtime.evidence import entries, functions, wrappers
from fatpack.runtime.evidence.facts import Binary, Evidence, Launch, Registered
from fatpack.runtime.evidence.programs.constants import Follower
from fatpack.runtime.evidence.programs.search import places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from fatpack.runtime.evidence.memory import Function
    from fatpack.runtime.evidence.programs.constants import Followed
    from fatpack.runtime.evidence.programs.elf_code import ElfProgram

#: how many calls deep constructors are followed
_DEPTH = 5

#: LIMIT: functions that are followed. The largest library known to us has some ten thousand that launch a kernel.
_MOST = 1 << 17


def evidence(program: ElfProgram) -> Evidence:
    """Return what a program shows. Raises ImportError without capstone."""
    return _Reading(program).evidence()


class _Reading:
    def __init__(self, program: ElfProgram) -> None:
        self.program = program
        self._follower = Follower(program)
        self._followed: dict[int, tuple[list[Followed], set[int]]] = {}

    def _of(self, function: Function) -> tuple[list[Followed], set[int]]:
        if function.start not in self._followed and len(self._followed) < _MOST:
            self._followed[function.start] = self._follower.calls(function)
        return self._followed.get(function.start, ([], set()))

    def _holding(self, targets: Iterable[int]) -> dict[int, Function]:
        """Return the functions that refer to some addresses."""
        found = {}
        for at, _ in places(self.program, frozenset(targets)):
            function = self.program.function_at(at)
            if function is not None:
                found[function.start] = function
        return found

    def evidence(self) -> Evidence:
        program = self.program
        imports = program.imports
        stubs = {
            each.address: each.name for each in program.symbols if each.is_function and functions.STUB in each.name
        }
        called: dict[str, int] = dict.fromkeys(program.dynamic, 0)
        binaries: list[Binary] = []
        registered: list[Registered] = []
        launches: list[Launch] = []
        callbacks: set[int] = set()
        unread = 0
        callers = self._holding(imports)
        for start, function in sorted(callers.items()):
            if start in imports and not imports[start].startswith(functions.LINKED_BINARY):
                continue  # the runtime's own, in a program that has it inside
            for each in self._of(function)[0]:
                name = imports.get(each.target or 0)
                if name is None:
                    continue
                called[name] = called.get(name, 0) + 1
                model, arguments = functions.model_of(name), each.arguments
                if name in functions.REGISTER_BINARY:
                    binaries.append(Binary(model, each.at, start, arguments[0]))
                elif name in functions.REGISTER_FUNCTION or name in functions.REGISTER_VARIABLE:
                    is_kernel = name in functions.REGISTER_FUNCTION
                    text = program.string_at(arguments[3] or 0)
                    is_read = bool(text) and arguments[1] is not None
                    unread += is_kernel and not is_read
                    if is_read or not is_kernel:
                        registered.append(Registered(model, each.at, start, text, arguments[1], is_kernel))
                elif name.startswith(functions.LINKED_BINARY) and arguments[1]:
                    callbacks.add(arguments[1])
                elif name in functions.LAUNCH:
                    handle = arguments[functions.LAUNCH[name]]
                    if handle is not None and self._is_handle(handle):
                        launches.append(Launch(model or "openmp", each.at, start, handle))
        constructors = tuple(program.constructors())
        wanted = {binary.caller for binary in binaries} | {each.caller for each in registered}
        # What the device link of nvcc defines is called by the constructors of other files, too.
        linked = {at for at, name in imports.items() if name.startswith(functions.LINKED_BINARY)}
        reached = self._reached(wanted, {each.function for each in constructors} | callbacks | linked)
        return Evidence(
            program,
            True,
            stubs,
            called,
            tuple(binaries),
            tuple(registered),
            tuple(launches),
            wrappers.wrappers(program),
            tuple(entries.tables(program)),
            constructors,
            frozenset(reached),
            tuple(sorted({name for name in called if name.startswith(functions.LINKED_BINARY)})),
            unread,
        )

    def _is_handle(self, handle: int) -> bool:
        section = self.program.section_at(handle)
        return section is not None and handle not in self.program.imports

    def _reached(self, wanted: set[int], roots: set[int]) -> set[int]:
        """Return which functions constructors lead to: from the functions backwards, as constructors lead anywhere."""
        leads: dict[int, set[int]] = {}
        level = set(wanted)
        seen: set[int] = set()
        for _ in range(_DEPTH):
            level -= roots | seen
            if not level:
                break
            seen |= level
            following: set[int] = set()
            for start, function in self._holding(level).items():
                followed, taken = self._of(function)
                for target in {each.target for each in followed if each.target is not None} | taken:
                    if target in level and target != start:
                        leads.setdefault(start, set()).add(target)
                        following.add(start)
            level = following
        todo = sorted((wanted | set(leads)) & roots)
        reached: set[int] = set()
        while todo:
            start = todo.pop()
            if start not in reached:
                reached.add(start)
                todo.extend(leads.get(start, ()))
        return reached
