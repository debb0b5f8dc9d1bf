"""Changes to files: to the numbers that readers use, to blocks of bytes, and to words.

A reader depends on sizes, offsets, counts and magics, and only copies most other bytes; so half of the changes go to
the fields in the layout tables of a format, with values at the edges of their meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Literal, NamedTuple

#: Values at the edges of the types, and of possible file sizes.
_EDGES = (
    0,
    1,
    2,
    3,
    7,
    8,
    255,
    256,
    4095,
    4096,
    65535,
    65536,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**32,
    2**40,
    2**63,
    2**64 - 1,
)


class Field(NamedTuple):
    """A number in a file: its position, and its size in bytes."""

    at: int
    size: int


class Seed(NamedTuple):
    """A file with its numbers."""

    data: bytes
    fields: list[Field]


class Mutator:
    """Makes new files out of seeds. ``words`` are bytes with a meaning; ``is_text`` turns the changes to lines."""

    def __init__(self, random: Random, words: list[bytes], *, is_text: bool, largest: int) -> None:
        self._random = random
        self._words = words
        self._is_text = is_text
        self._largest = largest

    def mutated(self, seed: Seed, other: Seed) -> bytes:
        """Return a file made of one seed, and sometimes of a part of another."""
        random = self._random
        data = bytearray(seed.data)
        # Numbers first: their positions are right only until the first block moves.
        if seed.fields and random.random() < 0.75:
            for _ in range(random.choice((1, 1, 1, 2, 3))):
                self._number(data, seed.fields)
        if not seed.fields or random.random() < 0.5:
            for _ in range(random.choice((1, 1, 2, 4))):
                random.choice(self._changes())(data, other.data)
        return bytes(data[: self._largest])

    def _changes(self) -> list[Callable[[bytearray, bytes], None]]:
        blocks = [self._flip, self._random_bytes, self._delete, self._copy, self._overwrite, self._splice, self._cut]
        return [*blocks, self._word, self._word, *([self._line] * 4 if self._is_text else [])]

    def _number(self, data: bytearray, fields: list[Field]) -> None:
        random = self._random
        field = random.choice(fields)
        if field.at + field.size > len(data):
            return
        order: Literal["big", "little"] = "big" if random.random() < 0.1 else "little"
        old = int.from_bytes(data[field.at : field.at + field.size], order)
        twin = random.choice(fields)
        new = random.choice(
            (
                random.choice(_EDGES),
                old + random.choice((-8, -4, -1, 1, 4, 8)),
                old * 2,
                old ^ (1 << random.randrange(8 * field.size)),
                len(data) + random.choice((-1, 0, 1)),
                len(data) - field.at,
                field.at,
                int.from_bytes(data[twin.at : twin.at + twin.size], "little"),
                random.randrange(1 << (8 * field.size)),
            )
        )
        data[field.at : field.at + field.size] = (new % (1 << (8 * field.size))).to_bytes(field.size, order)

    def _place(self, data: bytearray) -> int:
        return self._random.randrange(len(data) + 1)

    def _range(self, data: bytes | bytearray) -> tuple[int, int]:
        start = self._random.randrange(len(data) + 1)
        return start, min(len(data), start + self._random.choice((1, 2, 4, 8, 16, 64, 256, 4096)))

    def _flip(self, data: bytearray, _other: bytes) -> None:
        if data:
            data[self._random.randrange(len(data))] ^= 1 << self._random.randrange(8)

    def _random_bytes(self, data: bytearray, _other: bytes) -> None:
        start, end = self._range(data)
        data[start:end] = self._random.randbytes(min(end - start, 8))

    def _delete(self, data: bytearray, _other: bytes) -> None:
        start, end = self._range(data)
        del data[start:end]

    def _copy(self, data: bytearray, _other: bytes) -> None:
        start, end = self._range(data)
        at = self._place(data)
        data[at:at] = data[start:end] * self._random.choice((1, 1, 1, 2, 16))

    def _overwrite(self, data: bytearray, other: bytes) -> None:
        start, end = self._range(other)
        at = self._place(data)
        data[at : at + end - start] = other[start:end]

    def _splice(self, data: bytearray, other: bytes) -> None:
        data[self._place(data) :] = other[self._random.randrange(len(other) + 1) :]

    def _cut(self, data: bytearray, _other: bytes) -> None:
        del data[self._place(data) :]

    def _word(self, data: bytearray, _other: bytes) -> None:
        word, at = self._random.choice(self._words), self._place(data)
        data[at : at + self._random.choice((0, len(word)))] = word

    def _line(self, data: bytearray, other: bytes) -> None:
        random = self._random
        lines = bytes(data).split(b"\n")
        at = random.randrange(len(lines))
        what = random.randrange(4)
        if what == 0:
            del lines[at]
        elif what == 1:
            lines.insert(at, random.choice(lines))
        elif what == 2:
            lines.insert(at, random.choice(other.split(b"\n")))
        else:
            twin = random.randrange(len(lines))
            lines[at], lines[twin] = lines[twin], lines[at]
        data[:] = b"\n".join(lines)
