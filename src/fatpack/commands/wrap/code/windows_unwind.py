"""How functions unwind in COFF objects for x86-64: ``.pdata`` and ``.xdata``, from the directives of a listing.

The records are RUNTIME_FUNCTION and UNWIND_INFO of Microsoft's "x64 exception handling". The bytes are those that
llvm-mc makes of the same directives.
"""

from __future__ import annotations

from fatpack.commands.wrap.code.template import LinkerFixup, MachineCode, UnwindDirective

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
