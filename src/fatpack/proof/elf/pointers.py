"""What pointers of an ELF program hold when it runs: the word in place, or what a relocation of ``DT_RELA`` says.

A relocation of ``DT_REL`` or ``DT_RELR`` adds to the word in place, which so is the address as the file states it.
(gABI, "Relocation"; types by the processors' supplements, as pyelftools knows them.)
"""

from __future__ import annotations

import struct

from fatpack.proof.memory import WINDOW
from fatpack.proof.proof_records import RecordPointer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from fatpack.proof.elf.reader import ProofElfFile

    Addend = tuple[int | None, int]

#: e_machine → name of pyelftools' table of relocation types
_TABLES = {
    "EM_X86_64": "ENUM_RELOC_TYPE_x64",
    "EM_AARCH64": "ENUM_RELOC_TYPE_AARCH64",
    "EM_PPC64": "ENUM_RELOC_TYPE_PPC64",
    "EM_PPC": "ENUM_RELOC_TYPE_PPC",
    "EM_S390": "ENUM_RELOC_TYPE_S390X",
    "EM_LOONGARCH": "ENUM_RELOC_TYPE_LOONGARCH",
}
_POINTERS = {8: ("_64", "_ABS64", "_ADDR64"), 4: ("_32", "_ABS32", "_ADDR32")}

#: pyelftools has no table for RISC-V: the ELF psABI of RISC-V, "Relocations"
_RISCV = {"R_RISCV_32": 1, "R_RISCV_64": 2, "R_RISCV_RELATIVE": 3}


def resolve_pointers(elf: ProofElfFile, places: Collection[int]) -> dict[int, RecordPointer]:
    """Return what the pointers at some addresses hold; one that is not loaded has no value."""
    memory = elf.memory
    relocated = _relocated(elf, set(places)) if places else {}
    found = {}
    for place in places:
        in_place = memory.number(place, memory.word)
        value: int | None
        if place in relocated:
            value, at = relocated[place]
            found[place] = RecordPointer(value, in_place or 0, (at, memory.word))
        else:
            found[place] = RecordPointer(in_place, in_place or 0)
    return found


def _relocated(elf: ProofElfFile, places: set[int]) -> dict[int, Addend]:
    """Return the values that relocations with addends give some places, and the addresses of the addends."""
    memory = elf.memory
    start, size = elf.tag("DT_RELA"), elf.tag("DT_RELASZ")
    if start is None or size is None:
        return {}
    size = min(size, memory.room(start))
    sign = "<" if memory.order == "little" else ">"
    record = struct.Struct(sign + ("QQq" if memory.word == 8 else "IIi"))
    shift = 32 if memory.word == 8 else 8
    relative, absolute = _types(elf)
    found: dict[int, Addend] = {}
    step = WINDOW // record.size * record.size
    for at in range(start, start + size - size % record.size, step):
        data = memory.read(at, min(step, start + size - size % record.size - at))
        if data is None:
            break
        for number, (place, info, addend) in enumerate(record.iter_unpack(data)):
            if place in places:
                kind, symbol = info & ((1 << shift) - 1), info >> shift
                value = _value(elf, kind, symbol, relative, absolute)
                where = at + number * record.size + 2 * memory.word
                # Several relocations of one place are nothing that a linker writes.
                found[place] = None if value is None or place in found else value + addend, where
    return found


def _types(elf: ProofElfFile) -> tuple[set[int], set[int]]:
    """Return the types of relocations that add the base, and of those that add the value of a symbol."""
    from elftools.elf import enums

    machine = str(elf.header["e_machine"])
    table = _RISCV if machine == "EM_RISCV" else getattr(enums, _TABLES.get(machine, ""), {})
    relative = {number for name, number in table.items() if name.endswith("_RELATIVE")}
    ends = _POINTERS[elf.memory.word]
    absolute = {number for name, number in table.items() if name.count("_") <= 3 and _is_pointer(name, ends)}
    return relative, absolute


def _is_pointer(name: str, ends: tuple[str, ...]) -> bool:
    """Return whether the name of a relocation is the processor's and one of some ends: ``R_X86_64_64``."""
    return any(name.removesuffix(end) in ("R_X86_64", "R_AARCH64", "R_PPC64", "R_PPC", "R_390", "R_LARCH", "R_RISCV")
               for end in ends if name.endswith(end))  # fmt: skip


def _value(elf: ProofElfFile, kind: int, symbol: int, relative: set[int], absolute: set[int]) -> int | None:
    """Return what a relocation adds its addend to, as an address of the file; None if other files decide."""
    if kind in relative:
        return 0
    table = elf.tag("DT_SYMTAB")
    if kind not in absolute or table is None:
        return None
    if not symbol:
        return 0
    wide = elf.memory.word == 8
    at = table + symbol * (24 if wide else 16)
    section = elf.memory.number(at + (6 if wide else 14), 2)
    return elf.memory.number(at + (8 if wide else 4), elf.memory.word) if section else None
