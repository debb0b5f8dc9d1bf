"""Constants in functions of AArch64: decodes the instructions that make and move constants.

All are four bytes long, and the register that each writes is in the same bits. (Arm ARM, C4, "A64 instruction set
encoding".)
"""

from __future__ import annotations

import struct

from fatpack.registration.analysis.registers import STACK, RegisterState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.registration.analysis.registers import LinkedProgram

#: registers that a function may change (AAPCS64), and the stack pointer
_CHANGED, _SP = (*range(19), 30), 31


class Aarch64Follower:
    """Follows functions of one program."""

    def __init__(self, program: LinkedProgram) -> None:
        self._program = program

    def follow(self, code: bytes, start: int) -> RegisterState:
        """Return the state after the code of a function that starts at an address."""
        state = RegisterState(self._program.arguments, _CHANGED, _SP)
        end = start + len(code)
        at = start - 4
        for (word,) in struct.iter_unpack("<I", code[: len(code) & ~3]):
            at += 4
            state.arrive(at)
            kind = word >> 25 & 15
            if kind & 14 == 10:
                self._branch(state, at, word, start, end)
            elif kind & 14 == 8:
                _immediate(state, at, word)
            elif kind & 5 == 4:
                self._memory(state, at, word)
            elif kind & 7 == 5:
                if word & 0xFFE0FC1F == 0xEB00001F:  # CMP
                    state.compare(at + 4, _read(state, word >> 5 & 31), _read(state, word >> 16 & 31))
                _registers(state, word)
            elif kind & 7 == 7 and word & 0x5F20FC00 == 0x1E200000:
                state.put(word & 31, None)  # between kinds of registers
        return state

    def _branch(self, state: RegisterState, at: int, word: int, start: int, end: int) -> None:
        if word & 0x7C000000 == 0x14000000:  # B, BL
            self._jump(state, at, at + 4 * _signed(word, 26), start, end, is_call=bool(word >> 31))
        elif word & 0xFF000010 == 0x54000000 or word & 0x7E000000 == 0x34000000:  # B.cond, CBZ
            target = at + 4 * _signed(word >> 5, 19)
            if word & 0xFF00001F == 0x54000000 and start <= target < end:  # B.EQ
                state.skip_if_equal(at, target)
            else:
                self._maybe(state, at, target, start, end)
        elif word & 0x7E000000 == 0x36000000:  # TBZ
            self._maybe(state, at, at + 4 * _signed(word >> 5, 14), start, end)
        elif word & 0xFE000000 == 0xD6000000:  # BR, BLR, RET
            operation = word >> 21 & 3
            if operation == 2:
                state.leave()
                return
            state.call(at, state.get(word >> 5 & 31), returns=operation == 1)
            if operation == 0:
                state.leave()

    def _jump(self, state: RegisterState, at: int, target: int, start: int, end: int, *, is_call: bool) -> None:
        if is_call or not start <= target < end:
            state.call(at, target, returns=is_call)
        else:
            state.branch(at, target)
        if not is_call:
            state.leave()

    def _maybe(self, state: RegisterState, at: int, target: int, start: int, end: int) -> None:
        if start <= target < end:
            state.branch(at, target)

    def _memory(self, state: RegisterState, at: int, word: int) -> None:
        """Execute an instruction that loads or stores."""
        is_vector = word >> 26 & 1
        if word & 0x3B000000 == 0x18000000:  # relative to the instruction
            if not is_vector:
                address = at + 4 * _signed(word >> 5, 19)
                state.put(word & 31, self._program.loaded(address) if word >> 30 == 1 else None)
        elif word & 0x3A000000 == 0x28000000:
            self._pair(state, word, is_vector)
        elif word & 0x3A000000 == 0x38000000:
            self._single(state, word, is_vector)
        else:  # exclusive, atomic, of vectors: the loaded value is unknown
            state.put(word & 31, None)
            state.put(word >> 16 & 31, None)

    def _pair(self, state: RegisterState, word: int, is_vector: int) -> None:
        mode, is_load, base = word >> 23 & 3, word >> 22 & 1, word >> 5 & 31
        size = 4 << (word >> 30) if is_vector else 8 if word >> 31 else 4
        offset = _signed(word >> 15, 7) * size
        held = state.get(base)
        address = held if mode == 1 or held is None else held + offset
        for number, place in ((word & 31, 0), (word >> 10 & 31, size)):
            where = None if address is None else address + place
            if not is_load:
                state.store(where, size, None if is_vector else _read(state, number))
            elif not is_vector:
                _write(state, number, self._loaded(state, where, size))
        if mode in (1, 3):
            state.put(base, None if held is None else held + offset)

    def _single(self, state: RegisterState, word: int, is_vector: int) -> None:
        size, operation, base, number = 1 << (word >> 30), word >> 22 & 3, word >> 5 & 31, word & 31
        if is_vector and operation & 2:
            size = 16
        held, moved = state.get(base), None
        if word >> 24 & 1:
            address = None if held is None else held + (word >> 10 & 0xFFF) * size
        elif word >> 21 & 1:
            if word >> 10 & 3 != 2:
                state.put(number, None)  # atomic operations
                return
            other = state.get(word >> 16 & 31) if word >> 13 & 7 == 3 else None
            shift = size.bit_length() - 1 if word >> 12 & 1 else 0
            address = None if held is None or other is None else held + (other << shift)
        else:
            offset, mode = _signed(word >> 12, 9), word >> 10 & 3
            address = held if mode == 1 or held is None else held + offset
            if mode in (1, 3):
                moved = base, None if held is None else held + offset
        if not operation or (is_vector and operation == 2):
            state.store(address, size, None if is_vector else _read(state, number))
        elif not is_vector and not (size == 8 and operation == 2):
            _write(state, number, self._loaded(state, address, size) if operation == 1 else None)
        if moved is not None:
            state.put(*moved)

    def _loaded(self, state: RegisterState, address: int | None, size: int) -> int | None:
        found = state.load(address, size)
        if found is None and address is not None and address < STACK and size == 8:
            return self._program.loaded(address)
        return found


