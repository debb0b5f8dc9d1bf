"""Constants followed through the code of a function, to the calls that take them: by capstone, imported only here.

Straight on from the first instruction to the last: what registers and places of the stack hold, as far as it is an
address or a number that the code itself makes. After a call the registers that it may change hold nothing. That is
enough for what compilers write to register and launch kernels. It goes straight through branches, and does not see
writes to parts of a register or a stack pointer that moves: what is concluded from it is likely, never certain.
"""

from __future__ import annotations

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from fatpack.runtime.evidence.memory import Function
    from fatpack.runtime.evidence.programs.elf_code import ElfProgram

#: LIMIT: bytes of one function that are followed
_LONGEST = 1 << 22

#: x86-64: names of a register in its widths, by the number that instructions have for it
_X86 = {
    name: number
    for number, names in enumerate(
        (
            ("rax", "eax"),
            ("rcx", "ecx"),
            ("rdx", "edx"),
            ("rbx", "ebx"),
            ("rsp", "esp"),
            ("rbp", "ebp"),
            ("rsi", "esi"),
            ("rdi", "edi"),
            *((f"r{number}", f"r{number}d") for number in range(8, 16)),
        )
    )
    for name in names
}
#: registers that a function may change, whoever calls it (System V ABI; AAPCS64)
_X86_CHANGED = (0, 1, 2, 6, 7, 8, 9, 10, 11)
_A64_CHANGED = tuple(range(19))

#: instructions that write no register, of those that name one first
_READING = ("cmp", "test", "push", "cmn", "tst", "str", "stp", "stur", "strb", "strh", "nop", "ret", "cbz", "cbnz")


class Followed(Record):
    """A call or jump: where, to which address (None: not known), and what the registers of arguments hold."""

    at: int
    target: int | None
    arguments: tuple[int | None, ...]


def is_available() -> bool:
    """Return whether capstone is installed."""
    try:
        import capstone  # noqa: F401
    except ImportError:
        return False
    return True


class Follower:
    """Follows functions of one program. Raises ImportError without capstone."""

    def __init__(self, program: ElfProgram) -> None:
        import capstone

        self._program = program
        self._is_x86 = program.machine == "x86-64"
        if self._is_x86:
            self._decoder: Any = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        else:
            self._decoder = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
        self._decoder.skipdata = True

    def calls(self, function: Function) -> tuple[list[Followed], set[int]]:
        """Return the calls and jumps of a function, and the addresses of functions that it takes."""
        program = self._program
        section = program.section_at(function.start)
        if section is None:
            return [], set()
        at = function.start - section.address
        code = program.content(section)[at : at + min(function.end - function.start, _LONGEST)]
        rows = self._decoder.disasm_lite(code, function.start)
        state = _State(program, self._is_x86)
        step = state.x86 if self._is_x86 else state.a64
        for address, size, mnemonic, operands in rows:
            step(address, size, mnemonic, operands)
        return state.calls, state.taken


