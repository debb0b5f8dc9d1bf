"""What is packed is what the ``msgpack`` package packs, and what is built of it again is what that package reads."""

from __future__ import annotations

import msgpack
import pytest

from fatpack.codecs.messagepack import MessagePackReader, pack_array, pack_integer, pack_map, pack_string
from fatpack.errors import BadValue, Truncated
from fatpack.io.source import BytesSource

EDGES = sorted({max((1 << bits) + more, 0) for bits in (0, 7, 8, 16, 32, 63) for more in (-1, 0, 1)} | {(1 << 64) - 1})


@pytest.mark.parametrize("value", EDGES)
def test_integers(value: int) -> None:
    assert pack_integer(value) == msgpack.packb(value)


@pytest.mark.parametrize("size", [0, 1, 31, 32, 255, 256, 65535, 65536])
def test_strings(size: int) -> None:
    assert pack_string(b"s" * size) == msgpack.packb("s" * size)


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 255, 256, 65535, 65536])
def test_maps_and_arrays(count: int) -> None:
    numbers = range(count)
    assert pack_array([pack_integer(number) for number in numbers]) == msgpack.packb(list(numbers))
    pairs = [(str(number).encode(), pack_integer(number)) for number in numbers]
    assert pack_map(pairs) == msgpack.packb({str(number): number for number in numbers})


def reader(data: bytes) -> MessagePackReader:
    return MessagePackReader(BytesSource(data + b"\x2a").view(), "field")


@pytest.mark.parametrize("count", [0, 14, 15, 16, 65536])
def test_arrays_maps_and_strings_of_any_size_are_read(count: int) -> None:
    found = reader(msgpack.packb(list(range(count))))
    assert [found.integer() for _ in found.array()] == list(range(count))
    found = reader(msgpack.packb({str(number): number for number in range(count)}))
    assert [(key, found.integer()) for key in found.map()] == [(str(number), number) for number in range(count)]
    found = reader(msgpack.packb("s" * count))
    assert found.text() == "s" * count
    assert found.integer() == 42


def test_what_is_stored_is_the_encoding_of_a_value_with_those_in_it() -> None:
    value = msgpack.packb({"a": [1, {"b": None}], "c": b"bytes"})
    found = reader(msgpack.packb(7) + value)
    assert (found.integer(), found.stored(), found.integer()) == (7, value, 42)


TREE = {
    "type": "outer",
    "list": [{"value": "first", "other": "x"}, {}, {"type": "t", "value": 3}, "value", ["type", "loose"]],
    "value": {"type": "inner", "type2": "no", "bytes": b"b", "float": 1.5, "nil": None, "value": "late"},
    "deep": [[[{"value": "lowest"}]]],
    5: "number", "key": msgpack.ExtType(1, b"abcd"),
}  # fmt: skip


def expected(value: object) -> list[dict[bytes, bytes]]:
    """Return the strings of the wanted keys, of maps in the order in which they end."""
    if isinstance(value, list):
        return [found for item in value for found in expected(item)]
    if not isinstance(value, dict):
        return []
    inside = [found for item in value.values() for found in expected(item)]
    own = {key.encode(): text.encode() for key, text in value.items() if key in WANTED and isinstance(text, str)}
    return inside + [own] * bool(own)


WANTED = ("type", "value")
KEYS = frozenset(key.encode() for key in WANTED)


def test_strings_of_maps_are_those_of_the_keys_in_every_map() -> None:
    found = reader(msgpack.packb(TREE))
    assert list(found.strings_of_maps(KEYS, 5)) == expected(TREE)
    assert found.integer() == 42
    assert expected(TREE)[-1] == {b"type": b"outer"}


@pytest.mark.parametrize(
    "value", [5, "type", [], {}, ["type", "x"], [["type"], "x", {"x": ["type", "y"], "y": "value"}]]
)
def test_values_without_such_a_map_have_none(value: object) -> None:
    found = reader(msgpack.packb(value))
    assert list(found.strings_of_maps(KEYS, 3)) == []
    assert found.integer() == 42


def test_the_first_of_two_keys_counts() -> None:
    data = b"\x82" + (pack_string(b"type") + pack_string(b"one")) + (pack_string(b"type") + pack_string(b"two"))
    assert list(reader(data).strings_of_maps(KEYS, 1)) == [{b"type": b"one"}]


def test_a_key_that_is_no_string_takes_its_value_with_it() -> None:
    data = b"\x82\x01" + pack_string(b"type") + pack_string(b"value") + pack_string(b"v")
    assert list(reader(data).strings_of_maps(KEYS, 1)) == [{b"value": b"v"}]
    data = b"\x82" + pack_string(b"type") + b"\x01" + pack_string(b"x") + pack_string(b"value")
    assert list(reader(data).strings_of_maps(KEYS, 1)) == []


def test_more_levels_than_asked_for_are_refused_at_the_value_that_opens_the_last() -> None:
    data = msgpack.packb([[[1]]])
    assert list(reader(data).strings_of_maps(KEYS, 3)) == []
    with pytest.raises(BadValue, match="has more than 2 levels") as caught:
        list(reader(data).strings_of_maps(KEYS, 2))
    assert caught.value.offset == 2


def test_values_of_maps_that_are_cut_short_say_so() -> None:
    data = msgpack.packb(TREE)
    for size in range(len(data)):
        found = MessagePackReader(BytesSource(data[:size]).view(), "field")
        with pytest.raises(Truncated):
            list(found.strings_of_maps(KEYS, 5))


def test_what_is_cut_short_says_how_much_it_needs_and_has() -> None:
    found = MessagePackReader(BytesSource(b"\x01\xa5abc").view(), "field")
    found.skip()
    with pytest.raises(Truncated) as caught:
        found.string()
    assert (caught.value.needed, caught.value.left, caught.value.offset) == (6, 4, 1)
