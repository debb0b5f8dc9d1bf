"""Unwind information of ELF files: ``.eh_frame``, made from the directives of a listing.

One common entry (CIE) and one entry (FDE) for each function, in the order of the Linux Standard Base Core, 10.6, with
the instructions of DWARF 5, 6.4.2. Numbers of registers are those of the ABI of each processor. The bytes are those
that llvm-mc makes of the same directives.
"""

from __future__ import annotations

from fatpack.commands.wrap.code.template import LinkerFixup, MachineCode, UnwindDirective
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


_ADVANCE, _OFFSET, _RESTORE = 0x40, 0x80, 0xC0
_DEF_CFA, _DEF_CFA_REGISTER, _DEF_CFA_OFFSET = 0x0C, 0x0D, 0x0E
#: DW_CFA_AARCH64_negate_ra_state: the return address is signed from here on, or no more
_NEGATE_RA_STATE = 0x2D
#: DW_EH_PE_pcrel | DW_EH_PE_sdata4: addresses are relative to their own position, in four bytes
_ENCODING = 0x1B


class UnwindRegisters(Record):
    """The facts of a processor that unwind information needs: register numbers, return address, and function entry.

    ``slot`` is what offsets in the frame are counted in, downwards: LLVM's choice for each processor.
    """

    registers: Mapping[str, int]
    return_address: int
    slot: int
    start: bytes


UNWIND_REGISTERS = {
    # The frame's address is rsp + 8 at a function's start, and the return address lies below it.
    "x86_64": UnwindRegisters(
        {"rbx": 3, "rbp": 6, "rsp": 7, "r12": 12, "r13": 13, "r14": 14},
        16,
        8,
        bytes((_DEF_CFA, 7, 8, _OFFSET | 16, 1)),
    ),
    # It is sp itself, and the return address is in x30.
    "aarch64": UnwindRegisters(
        {f"x{number}": number for number in range(31)} | {"sp": 31}, 30, 4, bytes((_DEF_CFA, 31, 0))
    ),
}


def eh_frame(code: MachineCode, processor: str) -> tuple[bytes, tuple[LinkerFixup, ...]]:
    """Return the section for the functions of some code, and its places for the linker: where each function starts.

    Their symbol is ``code``, their kind ``relative32``.
    """
    frames = UNWIND_REGISTERS[processor]
    augmentation = bytes((1, _ENCODING))
    factors = bytes((1, -frames.slot & 0x7F, frames.return_address))
    cie = _entry(bytes(4) + b"\1zR\0" + factors + augmentation + frames.start, 4)
    data, fixups = bytearray(cie), []
    for number, function in enumerate(code.functions):
        at = len(data)
        back = (at + 4).to_bytes(4, "little")
        fixups.append(LinkerFixup(at + 8, "relative32", "code", function.offset))
        content = (
            back + bytes(4) + function.size.to_bytes(4, "little") + b"\0" + _instructions(function.directives, frames)
        )
        is_last = number + 1 == len(code.functions)
        data += _entry(content, 8 if is_last else 4, at)
    return bytes(data), tuple(fixups)


def _entry(content: bytes, align: int, at: int = 0) -> bytes:
    """Return an entry with its length; what follows it starts at a multiple of ``align``."""
    size = len(content) + -(at + 4 + len(content)) % align
    return size.to_bytes(4, "little") + content + bytes(size - len(content))


def _instructions(directives: tuple[UnwindDirective, ...], frames: UnwindRegisters) -> bytes:
    data, before = bytearray(), 0
    for item in directives:
        if item.after != before:
            data += _advance(item.after - before)
            before = item.after
        data += _instruction(item, frames)
    return bytes(data)


def _advance(steps: int) -> bytes:
    if steps < 0x40:
        return bytes((_ADVANCE | steps,))
    return bytes((2, steps)) if steps < 0x100 else b"\3" + steps.to_bytes(2, "little")


def _instruction(item: UnwindDirective, frames: UnwindRegisters) -> bytes:
    numbers = [frames.registers[word] if word in frames.registers else int(word) for word in item.operands]
    match item.name:
        case ".cfi_def_cfa":
            return bytes((_DEF_CFA, *numbers))
        case ".cfi_def_cfa_register":
            return bytes((_DEF_CFA_REGISTER, *numbers))
        case ".cfi_def_cfa_offset":
            return bytes((_DEF_CFA_OFFSET, *numbers))
        case ".cfi_offset":
            return bytes((_OFFSET | numbers[0], -numbers[1] // frames.slot))
        case ".cfi_restore":
            return bytes((_RESTORE | numbers[0],))
        case ".cfi_negate_ra_state":
            return bytes((_NEGATE_RA_STATE,))
    raise ValueError(f"{item.name} is no directive of a frame")


# Unwind information of COFF objects for x86-64: ``.pdata`` and ``.xdata``, made from the directives of a listing.
#
# The records are RUNTIME_FUNCTION and UNWIND_INFO of Microsoft's "x64 exception handling". The bytes are those that
# llvm-mc makes of the same directives.

#: numbers of the registers in unwind codes
_REGISTERS = {"rbx": 3, "rsi": 6, "rdi": 7}
#: UWOP_PUSH_NONVOL, UWOP_ALLOC_SMALL
_PUSH, _ALLOCATE = 0, 2


def windows_unwind(code: MachineCode) -> tuple[bytes, tuple[LinkerFixup, ...], bytes]:
    """Return ``.pdata``, its places for the linker, and ``.xdata``.

    The symbols of the places are ``code`` and ``unwind``, their kind ``image32``: distances from the image's base.
    """
    table, fixups, records = bytearray(), [], bytearray()
    for function in code.functions:
        at = len(table)
        places = (("code", function.offset), ("code", function.offset + function.size), ("unwind", len(records)))
        fixups += [LinkerFixup(at + 4 * number, "image32", *place) for number, place in enumerate(places)]
        table += bytes(12)
        records += _record(function.directives)
    return bytes(table), tuple(fixups), bytes(records)


def _record(directives: tuple[UnwindDirective, ...]) -> bytes:
    """Return version 1 without a handler: the size of the prologue, and its codes, the last one first."""
    codes = [_code(item) for item in directives if item.name != ".seh_endprologue"]
    prologue = next(item.after for item in directives if item.name == ".seh_endprologue")
    padding = bytes(2 * (len(codes) % 2))
    return bytes((1, prologue, len(codes), 0)) + b"".join(reversed(codes)) + padding


def _code(item: UnwindDirective) -> bytes:
    """Return where an instruction ends, what it does, and to what."""
    (operand,) = item.operands
    if item.name == ".seh_pushreg":
        return bytes((item.after, _REGISTERS[operand] << 4 | _PUSH))
    return bytes((item.after, (int(operand) // 8 - 1) << 4 | _ALLOCATE))
