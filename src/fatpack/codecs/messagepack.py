"""MessagePack: a reader of one value at a time, and packers; for metadata of code objects and kpack archives.

::

    byte    value                                 byte    value
    00-7f   the integer itself                    ca cb   float, double
    80-8f   map of that many pairs                cc-cf   unsigned integer of 1, 2, 4, 8 bytes
    90-9f   array of that many values             d0-d3   signed integer of the same
    a0-bf   string of that many bytes             d4-d8   extension of 1, 2, 4, 8, 16 bytes after its type
    c0      nil                                   d9-db   string, its size in 1, 2, 4 bytes
    c2 c3   false, true                           dc dd   array, its count in 2, 4 bytes
    c4-c6   bytes, their size in 1, 2, 4 bytes    de df   map, its count in 2, 4 bytes
    c7-c9   extension, likewise                   e0-ff   the integer minus 256

Numbers are big-endian (msgpack/msgpack ``spec.md``; LLVM's ``BinaryFormat/MsgPackReader`` agrees).

Only requested values are built: a value of one byte can be an empty map, and a tree of those takes a hundred times the
memory of its encoding. Other values are skipped without recursion.
"""

from __future__ import annotations

from fatpack.errors import BadValue, Truncated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fatpack.io.source import View

#: first byte → kind, number in the byte itself, size of a number that follows. None: not used by the format.
_HEADS: dict[int, tuple[str, int, int]] = {
    **{first: ("integer", first, 0) for first in range(0x80)},
    **{0x80 + count: ("map", count, 0) for count in range(16)},
    **{0x90 + count: ("array", count, 0) for count in range(16)},
    **{0xA0 + size: ("string", size, 0) for size in range(32)},
    0xC0: ("nil", 0, 0),
    0xC2: ("boolean", 0, 0),
    0xC3: ("boolean", 1, 0),
    **{0xC4 + power: ("bytes", 0, 1 << power) for power in range(3)},
    **{0xC7 + power: ("extension", 0, 1 << power) for power in range(3)},
    0xCA: ("float", 4, 0),
    0xCB: ("float", 8, 0),
    **{0xCC + power: ("integer", 0, 1 << power) for power in range(4)},
    **{0xD0 + power: ("signed integer", 0, 1 << power) for power in range(4)},
    **{0xD4 + power: ("extension", 1 << power, 0) for power in range(5)},
    **{0xD9 + power: ("string", 0, 1 << power) for power in range(3)},
    **{0xDC + power: ("array", 0, 2 << power) for power in range(2)},
    **{0xDE + power: ("map", 0, 2 << power) for power in range(2)},
    **{first: ("integer", first - 0x100, 0) for first in range(0xE0, 0x100)},
}

#: the first three bits of strings of fewer than 32 bytes; the first byte above those that are integers themselves
_SHORT_STRING, _INTEGERS_END = 0xA0, 0x80

#: kind → nested values per unit of its count
_INSIDE = {"array": 1, "map": 2}

#: kinds whose number is a size in bytes → bytes before the content: the type of an extension
_BEFORE = {"string": 0, "float": 0, "extension": 1}


def _step(first: int) -> tuple[int, int] | None:
    """Return the size of a value without nested values, and their number; None if more bytes must be read."""
    kind, number, size = _HEADS.get(first, ("", 0, 1))
    if size:
        return (1 + size, 0) if kind in ("integer", "signed integer") else None
    return 1 + (number + _BEFORE[kind] if kind in _BEFORE else 0), number * _INSIDE.get(kind, 0)


_STEPS = tuple(map(_step, range(256)))


