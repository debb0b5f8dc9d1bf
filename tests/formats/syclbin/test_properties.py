"""The text of property sets, and DPC++'s own encoding of bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders.syclbin import base64

from fatpack.formats.syclbin.properties import (
    decode_bytes,
    encode_bytes,
    read_properties,
    to_plain_value,
    write_property_set,
)


def values(text: bytes) -> list[tuple[str, str, int | bytes]]:
    return [(item.set, item.name, item.value) for item in read_properties(text)]


def problems(text: bytes) -> list[tuple[int, int, str]]:
    found: list[tuple[int, int, str]] = []
    list(read_properties(text, lambda at, size, problem: found.append((at, size, problem))))
    return found


def test_numbers_of_two_sets() -> None:
    # The texts of this and the next test are those of DPC++'s PropertySetIOTest.cpp.
    text = b"[Staff/Ages]\nperson1=1|20\nperson2=1|25\n[Staff/Experience]\nperson1=1|1\nperson2=1|2\nperson3=1|12\n"
    ages = [("person1", 20), ("person2", 25)]
    experience = [("person1", 1), ("person2", 2), ("person3", 12)]
    assert values(text) == [
        *(("Staff/Ages", *row) for row in ages),
        *(("Staff/Experience", *row) for row in experience),
    ]
    assert write_property_set("Staff/Ages", ages) + write_property_set("Staff/Experience", experience) == text


def test_bytes_start_with_the_lowest_bits() -> None:
    text = b"[Opt/Param]\nkernel1=2|IAAAAAAAAAQA\nkernel2=2|oAAAAAAAAAw///3/wB\n"
    rows = [("kernel1", b"\x01"), ("kernel2", b"\xff\xff\x7f\xff\x70")]
    assert values(text) == [("Opt/Param", *row) for row in rows]
    assert write_property_set("Opt/Param", rows) == text


@given(st.binary(max_size=100))
def test_the_encoding_is_that_of_a_slow_one(data: bytes) -> None:
    assert encode_bytes(data).decode() == base64(data)
    assert decode_bytes(encode_bytes(data)) == data


@pytest.mark.parametrize("text", [b"A", b"AAAAA", b"AA=A", b"A\nAA", b"AAA-", b"====", b"AA==", b" AAA"])
def test_what_is_no_encoding_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"length|alphabet"):
        decode_bytes(text)


def test_names_keep_what_follows_them() -> None:
    assert values(b"[a]b]\r\nx|y=1|2\r\n\n\nz=2|AAAAAAAAAAA\n") == [("a]b", "x|y", 2), ("a]b", "z", b"")]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"[a", "does not end"),
        (b"name", "not of the form"),
        (b"name=", "not of the form"),
        (b"name=1", "not of the form"),
        (b"name=1|", "not of the form"),
        (b"=1|1", "not of the form"),
        (b"name=3|1", "type '3'"),
        (b"name=1|x", "not a 32-bit number"),
        (b"name=1|4294967296", "not a 32-bit number"),
        (b"name=1|-1", "not a 32-bit number"),
        (b"name=2|AAAA", "3 bytes, where 8"),
        (b"name=2|A", "not what DPC++"),
        (b"name=2|IAAAAAAAAAQAAA", "8 bits are said to be there, and 2 bytes are"),
    ],
)
def test_a_line_that_is_no_property_is_named_with_its_place(line: bytes, problem: str) -> None:
    text = b"[set]\n" + line + b"\nlast=1|7\n"
    ((at, size, said),) = problems(text)
    assert (at, size) == (6, len(line))
    assert problem in said
    assert values(text)[-1] == ("set", "last", 7), "the lines behind it are read all the same"


def test_a_property_before_any_set_is_named() -> None:
    assert problems(b"name=1|1\n") == [(0, 8, "a property before any property set")]
    assert values(b"name=1|1\n") == []


@pytest.mark.parametrize("name", ["", "a=b", "a\nb", "a\rb", "[a"])
def test_a_name_that_no_line_can_hold_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name"):
        write_property_set("set", [(name, 1)])
    with pytest.raises(ValueError, match="cannot be the name"):
        write_property_set("a\nb", [])


def test_values_as_plain_data() -> None:
    assert to_plain_value(3) == 3
    assert to_plain_value("bmg\u00e9".encode()) == "bmg\u00e9"
    assert to_plain_value(b"\1\0") == {"hex": "0100"}
    assert to_plain_value(b"\xff") == {"hex": "ff"}
