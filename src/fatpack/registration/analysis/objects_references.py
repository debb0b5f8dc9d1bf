"""What the code of an object refers to: its relocations, and what the instructions around them do.

No instruction is decoded but those that take an address or call: before the place of a relocation stand the opcode and
the register. What an assembler resolved itself, since caller and target are in one section, has no relocation: then
the opcode is looked for, and believed where it leads to the first byte of a function. (Intel's manual, volume 2; Arm's
architecture reference manual, A64.)
"""

from __future__ import annotations

from fatpack.binary.relocations import CALL, GOT, PAGE_OFFSET, POINTER, RELATIVE
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.binary.host_object import ObjectMemory
    from fatpack.binary.memory import MemoryFunction, MemorySection

#: a register that is not known
NO_REGISTER = -1

#: LIMIT: bytes of one function in which opcodes are looked for. Functions that register a thousand kernels have 50 kB.
_SEARCHED = 1 << 22


class CodeReference(Record):
    """A place in code, by address, and what it refers to: a call, or an address that is put into a ``register``."""

    at: int
    target: int
    is_call: bool
    register: int = NO_REGISTER


def find_object_references(file: ObjectMemory, function: MemoryFunction) -> list[CodeReference]:
    """Return what a function refers to, in the order of its code; nothing for processors that are not known."""
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
        # What is relative counts from the end of the instruction, 4 bytes behind the place. COFF means so already.
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
    """Yield what has no relocation, as caller and target are in one section."""
    for opcode, length in ((b"\xe8", 1), (b"\xe9", 1), (b"\x8d", 2)):
        at, is_call = code.find(opcode), length == 1
        while at >= 0:
            place = at + length
            # An address takes 7 bytes: a REX prefix, the opcode, and ModR/M for what is relative to the instruction.
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
    """Return the register of a ModR/M byte before a place, with the bit that a REX prefix adds."""
    prefix = code[at - 3] if at > 2 else 0
    return (code[at - 1] >> 3 & 7) | (8 if prefix & 0xF4 == 0x44 else 0)


def _immediate(code: bytes, at: int) -> int:
    """Return the register into which an immediate at a place is moved."""
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
