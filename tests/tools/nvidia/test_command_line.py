"""Numbers and lists on the command lines of NVIDIA's tools, as fatbinary 13.0 and nvprune 12.4 read them."""

from __future__ import annotations

import pytest

from fatpack.tools.nvidia.command_line import NvidiaCommandLineError, NvidiaOption, parse_nvidia_options, split_list


def number(text: str) -> str:
    return parse_nvidia_options([f"--level={text}"], [NvidiaOption("level", "l", "number")], lambda _: None).last(
        "level"
    )


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("5", "5"),
        (" +5", "5"),
        ("", "0"),
        ("-0", "0"),
        ("010", "8"),
        ("-0x10", "-16"),
        ("0X1F", "31"),
        ("-2147483648", "-2147483648"),
        ("0x" + "0" * 5000 + "1", "1"),
        ("0" * 5000, "0"),
    ],
)
def test_numbers_are_read_as_c_reads_them(text: str, meaning: str) -> None:
    assert number(text) == meaning


@pytest.mark.parametrize(
    "text", ["x", "-", " ", "5 ", "1_0", "08", "0x", "0xg", "- 5", "+-5", "\u0663", "1" * 5000 + "x"]
)
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(NvidiaCommandLineError, match=r"': expected a number$"):
        number(text)


@pytest.mark.parametrize("text", ["2147483648", "-2147483649", "1" * 5000, "-0x" + "f" * 40])
def test_numbers_of_more_than_32_bits(text: str) -> None:
    with pytest.raises(NvidiaCommandLineError, match=r"^32-bit integer value \(.*\) out of range$"):
        number(text)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a=[b,c],d", ["a=b,c", "d"]),
        ("[[a],b]c", ["a,bc"]),
        ('"[a,b"', ["[a,b"]),
        ("a],b", ["a]", "b"]),
        ('[a"]",b]', ["a],b"]),
    ],
)
def test_brackets_keep_a_part_together_where_they_may(text: str, parts: list[str]) -> None:
    assert split_list(text, has_brackets=True) == parts


def test_brackets_are_characters_elsewhere() -> None:
    assert split_list("[a,b]") == ["[a", "b]"]


@pytest.mark.parametrize(("text", "stray"), [("[a", r"\["), ("[[a]", r"\["), ('["a]', '"')])
def test_what_is_opened_has_to_be_closed(text: str, stray: str) -> None:
    with pytest.raises(NvidiaCommandLineError, match=f"^Stray '{stray}' character$"):
        split_list(text, has_brackets=True)
