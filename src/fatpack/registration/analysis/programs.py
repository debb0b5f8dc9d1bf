"""The evidence of a linked program: what it calls a runtime with, and the constructors that lead there."""

from __future__ import annotations

from fatpack.registration.analysis import by_shape, entries, functions, references, wrappers
from fatpack.registration.analysis.calls import ProgramCalls
from fatpack.registration.analysis.model import BinaryCall, LaunchCall, RegisterCall, RegistrationEvidence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from fatpack.registration.analysis.registers import LinkedProgram

#: how many calls deep constructors are followed
_DEPTH = 5

#: what is only counted
_COUNTED = frozenset((*functions.PUSH, *functions.POP))

#: LIMIT: bytes of constructors that are searched before all other code
_CONSTRUCTORS = 1 << 22


def program_evidence(program: LinkedProgram) -> tuple[RegistrationEvidence, bool]:
    """Return what a program shows, and whether its functions could be followed: those of x86-64 take capstone."""
    return _EvidenceReader(program).evidence(), ProgramCalls(program).can_follow()


class _EvidenceReader:
    def __init__(self, program: LinkedProgram) -> None:
        self._program = program
        self._binaries: list[BinaryCall] = []
        self._registered: list[RegisterCall] = []
        self._launches: list[LaunchCall] = []
        self._callbacks: set[int] = set()
        self._nulls: list[int] = []
        self._unread = 0
        self._loops: set[int] = set()

    def evidence(self) -> RegistrationEvidence:
        program = self._program
        is_by_shape = by_shape.identify_functions(program)
        imports = program.imports
        called: dict[str, int] = dict.fromkeys(program.dynamic, 0)
        sites = ProgramCalls(program).sites()
        models = {name: functions.function_model(name) for name in imports.values()}
        own = {at for at in imports if program.is_start(at) and not imports[at].startswith(functions.LINKED_BINARY)}
        for at, target, values in sites.sites:
            name = imports[target]
            if values is None and not own and name in _COUNTED:
                called[name] = called.get(name, 0) + 1
                continue
            start = program.start_of(at)
            if start not in own:  # the runtime's own, in a program that has it inside
                called[name] = called.get(name, 0) + 1
                self._take(at, start, name, models[name], values)
        constructors = program.constructors()
        wanted = {binary.caller for binary in self._binaries} | {each.caller for each in self._registered}
        # What the device link of nvcc defines is called by the constructors of other files, too.
        linked = {at for at, name in imports.items() if name.startswith(functions.LINKED_BINARY)}
        reached = self._reached(wanted, {each.function for each in constructors} | self._callbacks | linked)
        if program.is_windows:  # any pointer to a function looks like one
            constructors = [each for each in constructors if each.function in reached]
        tables = tuple(entries.find_entry_tables(program))
        return RegistrationEvidence(
            program,
            True,
            program.stubs(),
            called,
            tuple(self._binaries),
            tuple(self._registered),
            tuple(self._launches),
            wrappers.find_wrappers(program),
            tables,
            tuple(constructors),
            frozenset(reached),
            tuple(sorted({name for name in called if name.startswith(functions.LINKED_BINARY)})),
            self._unread,
            sites.unfollowed,
            is_by_shape=is_by_shape,
            walked=self._walked({table.section.address for table in tables}) if self._loops and tables else None,
            nulls=tuple(self._nulls),
        )

    def _take(self, at: int, start: int, name: str, model: str, values: tuple[int | None, ...] | None) -> None:
        """Take note of one call."""
        if name in functions.REGISTER_FUNCTION or name in functions.REGISTER_VARIABLE:
            is_kernel = name in functions.REGISTER_FUNCTION
            handle, place = values if values else (None, None)
            text = self._program.string_at(place or 0)
            is_read = bool(text) and handle is not None
            if is_kernel and not is_read:
                self._unread += 1
                self._loops.add(start)
            if is_read or not is_kernel:
                self._registered.append(RegisterCall(model, at, start, text, handle, is_kernel))
        elif name in functions.LAUNCH:
            handle = values[0] if values else None
            if handle == 0 and name in functions.LAUNCH_ADDRESS:
                self._nulls.append(at)
            if handle is not None and self._is_handle(handle):
                self._launches.append(LaunchCall(model or "openmp", at, start, handle))
        elif name in functions.REGISTER_BINARY:
            self._binaries.append(BinaryCall(model, at, start, values[0] if values else None))
        elif name.startswith(functions.LINKED_BINARY) and values and values[0]:
            self._callbacks.add(values[0])

    def _walked(self, tables: set[int]) -> frozenset[int] | None:
        """Return which tables of entries the loops that register go through: those whose address their code takes.

        In PE images the bounds of a table are variables beside it, and other code may hold one: nothing is said there.
        """
        program = self._program
        if program.is_windows:
            return None
        slots = {place: to for section in program.sections for place, to in program.pointers(section).items()}
        slots = {place: to for place, to in slots.items() if to in tables}
        found: set[int] = set()
        for start in self._loops:
            function, section = program.function_at(start), program.section_at(start)
            if function is None or section is None:
                return None
            low, high = function.start - section.address, function.end - section.address
            taken = references.find_code_references_in(program, section, low, high, tables | set(slots))
            found.update(slots.get(to, to) for _, to in taken)
            found.update(
                to for slot, to in slots.items() if references.pointer_loads(program, section, low, high, {slot})
            )
            code = program.content(section)[low:high]
            found.update(each for each in tables if each >> 32 == 0 and each.to_bytes(4, "little") in code)
        return frozenset(found)

    def _is_handle(self, handle: int) -> bool:
        return self._program.section_at(handle) is not None and handle not in self._program.imports

    def _reached(self, wanted: set[int], roots: set[int]) -> set[int]:
        """Return which functions constructors lead to: from the functions backwards, as constructors lead anywhere."""
        leads: dict[int, set[int]] = {}
        level, seen = set(wanted), set[int]()
        for _ in range(_DEPTH):
            level -= roots | seen
            if not level:
                break
            seen |= level
            following = self._leading(level, self._from(roots, level), leads)
            rest = level - {target for targets in leads.values() for target in targets}
            if rest:
                following |= self._leading(rest, references.find_code_references(self._program, rest), leads)
            level = following
        todo = sorted((wanted | set(leads)) & roots)
        reached: set[int] = set()
        while todo:
            start = todo.pop()
            if start not in reached:
                reached.add(start)
                todo.extend(leads.get(start, ()))
        return reached

    def _leading(self, level: set[int], places: Iterable[tuple[int, int]], leads: dict[int, set[int]]) -> set[int]:
        """Return the functions with places that refer to some others, and take note to which."""
        found: set[int] = set()
        for at, target in places:
            start = self._program.start_of(at)
            if start and target in level and start != target:
                leads.setdefault(start, set()).add(target)
                found.add(start)
        return found

    def _from(self, roots: Collection[int], targets: Collection[int]) -> Iterable[tuple[int, int]]:
        """Yield where constructors refer to some functions: asked first, as that is usual and constructors are few."""
        program = self._program
        left = _CONSTRUCTORS
        for root in sorted(roots):
            function, section = program.function_at(root), program.section_at(root)
            if function is not None and section is not None and function.end - function.start <= left:
                left -= function.end - function.start
                low = function.start - section.address
                yield from references.find_code_references_in(
                    program, section, low, low + function.end - function.start, targets
                )
