"""Sizes in words."""

from __future__ import annotations

import pytest

from fatpack.command_line.param_types import SizeType
from fatpack.command_line.shared_options import _parsed
from fatpack.commands.check import policy
from fatpack.errors import UsageError
from fatpack.printable import format_size, format_size_and_limit, format_size_exactly, parse_size, short_names


def test_sizes_for_people() -> None:
    sizes = {
        999: "999 B",
        1000: "1 kB",
        18_123: "18.1 kB",
        999_499: "999 kB",
        999_500: "1 MB",
        1_019_999_999: "1.02 GB",
    }
    assert {size: format_size(size) for size in sizes} == sizes
    assert [format_size(10**15 - 1), format_size((1 << 64) - 1)] == ["1 PB", "18.4 EB"]


def test_sizes_to_be_compared() -> None:
    sizes = {43_139_600: "43.1 MB", 40_000_000: "40 MB", 3_139_600: "3.14 MB", 18_000: "18 kB", 9_999: "9999 bytes"}
    assert {size: format_size_exactly(size) for size in sizes} == sizes


@pytest.mark.parametrize(
    ("size", "limit", "texts"),
    [
        (6_213_456, 6_210_000, ("6.213 MB", "6.21 MB")),
        (8_049_900, 8_000_000, ("8.05 MB", "8 MB")),
        (8_049_900, 100_000_000, ("8.05 MB", "100 MB")),
        (100_000_001, 100_000_000, ("100.000001 MB", "100 MB")),
        (20_001, 20_000, ("20.001 kB", "20 kB")),
        (20_000, 20_000, ("20 kB", "20 kB")),
    ],
)
def test_a_size_and_its_limit_differ_as_text(size: int, limit: int, texts: tuple[str, str]) -> None:
    assert format_size_and_limit(size, limit) == texts


SIZES = {
    "1048576": 1048576,
    "7b": 7,
    "1G": 1 << 30,
    "1g": 1 << 30,
    "1Gi": 1 << 30,
    "1GiB": 1 << 30,
    "1GB": 10**9,
    "850MB": 850 * 10**6,
    "850M": 850 << 20,
    "64 KiB": 64 << 10,
    "64k": 64 << 10,
    "1.5G": 3 << 29,
    "0.1MB": 100_000,
    "2T": 2 << 40,
    "3PB": 3 * 10**15,
    "123456789012345679": 123456789012345679,  # which no float is
}


@pytest.mark.parametrize("text", SIZES)
def test_a_size_means_the_same_wherever_one_is_given(text: str) -> None:
    read = [parse_size(text), policy.parse_size_limit(text), policy.parse_growth(text)[1], SizeType().value(text)]
    assert [*read, _parsed(f"inflated={text}")[1]] == [SIZES[text]] * 5


@pytest.mark.parametrize("text", ["", "G", "-1", "1X", "1GG", "1iB", "٣", "1e9", "5 apples", "1,5G", "1.G", "1" * 19])
def test_what_is_no_size_is_refused_wherever_one_is_given(text: str) -> None:
    for read in (parse_size, SizeType().value):
        with pytest.raises(ValueError, match="is no size; write 850MB"):
            read(text)
    with pytest.raises(UsageError, match="is no size"):
        policy.parse_size_limit(text)
    with pytest.raises(UsageError, match="a number is missing" if not text else "is no number"):
        _parsed(f"inflated={text}" if text else "inflated")


def test_names_that_several_paths_have_are_shown_with_their_folders() -> None:
    assert short_names(["a/k.aks2", "a/x.so", "b/k.aks2", "lib/"]) == ["a/k.aks2", "x.so", "b/k.aks2", "lib"]
