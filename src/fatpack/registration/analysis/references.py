"""Code that refers to some addresses (calls, jumps, addresses taken), found without decoding all of it.

An instruction holds an address as a distance. For all places within some hundred kilobytes the upper bytes of the
distance take a handful of values: a search for those in the code leaves a few places, and each is checked. Data that
looks like an instruction may be among them, once in some billions.
"""

from __future__ import annotations

import re
import struct
from contextlib import closing

from fatpack.concurrency.processes import map_in_processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from typing import TypeAlias

    from fatpack.binary.memory import MemorySection
    from fatpack.registration.analysis.registers import LinkedProgram

    #: a section of code, and where in it a part starts and ends
    CodePart: TypeAlias = tuple[MemorySection, int, int]

#: bytes of code that are searched at once, and in one task of a worker
STEP, PART = 1 << 19, 1 << 22

#: bytes of code below which every candidate is checked: making a regular expression would take longer
_SHORT = 1 << 14

#: LIMIT: pointers whose distances are searched for one by one; a program has one for each function of the runtimes
_SLOTS = 64

#: the most instructions between the two that make an address on AArch64
_NEAR = 16

#: BR X16
_BRANCH = b"\x00\x02\x1f\xd6"

_number = struct.Struct("<i").unpack_from

#: x86-64: call and jump; call and jump through a pointer; load of a pointer; and LEA (the last byte has the register)
_DIRECT, _INDIRECT = rb"[\xe8\xe9]", rb"\xff[\x15\x25]"
_LOADS, _TAKES = rb"\x8b[\x05\x0d\x15\x1d\x25\x2d\x35\x3d]", rb"\x8d[\x05\x0d\x15\x1d\x25\x2d\x35\x3d]"


def code_sections(program: LinkedProgram) -> Iterator[MemorySection]:
    """Yield the sections of code without the stubs of the PLT."""
    for section in program.sections:
        if section.is_code and len(section.data) and not section.name.startswith((".plt", ".iplt")):
            yield section


def code_parts(program: LinkedProgram) -> Iterator[CodePart]:
    """Yield the parts of the sections of code that workers search, each section read once for all of them."""
    for section in code_sections(program):
        size = len(program.content(section))
        for low in range(0, size, PART):
            yield section, low, min(low + PART, size)


def part_size(part: CodePart) -> int:
    """Return the bytes of a part of the code."""
    return part[2] - part[1]


def find_calls(
    program: LinkedProgram, section: MemorySection, low: int, high: int, targets: Collection[int]
) -> list[tuple[int, int, int]]:
    """Return the calls and jumps in a part of a section that lead to some addresses, or through pointers there.

    Each has its address, that of the next instruction, and the target, in order.
    """
    code, base = program.content(section), section.address
    direct, slots = frozenset(targets) - program.slots, frozenset(targets) & program.slots
    if program.machine == "aarch64":
        return [(at, at + 4, to) for at, to in _a64_calls(base, code, low, high, direct)]
    found = [(at, at + 5, to) for at, to in _x86(base, code, low, high, direct, _DIRECT, 1)]
    through = slots - program.jumped
    if not through:
        return found
    named = program.imports  # jumps of thunks are no calls
    found += [(at, at + 6, to) for at, to in _x86(base, code, low, high, through, _INDIRECT, 2) if at not in named]
    return sorted(found)


def find_thunks(program: LinkedProgram, section: MemorySection, slots: Collection[int]) -> Iterator[tuple[int, int]]:
    """Yield the thunks in a section that jump through one of ``slots``, with the slot."""
    code, base, wanted = program.content(section), section.address, frozenset(slots)
    for low in range(0, len(code), STEP):
        high = min(low + STEP, len(code))
        if program.machine == "aarch64":
            for at, slot in _a64_addresses(base, code, low, high, wanted):
                if code[at - base + 8 : at - base + 12] == _BRANCH:
                    yield at, slot
            continue
        for at, slot in _x86(base, code, low, high, wanted, rb"\xff\x25", 2):
            if code[at - base - 1 : at - base] != b"\x48":  # with a REX prefix it is a tail call
                yield at, slot


def pointer_loads(
    program: LinkedProgram, section: MemorySection, low: int, high: int, slots: Collection[int]
) -> list[int]:
    """Return the addresses of code in a part of a section that loads one of ``slots``, to call its target."""
    code, base = program.content(section), section.address
    if program.machine == "aarch64":
        return [at for at, _ in _a64_addresses(base, code, low, high, frozenset(slots))]
    return [at for at, _ in _x86(base, code, low, high, frozenset(slots), _LOADS, 2)]