class MessagePackReader:
    """A position in MessagePack data; every method reads one value and moves past it.

    Raises Truncated and BadValue with the offset of the value. ``field`` and ``format`` are used in errors: the name of
    the data, and the format that contains it.
    """

    def __init__(self, view: View, field: str, format: str = "messagepack") -> None:
        self.view = view
        self.field = field
        self.format = format
        self.at = 0
        self._data = view.tobytes()

    def map(self) -> Iterator[str]:
        """Yield the keys of a map; the caller reads or skips each value before the next key."""
        for _ in range(self._expect("map")):
            yield self.string().decode("utf-8", "backslashreplace")

    def map_of_strings(self) -> Iterator[bytes]:
        """Move past the header of a map; yield its keys as stored bytes."""
        count = self._expect("map")
        return (self.string() for _ in range(count))

    def array(self) -> Iterator[int]:
        """Yield the index of each value of an array; the caller reads or skips the value."""
        yield from range(self._expect("array"))

    def text(self) -> str:
        """Return a string; bytes that are not UTF-8 become escapes."""
        return self.string().decode("utf-8", "backslashreplace")

    def string(self) -> bytes:
        """Return the bytes of a string."""
        start, data = self.at, self._data
        # Fast path: nearly all keys have fewer than 32 bytes, and their size in the first byte.
        if start < len(data) and data[start] & 0xE0 == _SHORT_STRING:
            end = start + 1 + (data[start] & 0x1F)
            if end <= len(data):
                self.at = end
                return data[start + 1 : end]
        size = self._expect("string")
        self._need(size, start)
        self.at += size
        return self._data[self.at - size : self.at]

    def integer(self) -> int:
        """Return an integer."""
        at, data = self.at, self._data
        if at < len(data) and data[at] < _INTEGERS_END:  # fast path, as above
            self.at = at + 1
            return data[at]
        return self._expect("integer")

    def boolean(self) -> bool:
        """Return a boolean."""
        return bool(self._expect("boolean"))

    def stored(self) -> bytes:
        """Return the encoding of one value, with nested values."""
        start = self.at
        self.skip()
        return self._data[start : self.at]

    def strings_of_maps(self, keys: frozenset[bytes], depth: int) -> Iterator[dict[bytes, bytes]]:
        """Move past one value; yield, of every map in it, the strings that these keys have, if there are any.

        A map follows the maps in it. Values of more than ``depth`` levels raise BadValue.
        """
        #: of each open array or map: values that are left, those of a map with a key before each; strings of the map
        levels: list[tuple[bool, dict[bytes, bytes]]] = []
        left: list[int] = [1]
        key: bytes | None = None
        while left:
            if not left[-1]:
                left.pop()
                if levels:
                    _, found = levels.pop()
                    if found:
                        yield found
                continue
            is_key = bool(levels) and levels[-1][0] and left[-1] % 2 == 0
            left[-1] -= 1
            start = self.at
            kind, number = self._head()
            if kind in ("map", "array"):
                if len(left) > depth:
                    raise self._bad(f"has more than {depth} levels", start)
                levels.append((kind == "map", {}))
                left.append(2 * number if kind == "map" else number)
                key = None
            elif kind in ("string", "bytes", "extension", "float"):
                self._need(number, start)
                value = self._data[self.at : self.at + number] if kind == "string" else None
                self.at += number
                if is_key:
                    key = value
                else:
                    if value is not None and key in keys:
                        levels[-1][1].setdefault(key, value)
                    key = None
            else:
                key = None

    def skip(self) -> None:
        """Skip one value, with nested values."""
        data, at, end, left = self._data, self.at, len(self._data), 1
        # Fast path: most metadata of kernels are their arguments, which are skipped.
        while left:
            left -= 1
            step = _STEPS[data[at]] if at < end else None
            if step is None or at + step[0] > end:
                self.at = at
                left += self._skip_one()
                at = self.at
            else:
                at += step[0]
                left += step[1]
        self.at = at

    def _skip_one(self) -> int:
        """Skip the header of one value; return the number of nested values that remain to be skipped."""
        start = self.at
        kind, number = self._head()
        if kind in ("string", "bytes", "extension", "float"):
            self._need(number, start)
            self.at += number
        return number if kind == "array" else 2 * number if kind == "map" else 0

    def _expect(self, wanted: str) -> int:
        start = self.at
        kind, number = self._head()
        if kind != wanted:
            raise self._bad(f"has a value of type {kind}", start, wanted)
        return number

    def _head(self) -> tuple[str, int]:
        """Return the kind of the next value, and its number: a size, a count, or the integer or boolean itself."""
        start = self.at
        self._need(1, start)
        first = self._data[start]
        if first not in _HEADS:
            raise self._bad(f"{first:#04x} begins no value", start)
        kind, number, size = _HEADS[first]
        self.at += 1
        if size:
            self._need(size, start)
            is_signed = kind == "signed integer"
            number = int.from_bytes(self._data[self.at : self.at + size], "big", signed=is_signed)
            self.at += size
            kind = "integer" if is_signed else kind
        # The type of an extension is between its size and its content, and not counted by the size.
        return kind, number + (kind == "extension")

    def _need(self, size: int, start: int) -> None:
        if self.at + size > len(self._data):
            raise Truncated(
                needed=self.at + size - start,
                left=len(self._data) - start,
                format=self.format,
                offset=self.view.offset(start),
                field=self.field,
                chain=self.view.chain,
            )

    def _bad(self, problem: str, at: int, expected: str = "") -> BadValue:
        return BadValue(
            problem,
            format=self.format,
            offset=self.view.offset(at),
            field=self.field,
            expected=expected,
            chain=self.view.chain,
        )


def pack_integer(value: int) -> bytes:
    """Return an unsigned integer in the smallest encoding, as msgpack's packers do."""
    if value < 0x80:
        return bytes([value])
    size = next(size for size in (1, 2, 4, 8) if value < 1 << 8 * size)
    return bytes([{1: 0xCC, 2: 0xCD, 4: 0xCE, 8: 0xCF}[size]]) + value.to_bytes(size, "big")


def pack_string(value: bytes) -> bytes:
    """Return a string with these bytes."""
    return _counted(len(value), 0xA0, 32, {1: 0xD9, 2: 0xDA, 4: 0xDB}) + value


def pack_map(pairs: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Return a map; keys are the bytes of strings, values are encoded already."""
    parts = (part for key, value in pairs for part in (pack_string(key), value))
    return b"".join((_counted(len(pairs), 0x80, 16, {2: 0xDE, 4: 0xDF}), *parts))


def pack_array(values: Sequence[bytes]) -> bytes:
    """Return an array of encoded values."""
    return b"".join((_counted(len(values), 0x90, 16, {2: 0xDC, 4: 0xDD}), *values))


def _counted(count: int, short: int, below: int, heads: Mapping[int, int]) -> bytes:
    """Return the header for a size or count in the smallest encoding."""
    if count < below:
        return bytes([short + count])
    size = next(size for size in heads if count < 1 << 8 * size)
    return bytes([heads[size]]) + count.to_bytes(size, "big")