class _State:
    """What registers and places of the stack hold while a function is followed."""

    def __init__(self, program: ElfProgram, is_x86: bool) -> None:
        self._program = program
        self._held: dict[int | str, int] = {}
        self._changed = _X86_CHANGED if is_x86 else _A64_CHANGED
        self.calls: list[Followed] = []
        self.taken: set[int] = set()

    def _call(self, at: int, target: int | None, *, returns: bool) -> None:
        held = self._held
        self.calls.append(Followed(at, target, tuple(held.get(number) for number in self._program.arguments)))
        if returns:
            for number in self._changed:
                held.pop(number, None)

    def _put(self, register: int | str | None, value: int | None) -> None:
        if register is None:
            return
        if value is None:
            self._held.pop(register, None)
            return
        self._held[register] = value
        if self._program.is_start(value):
            self.taken.add(value)

    def _loaded(self, address: int) -> int | None:
        """Return what a slot holds: the slot itself for what another file defines."""
        if address in self._program.imports:
            return address
        section = self._program.section_at(address)
        if section is None or not section.name.startswith((".got", ".data.rel.ro", ".plt.got", ".rodata")):
            return None
        return self._program.pointer_at(address)

    def x86(self, address: int, size: int, mnemonic: str, operands: str) -> None:
        """Take one instruction of x86-64."""
        if mnemonic == "call" or mnemonic[0] == "j":
            self._x86_call(address, size, mnemonic, operands)
            return
        first, _, second = operands.partition(", ")
        register = _X86.get(first)
        if mnemonic in ("mov", "movabs"):
            if register is None:
                if first.startswith(("qword ptr [rsp", "qword ptr [rbp", "dword ptr [rsp")):
                    self._put(first[first.index("[") :], self._x86_value(address + size, second))
                return
            self._put(register, self._x86_value(address + size, second))
        elif mnemonic == "lea":
            self._put(register, _relative(address + size, second))
        elif mnemonic == "xor" and first == second:
            self._put(register, 0)
        elif register is not None and mnemonic not in _READING:
            self._held.pop(register, None)

    def _x86_call(self, address: int, size: int, mnemonic: str, operands: str) -> None:
        target: int | None
        if operands.startswith("0x"):
            target = int(operands, 16)
        elif operands in _X86:
            target = self._held.get(_X86[operands])
        else:
            slot = _relative(address + size, operands)
            target = self._loaded(slot) if slot is not None else None
        self._call(address, target, returns=mnemonic == "call")

    def _x86_value(self, after: int, operand: str) -> int | None:
        if operand in _X86:
            return self._held.get(_X86[operand])
        if operand.startswith("0x") or operand.isdecimal():
            return int(operand, 0)
        if "[" in operand:
            slot = _relative(after, operand)
            if slot is not None:
                return self._loaded(slot)
            return self._held.get(operand[operand.index("[") :])
        return None

    def a64(self, address: int, size: int, mnemonic: str, operands: str) -> None:
        """Take one instruction of AArch64."""
        parts = operands.split(", ")
        if mnemonic in ("bl", "b", "blr", "br") or mnemonic.startswith("b."):
            text = parts[0]
            target = int(text[1:], 0) if text.startswith("#") else self._held.get(_a64_register(text) or -1)
            if text == "x0":
                target = self._held.get(0)
            self._call(address, target, returns=mnemonic in ("bl", "blr"))
            return
        register = _a64_register(parts[0])
        if mnemonic in ("str", "stp", "stur"):
            self._a64_store(mnemonic, parts, operands)
        elif mnemonic in ("adrp", "adr") and parts[-1].startswith("#"):
            self._put(register, int(parts[-1][1:], 0))
        elif mnemonic == "add" and len(parts) == 3 and parts[2].startswith("#"):
            base = self._held.get(_number(parts[1]))
            self._put(register, None if base is None else base + int(parts[2][1:], 0))
        elif mnemonic in ("mov", "movz"):
            value = int(parts[1][1:], 0) if parts[1].startswith("#") else self._held.get(_number(parts[1]))
            self._put(register, value if len(parts) == 2 else None)
        elif mnemonic in ("ldr", "ldur") and "[" in operands:
            self._put(register, self._a64_load(operands))
        elif register is not None and mnemonic not in _READING:
            self._held.pop(register, None)
            if mnemonic == "ldp" and len(parts) > 1:
                self._a64_pair(parts, operands, register)

    def _a64_pair(self, parts: list[str], operands: str, register: int) -> None:
        place = _stack(operands)
        other = _a64_register(parts[1])
        self._put(register, None if place is None else self._held.get(f"sp{place}"))
        self._put(other, None if place is None else self._held.get(f"sp{place + 8}"))

    def _a64_store(self, mnemonic: str, parts: list[str], operands: str) -> None:
        place = _stack(operands)
        if place is not None:
            self._put(f"sp{place}", self._held.get(_number(parts[0])))
            if mnemonic == "stp":
                self._put(f"sp{place + 8}", self._held.get(_number(parts[1])))

    def _a64_load(self, operands: str) -> int | None:
        place = _stack(operands)
        if place is not None:
            return self._held.get(f"sp{place}")
        inside = operands[operands.index("[") + 1 :].rstrip("]!").split(", ")
        base = self._held.get(_number(inside[0]))
        offset = int(inside[1][1:], 0) if len(inside) > 1 and inside[1].startswith("#") else 0
        return None if base is None or len(inside) > 2 else self._loaded(base + offset)


def _relative(after: int, operand: str) -> int | None:
    """Return the address that an operand relative to the next instruction stands for."""
    if "[rip" not in operand:
        return None
    text = operand[operand.index("[rip") + 4 :].rstrip("]").replace(" ", "")
    return after + int(text, 0) if text else after


def _a64_register(name: str) -> int | None:
    return int(name[1:]) if name[:1] in ("x", "w") and name[1:].isdecimal() else None


def _number(name: str) -> int:
    found = _a64_register(name)
    return -1 if found is None else found


def _stack(operands: str) -> int | None:
    """Return the offset of a place on the stack, None for another operand."""
    inside = operands[operands.find("[") + 1 :]
    if not inside.startswith("sp") or not operands.endswith("]"):
        return None
    text = inside.rstrip("]").partition(", #")[2]
    return int(text, 0) if text else 0


def walked(followed: list[Followed]) -> Iterator[int]:
    """Yield the addresses that calls lead to."""
    for each in followed:
        if each.target is not None:
            yield each.target
