"""LLVM bitcode built bit by bit, after LLVM's description of the stream and not from fatpack's reader."""

from __future__ import annotations

MAGIC = b"BC\xc0\xde"


class Bits:
    """A writer of LLVM bit streams: integers from the lowest bit up."""

    def __init__(self) -> None:
        self.value = 0
        self.size = 0

    def fixed(self, value: int, width: int) -> None:
        self.value |= value << self.size
        self.size += width

    def variable(self, value: int, width: int) -> None:
        more = 1 << (width - 1)
        while value >= more:
            self.fixed(value & (more - 1) | more, width)
            value >>= width - 1
        self.fixed(value, width)

    def record(self, width: int, code: int, values: list[int]) -> None:
        self.fixed(3, width)
        for number in (code, len(values), *values):
            self.variable(number, 6)

    def block(self, outer: int, number: int, inner: int, content: Bits) -> None:
        content.fixed(0, inner)
        content.size = content.size + 31 & ~31
        self.fixed(1, outer)
        self.variable(number, 8)
        self.variable(inner, 4)
        self.size = self.size + 31 & ~31
        self.fixed(content.size // 32, 32)
        self.fixed(content.value, content.size)

    def bytes(self) -> bytes:
        return self.value.to_bytes(self.size // 8, "little")


def bitcode(triple: str, before: int = 3, *, count: int | None = None) -> bytes:
    """Return a file with the blocks that LLVM writes: identification, module, string table.

    ``before`` nested blocks and as many records stand before the triple.
    """
    module = Bits()
    for index in range(before):
        nested = Bits()
        nested.record(4, 5, list(range(index)))
        module.block(3, 9, 4, nested)
        module.record(3, 1, [2])
    module.record(3, 2, list(triple.encode()))
    module.record(3, 3, list(b"e-p:64:64"))
    outer = Bits()
    identification, strings = Bits(), Bits()
    identification.record(5, 1, list(b"LLVM22"))
    strings.record(3, 1, list(b"names"))
    outer.block(2, 13, 5, identification)
    outer.block(2, 8, 3, module)
    outer.block(2, 23, 3, strings)
    for _ in range(count or 0):
        outer.block(2, 25, 3, Bits())
    return MAGIC + outer.bytes()
