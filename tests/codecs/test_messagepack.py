"""MessagePack: every type of the specification, and invalid bytes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fatpack.codecs.messagepack import MessagePackReader, pack_array, pack_integer, pack_map, pack_string
from fatpack.errors import BadValue, FormatError, Truncated
from fatpack.io.source import BytesSource

START = 0x40


def reader(data: bytes) -> MessagePackReader:
    """Return a reader of bytes inside a file, with others after them."""
    return MessagePackReader(BytesSource(bytes(START) + data + b"\x01" * 64).view().slice(START, len(data)), "note")


@pytest.mark.parametrize(
    ("data", "number"),
    [
        (b"\x00", 0),
        (b"\x7f", 127),
        (b"\xff", -1),
        (b"\xe0", -32),
        (b"\xcc\xff", 255),
        (b"\xcd\x01\x02", 0x102),
        (b"\xce\x01\x02\x03\x04", 0x1020304),
        (b"\xcf" + b"\xff" * 8, (1 << 64) - 1),
        (b"\xd0\x80", -128),
        (b"\xd1\xff\xfe", -2),
        (b"\xd2\x80\x00\x00\x00", -(1 << 31)),
        (b"\xd3" + b"\xff" * 8, -1),
    ],
)
def test_integers(data: bytes, number: int) -> None:
    found = reader(data)
    assert found.integer() == number
    assert found.at == len(data)


@pytest.mark.parametrize("head", [b"\xa3", b"\xd9\x03", b"\xda\x00\x03", b"\xdb\x00\x00\x00\x03"])
def test_strings(head: bytes) -> None:
    assert reader(head + b"key").text() == "key"
    assert reader(head + b"k\xffy").text() == "k\\xffy"


def test_booleans() -> None:
    assert reader(b"\xc3").boolean() is True
    assert reader(b"\xc2").boolean() is False


@pytest.mark.parametrize("head", [b"\x82", b"\xde\x00\x02", b"\xdf\x00\x00\x00\x02"])
def test_maps_give_keys_and_the_caller_takes_the_values(head: bytes) -> None:
    found = reader(head + b"\xa1a\x05\xa1b\xc0")
    taken = {}
    for key in found.map():
        if key == "a":
            taken[key] = found.integer()
        else:
            found.skip()
    assert taken == {"a": 5}


@pytest.mark.parametrize("head", [b"\x93", b"\xdc\x00\x03", b"\xdd\x00\x00\x00\x03"])
def test_arrays(head: bytes) -> None:
    found = reader(head + b"\x08\x04\x02")
    assert [found.integer() for _ in found.array()] == [8, 4, 2]


@pytest.mark.parametrize(
    "value",
    [
        b"\xc0",
        b"\xc2",
        b"\x05",
        b"\xca" + struct.pack(">f", 1.5),
        b"\xcb" + struct.pack(">d", 1.5),
        b"\xc4\x02ab",
        b"\xc5\x00\x02ab",
        b"\xc6\x00\x00\x00\x02ab",
        b"\xc7\x02\x01ab",
        b"\xc8\x00\x02\x01ab",
        b"\xc9\x00\x00\x00\x02\x01ab",
        b"\xd4\x01a",
        b"\xd5\x01ab",
        b"\xd6\x01abcd",
        b"\xd7\x01abcdefgh",
        b"\xd8\x01" + b"a" * 16,
        b"\xa3abc",
        b"\x93\x01\x92\xc0\xa1x\x80",
        b"\x82\x01\x91\xc3\xa1x\x81\xa1y\xcd\x01\x00",
    ],
)
def test_every_value_can_be_passed_over(value: bytes) -> None:
    found = reader(value + b"\x2a")
    found.skip()
    assert found.integer() == 42


def test_nesting_has_no_limit_because_nothing_recurses() -> None:
    found = reader(b"\x91" * 100_000 + b"\xc0\x2a")
    found.skip()
    assert found.integer() == 42


def test_a_wrong_type_is_named_with_its_place() -> None:
    found = reader(b"\x05\xa1a")
    found.skip()
    with pytest.raises(BadValue) as caught:
        found.integer()
    assert (caught.value.offset, caught.value.expected, caught.value.problem) == (
        START + 1,
        "integer",
        "has a value of type string",
    )
    assert (caught.value.format, caught.value.field) == ("messagepack", "note")


def test_the_byte_without_a_meaning_is_no_value() -> None:
    with pytest.raises(BadValue, match="0xc1 begins no value"):
        reader(b"\xc1").skip()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xcd\x01",
        b"\xa5abc",
        b"\xdb\xff\xff\xff\xffabc",
        b"\xc6\xff\xff\xff\xff",
        b"\xdd\xff\xff\xff\xff\x01\x02",
    ],
)
def test_values_that_are_cut_short_say_what_they_need(data: bytes) -> None:
    with pytest.raises(Truncated) as caught:
        reader(data).skip()
    assert caught.value.offset is not None
    assert START <= caught.value.offset <= START + len(data)


def test_a_claimed_count_costs_nothing() -> None:
    found = reader(b"\xdf\xff\xff\xff\xff\xa1a\x01")
    with pytest.raises(FormatError):
        for _ in found.map():
            found.skip()


#: a value of every kind, with nested values if it can have any
VALUES = [
    *(bytes((first,)) for first in (0x00, 0x7F, 0x80, 0x90, 0xA0, 0xC0, 0xC2, 0xC3, 0xE0, 0xFF)),
    b"\x82\xa1a\x05\x92\xc0\xc3\xca1234",
    b"\x93\xa3abc\xcb12345678\xcf12345678",
    *(bytes((0xCC + power,)) + b"1" * (1 << power) for power in range(4)),
    *(bytes((0xD0 + power,)) + b"1" * (1 << power) for power in range(4)),
    *(bytes((0xD4 + power,)) + b"t" + b"1" * (1 << power) for power in range(5)),
    *(bytes((0xC4 + power,)) + (3).to_bytes(1 << power, "big") + b"abc" for power in range(3)),
    *(bytes((0xC7 + power,)) + (3).to_bytes(1 << power, "big") + b"tabc" for power in range(3)),
    *(bytes((0xD9 + power,)) + (3).to_bytes(1 << power, "big") + b"abc" for power in range(3)),
    *(bytes((0xDC + power,)) + (2).to_bytes(2 << power, "big") + b"\x01\x91\xa1a" for power in range(2)),
    *(bytes((0xDE + power,)) + (1).to_bytes(2 << power, "big") + b"\xa1a\xcd12" for power in range(2)),
]


@pytest.mark.parametrize("data", VALUES, ids=bytes.hex)
def test_skipping_a_value_ends_after_it_or_says_that_it_is_cut(data: bytes) -> None:
    found = reader(data + b"\x05")
    found.skip()
    assert (found.at, found.integer()) == (len(data), 5)
    for size in range(len(data)):
        with pytest.raises(Truncated):
            reader(data[:size]).skip()


@pytest.mark.parametrize("data", VALUES, ids=bytes.hex)
def test_a_cut_value_says_where_it_is_and_how_many_bytes_it_needs(data: bytes) -> None:
    """With as many bytes as it needs the value is read, or another one in it is cut."""
    for size in range(len(data)):
        with pytest.raises(Truncated) as caught:
            reader(data[:size]).skip()
        error = caught.value
        assert error.offset is not None
        start = error.offset - START
        needed = start + error.needed
        assert (error.left, error.format, error.field) == (size - start, "messagepack", "note")
        assert start <= size < needed <= len(data)
        for more in range(size, needed):
            with pytest.raises(Truncated) as again:
                reader(data[:more]).skip()
            assert again.value.offset == error.offset
        try:
            reader(data[:needed]).skip()
        except Truncated as other:
            assert other.offset is not None and other.needed + other.offset > needed + START
        else:
            assert needed == len(data)


Value = bytes | int | list["Value"] | dict[bytes, "Value"]

TREES = st.recursive(
    st.binary(max_size=40) | st.integers(0, 1 << 40),
    lambda inside: (
        st.lists(inside, max_size=4) | st.dictionaries(st.sampled_from([b"a", b"b", b"key"]), inside, max_size=3)
    ),
    max_leaves=20,
)


def packed(value: Value) -> bytes:
    if isinstance(value, bytes):
        return pack_string(value)
    if isinstance(value, int):
        return pack_integer(value)
    if isinstance(value, list):
        return pack_array([packed(each) for each in value])
    return pack_map([(key, packed(each)) for key, each in value.items()])


def levels(value: Value) -> int:
    inside = value if isinstance(value, list) else list(value.values()) if isinstance(value, dict) else None
    return 0 if inside is None else 1 + max(map(levels, inside), default=0)


def strings(value: Value) -> list[dict[bytes, bytes]]:
    """Return the strings of some keys of all maps in a value, those of inner maps first."""
    inside = value if isinstance(value, list) else list(value.values()) if isinstance(value, dict) else []
    found = [each for one in inside for each in strings(one)]
    own = value if isinstance(value, dict) else {}
    named = {key: each for key, each in own.items() if key in (b"a", b"key") and isinstance(each, bytes)}
    return [*found, named] if named else found


@given(TREES)
def test_strings_of_maps_are_found_in_any_value(value: Value) -> None:
    data, keys = packed(value), frozenset((b"a", b"key"))
    found = reader(data + b"\x05")
    assert list(found.strings_of_maps(keys, levels(value))) == strings(value)
    assert (found.at, found.integer()) == (len(data), 5)
    if levels(value):
        with pytest.raises(BadValue, match=f"more than {levels(value) - 1} levels"):
            list(reader(data).strings_of_maps(keys, levels(value) - 1))


@pytest.mark.parametrize("other", [value for value in VALUES if value[0] not in range(0xD9, 0xDC)], ids=bytes.hex)
def test_only_a_string_after_a_key_is_its_string(other: bytes) -> None:
    """Another value, or a key that is no string, takes its place, and what follows is read as what it is."""
    if other[:1] in (b"\xa3", b"\xa0"):
        return
    value = b"\x84\xa1a" + other + b"\xa1b\xa1x\xa3key\xa1y" + other + b"\xa1z"
    found = list(reader(value).strings_of_maps(frozenset((b"a", b"key")), 9))
    assert found[-1] == {b"key": b"y"}


def test_the_first_of_two_strings_of_one_key_counts() -> None:
    found = reader(b"\x82\xa1a\xa1x\xa1a\xa1y").strings_of_maps(frozenset((b"a",)), 1)
    assert list(found) == [{b"a": b"x"}]
