"""Constants followed through functions of x86-64, decoded by capstone, which is imported only here."""

from __future__ import annotations

import re
from functools import lru_cache

from fatpack.registration.analysis.state import STACK, RegisterState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fatpack.registration.analysis.registers import LinkedProgram

#: names of a register in its widths, by the number that instructions have for it
_REGISTERS: dict[str, tuple[int, int]] = {}
for _operand_number, _letters in enumerate(("a", "c", "d", "b")):
    _REGISTERS |= {
        f"r{_letters}x": (_operand_number, 8),
        f"e{_letters}x": (_operand_number, 4),
        f"{_letters}x": (_operand_number, 2),
    }
    _REGISTERS |= {f"{_letters}l": (_operand_number, 1), f"{_letters}h": (_operand_number, 1)}
for _operand_number, _name in enumerate(("sp", "bp", "si", "di"), 4):
    _REGISTERS |= {
        f"r{_name}": (_operand_number, 8),
        f"e{_name}": (_operand_number, 4),
        _name: (_operand_number, 2),
        f"{_name}l": (_operand_number, 1),
    }
for _operand_number in range(8, 16):
    for _suffix, _width in (("", 8), ("d", 4), ("w", 2), ("b", 1)):
        _REGISTERS[f"r{_operand_number}{_suffix}"] = _operand_number, _width

_SP, _BP = 4, 5

#: registers that a function may change, whoever calls it (System V ABI; Windows keeps two more)
_CHANGED, _CHANGED_WINDOWS = (0, 1, 2, 6, 7, 8, 9, 10, 11), (0, 1, 2, 8, 9, 10, 11)

#: instructions that change neither a register nor memory, of those that name one first
_READING = frozenset(("cmp", "test", "nop", "bt", "ucomiss", "ucomisd", "comiss", "comisd", "prefetcht0"))

_WIDTHS = {"byte": 1, "word": 2, "dword": 4, "qword": 8, "xmmword": 16, "ymmword": 32, "zmmword": 64}
_MEMORY_OPERAND = re.compile(r"(?:(\w+) ptr )?(?:[c-g]s:)?\[([^\]]*)\]")


def is_available() -> bool:
    """Return whether capstone is installed."""
    try:
        import capstone  # noqa: F401
    except ImportError:
        return False
    return True


