"""The evidence in a linked program: its calls of a runtime, and the constructors that reach them."""

from __future__ import annotations

from fatpack.registration.analysis import descriptors, entries, model, references
from fatpack.registration.analysis.calls import ProgramCalls
from fatpack.registration.analysis.model import (
    DESCRIBED,
    LAUNCH,
    LAUNCH_ADDRESS,
    LINKED_BINARY,
    MODELS,
    POP,
    PUSH,
    REGISTER_BINARY,
    REGISTER_FUNCTION,
    REGISTER_VARIABLE,
    BinaryCall,
    LaunchCall,
    RegisterCall,
    RegistrationEvidence,
    find_wrappers,
    function_model,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Set

    from fatpack.registration.analysis.registers import FollowedCall, LinkedProgram


# Names for the functions of a runtime inside a stripped program, inferred from their arguments.
#
# The first function that gets the address of a wrapper as its first argument registers the wrapper. A function called
# next to it with one string as third and fourth argument registers a kernel if the second argument is code, or a
# pointer to code; otherwise a variable. The function that gets a registered handle from the handle's own stub launches
# it. Names found in this way are likely at most.
#
# A function that gets the address of a function and then that of a wrapper is one that nvcc's device link defines: it
# registers the linked wrapper, and calls the given functions, which register kernels (crt/link.stub of CUDA 13.0).

#: LIMIT: functions that are followed for names, and bytes of them: a few are enough to infer all names
_FUNCTIONS, _BYTES = 512, 4 << 20

#: stubs that must pass their own address to one function before it is named, if no handle is registered
_VOTES = 2


def identify_functions(program: LinkedProgram, described: Mapping[str, Set[int]]) -> bool:
    """Name the runtime functions by the shape of their calls; return whether any was found.

    ``described`` are the addresses of descriptors and offload binaries by model.
    """
    known = {each for each in program.imports.values() if each in REGISTER_BINARY}
    found = False
    for runtime, addresses in described.items():
        registers = next(each for each, its in REGISTER_BINARY.items() if its == runtime)
        if addresses and registers not in known:
            shapes = _FunctionShapes(program, runtime)
            found = (shapes.can_follow() and shapes.described(addresses, registers)) or found
    for runtime in MODELS:
        registers = next(each for each, its in REGISTER_BINARY.items() if its == runtime)
        places = {each.at for each in find_wrappers(program) if each.model == runtime}
        if places and not known:
            shapes = _FunctionShapes(program, runtime)
            found = (shapes.can_follow() and shapes.named(places, registers)) or found
    return found


class _FunctionShapes:
    def __init__(self, program: LinkedProgram, runtime: str) -> None:
        self._program, self._model = program, runtime
        self._calls = ProgramCalls(program)
        self.can_follow = self._calls.can_follow
        self._followed: dict[int, list[FollowedCall]] = {}
        self._left = _BYTES

    def named(self, places: set[int], registers: str) -> bool:
        """Name the functions that get the addresses of wrappers; return whether there are any."""
        program = self._program
        binary: dict[int, int] = {}
        callers: set[int] = set()
        links: set[int] = set()
        for start in sorted({program.start_of(at) for at, _ in references.find_code_references(program, places)}):
            for call in self._of(start):
                if call.target is None or not self._is_code(call.target):
                    continue
                first, second = call.arguments[:2]
                if first in places:
                    binary[call.target] = binary.get(call.target, 0) + 1
                    callers.add(start)
                elif first is not None and second in places and self._is_code(first) and self._model == "cuda":
                    links.add(call.target)
                    callers.add(first)
        target = _most(binary)
        if target is None:
            return False
        program.imports[target] = registers
        for link in links:
            program.imports.setdefault(link, f"{LINKED_BINARY}{link:x}")
        handles = self._name_functions(callers)
        self._name_launch(handles)
        return True

    def described(self, places: Set[int], registers: str) -> bool:
        """Name the function to which a constructor passes the address of a descriptor; return whether there is one.

        The function that a destructor passes it to is another.
        """
        program = self._program
        constructors = {each.function for each in program.constructors()}
        for start in sorted({program.start_of(at) for at, _ in references.find_code_references(program, places)}):
            for call in self._of(start) if start in constructors else ():
                if call.target is not None and call.arguments[0] in places and self._is_code(call.target):
                    program.imports[call.target] = registers
                    return True
        return False

    def _name_functions(self, callers: set[int]) -> set[int]:
        """Name the functions that register kernels and variables; return the handles of the kernels.

        Read are the functions that register a wrapper, and the functions they call.
        """
        program = self._program
        kernels: dict[int, int] = {}
        variables: dict[int, int] = {}
        handles: set[int] = set()
        next_ones = {call.target for start in callers for call in self._of(start) if call.target is not None}
        for start in sorted(callers | next_ones):
            for call in self._of(start):
                to, arguments = call.target, call.arguments
                if to is None or to in program.imports or len(arguments) < 4 or not arguments[1]:
                    continue
                # A managed variable has its initial value where the others have the name twice.
                if not arguments[2] or not program.string_at(arguments[3] or 0):
                    continue
                is_code = self._is_code(arguments[1]) or self._is_code(program.pointer_at(arguments[1]))
                if is_code and arguments[2] == arguments[3]:
                    kernels[to] = kernels.get(to, 0) + 1
                    handles.add(arguments[1])
                elif not is_code:
                    variables[to] = variables.get(to, 0) + 1
        target = _most({to: count for to, count in kernels.items() if count >= variables.get(to, 0)})
        if target is not None:
            name = next(each for each, its in REGISTER_FUNCTION.items() if its == self._model)
            program.imports.setdefault(target, name)
        # Variables, textures and surfaces have functions of their own.
        name = next(each for each, its in REGISTER_VARIABLE.items() if its == self._model)
        for to, count in variables.items():
            if count >= kernels.get(to, 0):
                program.imports.setdefault(to, name)
        return handles

    def _name_launch(self, handles: set[int]) -> None:
        """Name the launching function: stubs pass it their own handle as the first or the second argument."""
        program = self._program
        counts: dict[tuple[int, int], int] = {}
        for handle in sorted(handles):
            start = handle if self._is_code(handle) else program.pointer_at(handle) or 0
            found = self._launching(start, handle)
            if found is None:  # code that was not optimized: the handle's function calls the stub
                nested = (call.target for call in self._of(start) if call.target is not None)
                found = next((each for to in nested if (each := self._launching(to, handle)) is not None), None)
            if found is not None:
                counts[found] = counts.get(found, 0) + 1
        if not handles:
            counts = {(to, 0): count for to, count in self._own_addresses().items() if count >= _VOTES}
        best = max(counts, key=lambda each: (counts[each], each), default=None)
        if best is not None and (handles or len(counts) == 1):
            names = {("cuda", 0): "cudaLaunchKernel", ("cuda", 1): "__cudaGetKernel", ("hip", 0): "hipLaunchKernel"}
            if (self._model, best[1]) in names:
                program.imports.setdefault(best[0], names[self._model, best[1]])

    def _launching(self, start: int, handle: int) -> tuple[int, int] | None:
        """Return the first function that the one at an address hands a handle, and the number of the argument."""
        for call in self._of(start):
            if call.target is not None and call.target not in self._program.imports and call.target != start:
                for number in (0, 1):
                    if call.arguments[number] == handle:
                        return call.target, number
        return None

    def _own_addresses(self) -> dict[int, int]:
        """Return the number of calls of each function with the address of its caller, or of a pointer to that."""
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
    """Return the key with the most votes."""
    return max(counts, key=lambda each: (counts[each], -each)) if counts else None


#: depth of the calls from constructors that are followed
_DEPTH = 5

#: functions whose calls are only counted
_COUNTED = frozenset((*PUSH, *POP))

#: LIMIT: bytes of constructors that are searched before all other code
_CONSTRUCTORS = 1 << 22


def _described(program: LinkedProgram) -> dict[str, set[int]]:
    """Return the addresses of the descriptors and offload binaries of OpenMP and SYCL, by model."""
    if not any(descriptors.holds_images(section) for section in program.sections):
        return {}
    found: dict[str, set[int]] = {name: set() for name in DESCRIBED}
    for each in descriptors.find_descriptors(program, tuple(entries.find_entry_tables(program))):
        found[each.model].add(each.at)
    found["sycl"].update(descriptors.find_sycl_binaries(program))
    return found


def program_evidence(program: LinkedProgram) -> tuple[RegistrationEvidence, bool]:
    """Return the evidence in a program, and whether its functions can be followed (for x86-64: with capstone)."""
    return _EvidenceReader(program).evidence(), ProgramCalls(program).can_follow()


class _EvidenceReader:
    def __init__(self, program: LinkedProgram) -> None:
        self._program = program
        self._binaries: list[BinaryCall] = []
        self._registered: list[RegisterCall] = []
        self._launches: list[LaunchCall] = []
        self._nulls: list[int] = []
        self._unread = 0
        self._loops: set[int] = set()

    def evidence(self) -> RegistrationEvidence:
        program = self._program
        described = _described(program)
        is_by_shape = identify_functions(program, described)
        imports = program.imports
        called: dict[str, int] = dict.fromkeys(program.dynamic, 0)
        sites = ProgramCalls(program).sites()
        models = {name: function_model(name) for name in imports.values()}
        own = {at for at in imports if program.is_start(at) and not imports[at].startswith(LINKED_BINARY)}
        for at, target, values in sites.sites:
            name = imports[target]
            if values is None and not own and name in _COUNTED:
                called[name] = called.get(name, 0) + 1
                continue
            start = program.start_of(at)
            if start not in own:  # calls inside the runtime itself, if the program contains it
                called[name] = called.get(name, 0) + 1
                self._take(at, start, name, models[name], values)
        constructors = program.constructors()
        wanted = {binary.caller for binary in self._binaries} | {each.caller for each in self._registered}
        # The functions that nvcc's device link defines are called by constructors of other files, too.
        linked = {at for at, name in imports.items() if name.startswith(LINKED_BINARY)}
        reached = self._reached(wanted, {each.function for each in constructors} | linked)
        if program.is_windows:  # any pointer to a function may be a constructor
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
            model.find_wrappers(program),
            tables,
            tuple(constructors),
            frozenset(reached),
            tuple(sorted({name for name in called if name.startswith(LINKED_BINARY)})),
            self._unread,
            sites.unfollowed,
            is_by_shape=is_by_shape,
            walked=self._walked({table.section.address for table in tables}) if self._loops and tables else None,
            nulls=tuple(self._nulls),
            skipped=sites.skipped,
            mentioned=self._mentioned(set().union(*described.values()), {each.function for each in constructors}),
        )

    def _mentioned(self, places: set[int], roots: set[int]) -> frozenset[int] | None:
        """Return the descriptors that code refers to which constructors reach; None if data refers to one, too."""
        program = self._program
        if not places or descriptors.places_of(program, places):
            return None
        by: dict[int, set[int]] = {}
        for at, place in references.find_code_references(program, places):
            by.setdefault(program.start_of(at), set()).add(place)
        reached = self._reached(set(by), roots)
        return frozenset().union(*(found for start, found in by.items() if start in reached or not start))

    def _take(self, at: int, start: int, name: str, model: str, values: tuple[int | None, ...] | None) -> None:
        """Record one call."""
        if name in REGISTER_FUNCTION or name in REGISTER_VARIABLE:
            is_kernel = name in REGISTER_FUNCTION
            handle, place = values if values else (None, None)
            text = self._program.string_at(place or 0)
            is_read = bool(text) and handle is not None
            if is_kernel and not is_read:
                self._unread += 1
                self._loops.add(start)
            if is_read or not is_kernel:
                self._registered.append(RegisterCall(model, at, start, text, handle, is_kernel))
        elif name in LAUNCH:
            handle = values[0] if values else None
            if handle == 0 and name in LAUNCH_ADDRESS:
                self._nulls.append(at)
            if handle is not None and self._is_handle(handle):
                self._launches.append(LaunchCall(model or "openmp", at, start, handle))
        elif name in REGISTER_BINARY:
            self._binaries.append(BinaryCall(model, at, start, values[0] if values else None))

    def _walked(self, tables: set[int]) -> frozenset[int] | None:
        """Return the tables of entries that the registering loops read: their code takes the address of the table.

        None for PE images: there the bounds of a table are variables beside it, whose addresses other code may hold.
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
        """Return the functions that constructors reach, searched backwards: constructors may call any function."""
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
        """Return the functions with references to the functions in ``level``, and record the edges in ``leads``."""
        found: set[int] = set()
        for at, target in places:
            start = self._program.start_of(at)
            if start and target in level and start != target:
                leads.setdefault(start, set()).add(target)
                found.add(start)
        return found

    def _from(self, roots: Collection[int], targets: Collection[int]) -> Iterable[tuple[int, int]]:
        """Yield the references of constructors to some functions. These few are usual, so they are searched first."""
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