def _immediate(state: RegisterState, at: int, word: int) -> None:
    """Execute an instruction with a number in it."""
    group, target, source = word >> 23 & 7, word & 31, word >> 5 & 31
    if group < 2:  # ADR, ADRP
        offset = _signed((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21)
        _write(state, target, (at & ~0xFFF) + (offset << 12) if word >> 31 else at + offset)
    elif group == 2:  # ADD, SUB
        held = state.get(source)
        number = (word >> 10 & 0xFFF) << (12 if word >> 22 & 1 else 0)
        result = None if held is None else held - number if word >> 30 & 1 else held + number
        if word >> 29 & 1 and target == _SP:
            return  # CMP, CMN
        if not word >> 31 and result is not None:
            result &= 0xFFFFFFFF
        if target == _SP and result is None:
            state.align()
            return
        state.put(target, result)
    elif group == 4:  # AND, ORR with a pattern of bits
        if target == _SP:
            if word >> 29 & 3 != 3:
                state.align()
            return
        state.put(target, _pattern(word) if source == 31 and word >> 29 & 3 == 1 else None)
    elif group == 5:  # MOVN, MOVZ, MOVK
        shift, number, operation = (word >> 21 & 3) * 16, word >> 5 & 0xFFFF, word >> 29 & 3
        width = 0xFFFFFFFFFFFFFFFF if word >> 31 else 0xFFFFFFFF
        held = state.get(target)
        if operation == 3:
            value = None if held is None else held & ~(0xFFFF << shift) | number << shift
        else:
            value = ~(number << shift) if operation == 0 else number << shift
        _write(state, target, None if value is None else value & width)
    else:
        _write(state, target, None)


def _registers(state: RegisterState, word: int) -> None:
    """Execute an instruction whose operands are registers."""
    target, source, other = word & 31, word >> 5 & 31, word >> 16 & 31
    if word & 0x7F200000 == 0x2A000000 and source == 31:  # MOV
        shift = word >> 10 & 63
        value = _read(state, other)
        if not word >> 31 and value is not None:
            value &= 0xFFFFFFFF
        _write(state, target, value if not shift and not word >> 22 & 3 else None)
    elif word & 0x7F200000 in (0x0B000000, 0x4B000000) and not word >> 10 & 63:
        one, two = _read(state, source), _read(state, other)
        known = one is not None and two is not None and word >> 31
        _write(state, target, ((one or 0) + (-(two or 0) if word >> 30 & 1 else two or 0)) if known else None)
    elif word & 0x7F200000 in (0x0B200000, 0x4B200000):  # with an extended register: may be the stack pointer
        if target == _SP:
            state.align()
        else:
            state.put(target, None)
    elif word & 0x3FE00000 != 0x3A400000:  # conditional compare
        _write(state, target, None)


def _pattern(word: int) -> int | None:
    """Return the bit mask that an ORR encodes: the same run of ones in every element."""
    ones, turned = (word >> 10 & 63), word >> 16 & 63
    length = ((word >> 22 & 1) << 6 | ~ones & 63).bit_length() - 1
    if length < 1:
        return None
    size = 1 << length
    count, turn = (ones & size - 1) + 1, turned & size - 1
    if count >= size:
        return None
    element = (1 << count) - 1
    element = (element >> turn | element << size - turn) & (1 << size) - 1
    width = 64 if word >> 31 else 32
    return sum(element << place for place in range(0, width, size))


def _read(state: RegisterState, number: int) -> int | None:
    """Return the value of a register; number 31 is zero."""
    return 0 if number == 31 else state.get(number)


def _write(state: RegisterState, number: int, value: int | None) -> None:
    if number != 31:
        state.put(number, value)


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value
