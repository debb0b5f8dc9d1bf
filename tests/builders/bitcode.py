"""Bitstreams and modules built in code, from LLVM's BitCodeFormat document and not from fatpack's own tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

MAGIC = b"BC\xc0\xde"
CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._"
BLOCKINFO, MODULE, CONSTANTS, FUNCTION = 0, 8, 11, 12
VERSION, SECTION_NAME, GLOBAL, FUNCTION_RECORD, ALIAS = 1, 5, 7, 8, 14
SET_TYPE, NULL, INTEGER, STRING, CSTRING, DATA = 1, 2, 4, 8, 9, 22

#: Operands of abbreviations: (encoding, width), or a literal
FIXED, VBR, ARRAY, CHAR6, BLOB = 1, 2, 3, 4, 5


class Stream:
    """A bitstream being written."""

    def __init__(self) -> None:
        self.done = bytearray()
        self.value = 0  # bits that are no whole word yet
        self.pending = 0
        self.widths: list[int] = [2]
        self.open: list[int] = []

    def fixed(self, value: int, width: int) -> None:
        assert 0 <= value < 1 << width
        self.value |= value << self.pending
        self.pending += width
        while self.pending >= 32:
            self.done += (self.value & 0xFFFFFFFF).to_bytes(4, "little")
            self.value >>= 32
            self.pending -= 32

    def vbr(self, value: int, width: int) -> None:
        more = 1 << (width - 1)
        while value >= more:
            self.fixed(value & (more - 1) | more, width)
            value >>= width - 1
        self.fixed(value, width)

    def align(self) -> None:
        self.fixed(0, -self.pending % 32)

    def enter(self, block: int, width: int = 4) -> None:
        self.fixed(1, self.widths[-1])
        self.vbr(block, 8)
        self.vbr(width, 4)
        self.align()
        self.open.append(len(self.done))
        self.fixed(0, 32)
        self.widths.append(width)

    def leave(self) -> None:
        self.fixed(0, self.widths.pop())
        self.align()
        start = self.open.pop()
        self.done[start : start + 4] = ((len(self.done) - start - 4) // 4).to_bytes(4, "little")

    def define(self, *operands: int | tuple[int, int]) -> None:
        self.fixed(2, self.widths[-1])
        self.vbr(len(operands), 5)
        for operand in operands:
            if isinstance(operand, int):
                self.fixed(1, 1)
                self.vbr(operand, 8)
                continue
            encoding, width = operand
            self.fixed(0, 1)
            self.fixed(encoding, 3)
            if encoding in (FIXED, VBR):
                self.vbr(width, 5)

    def record(self, code: int, values: Sequence[int]) -> None:
        """Write an unabbreviated record."""
        self.fixed(3, self.widths[-1])
        for number in (code, len(values), *values):
            self.vbr(number, 6)

    def array(self, abbreviation: int, values: Sequence[int], width: int) -> None:
        """Write a record by an abbreviation of a literal code and an array of fixed width."""
        self.fixed(abbreviation, self.widths[-1])
        self.vbr(len(values), 6)
        for value in values:
            self.fixed(value, width)

    def bytes(self) -> bytes:
        assert not self.open
        self.align()
        return MAGIC + bytes(self.done)


class Global(NamedTuple):
    section: int
    #: number of the initialiser's constant, None without one
    constant: int | None


def module(
    globals: Sequence[Global],
    constants: Sequence[tuple[int, bytes]],
    *,
    sections: Sequence[bytes] = (b".llvm.offloading",),
    version: int = 2,
    shift: int = 0,
    others: int = 0,
    abbreviate: bool = True,
    stream: Stream | None = None,
) -> Stream:
    """Return a stream with a module: constants are (code, bytes), ``others`` functions count before them.

    ``shift`` moves the bytes of constants by that many bits, in steps of 6.
    """
    out = stream or Stream()
    out.enter(MODULE, 3)
    out.record(VERSION, [version])
    out.enter(BLOCKINFO, 2)
    out.record(1, [CONSTANTS])
    out.define(STRING, (ARRAY, 0), (FIXED, 8))
    out.define(CSTRING, (ARRAY, 0), (FIXED, 7))
    out.define(CSTRING, (ARRAY, 0), (CHAR6, 0))
    out.leave()
    for name in sections:
        out.record(SECTION_NAME, list(name))
    names = [0, 1] if version >= 2 else []
    for section, constant in globals:
        number = 0 if constant is None else 1 + len(globals) + others + constant
        out.record(GLOBAL, [*names, 0, 3, number, 9, 4, section, 0, 0, 0, 0, 0])
    for number in range(others):
        out.record(FUNCTION_RECORD if number % 2 else ALIAS, [*names, 0, 0, 0])
    out.enter(CONSTANTS, 4)
    for _ in range(shift):
        out.record(SET_TYPE, [1])
    for code, data in constants:
        out.record(SET_TYPE, [7])
        if not abbreviate:
            out.record(code, list(data))
        elif code == STRING:
            out.array(4, list(data), 8)
        elif code == CSTRING and all(chr(byte) in CHARACTERS for byte in data):
            out.array(6, [CHARACTERS.index(chr(byte)) for byte in data], 6)
        elif code == CSTRING:
            out.array(5, list(data), 7)
        else:
            out.record(code, list(data))
    out.leave()
    out.leave()
    return out


def of_triple(triple: str, before: int = 3, *, count: int = 0) -> bytes:
    """Return a file with the blocks that LLVM writes: identification, module, string table, and ``count`` others.

    ``before`` nested blocks and as many records stand before the triple.
    """
    out = Stream()
    out.enter(13, 5)
    out.record(1, list(b"LLVM22"))
    out.leave()
    out.enter(MODULE, 3)
    for index in range(before):
        out.enter(9, 4)
        out.record(5, list(range(index)))
        out.leave()
        out.record(VERSION, [2])
    out.record(2, list(triple.encode()))
    out.record(3, list(b"e-p:64:64"))
    out.leave()
    out.enter(23, 3)
    out.record(1, list(b"names"))
    out.leave()
    for _ in range(count):
        out.enter(25, 3)
        out.leave()
    return out.bytes()