def find_offsets(program: LinkedProgram, slots: Collection[int]) -> Iterator[int]:
    """Yield the places of code of the large model that hold the 64-bit distance of a slot from the GOT."""
    tables = [section.address for section in program.sections if section.name in (".got", ".got.plt")][:2]
    if program.machine != "x86-64" or len(slots) > _SLOTS:
        return
    for section in code_sections(program) if slots else ():
        code = program.content(section)
        for word in {(slot - table & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "little") for slot in slots for table in tables}:
            at = code.find(word)
            while at >= 0:
                yield section.address + at
                at = code.find(word, at + 8)


def find_code_references(program: LinkedProgram, targets: Collection[int]) -> Iterator[tuple[int, int]]:
    """Yield the addresses in code that call, jump to, or take one of ``targets``, with the target."""
    parts = list(code_parts(program))

    def work(part: CodePart) -> list[tuple[int, int]]:
        section, start, end = part
        steps = range(start, end, STEP)
        return [
            each
            for low in steps
            for each in find_code_references_in(program, section, low, min(low + STEP, end), targets)
        ]

    with closing(map_in_processes(parts, work, part_size, least=PART)) as found:
        for part, made in found:
            yield from work(part) if made is None else made.value


def address_taken(program: LinkedProgram, targets: Collection[int]) -> Iterator[tuple[int, int]]:
    """Yield the addresses in code that take one of ``targets``, without calls, with the target."""
    wanted = frozenset(targets)
    for section in code_sections(program):
        code, base = program.content(section), section.address
        for low in range(0, len(code), STEP):
            high = min(low + STEP, len(code))
            if program.machine == "aarch64":
                yield from _a64_addresses(base, code, low, high, wanted)
            else:
                yield from _x86(base, code, low, high, wanted, _TAKES, 2)
                yield from _x86_fixed(program, base, code, low, high, wanted)


def find_code_references_in(
    program: LinkedProgram, section: MemorySection, low: int, high: int, targets: Collection[int]
) -> Iterator[tuple[int, int]]:
    """Yield the references in a part of a section to ``targets``, with the target."""
    code, base, wanted = program.content(section), section.address, frozenset(targets)
    if program.machine == "aarch64":
        yield from _a64_calls(base, code, low, high, wanted)
        yield from _a64_addresses(base, code, low, high, wanted)
        return
    yield from _x86(base, code, low, high, wanted, _DIRECT, 1)
    yield from _x86(base, code, low, high, wanted, _TAKES, 2)
    yield from _x86_fixed(program, base, code, low, high, wanted)


def _x86_fixed(
    program: LinkedProgram, base: int, code: bytes, low: int, high: int, wanted: frozenset[int]
) -> list[tuple[int, int]]:
    """Return the places at which a program at a fixed address moves one of some addresses into a register."""
    if program.is_movable:
        return []
    uppers = {target >> 16 & 0xFFFF for target in wanted if target >> 32 == 0}
    if not uppers:
        return []
    pattern = _pattern(rb"[\xb8-\xbf]", uppers) if high - low > _SHORT else re.compile(rb"[\xb8-\xbf]")
    places = [match.start() for match in pattern.finditer(code, low, min(high + 4, len(code)))]
    found = [(base + at, int.from_bytes(code[at + 1 : at + 5], "little")) for at in places]
    return [(at, target) for at, target in found if target in wanted]


def _pattern(opcode: bytes, uppers: set[int]) -> re.Pattern[bytes]:
    """Return an expression for an opcode before a number whose upper two bytes are in ``uppers``."""
    third, fourth = _any({upper & 0xFF for upper in uppers}), _any({upper >> 8 for upper in uppers})
    return re.compile(opcode + b"(?=.." + third + fourth + b")", re.DOTALL)


def _any(values: set[int]) -> bytes:
    return b"[" + b"".join(b"\\x%02x" % value for value in sorted(values)) + b"]"


