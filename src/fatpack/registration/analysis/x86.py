"""Constants in functions of x86-64, decoded by capstone, which only this module imports."""

from __future__ import annotations

import re
import struct
from functools import lru_cache

from fatpack.registration.analysis.registers import STACK, RegisterState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
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

#: registers that a called function may change (System V ABI; Windows preserves two more)
_CHANGED, _CHANGED_WINDOWS = (0, 1, 2, 6, 7, 8, 9, 10, 11), (0, 1, 2, 8, 9, 10, 11)

#: instructions that name a register first, and change neither a register nor memory
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
        """Return the state after the code of a function that starts at an address."""
        state = RegisterState(self._program.arguments, self._changed, _SP)
        state.registers[_SP] -= 8  # the return address
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
        elif mnemonic == "je":
            state.skip_if_equal(at, target)
        else:
            state.branch(at, target)
        if mnemonic.endswith("jmp"):
            state.leave()

    def _step(self, state: RegisterState, after: int, mnemonic: str, operands: str) -> None:
        first, _, second = operands.partition(", ")
        if mnemonic in ("push", "pop", "leave"):
            self._stack(state, after, mnemonic, first)
        elif mnemonic == "cmp":
            state.compare(after, self._value(state, after, first)[1], self._value(state, after, second)[1])
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
        """Execute push, pop and leave."""
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
        """Return the size of an operand in bytes, and its value."""
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
        """Return the address of an operand in memory."""
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
    """Return the registers that an instruction changes implicitly."""
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


# Runs of x86-64 instructions from some place straight on to the next call or jump, by one regular expression.
#
# The expression knows the lengths of the instructions that compilers write before a call, and captures the last one
# that writes each argument register. A run with any other instruction is not read; the function is followed from its
# start instead. (Intel SDM volume 2, chapter 2 and appendix A.)

_EIGHT = range(8)

#: opcodes that write the register of the ModRM byte; opcodes that write its other operand
_TO_REGISTER = rb"[\x03\x0b\x23\x2b\x33\x63\x8b\x8d]", rb"\x0f[\xb6\xb7\xbe\xbf\xaf\x40-\x4f]"
_TO_OPERAND = rb"[\x01\x09\x21\x29\x31\x89]"

#: instructions that end a run
_ENDS = rb"(?:[\xe8\xe9]....|\xff[\x15\x25]....|\xff[\xd0-\xd7\xe0-\xe7]|\x41\xff[\xd0-\xd7\xe0-\xe7]|\xeb.|\xc3)"


#: first bytes of an instruction → its value: an address, the word at an address, another register
_MADE: dict[bytes, int] = {}
_ADDRESS, _LOADED = 16, 17

for _matched_number in range(16):
    _high, _form = _matched_number >> 3 << 2, (_matched_number & 7) << 3
    _MADE[bytes((0x48 | _high, 0x8D, _form | 5))] = _ADDRESS
    _MADE[bytes((0x48 | _high, 0x8B, _form | 5))] = _LOADED
    for _source in range(16):
        _MADE[bytes((0x48 | _high | _source >> 3, 0x8B, 0xC0 | _form | _source & 7))] = _source
        _MADE[
            bytes(
                (0x48 | _source >> 3 << 2 | _matched_number >> 3, 0x89, 0xC0 | (_source & 7) << 3 | _matched_number & 7)
            )
        ] = _source

#: LIMIT: runs from one place to a call
_MOST = 64

_signed = struct.Struct("<i").unpack_from


class InstructionRuns:
    """Reads runs of a section of code for some registers; ``loaded`` returns the word at an address."""

    def __init__(self, code: bytes, base: int, registers: Sequence[int], loaded: Callable[[int], int | None]) -> None:
        self._code, self._base, self._loaded = code, base, loaded
        self._registers = {number: index + 1 for index, number in enumerate(registers)}
        self._match = _pattern(tuple(registers)).match
        self._end = len(registers) + 1

    def values(self, start: int, call: int) -> list[int | None] | None:
        """Return the values of the registers at a call, None for an unknown one; None if the run cannot be read.

        ``start`` and ``call`` are places in the code: the start of an instruction before the call, and the call.
        """
        match = self._match(self._code, start)
        for _ in range(_MOST):
            if match is None or match.end() > call:
                break
            match = self._match(self._code, match.end())
        if match is None or match.start(self._end) != call:
            return None
        return [self._value(match, number) for number in self._registers]

    def _value(self, match: re.Match[bytes], number: int) -> int | None:
        """Return the value that the last write of a register in a run stored."""
        start, end = match.span(self._registers[number])
        if start < 0:
            return None
        made = _MADE.get(self._code[start : start + 3])
        if made is None:
            return _constant(self._code[start:end])
        if made >= _ADDRESS:
            address = self._base + end + int(_signed(self._code, end - 4)[0])
            return address if made == _ADDRESS else self._loaded(address)
        is_before = made in self._registers and match.start(self._registers[made]) < start
        return self._value(match, made) if is_before else None


def _constant(instruction: bytes) -> int | None:
    """Return the number that an instruction puts into its register."""
    prefix = instruction[0] if 0x40 <= instruction[0] <= 0x4F else 0
    opcode, *rest = instruction[1:] if prefix else instruction
    if opcode & 0xF8 == 0xB8:
        return int.from_bytes(rest, "little")
    if opcode == 0xC7 and prefix & 8:
        return int.from_bytes(instruction[-4:], "little", signed=True) & 0xFFFFFFFFFFFFFFFF
    is_cleared = opcode in (0x31, 0x33) and rest[0] >> 6 == 3 and rest[0] >> 3 & 7 == rest[0] & 7
    return 0 if is_cleared and prefix in (0, 0x45) else None


