"""Machine code as a listing: the bytes of each instruction beside its assembly, and what is filled in.

One line of a listing is one of these::

    unregister:                             a function, if it is one of FUNCTIONS; else a place to jump to
    48 8d 3d <pc32 wrapper>                 lea rdi, [rip + wrapper]
                                            .cfi_def_cfa_offset 16

The left column is what the object holds, the right one is its documentation: a test assembles it with llvm-mc and
compares every byte. What stands in ``<…>`` is a place that is filled in: with a number that is known now
(:data:`_VALUES`), with the distance to a place in the listing (:data:`_LOCAL`), or by the linker
(:data:`RELOCATED`: kind of relocation → bytes that the listing leaves to it). Places of AArch64 are bits inside the
instruction that they stand behind.
"""

from __future__ import annotations

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: Labels that are functions. Their names in the object are the caller's.
FUNCTIONS = ("register", "unregister", "globals")

#: what the linker fills in → bytes left to it; 0 where the bits are in the instruction before
RELOCATED = {"pc32": 4, "call32": 4, "page21": 0, "low12": 0, "low12x8": 0, "call26": 0}

#: number that is known → bytes; or the bits of an instruction that hold it: first bit, bits, shift of the number
_VALUES = {"byte": 1, "u32": 4}
_BITS = {
    "imm12": (10, 12, 0),
    # Offsets of 8 and of 4 bytes, in a pair and alone, are counted in these.
    "imm12x8": (10, 12, 3),
    "imm12x4": (10, 12, 2),
    "imm7x8": (15, 7, 3),
    "imm16": (5, 16, 0),
    "imm16high": (5, 16, 16),
}

#: distance to a label → bytes, or (first bit, bits) of an instruction, in words
_LOCAL = {"local32": 4}
_BRANCHES = {"branch19": (5, 19), "branch26": (0, 26)}

#: Where the right column starts, at least: the left one ends with two blanks before it.
_GAP = "  "


class LinkerFixup(Record):
    """A place that the linker fills in: the kind of relocation, the symbol, and what is added to its address."""

    offset: int
    kind: str
    symbol: str
    addend: int = 0


class UnwindDirective(Record):
    """A directive for unwinding, and how many bytes of its function stand before it."""

    after: int
    name: str
    operands: tuple[str, ...]


class CodeFunction(Record):
    """A function of a listing: one of :data:`FUNCTIONS`, where it starts, its size in bytes, and how it unwinds."""

    name: str
    offset: int
    size: int
    directives: tuple[UnwindDirective, ...]


class MachineCode(Record):
    """What a listing gives: bytes, places for the linker in the order of their offsets, and functions."""

    data: bytes
    fixups: tuple[LinkerFixup, ...]
    functions: tuple[CodeFunction, ...]


def assemble(listing: str, values: Mapping[str, int], *, align: int, padding: bytes) -> MachineCode:
    """Return the code of a listing, with functions at multiples of ``align`` bytes and ``padding`` between them.

    ``values`` are the numbers that it names. Raises ValueError for a line that is none of a listing, KeyError for a
    number or label that is not there: both are mistakes in the listing, never in what a user gave.
    """
    code = _Assembly(values)
    for line in listing.splitlines():
        left, _, right = line.strip().partition(_GAP)
        if left.endswith(":"):
            code.label(left[:-1], align, padding)
        elif left.startswith("."):
            code.directive(left)
        elif left:
            code.instruction(left)
            if not right:
                raise ValueError(f"{left}: an instruction without its assembly")
    return code.finished()


class _Assembly:
    def __init__(self, values: Mapping[str, int]) -> None:
        self._values = values
        self._data = bytearray()
        self._fixups: list[LinkerFixup] = []
        self._labels: dict[str, int] = {}
        self._starts: list[tuple[str, int, list[UnwindDirective]]] = []
        self._ends: list[int] = []
        self._jumps: list[tuple[int, str, str]] = []

    def label(self, name: str, align: int, padding: bytes) -> None:
        if name in FUNCTIONS:
            self._ends.append(len(self._data))
            self._data += padding * (-len(self._data) % align // len(padding))
            self._starts.append((name, len(self._data), []))
        self._labels[name] = len(self._data)

    def directive(self, text: str) -> None:
        name, _, operands = text.partition(" ")
        _, start, directives = self._starts[-1]
        words = tuple(filter(None, operands.replace(",", " ").split()))
        directives.append(UnwindDirective(len(self._data) - start, name, words))

    def instruction(self, left: str) -> None:
        text, _, place = left.partition("<")
        self._data += bytes.fromhex(text)
        if place:
            kind, symbol = place.rstrip(">").split()
            self._place(kind, symbol)

    def _place(self, kind: str, name: str) -> None:
        at = len(self._data)
        if kind in _VALUES:
            self._data += self._values[name].to_bytes(_VALUES[kind], "little")
        elif kind in _BITS:
            first, count, shift = _BITS[kind]
            self._fill(at - 4, (self._values[name] >> shift) & ((1 << count) - 1), first)
        elif kind in _LOCAL or kind in _BRANCHES:
            self._data += bytes(_LOCAL.get(kind, 0))
            self._jumps.append((at if kind in _LOCAL else at - 4, kind, name))
        else:
            size = RELOCATED[kind]
            self._data += bytes(size)
            self._fixups.append(LinkerFixup(at if size else at - 4, kind, name))

    def _fill(self, at: int, bits: int, first: int) -> None:
        word = int.from_bytes(self._data[at : at + 4], "little") | bits << first
        self._data[at : at + 4] = word.to_bytes(4, "little")

    def finished(self) -> MachineCode:
        for at, kind, name in self._jumps:
            distance = self._labels[name] - at
            if kind in _LOCAL:
                # Counted from the end of the instruction, whose last bytes these are.
                self._data[at : at + 4] = (distance - 4).to_bytes(4, "little", signed=True)
            else:
                first, count = _BRANCHES[kind]
                self._fill(at, distance // 4 & ((1 << count) - 1), first)
        ends = [*self._ends[1:], len(self._data)]
        functions = [
            CodeFunction(name, start, end - start, tuple(directives))
            for (name, start, directives), end in zip(self._starts, ends, strict=True)
        ]
        return MachineCode(bytes(self._data), tuple(self._fixups), tuple(functions))
