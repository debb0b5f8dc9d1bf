"""Kernels whose machine code certainly does nothing: it only returns, only traps, or loops for ever.

Compilers write such stubs where ``#if __CUDA_ARCH__`` takes the body away. A launch succeeds, and results stay as they
were: zeros, as users say. Only code of which each instruction is known is judged; all other code gets no word.

================  ===================================================================================================
processor         instructions
================  ===================================================================================================
sm_50 to sm_62    8 bytes; each group of four begins with a control word
sm_70 and later   16 bytes; bits 0 to 11 are the operation, 12 to 15 the predicate: 7 is always, 15 never
gfx8 to gfx10     ``s_endpgm`` BF810000, ``s_trap 2`` BF920002
gfx11 and later   ``s_endpgm`` BFB00000, ``s_trap 2`` BF900002
SPIR-V            OpReturn, or OpUnreachable (:mod:`fatpack.images.spirv`)
================  ===================================================================================================

Before the end, what sets the stack pointer (R1), NOP and instructions that are never executed are allowed.

Sources: nvdisasm -hex of ``ret;``, ``exit;``, ``trap;`` and ``L: bra L;`` compiled by ptxas 12.9 and 13.0 for all their
architectures; llvm-objdump 22 of the same in C. ``tests/images/test_hollow.py`` compiles them again.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal, TypeAlias

    Body: TypeAlias = Literal["returns", "traps", "loops", "unreachable"]

#: Bytes of code that are looked at: stubs of debug builds have some hundred, of which NOPs are most.
STUB = 512

#: sm_70 and later: operations that end a kernel, and those that do nothing that is seen
_EXIT, _BPT, _BRA, _NOP = 0x94D, 0x95C, 0x947, 0x918
_STACK_POINTER = frozenset((0xA02, 0xB82))  # MOV R1, c[…]; LDC R1, c[…]
_ALWAYS, _NEVER = 7, 15

#: BRA to itself: its relative target is -16 (sm_7x, sm_8x: bits 34 and up hold the bytes; sm_90 and later the words)
_TO_ITSELF = frozenset((0xFFFFFFF000007947, 0xFFFFFFFC00FC7947))

#: sm_50 to sm_62: whole instructions
_OLD_RETURN, _OLD_TRAP, _OLD_LOOP = 0xE30000000007000F, 0xE3A00000001000C0, 0xE2400FFFFF87000F
_OLD_NOTHING = frozenset((0x4C98078000870001, 0x50B0000000070F00))  # MOV R1, c[0x0][0x20]; NOP

#: first word of a code object's kernel, up to gfx10 and later
_AMD: tuple[dict[int, Body], dict[int, Body]] = (
    {0xBF810000: "returns", 0xBF920002: "traps"},
    {0xBFB00000: "returns", 0xBF900002: "traps"},
)

#: statements of PTX that do nothing: declarations, lines, labels
_PTX_NOTHING = rb"\s*(?:\.(?:reg|loc|file|pragma|local|shared)\b[^;]*|[\w$%]+:)?\s*"
_PTX_BODY = rb"\{([^{}]*)\}"
_PTX_ENDS: dict[bytes, Body] = {b"ret": "returns", b"exit": "returns", b"trap": "traps"}


def cubin_body(code: bytes, number: int) -> Body | None:
    """Return the word for the code of a kernel for sm_``number``; None if it does something, or is not understood."""
    return _old_body(code) if number < 70 else _body(code)


def _old_body(code: bytes) -> Body | None:
    for at in range(0, min(len(code), STUB) & ~7, 8):
        if at % 32 == 0:
            continue
        word = int.from_bytes(code[at : at + 8], "little")
        if word == _OLD_RETURN:
            return "returns"
        if word == _OLD_TRAP:
            return "traps"
        if word == _OLD_LOOP:
            return "loops"
        if word not in _OLD_NOTHING:
            return None
    return None


def _body(code: bytes) -> Body | None:
    for at in range(0, min(len(code), STUB) & ~15, 16):
        word = int.from_bytes(code[at : at + 8], "little")
        operation, predicate = word & 0xFFF, word >> 12 & 15
        if predicate == _NEVER or operation == _NOP:
            continue
        if predicate != _ALWAYS:
            return None
        if operation == _EXIT:
            return "returns"
        if operation == _BPT:
            return "traps"
        if operation == _BRA:
            return "loops" if word in _TO_ITSELF else None
        if operation not in _STACK_POINTER or word >> 16 & 0xFF != 1:
            return None
    return None


def amd_body(code: bytes, generation: int) -> Body | None:
    """Return the word for the code of a kernel for gfx``generation``…; None if it does something."""
    return _AMD[generation >= 11].get(int.from_bytes(code[:4], "little"))


def ptx_body(text: bytes) -> Body | None:
    """Return the word for a body of PTX from its brace on, without comments; None if it does something, or is cut."""
    import re  # cubins need none, and it takes a third of a bare start of Python

    body = re.match(_PTX_BODY, text)
    if body is None:
        return None
    for statement in body[1].split(b";"):
        word = statement.rpartition(b":")[2].strip()
        if word in _PTX_ENDS:
            return _PTX_ENDS[word]
        if re.fullmatch(_PTX_NOTHING, statement) is None:
            return None
    return "returns"
