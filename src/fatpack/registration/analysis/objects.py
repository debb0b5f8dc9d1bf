"""From references to calls: what objects register and launch, with which constants, and what runs before main.

Arguments stand before a call, so a call ends a group of references. In a group the registers tell which constant is
which argument; code that was not optimised moves constants through other registers, and then their kinds tell: the
name is a string, the handle is not.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from fatpack.record import Record
from fatpack.registration.analysis import functions
from fatpack.registration.analysis.objects_references import find_object_references

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fatpack.binary.host_object import ObjectMemory
    from fatpack.binary.memory import MemoryFunction
    from fatpack.registration.analysis.objects_references import CodeReference

#: LIMIT: functions that are looked at. The largest object known to us has some hundred that call a runtime.
_MOST = 1 << 14

#: how many calls deep constructors are followed
_DEPTH = 5


class ObjectCall(Record):
    """A call of a runtime's function: from which function (its address), where, and the constants before it."""

    name: str
    caller: int
    at: int
    group: tuple[CodeReference, ...]


#: bytes before a call in which its first argument is looked for
_NEAR = 96

#: XOR EDI, EDI and MOV EDI, 0; what else writes RDI: MOV from registers and memory, LEA, POP
_ZERO = re.compile(rb"[\x31\x33]\xff|\xbf\0\0\0\0")
_WRITES = re.compile(
    rb"[\x48-\x4f]?\x89[\xc7\xcf\xd7\xdf\xe7\xef\xf7\xff]|[\x8b\x8d][\x38-\x3f\x78-\x7f\xb8-\xbf]|\x5f"
)


class ObjectCalls:
    """The calls of an object, function by function."""

    def __init__(self, file: ObjectMemory) -> None:
        self.file = file
        self._named = {each.address: each.name for each in file.symbols if functions.is_runtime_function(each.name)}
        self._references: dict[int, Sequence[CodeReference]] = {}
        self.is_cut = False

    def all(self) -> list[ObjectCall]:
        """Return the calls of runtimes' functions, in the order of the code."""
        return [call for function in self._callers() for call in self._of(function)]

    def _callers(self) -> list[MemoryFunction]:
        """Return the functions that refer to one of a runtime."""
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
        """Return what a function refers to, in the order of its code."""
        if function.start not in self._references:
            self._references[function.start] = find_object_references(self.file, function)
        return self._references[function.start]

    def passes_null(self, call: ObjectCall) -> bool:
        """Return whether the code between a call and the one before it puts 0 into the first argument, and no more.

        On x86-64 for System V: XOR of EDI with itself, or MOV of 0; whatever else may write RDI there is no such call.
        """
        file, function = self.file, self.file.function_at(call.at)
        if file.machine != "x86-64" or function is None or file.arguments[:1] != (7,):
            return False
        before = [each.at for each in self.references(function) if each.is_call and each.at < call.at]
        start = max([function.start, call.at - _NEAR, *(at + 4 for at in before)])
        code = file.bytes_at(start, call.at - start)
        zero = max((match.end() for match in _ZERO.finditer(code)), default=-1)
        return zero >= 0 and not _WRITES.search(code, zero)

    def reached(self, roots: Iterable[int]) -> set[int]:
        """Return the functions that some lead to: by calls, and by handing on their addresses."""
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
    """Return what a call registers: the handle, None if it is not known, and the device's name for it, or ""."""
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
    """Return the handle that a launch takes, None if it is no constant."""
    argument = functions.LAUNCH[call.name]
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
    """Return whether the pointer at an address leads to a function: the handles of HIP are such."""
    section = file.section_at(address)
    if section is None or section.is_code:
        return False
    value = file.pointers(section).get(address)
    return value is not None and file.is_start(value)


def nearest_before(starts: Sequence[int], at: int) -> int:
    """Return the last of some addresses that is not behind another, -1 if there is none."""
    index = bisect_right(starts, at) - 1
    return starts[index] if index >= 0 else -1
