"""Reader of LLVM's bitstream format: numbers of any width at any bit, abbreviations, blocks; in bounded memory.

Bit k of the stream is bit k mod 8 of byte k // 8. Positions are bits from the stream's magic on. A number is *fixed*
(a given number of bits) or *VBR*: groups of bits, of which the highest bit says that another group follows.
"""

from __future__ import annotations

from fatpack.errors import BadValue, FormatError, LimitExceeded, Truncated
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from fatpack.io.source import View

FORMAT = "bitcode"

#: Abbreviation IDs of every block; a block's own definitions follow
END_BLOCK, ENTER_BLOCK, DEFINE_ABBREVIATION, UNABBREVIATED, FIRST_OWN = 0, 1, 2, 3, 4

#: Encodings of an operand; LITERAL is a number of our own for a value that takes no bits
LITERAL, FIXED, VBR, ARRAY, CHAR6, BLOB = 0, 1, 2, 3, 4, 5

#: LIMIT: bytes read at a time.
_WINDOW = 1 << 16

#: LIMIT: groups of a VBR number that are processed at once when arrays are skipped.
_GROUPS = 1 << 15

#: Groups of a 64-bit number in groups of 2 bits, one of which is the continuation bit.
_MOST_GROUPS = 64

#: LIMIT: operands of one abbreviation. LLVM's longest have about 30; without a limit, short records could expand to
#: long lists of literals.
_OPERANDS = 256

#: Values of a record that are decoded; the records that we read have no needed value after these.
DECODED_VALUES = 12


class ArrayRun(Record):
    """The location of an array's elements: ``count`` of them from bit ``at`` on, in one encoding."""

    at: int
    count: int
    encoding: int
    width: int

    @property
    def is_bytes(self) -> bool:
        """True if the elements are stored as bytes, which may start at any bit."""
        return self.encoding == FIXED and self.width == 8


class Abbreviation(Record):
    """The encoding of a record.

    ``code`` and ``values`` are (encoding, number) pairs; the number is the width or the literal. ``values`` has only
    the values that are decoded. ``steps`` skips all values, ``rest`` the values that are not decoded: a number of bits,
    then a VBR number of the given width (0: none). ``element`` is the encoding of a final array; ``is_blob``: the
    record ends with a blob.
    """

    code: tuple[int, int]
    values: tuple[tuple[int, int], ...]
    steps: tuple[tuple[int, int], ...]
    rest: tuple[tuple[int, int], ...]
    element: tuple[int, int] | None
    is_blob: bool