class X86Follower:
    """Follows functions of one program. Raises ImportError without capstone."""

    def __init__(self, program: LinkedProgram) -> None:
        import capstone

        self._program = program
        self._decoder: Any = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        self._decoder.skipdata = True
        self._changed = _CHANGED_WINDOWS if program.is_windows else _CHANGED

    def follow(self, code: bytes, start: int) -> RegisterState:
        """Return what is found in the code of a function that starts at an address."""
        state = RegisterState(self._program.arguments, self._changed, _SP)
        state.registers[_SP] -= 8  # the address to return to
        end = start + len(code)
        for address, size, mnemonic, operands in self._decoder.disasm_lite(code, start):
            state.arrive(address)
            if mnemonic[0] == "j" or mnemonic.startswith("call"):
                self._jump(state, (address, size, start, end), mnemonic, operands)
            elif mnemonic.startswith("ret") or mnemonic in ("hlt", "ud2", "int3"):
                state.leave()
            else:
                self._step(state, address + size, mnemonic, operands)
        return state

    def _jump(self, state: RegisterState, place: tuple[int, int, int, int], mnemonic: str, operands: str) -> None:
        at, size, start, end = place
        target = int(operands, 16) if operands.startswith("0x") else self._value(state, at + size, operands)[1]
        is_call = mnemonic.startswith("call")
        if is_call or target is None or not start <= target < end:
            state.call(at, target, returns=is_call)
        else:
            state.branch(at, target)
        if mnemonic.endswith("jmp"):
            state.leave()

    def _step(self, state: RegisterState, after: int, mnemonic: str, operands: str) -> None:
        first, _, second = operands.partition(", ")
        if mnemonic in ("push", "pop", "leave"):
            self._stack(state, after, mnemonic, first)
        elif mnemonic in _READING:
            pass
        elif mnemonic in ("mov", "movabs"):
            self._put(state, after, first, self._value(state, after, second)[1])
        elif mnemonic == "lea":
            self._put(state, after, first, self._address(state, after, second))
        elif mnemonic == "xor" and first == second:
            self._put(state, after, first, 0)
        elif mnemonic in ("add", "sub"):
            self._sum(state, after, mnemonic, first, second)
        elif mnemonic == "and" and first == "rsp":
            state.align()
        else:
            if first:
                self._put(state, after, first, None)
            for number in _implied(mnemonic, operands):
                state.put(number, None)

    def _stack(self, state: RegisterState, after: int, mnemonic: str, operand: str) -> None:
        """Take push, pop and leave."""
        if mnemonic == "push":
            value = self._value(state, after, operand)[1]
            state.store(state.move(-8), 8, value)
            return
        if mnemonic == "leave":
            state.put(_SP, state.get(_BP))
            operand = "rbp"
        found = state.load(state.get(_SP), 8)
        state.move(8)
        self._put(state, after, operand, found)

    def _sum(self, state: RegisterState, after: int, mnemonic: str, first: str, second: str) -> None:
        if first == second:
            self._put(state, after, first, 0 if mnemonic == "sub" else None)
            return
        one, other = self._value(state, after, first)[1], self._value(state, after, second)[1]
        if one is None or other is None:
            result = None
        else:
            other = other - (1 << 64) if other >> 63 == 1 else other
            result = one + (other if mnemonic == "add" else -other)
        if first == "rsp" and result is None:
            state.align()
            return
        self._put(state, after, first, result)

    def _put(self, state: RegisterState, after: int, operand: str, value: int | None) -> None:
        """Store a value in a register or on the stack."""
        known = _REGISTERS.get(operand)
        if known is not None:
            number, width = known
            if value is not None and width < 8:
                value = value & 0xFFFFFFFF if width == 4 and value >= 0 else None
            state.put(number, value)
        elif "[" in operand:
            size = _parts(operand)[0]
            state.store(self._address(state, after, operand), size, value)

    def _value(self, state: RegisterState, after: int, operand: str) -> tuple[int, int | None]:
        """Return how many bytes an operand has, and its value."""
        known = _REGISTERS.get(operand)
        if known is not None:
            number, width = known
            value = state.get(number)
            return width, value if value is None or width == 8 else value & (1 << 8 * width) - 1
        if "[" in operand:
            size = _parts(operand)[0]
            address = self._address(state, after, operand)
            found = state.load(address, size)
            if found is None and address is not None and size == 8:
                found = self._program.loaded(address)
            return size, found
        try:
            return 8, int(operand, 0) & 0xFFFFFFFFFFFFFFFF
        except ValueError:
            return 0, None

    def _address(self, state: RegisterState, after: int, operand: str) -> int | None:
        """Return the address that an operand in memory stands for."""
        _, registers, displacement = _parts(operand)
        total = displacement
        for name, factor in registers:
            if name == "rip":
                total += after
                continue
            number, width = _REGISTERS.get(name, (-1, 8))
            value = state.get(number)
            if value is None or width != 8 or (factor > 1 and value >= 1 << 64):
                return None
            total += (value - (1 << 64) if value >> 63 == 1 else value) * factor
        return total if total > STACK // 2 else total & 0xFFFFFFFFFFFFFFFF


def _implied(mnemonic: str, operands: str) -> tuple[int, ...]:
    """Return the registers that an instruction changes without naming them first."""
    if mnemonic in ("xchg", "xadd"):
        known = _REGISTERS.get(operands.rpartition(", ")[2])
        return (known[0],) if known is not None else ()
    if mnemonic.startswith(("mul", "div", "imul", "idiv", "cdq", "cqo", "rdtsc", "cpuid", "syscall", "xgetbv")):
        is_named = mnemonic == "imul" and ", " in operands
        return () if is_named else (0, 1, 2, 3)
    return (1, 6, 7) if "[rdi]" in operands or "[rsi]" in operands else ()


@lru_cache(maxsize=1 << 14)
def _parts(operand: str) -> tuple[int, tuple[tuple[str, int], ...], int]:
    """Return the size of an operand in memory, its registers with their factors, and its displacement."""
    match = _MEMORY_OPERAND.search(operand)
    if match is None or "fs:" in operand or "gs:" in operand:
        return 0, (("none", 1),), 0
    registers: list[tuple[str, int]] = []
    displacement = 0
    for part in match[2].replace("- ", "+ -").split(" + "):
        name, _, factor = part.partition("*")
        if name.lstrip("-")[:1].isdigit():
            displacement += int(name, 0)
        elif name not in ("riz", "eiz"):
            registers.append((name, int(factor or "1", 0)))
    return _WIDTHS.get(match[1] or "qword", 0) or 64, tuple(registers), displacement
