"""Numbers on the command lines of NVIDIA's tools, as fatbinary 13.0 takes and refuses them."""

from __future__ import annotations

import pytest

from fatpack.cli.tools.nvidia_command_line import CommandLineError, Option, parse


def number(text: str) -> str:
    return parse([f"--level={text}"], [Option("level", "l", "number")], lambda _: None).last("level")


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
    with pytest.raises(CommandLineError, match=r"': expected a number$"):
        number(text)


@pytest.mark.parametrize("text", ["2147483648", "-2147483649", "1" * 5000, "-0x" + "f" * 40])
def test_numbers_of_more_than_32_bits(text: str) -> None:
    with pytest.raises(CommandLineError, match=r"^32-bit integer value \(.*\) out of range$"):
        number(text)
