"""Where code refers to some addresses: calls and jumps, and addresses taken, found without decoding all of it."""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from fatpack.runtime.evidence.memory import Memory

#: how many instructions lie between the two that make an address on AArch64, at most
_NEAR = 16


def places(memory: Memory, targets: Collection[int]) -> Iterator[tuple[int, int]]:
    """Yield the addresses in code that may refer to one of some addresses, and which.

    What only looks like an instruction may be among them: whoever follows the code there finds out.
    """
    wanted = frozenset(targets)
    search = {"x86-64": _x86, "aarch64": _a64}.get(memory.machine)
    if search is None or not wanted:
        return
    for section in memory.sections:
        if section.is_code and len(section.data) and not section.name.startswith((".plt", ".iplt")):
            yield from search(section.address, memory.content(section), wanted)


def _x86(base: int, code: bytes, wanted: frozenset[int]) -> Iterator[tuple[int, int]]:
    number = struct.Struct("<i").unpack_from
    end = len(code) - 7
    for opcode in (b"\xe8", b"\xe9", b"\xff\x15", b"\xff\x25", b"\x8d", b"\x8b"):
        skip, find = len(opcode), code.find
        if opcode in (b"\x8d", b"\x8b"):
            for register in range(8):
                yield from _x86_at(base, code, opcode + bytes((register << 3 | 5,)), wanted)
            continue
        at = find(opcode)
        while 0 <= at <= end:
            target = base + at + skip + 4 + number(code, at + skip)[0]
            if target in wanted:
                yield base + at, target
            at = find(opcode, at + 1)
    # Programs at fixed addresses move them into registers.
    word = struct.Struct("<I").unpack_from
    for register in range(8):
        at, opcode = code.find(bytes((0xB8 | register,))), bytes((0xB8 | register,))
        while 0 <= at <= len(code) - 5:
            target = word(code, at + 1)[0]
            if target in wanted:
                yield base + at, target
            at = code.find(opcode, at + 1)


def _x86_at(base: int, code: bytes, opcode: bytes, wanted: frozenset[int]) -> Iterator[tuple[int, int]]:
    number, end = struct.Struct("<i").unpack_from, len(code) - 6
    at = code.find(opcode)
    while 0 <= at <= end:
        target = base + at + 6 + number(code, at + 2)[0]
        if target in wanted:
            yield base + at, target
        at = code.find(opcode, at + 1)


def _a64(base: int, code: bytes, wanted: frozenset[int]) -> Iterator[tuple[int, int]]:
    words = memoryview(code[: len(code) & ~3]).cast("I")
    pages = {target >> 12 for target in wanted}
    for index, word in enumerate(words):
        kind = word >> 24
        if kind & 0x7C == 0x14:  # B, BL
            offset = word & 0x3FFFFFF
            target = base + 4 * (index + (offset - (1 << 26) if offset >> 25 else offset))
            if target in wanted:
                yield base + 4 * index, target
        elif kind & 0x9F == 0x90:  # ADRP
            page = (word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3
            number = (base + 4 * index >> 12) + (page - (1 << 21) if page >> 20 else page)
            if number in pages:
                for after in words[index + 1 : index + _NEAR]:
                    low = after >> 10 & 0xFFF
                    is_add, is_load = after & 0xFFC00000 == 0x91000000, after & 0xFFC00000 == 0xF9400000
                    target = number << 12 | (low if is_add else low * 8)
                    if (is_add or is_load) and after >> 5 & 31 == word & 31 and target in wanted:
                        yield base + 4 * index, target
                        break
        elif kind & 0x9F == 0x10:  # ADR
            offset = (word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3
            target = base + 4 * index + (offset - (1 << 21) if offset >> 20 else offset)
            if target in wanted:
                yield base + 4 * index, target