class BitReader:
    """A position in a bitstream. Every method raises Truncated at the end of the stream or of the current block."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.at = 0
        #: Bit at which reading stops: the end of the stream, or of the current block
        self.end = 8 * len(view)
        self._window = b""
        self._window_at = 0

    def _word(self, at: int) -> int:
        """Return at least 64 bits from a position on; after the end of the stream they are zero."""
        offset = (at >> 3) - self._window_at
        if offset < 0 or offset + 9 > len(self._window):
            self._window_at = at >> 3
            self._window = self.view.head(self._window_at, _WINDOW)
            offset = 0
        return int.from_bytes(self._window[offset : offset + 9], "little") >> (at & 7)

    def _advance(self, width: int) -> None:
        if self.at + width > self.end:
            raise Truncated(
                needed=(width + 7) >> 3,
                left=(self.end - self.at) >> 3,
                format=FORMAT,
                offset=self.view.offset(self.at >> 3),
                field="block",
                chain=self.view.chain,
            )
        self.at += width

    def fixed(self, width: int) -> int:
        """Return a number of up to 64 bits."""
        value = self._word(self.at) & ((1 << width) - 1)
        self._advance(width)
        return value

    def vbr(self, width: int) -> int:
        """Return a VBR number. Raises BadValue if it takes more than 64 bits."""
        more = 1 << (width - 1)
        value = shift = 0
        while shift < 64:
            group = self.fixed(width)
            value |= (group & (more - 1)) << shift
            if not group & more:
                return value
            shift += width - 1
        raise self.error("a number takes more than 64 bits")

    def align(self) -> None:
        """Move to the next multiple of 32 bits."""
        self._advance(-self.at % 32)

    def skip_vbr(self, width: int, count: int) -> None:
        """Skip ``count`` VBR numbers by counting their last groups, many at a time."""
        if count * width > self.end - self.at:
            self._advance(count * width)
        groups = mask = 0
        while count > _MOST_GROUPS:
            now = min(_GROUPS, count, (self.end - self.at) // width)
            if now != groups:
                groups = now
                # The highest bit of every group
                mask = ((1 << groups * width) - 1) // ((1 << width) - 1) << (width - 1)
            size = groups * width
            first = self.at >> 3
            block = self.view.head(first, ((self.at + size + 7) >> 3) - first)
            # A block of groups ends at most as many numbers as it has groups, so this cannot skip too many.
            ends = (~(int.from_bytes(block, "little") >> (self.at & 7)) & mask).bit_count()
            self._advance(max(size, width))
            if not ends and groups > _MOST_GROUPS:
                raise self.error("a number takes more than 64 bits")
            count -= ends
        for _ in range(count):
            self.vbr(width)

    def enter_block(self) -> tuple[int, int, int]:
        """Return (block ID, width of its abbreviation IDs, its end) after ENTER_BLOCK."""
        block, width = self.vbr(8), self.vbr(4)
        self.align()
        end = 32 * self.fixed(32) + self.at
        if end > self.end or not 2 <= width <= 32:
            raise self.error(f"block {block} does not fit into the enclosing block")
        return block, width, end

    def abbreviation(self) -> Abbreviation:
        """Return a definition after DEFINE_ABBREVIATION."""
        count = self.vbr(5)
        if count > _OPERANDS:
            raise LimitExceeded(
                f"an abbreviation of {count} operands",
                format=FORMAT,
                offset=self.view.offset(self.at >> 3),
                expected=f"at most {_OPERANDS}",
                chain=self.view.chain,
            )
        operands = [self._operand() for _ in range(count)]
        kinds = [kind for kind, _ in operands]
        element, is_blob = None, False
        if len(operands) > 2 and kinds[-2] == ARRAY:
            element = operands[-1]
            if element[0] not in (FIXED, VBR, CHAR6):
                raise self.error("an array of elements without a size")
            del operands[-2:]
        elif len(operands) > 1 and kinds[-1] == BLOB:
            is_blob = True
            del operands[-1:]
        if not operands or any(kind in (ARRAY, BLOB) for kind, _ in operands):
            raise self.error("an abbreviation in a form that is none")
        code, *values = operands
        decoded, rest = values[:DECODED_VALUES], values[DECODED_VALUES:]
        return Abbreviation(code, tuple(decoded), tuple(_steps(values)), tuple(_steps(rest)), element, is_blob)

    def _operand(self) -> tuple[int, int]:
        if self.fixed(1):
            return LITERAL, self.vbr(8)
        kind = self.fixed(3)
        if kind in (FIXED, VBR):
            width = self.vbr(5)
            if width > 64 or (kind == VBR and width == 1):
                raise self.error(f"a number of {width} bits")
            # QUIRK(LLVM): width 0 means the value 0.
            return (kind, width) if width else (LITERAL, 0)
        if kind == CHAR6:
            return CHAR6, 6
        if kind in (ARRAY, BLOB):
            return kind, 0
        raise self.error(f"encoding {kind}")

    def records(
        self, width: int, known: Iterable[Abbreviation] = (), enter: Callable[[], None] | None = None
    ) -> Iterator[Abbreviation | None]:
        """Yield the abbreviation of each record of the current block; None for an unabbreviated record.

        The position is then at the record's code, and the caller moves it past the record. ``width``: width of
        abbreviation IDs. ``known``: abbreviations that the block has from the start. ``enter`` is called after the
        ENTER_BLOCK of a nested block and moves to its end; without it, nested blocks are skipped. Raises FormatError
        if the block is damaged.
        """
        own = list(known)
        while self.at < self.end:
            number = self.fixed(width)
            if number == END_BLOCK:
                return
            if number == ENTER_BLOCK and enter is not None:
                enter()
            elif number == ENTER_BLOCK:
                self.at = self.enter_block()[2]
            elif number == DEFINE_ABBREVIATION:
                own.append(self.abbreviation())
            elif number == UNABBREVIATED:
                yield None
            elif number - FIRST_OWN < len(own):
                yield own[number - FIRST_OWN]
            else:
                raise self.error(f"abbreviation {number} is not defined")

    def code(self, abbreviation: Abbreviation | None) -> int:
        """Return the code of a record, which is its type; ``abbreviation`` None means an unabbreviated one."""
        return self.vbr(6) if abbreviation is None else self._value(abbreviation.code)

    def values(self, abbreviation: Abbreviation | None) -> tuple[list[int], ArrayRun | None]:
        """Return the first values of a record after its code, and its array; moves past the record."""
        if abbreviation is None:
            count = self.vbr(6)
            taken = [self.vbr(6) for _ in range(min(count, DECODED_VALUES))]
            self.skip_vbr(6, count - len(taken))
            return taken, None
        taken = [self._value(operand) for operand in abbreviation.values]
        self._skip(abbreviation.rest)
        return taken, self._array(abbreviation)

    def skip(self, abbreviation: Abbreviation | None) -> ArrayRun | None:
        """Skip a record after its code, and return its array: all values of an unabbreviated record."""
        if abbreviation is None:
            count = self.vbr(6)
            run = ArrayRun(self.at, count, VBR, 6)
            self.skip_vbr(6, count)
            return run
        self._skip(abbreviation.steps)
        return self._array(abbreviation)

    def _skip(self, steps: Sequence[tuple[int, int]]) -> None:
        for width, vbr_width in steps:
            self._advance(width)
            if vbr_width:
                self.vbr(vbr_width)

    def _array(self, abbreviation: Abbreviation) -> ArrayRun | None:
        if abbreviation.is_blob:
            count = self.vbr(6)
            self.align()
            blob = ArrayRun(self.at, count, FIXED, 8)
            self._advance(8 * count)
            self.align()
            return blob
        if abbreviation.element is None:
            return None
        count = self.vbr(6)
        encoding, width = abbreviation.element
        run = ArrayRun(self.at, count, encoding, width)
        if encoding == VBR:
            self.skip_vbr(width, count)
        else:
            self._advance(width * count)
        return run

    def _value(self, operand: tuple[int, int]) -> int:
        encoding, number = operand
        if encoding == LITERAL:
            return number
        if encoding == CHAR6:
            return CHARACTERS[self.fixed(6)]
        return self.fixed(number) if encoding == FIXED else self.vbr(number)

    def elements(self, run: ArrayRun) -> Iterator[int]:
        """Yield the elements of an array. This moves the position, so use a separate reader for it."""
        self.at = run.at
        for _ in range(run.count):
            yield self._value((run.encoding, run.width))

    def error(self, problem: str) -> FormatError:
        """Return an error for the current position."""
        return BadValue(
            problem, format=FORMAT, offset=self.view.offset(min(self.at, self.end) >> 3), chain=self.view.chain
        )


#: Characters of the 64 values of CHAR6
CHARACTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._"


def _steps(operands: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield (bits to skip, width of the VBR number after them or 0); adjacent fixed fields are merged."""
    width = 0
    for kind, number in operands:
        if kind == VBR:
            yield width, number
            width = 0
        elif kind != LITERAL:
            width += number
    if width:
        yield width, 0