def _x86(
    base: int, code: bytes, low: int, high: int, wanted: frozenset[int], opcode: bytes, skip: int
) -> list[tuple[int, int]]:
    """Return the instructions that hold the distance of one of ``wanted`` from their end, with the target."""
    end, found = skip + 4, list[tuple[int, int]]()
    first, last = base + low, base + high + end
    uppers = {
        distance & 0xFFFF
        for page in {target >> 16 for target in wanted}
        for distance in range(page - (last >> 16) - 1, page - (first >> 16) + 2)
        if -0x8000 <= distance < 0x8000
    }
    if uppers:
        pattern = _pattern(opcode, uppers) if high - low > _SHORT else re.compile(opcode + b"(?=....)", re.DOTALL)
        code_end = base + end
        for match in pattern.finditer(code, low, min(high + end - 1, len(code))):
            at = match.start()
            target = code_end + at + _number(code, at + skip)[0]
            if target in wanted:
                found.append((base + at, target))
    return found


def _a64_calls(base: int, code: bytes, low: int, high: int, wanted: frozenset[int]) -> Iterator[tuple[int, int]]:
    """Yield each B and BL to one of ``wanted``, with the target; the distance has 26 bits and counts instructions."""
    uppers = {
        distance & 0x3FF
        for page in {target >> 18 for target in wanted}
        for distance in range(page - (base + high >> 18) - 1, page - (base + low >> 18) + 2)
        if -0x200 <= distance < 0x200
    }
    if not uppers:
        return
    tops = {0x14 | upper >> 8 for upper in uppers}
    pattern = _pair({upper & 0xFF for upper in uppers}, _any(tops | {top | 0x80 for top in tops}))
    for match in pattern.finditer(code, low, high):
        at = match.start() - 2
        if at >= low and not at & 3:
            offset = int.from_bytes(code[at : at + 4], "little") & 0x3FFFFFF
            target = base + at + 4 * (offset - (1 << 26) if offset >> 25 else offset)
            if target in wanted:
                yield base + at, target


def _a64_addresses(base: int, code: bytes, low: int, high: int, wanted: frozenset[int]) -> Iterator[tuple[int, int]]:
    """Yield each ADR, and ADRP with the instruction that adds the rest or loads, for one of ``wanted``."""
    first, last = base + low, base + high
    pages = {target >> 12 for target in wanted}
    for at, word in _a64_relative(code, low, high, _uppers(pages, first >> 12, last >> 12), rb"[\x90\xb0\xd0\xf0]"):
        number = (base + at >> 12) + _offset(word)
        if number in pages:
            yield from _second(base + at, code[at + 4 : at + 4 * _NEAR], word & 31, number << 12, wanted)
    for at, word in _a64_relative(code, low, high, _uppers(wanted, first, last), rb"[\x10\x30\x50\x70]"):
        if base + at + _offset(word) in wanted:
            yield base + at, base + at + _offset(word)


def _pair(third: set[int], fourth: bytes) -> re.Pattern[bytes]:
    """Return an expression for the third byte of an instruction before its fourth, at any place."""
    return re.compile(_any(third) + b"(?=" + fourth + b")")


def _uppers(wanted: Collection[int], first: int, last: int) -> set[int]:
    """Return the values of bits 13 to 20 of the distances from a range of places to ``wanted``."""
    groups = {each >> 13 for each in wanted}
    return {
        number & 0xFF
        for group in groups
        for number in range((group << 13) - last >> 13, ((group + 1 << 13) - 1 - first >> 13) + 1)
        if -0x80 <= number < 0x80
    }


def _offset(word: int) -> int:
    """Return the distance in an ADR or ADRP, in bytes or pages."""
    offset = (word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3
    return offset - (1 << 21) if offset >> 20 else offset


def _a64_relative(code: bytes, low: int, high: int, uppers: set[int], top: bytes) -> Iterator[tuple[int, int]]:
    if uppers:
        for match in _pair(uppers, top).finditer(code, low, high):
            at = match.start() - 2
            if at >= low and not at & 3:
                yield at, int.from_bytes(code[at : at + 4], "little")


def _second(at: int, code: bytes, register: int, page: int, wanted: frozenset[int]) -> Iterator[tuple[int, int]]:
    """Yield the address that a later instruction makes from the page of an ADRP, if it is wanted."""
    for place in range(0, len(code) - 3, 4):
        word = int.from_bytes(code[place : place + 4], "little")
        low = word >> 10 & 0xFFF
        is_add, is_load = word & 0xFFC00000 == 0x91000000, word & 0xFFC00000 == 0xF9400000
        if (is_add or is_load) and word >> 5 & 31 == register:
            target = page | (low if is_add else low * 8)
            if target in wanted:
                yield at, target
                return
        if word & 0x1F00001F == 0x10000000 | register:
            return  # another address is made
