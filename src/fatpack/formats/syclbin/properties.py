"""Property sets: the text in which SYCL's tools store facts about device code.

::

    [SYCLBIN/global metadata]
    state=1|0
    [SYCL/device requirements]
    aspects=2|AAAAAAAAAAA

A line is a name, the number of a type, and a value: 1 is a number below 2**32, 2 are bytes. Eight bytes with the number
of bits precede bytes.

How we know: ``llvm/lib/Support/PropertySetIO.cpp`` and ``Base64.cpp`` of DPC++; the texts of its
``PropertySetIOTest.cpp`` are read and written to the same bytes.

QUIRK(DPC++'s Base64): the first six bits are the lowest of the first byte, and nothing pads the end. So it is not the
base64 of RFC 4648, although it has the same alphabet.
"""

from __future__ import annotations

import binascii

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from fatpack.formats.described import PropertyValue

NUMBER, BYTES = 1, 2

#: Numbers have 32 bits.
_MOST, _DIGITS = (1 << 32) - 1, 10

#: Bytes before an array that have its number of bits.
_SIZE = 8


class Property(Record):
    """A property: its set, its name, its value, and the position of its line in the text."""

    set: str
    name: str
    value: int | bytes
    at: int
    size: int


def read_properties(text: bytes, wrong: Callable[[int, int, str], None] | None = None) -> Iterator[Property]:
    """Yield the properties of a text in stored order; of equal ones DPC++ uses the last.

    ``wrong`` is called with position, size and problem of an invalid line; the others are read.
    """
    at, current = 0, None
    for whole in text.split(b"\n"):
        start, size = at, len(whole)
        at += size + 1
        line = whole.removesuffix(b"\r")
        if not line:
            continue
        if line.startswith(b"["):
            end = line.rfind(b"]")
            if end >= 0:
                current = _decoded(line[1:end])
            elif wrong:
                wrong(start, size, "the name of a property set does not end")
            continue
        value, problem = _value(line)
        if current is None:
            problem = problem or "a property before any property set"
        if problem:
            if wrong:
                wrong(start, size, problem)
            if value is None:
                continue
        if value is not None and current is not None:
            yield Property(current, _decoded(line[: line.find(b"=")]), value, start, size)


def property_set_names(text: bytes) -> Iterator[str]:
    """Yield the names of the property sets of a text in stored order, also of those without a property."""
    for line in text.split(b"\n"):
        end = line.rfind(b"]")
        if line.startswith(b"[") and end >= 0:
            yield _decoded(line[1:end])


def stored_value(text: bytes, item: Property) -> int | bytes:
    """Return a property's value as DPC++ stores it: bytes follow the eight with their number of bits."""
    if isinstance(item.value, int):
        return item.value
    line = text[item.at : item.at + item.size].removesuffix(b"\r")
    return decode_bytes(line.partition(b"=")[2].partition(b"|")[2])


def _value(line: bytes) -> tuple[int | bytes | None, str]:
    """Return the value of a property, None if it is invalid, and the problem."""
    name, _, rest = line.partition(b"=")
    kind, _, value = rest.partition(b"|")
    if not name or not kind or not value:
        return None, "not of the form name=type|value"
    if kind == b"1":
        return _number(value)
    if kind == b"2":
        return _bytes(value)
    return None, f"type {_shown(kind)}, where 1 (a number) and 2 (bytes) are known"


def _number(value: bytes) -> tuple[int | None, str]:
    if not value.isdigit() or len(value) > _DIGITS or int(value) > _MOST:
        return None, f"{_shown(value)} is not a 32-bit number"
    return int(value), ""


def _bytes(value: bytes) -> tuple[bytes | None, str]:
    try:
        stored = decode_bytes(value)
    except ValueError:
        return None, f"{_shown(value)} is not what DPC++ encodes bytes as"
    if len(stored) < _SIZE:
        return None, f"{len(stored)} bytes, where {_SIZE} say how many there are"
    bits, data = int.from_bytes(stored[:_SIZE], "little"), stored[_SIZE:]
    if (bits + 7) // 8 != len(data):
        return data, f"{bits} bits are said to be there, and {len(data)} bytes are"
    return data, ""


def decode_bytes(text: bytes) -> bytes:
    """Return the bytes that a value of type 2 encodes. Raises ValueError for an invalid value.

    The reversed text is the base64 of the reversed bytes; the missing end means zeros, which then come first.
    """
    if len(text) % 4 == 1:
        raise ValueError("no encoding has this length")
    missing = -len(text) % 4
    try:
        data = binascii.a2b_base64(b"A" * missing + text[::-1], strict_mode=True)
    except binascii.Error as error:
        raise ValueError("a character of another alphabet") from error
    return data[::-1][: len(text) * 3 // 4]


def encode_bytes(data: bytes) -> bytes:
    """Return bytes in DPC++'s encoding for values."""
    text = binascii.b2a_base64(bytes(-len(data) % 3) + data[::-1], newline=False)[::-1]
    return text[: (len(data) * 8 + 5) // 6]


def write_property_set(set: str, properties: Iterable[tuple[str, int | str | bytes]]) -> bytes:
    """Return a property set as text. Raises ValueError for a name that a line cannot have."""
    if "\n" in set:
        raise ValueError(f"{set!r} cannot be the name of a property set")
    lines = [b"[" + _encoded(set) + b"]\n"]
    for name, value in properties:
        stored = _encoded(name)
        if not stored or stored.startswith(b"[") or any(mark in stored for mark in (b"=", b"\n", b"\r")):
            raise ValueError(f"{name!r} cannot be the name of a property")
        if isinstance(value, int):
            lines.append(b"%b=1|%d\n" % (stored, value))
        else:
            data = _encoded(value) if isinstance(value, str) else value
            lines.append(b"%b=2|%b\n" % (stored, encode_bytes((8 * len(data)).to_bytes(_SIZE, "little") + data)))
    return b"".join(lines)


def value_text(value: int | bytes) -> str:
    """Return the text in a value, "" if it is a number."""
    return "" if isinstance(value, int) else _decoded(value)


def to_plain_value(value: int | bytes) -> PropertyValue:
    """Return a value as plain data: numbers, text as such, and other bytes as ``{"hex": …}``."""
    if isinstance(value, int):
        return value
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return {"hex": value.hex()}
    return text if text.isprintable() else {"hex": value.hex()}


def _shown(text: bytes) -> str:
    return repr(text.decode("utf-8", "backslashreplace"))


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
