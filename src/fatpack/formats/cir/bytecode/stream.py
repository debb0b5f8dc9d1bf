"""The primitives of bytecode: varints, and errors that name the offset."""

from __future__ import annotations

from fatpack.errors import BadValue
from fatpack.formats.cir.vocabulary import CIR_FORMAT
from fatpack.magic_numbers import MLIR_BYTECODE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View


def is_bytecode(view: View) -> bool:
    """Return whether these bytes start as MLIR bytecode does."""
    return view.head(0, 4) == MLIR_BYTECODE


def bytecode_error(view: View, at: int, field: str, problem: str, *, expected: str = "", found: str = "") -> BadValue:
    """Return the error for damaged bytecode at a position of a view."""
    return BadValue(
        problem,
        format=CIR_FORMAT,
        offset=view.offset(at),
        field=f"bytecode {field}",
        expected=expected,
        found=found,
        hint="the file looks damaged",
        chain=view.chain,
    )


class BytecodeStream:
    """Bytes of a view that are read from front to back; ``field`` is what errors call them."""

    def __init__(self, view: View, field: str, start: int = 0, end: int | None = None) -> None:
        self.view = view
        self.field = field
        self.at = 0
        self.base = start
        self.data = view.read(start, (len(view) if end is None else end) - start)
        self.end = len(self.data)

    def error(self, problem: str, *, expected: str = "", found: str = "") -> BadValue:
        """Return the error for something wrong where the stream is."""
        return bytecode_error(self.view, self.base + self.at, self.field, problem, expected=expected, found=found)

    def varint(self) -> int:
        """Return the next number: as many bytes as the first has zeros at its low end, and one more."""
        at = self.at
        if at >= self.end:
            raise self.error("cut short", expected="a number", found="the end of the section")
        first = self.data[at]
        if first & 1:
            self.at = at + 1
            return first >> 1
        size = (first & -first).bit_length() if first else 9
        if at + size > self.end:
            raise self.error("cut short", expected=f"a number of {size} bytes", found=f"{self.end - at} bytes")
        self.at = at + size
        if size == 9:
            return int.from_bytes(self.data[at + 1 : at + 9], "little")
        return int.from_bytes(self.data[at : at + size], "little") >> size

    def flagged(self) -> tuple[int, bool]:
        """Return the next number and the flag in its lowest bit."""
        value = self.varint()
        return value >> 1, bool(value & 1)

    def byte(self) -> int:
        """Return the next byte."""
        if self.at >= self.end:
            raise self.error("cut short", expected="a byte", found="the end of the section")
        self.at += 1
        return self.data[self.at - 1]

    def count(self, what: str) -> int:
        """Return the next number, which counts things of at least a byte each."""
        number = self.varint()
        if number > self.end - self.at:
            raise self.error(f"{number} {what}", expected=f"at most {self.end - self.at}, the bytes that are left")
        return number

    def skip(self, count: int) -> None:
        """Step over so many numbers."""
        for _ in range(count):
            self.varint()


def encode_varint(value: int) -> bytes:
    """Return a number as the writer of bytecode encodes it."""
    size = max(1, -(-value.bit_length() // 7))
    if size > 8:
        return b"\0" + value.to_bytes(8, "little")
    return ((value << 1 | 1) << (size - 1)).to_bytes(size, "little")
