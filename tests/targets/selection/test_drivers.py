"""The CUDA version of an NVIDIA driver."""

from __future__ import annotations

from itertools import pairwise

import pytest

from fatpack.errors import UsageError
from fatpack.targets.selection.drivers import driver_branches, driver_cuda, first_branch_with, parse_version


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("535", (12, 2)),
        ("535.104.05", (12, 2)),
        ("536.25", (12, 2)),  # Windows
        ("550.54.14", (12, 4)),
        ("565.57.01", (12, 7)),
        ("580.159.04", (13, 0)),
        ("610", (13, 3)),
    ],
)
def test_a_driver_has_the_version_of_its_branch(text: str, expected: tuple[int, int]) -> None:
    assert driver_cuda(text) == expected


@pytest.mark.parametrize("text", ["", "534", "99999", "abc", "12.2"])
def test_a_driver_of_no_known_branch_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="no branch that is known") as caught:
        driver_cuda(text)
    assert "cuda='12.2'" in str(caught.value.hint)


def test_newer_branches_have_newer_versions_and_every_line_has_a_source() -> None:
    rows = driver_branches()
    assert all(older.branch < newer.branch and older.cuda <= newer.cuda for older, newer in pairwise(rows))
    assert all(row.source and row.first.startswith(f"{row.branch}.") for row in rows)
    numbers = [number for row in rows for number in (row.branch, *row.windows)]
    assert len(numbers) == len(set(numbers))


def test_the_first_branch_with_a_version() -> None:
    found = first_branch_with((12, 4))
    assert found is not None
    assert found.branch == 550
    assert first_branch_with((99, 0)) is None


@pytest.mark.parametrize(("text", "expected"), [("12.2", (12, 2)), ("13", (13, 0)), ("12.2.140", (12, 2))])
def test_versions_are_read(text: str, expected: tuple[int, int]) -> None:
    assert parse_version(text) == expected


@pytest.mark.parametrize("text", ["", "x", "12.", "1.2.3.4", "-1", "²"])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no CUDA version"):
        parse_version(text)
