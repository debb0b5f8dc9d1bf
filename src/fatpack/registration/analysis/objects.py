"""Registrations and launches in relocatable objects: calls with their constants, and functions that run before main.

Arguments are set before a call, so a call ends a group of references. In a group the registers show the argument that
each constant is for. Code that was not optimised moves constants through other registers; then their kinds decide: the
name is a string, the handle is not.
"""

from __future__ import annotations

import re

from fatpack.binary.memory import CALL, GOT, PAGE_OFFSET, POINTER, RELATIVE
from fatpack.record import Record
from fatpack.registration.analysis import entries, model
from fatpack.registration.analysis.model import (
    FUNCTION_NAMES,
    LAUNCH,
    LAUNCH_ADDRESS,
    LINKED_BINARY,
    REGISTER_BINARY,
    REGISTER_FUNCTION,
    REGISTER_VARIABLE,
    STUB,
    BinaryCall,
    LaunchCall,
    RegisterCall,
    RegistrationEvidence,
    find_wrappers,
    function_model,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fatpack.binary.memory import MemoryFunction, MemorySection, ObjectMemory
    from fatpack.io.source import View


# References of an object's code: relocations, and the instructions around them.
#
# Only instructions that take an address or call are decoded: the opcode and the register are right before the place of
# a relocation. A reference that an assembler resolved itself, within one section, has no relocation: its opcode is
# searched for, and accepted if it leads to the first byte of a function. (Intel's manual, volume 2; Arm's architecture
# reference manual, A64.)

#: an unknown register
NO_REGISTER = -1

#: LIMIT: bytes of one function that are searched for opcodes. Functions that register a thousand kernels have 50 kB.
_SEARCHED = 1 << 22


class CodeReference(Record):
    """A place in code, by address, and its target: a call, or an address that is put into a ``register``."""

    at: int
    target: int
    is_call: bool
    register: int = NO_REGISTER


def find_object_references(file: ObjectMemory, function: MemoryFunction) -> list[CodeReference]:
    """Return the references of a function, in the order of its code; none for unknown processors."""
    section = file.section_at(function.start)
    if section is None or file.machine not in _READERS:
        return []
    start, end = function.start - section.address, function.end - section.address
    code = section.data.head(start, min(end - start, _SEARCHED)) if start < len(section.data) else b""
    return sorted(_READERS[file.machine](file, section, start, code), key=lambda reference: reference.at)


def _x86(file: ObjectMemory, section: MemorySection, start: int, code: bytes) -> Iterator[CodeReference]:
    base = section.address + start
    taken: set[int] = set()
    for place, way, symbol, addend in file.relocations(section).between(start, start + len(code)):
        at = place - start
        taken.add(at)
        if at + 4 > len(code) or not at:
            continue
        stored = int.from_bytes(code[at : at + 4], "little", signed=True)
        # Relative values count from the end of the instruction, 4 bytes after the place. COFF's already do.
        if way == POINTER:
            target = symbol + (stored if addend is None else addend)
            yield CodeReference(base + at, target, False, _immediate(code, at))
            continue
        target = symbol + (stored if addend is None else addend + 4)
        before, opcode = code[at - 1], code[at - 2] if at > 1 else 0
        if way == GOT or symbol in file.slots:
            if opcode == 0xFF and before in (0x15, 0x25):
                yield CodeReference(base + at, target, True)
            elif opcode == 0x8B and before & 0xC7 == 5:
                yield CodeReference(base + at, target, False, _register(code, at))
        elif way in (RELATIVE, CALL):
            if opcode == 0x8D and before & 0xC7 == 5:
                yield CodeReference(base + at, target, False, _register(code, at))
            elif before in (0xE8, 0xE9) or (opcode == 0x0F and before & 0xF0 == 0x80):
                yield CodeReference(base + at, target, True)
    yield from _x86_resolved(file, base, code, taken)


def _x86_resolved(file: ObjectMemory, base: int, code: bytes, taken: set[int]) -> Iterator[CodeReference]:
    """Yield the references within one section, which have no relocation."""
    for opcode, length in ((b"\xe8", 1), (b"\xe9", 1), (b"\x8d", 2)):
        at, is_call = code.find(opcode), length == 1
        while at >= 0:
            place = at + length
            # An address takes 7 bytes: a REX prefix, the opcode, and the ModR/M byte for an address relative to RIP.
            if place not in taken and place + 4 <= len(code) and (is_call or _is_relative(code, at)):
                target = base + place + 4 + int.from_bytes(code[place : place + 4], "little", signed=True)
                if file.is_start(target):
                    yield CodeReference(
                        base + place, target, is_call, NO_REGISTER if is_call else _register(code, place)
                    )
            at = code.find(opcode, at + 1)


def _is_relative(code: bytes, at: int) -> bool:
    return at > 0 and code[at - 1] in (0x48, 0x4C) and code[at + 1] & 0xC7 == 5


def _register(code: bytes, at: int) -> int:
    """Return the register in the ModR/M byte before a place, with the bit that a REX prefix adds."""
    prefix = code[at - 3] if at > 2 else 0
    return (code[at - 1] >> 3 & 7) | (8 if prefix & 0xF4 == 0x44 else 0)


def _immediate(code: bytes, at: int) -> int:
    """Return the register that an immediate at a place is moved into."""
    before, opcode = code[at - 1], code[at - 2] if at > 1 else 0
    if before & 0xF8 == 0xB8:
        return (before & 7) | (8 if opcode & 0xF1 == 0x41 else 0)
    if opcode == 0xC7 and before & 0xF8 == 0xC0:
        prefix = code[at - 3] if at > 2 else 0
        return (before & 7) | (8 if prefix & 0xF1 == 0x41 else 0)
    return NO_REGISTER


def _a64(file: ObjectMemory, section: MemorySection, start: int, code: bytes) -> Iterator[CodeReference]:
    base, taken = section.address + start, set()
    for place, way, symbol, addend in file.relocations(section).between(start, start + len(code)):
        at = place - start
        taken.add(at)
        if at + 4 > len(code):
            continue
        word = int.from_bytes(code[at : at + 4], "little")
        if way == CALL:
            offset = _signed(word & 0x3FFFFFF, 26) * 4 if addend is None else addend
            yield CodeReference(base + at, symbol + offset, True)
        elif way in (PAGE_OFFSET, GOT, RELATIVE):
            offset = word >> 10 & 0xFFF if addend is None and way == PAGE_OFFSET else addend or 0
            yield CodeReference(base + at, symbol + offset, False, word & 31)
    for at in range(0, len(code) - 3, 4):
        if at in taken:
            continue
        word = int.from_bytes(code[at : at + 4], "little")
        if word >> 26 & 0x1F == 5:  # B and BL
            target = base + at + _signed(word & 0x3FFFFFF, 26) * 4
            if file.is_start(target):
                yield CodeReference(base + at, target, True)
        elif word & 0x9F000000 == 0x10000000:  # ADR
            target = base + at + _signed((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21)
            if file.is_start(target):
                yield CodeReference(base + at, target, False, word & 31)


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> bits - 1 else value


_READERS = {"x86-64": _x86, "aarch64": _a64}


#: LIMIT: functions that are read. The largest object known to us has some hundred that call a runtime.
_MOST = 1 << 14

#: depth of the calls from constructors that are followed
_DEPTH = 5


class ObjectCall(Record):
    """A call of a runtime function: its name, the addresses of its caller and itself, and the constants before it."""

    name: str
    caller: int
    at: int
    group: tuple[CodeReference, ...]


#: bytes before a call that are searched for its first argument
_NEAR = 96

#: XOR EDI, EDI and MOV EDI, 0; other instructions that write RDI: MOV from registers and memory, LEA, POP. Compiled at
#: the first search.
_ZERO = rb"[\x31\x33]\xff|\xbf\0\0\0\0"
_WRITES = rb"[\x48-\x4f]?\x89[\xc7\xcf\xd7\xdf\xe7\xef\xf7\xff]|[\x8b\x8d][\x38-\x3f\x78-\x7f\xb8-\xbf]|\x5f"


class ObjectCalls:
    """The calls of an object, function by function."""

    def __init__(self, file: ObjectMemory) -> None:
        self.file = file
        self._named = {each.address: each.name for each in file.symbols if model.is_runtime_function(each.name)}
        self._references: dict[int, Sequence[CodeReference]] = {}
        self.is_cut = False

    def all(self) -> list[ObjectCall]:
        """Return the calls of runtime functions, in the order of the code."""
        return [call for function in self._callers() for call in self._of(function)]

    def _callers(self) -> list[MemoryFunction]:
        """Return the functions that refer to a runtime function."""
        file = self.file
        found: dict[int, MemoryFunction] = {}
        for section in file.sections:
            if not section.is_code:
                continue
            for place, _, symbol, _ in file.relocations(section).rows:
                if symbol in self._named:
                    function = file.function_at(section.address + place)
                    if function is not None:
                        found[function.start] = function
        callers = [found[start] for start in sorted(found)]
        self.is_cut = self.is_cut or len(callers) > _MOST
        return callers[:_MOST]

    def _of(self, function: MemoryFunction) -> Iterable[ObjectCall]:
        group: list[CodeReference] = []
        for reference in self.references(function):
            name = self._named.get(reference.target)
            if reference.is_call:
                if name is not None:
                    yield ObjectCall(name, function.start, reference.at, tuple(group))
                group = []
            else:
                group.append(reference)

    def references(self, function: MemoryFunction) -> Sequence[CodeReference]:
        """Return the references of a function, in the order of its code."""
        if function.start not in self._references:
            self._references[function.start] = find_object_references(self.file, function)
        return self._references[function.start]

    def passes_null(self, call: ObjectCall) -> bool:
        """Return whether the code before a call sets the first argument to 0, after any call before it.

        Only for x86-64 and System V: XOR of EDI with itself, or MOV of 0, and no other instruction that may write RDI.
        """
        file, function = self.file, self.file.function_at(call.at)
        if file.machine != "x86-64" or function is None or file.arguments[:1] != (7,):
            return False
        before = [each.at for each in self.references(function) if each.is_call and each.at < call.at]
        start = max([function.start, call.at - _NEAR, *(at + 4 for at in before)])
        code = file.bytes_at(start, call.at - start)
        zero = max((match.end() for match in re.finditer(_ZERO, code)), default=-1)
        return zero >= 0 and not re.compile(_WRITES).search(code, zero)

    def reached(self, roots: Iterable[int]) -> set[int]:
        """Return the functions that ``roots`` reach: by calls, and by passing on their addresses."""
        file, level = self.file, set(roots)
        found: set[int] = set()
        for _ in range(_DEPTH + 1):
            following: set[int] = set()
            for address in level - found:
                function = file.function_at(address)
                if function is None or function.start != address or len(found) > _MOST:
                    continue
                found.add(address)
                following.update(each.target for each in self.references(function) if file.is_start(each.target))
            level = following
        return found


def handle_and_name(file: ObjectMemory, call: ObjectCall) -> tuple[int | None, str]:
    """Return the handle that a call registers (None: unknown), and the device's name for it, or ""."""
    by_register = {reference.register: reference.target for reference in call.group}
    order = file.arguments
    strings = [(each.target, text) for each in call.group if (text := file.string_at(each.target))]
    handle = by_register.get(order[1]) if len(order) > 3 else None
    name = file.string_at(by_register.get(order[3], 0)) if len(order) > 3 else ""
    if not name and strings:
        name = strings[-1][1]
    if handle is None or file.string_at(handle):
        named = {target for target, _ in strings}
        others = {each.target for each in call.group if each.target not in named}
        handle = others.pop() if len(others) == 1 else None
    return handle, name


def launched_handle(file: ObjectMemory, call: ObjectCall, *, is_stub: bool) -> int | None:
    """Return the handle of a launch, None if it is not a constant."""
    argument = model.LAUNCH[call.name]
    register = file.arguments[argument] if len(file.arguments) > argument else None
    found = next((each.target for each in reversed(call.group) if each.register == register), None)
    if found is not None and file.section_at(found) is not None:
        return found
    if not is_stub:
        return None
    starts = [each.target for each in call.group if file.is_start(each.target)]
    if starts:
        return starts[-1]
    slots = [each.target for each in call.group if holds_function(file, each.target)]
    return slots[-1] if slots else None


def holds_function(file: ObjectMemory, address: int) -> bool:
    """Return whether the pointer at an address leads to a function, as a handle of HIP does."""
    section = file.section_at(address)
    if section is None or section.is_code:
        return False
    value = file.pointers(section).get(address)
    return value is not None and file.is_start(value)


# The evidence of an object, from its symbols and relocations.


def read_object(view: View, host: str) -> ObjectMemory:
    """Return the memory image of an object. Raises FormatError."""
    if host == "elf":
        from fatpack.binary.elf.object_memory import ElfObjectMemory

        return ElfObjectMemory(view)
    from fatpack.binary.coff.object_memory import CoffObjectMemory

    return CoffObjectMemory(view)


def object_evidence(file: ObjectMemory) -> RegistrationEvidence:
    """Return the evidence of an object."""
    calls = ObjectCalls(file)
    stubs = {each.address: each.name for each in file.symbols if each.is_function and STUB in each.name}
    links = sorted({each.name for each in file.symbols if each.name.startswith(LINKED_BINARY)})
    named = [each.address for each in file.symbols if each.is_defined and each.name.startswith(LINKED_BINARY)]
    binaries: list[BinaryCall] = []
    registered: list[RegisterCall] = []
    launches: list[LaunchCall] = []
    called: dict[str, int] = {}
    nulls: list[int] = []
    unread = 0
    found = find_wrappers(file)
    records = {each.at for each in found}
    for call in calls.all():
        name = call.name
        called[name] = called.get(name, 0) + 1
        model = function_model(name)
        if name in REGISTER_BINARY:
            binaries.append(BinaryCall(model, call.at, call.caller, _wrapper(file, call, records)))
        elif name in REGISTER_FUNCTION or name in REGISTER_VARIABLE:
            is_kernel = name in REGISTER_FUNCTION
            handle, title = handle_and_name(file, call)
            unread += is_kernel and (handle is None or not title)
            registered.append(RegisterCall(model, call.at, call.caller, title, handle, is_kernel))
        elif name in LAUNCH:
            handle = launched_handle(file, call, is_stub=call.caller in stubs)
            if handle is None and name in LAUNCH_ADDRESS and calls.passes_null(call):
                nulls.append(call.at)
            elif handle is not None:
                launches.append(LaunchCall(model or "openmp", call.at, call.caller, handle))
    for each in file.symbols:  # referred to, but not by calls that can be read
        if each.name in FUNCTION_NAMES and not each.is_defined and each.address in file.referred:
            called.setdefault(each.name, 0)
    constructors = tuple(file.constructors())
    reached = calls.reached([*(each.function for each in constructors), *named])
    return RegistrationEvidence(
        file,
        False,
        stubs,
        called,
        tuple(binaries),
        tuple(registered),
        tuple(launches),
        found,
        tuple(entries.find_entry_tables(file)),
        constructors,
        frozenset(reached) if file.arguments else None,
        tuple(links),
        unread,
        nulls=tuple(nulls),
    )


def _wrapper(file: ObjectMemory, call: ObjectCall, known: set[int]) -> int | None:
    """Return the wrapper that a call registers: by its register, or the only address that could be one."""
    register = file.arguments[0] if file.arguments else None
    found = next((each.target for each in reversed(call.group) if each.register == register), None)
    if found is not None and file.section_at(found) is not None:
        return found
    inside = {each.target for each in call.group if file.section_at(each.target) is not None}
    wanted = inside & known or inside
    return wanted.pop() if len(wanted) == 1 else None