@lru_cache(maxsize=16)
def _pattern(registers: tuple[int, ...]) -> re.Pattern[bytes]:
    """Return the expression for runs, with a group for each register."""
    alternatives = [_SHORT, *(b"(" + _writes({number}) + b")" for number in registers)]
    alternatives += [_writes(set(range(16)) - set(registers)), _WRITES_NONE]
    return re.compile(b"(?:" + b"|".join(alternatives) + b"){0,128}(" + _ENDS + b")", re.DOTALL)


def _any(values: Iterable[int]) -> bytes:
    """Return an expression for one byte with one of some values, as ranges, which compile faster."""
    ranges: list[list[int]] = []
    for value in sorted(set(values)):
        if ranges and ranges[-1][1] == value - 1:
            ranges[-1][1] = value
        else:
            ranges.append([value, value])
    return b"[" + b"".join(b"\\x%02x-\\x%02x" % (first, last) for first, last in ranges) + b"]"


def _operand(middle: Iterable[int]) -> bytes:
    """Return an expression for ModRM, SIB and displacement of an operand in memory; ``middle`` are its bits 3 to 5."""
    middle = list(middle)

    def form(mode: int, low: Iterable[int]) -> bytes:
        return _any(mode << 6 | number << 3 | each for number in middle for each in low)

    plain, with_base = (0, 1, 2, 3, 6, 7), (0, 1, 2, 3, 5, 6, 7)
    no_base = _any(value for value in range(256) if value & 7 == 5)
    other = _any(value for value in range(256) if value & 7 != 5)
    return (
        b"(?:"
        + b"|".join(
            (
                form(0, (5,)) + b"....",
                form(1, (4,)) + b"..",
                form(2, (4,)) + b".....",
                form(1, with_base) + b".",
                form(2, with_base) + b"....",
                form(0, plain),
                form(0, (4,)) + b"(?:" + other + b"|" + no_base + b"....)",
            )
        )
        + b")"
    )


def _register_form(middle: Iterable[int], low: Iterable[int]) -> bytes:
    low = list(low)
    return _any(0xC0 | number << 3 | each for number in middle for each in low)


def _prefixed(bit: int, is_set: bool, rest: list[bytes]) -> list[bytes]:
    """Return alternatives after a REX prefix with one bit set, or, if it may be clear, after another one or none.

    Each starts with a byte that shows if it can match: that is checked first, and fails fast.
    """
    prefix = _any(value for value in range(0x40, 0x50) if bool(value & bit) == is_set)
    return [prefix + b"(?:" + b"|".join(rest) + b")", *([] if is_set else rest)]


def _writes(registers: set[int]) -> bytes:
    """Return an expression for the instructions that write one of some registers."""
    parts: list[bytes] = []
    for is_high in (False, True):
        low = [number & 7 for number in sorted(registers) if (number > 7) == is_high]
        if not low:
            continue
        operands = b"(?:" + _operand(low) + b"|" + _register_form(low, _EIGHT) + b")"
        parts += _prefixed(4, is_high, [opcodes + operands for opcodes in _TO_REGISTER])
        operand = _register_form(_EIGHT, low)
        to_operand = [
            _TO_OPERAND + operand,
            rb"\x83" + operand + b".",
            rb"\x81" + operand + b"....",
            rb"\xc7" + _register_form((0,), low) + b"....",
        ]
        parts += _prefixed(1, is_high, to_operand)
        short = b"\\x41" if is_high else b""
        parts += [
            _any((0x49, 0x4B) if is_high else (0x48, 0x4A)) + _any(0xB8 | number for number in low) + b"........",
            short + _any(0xB8 | number for number in low) + b"....",
            short + _any(0x58 | number for number in low),
        ]
    return b"|".join(parts)


_MEMORY_PATTERN = _operand(_EIGHT)
_ANY = rb"(?:[\xc0-\xff]|" + _MEMORY_PATTERN + b")"

#: push, no operation; conditional jumps
_SHORT = rb"\x6a.|[\x50-\x57\x90]|[\x70-\x7f].|\x68....|\x0f[\x80-\x8f]...."

#: compare and test; instructions that write to memory; vector registers
_PLAIN = (
    rb"[\x39\x3b\x85]" + _ANY,
    rb"[\x01\x09\x21\x29\x31\x88\x89]" + _MEMORY_PATTERN,
    rb"\xff(?=[\x30-\x37\x70-\x77\xb0-\xb7])" + _MEMORY_PATTERN,
    rb"[\x80\x83\xc6]" + _MEMORY_PATTERN + rb".",
    rb"[\x81\xc7]" + _MEMORY_PATTERN + rb"....",
    rb"\x0f[\x10-\x17\x1f\x28\x29\x2e\x2f\x54-\x5f\x6c-\x6f\x7f\xd6\xef]" + _ANY,
    rb"\x0f\xc6" + _ANY + b".",
    rb"[\x50-\x57]",
)
_WRITES_NONE = b"|".join(
    (
        *_PLAIN,
        rb"[\x40-\x4f](?:" + b"|".join(_PLAIN) + b")",
        rb"[\x66\xf2\xf3][\x40-\x4f]?\x0f(?:[\x10-\x17\x1f\x28\x29\x2e\x2f\x54-\x5f\x6c-\x6f\x7f\xd6\xef]"
        + _ANY
        + rb"|\xc6"
        + _ANY
        + b".)",
        rb"\xf3[\x40-\x4f]?\x0f\x7e" + _ANY,
        rb"\xf3\x0f\x1e\xfa",
    )
)
