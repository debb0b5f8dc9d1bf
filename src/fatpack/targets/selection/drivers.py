"""The branches of NVIDIA's drivers, and the CUDA version of each."""

from __future__ import annotations

import os
from importlib import import_module

from fatpack.errors import UsageError, cli_or_api
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


class DriverBranch(Record):
    """A line of ``data/drivers.toml``: ``cuda`` is the version of its drivers, (12, 2) for branch 535.

    ``windows`` are the first numbers of its versions on Windows besides ``branch``, ``first`` is the first driver on
    Linux, ``source`` the full citation.
    """

    branch: int
    cuda: tuple[int, int]
    first: str
    source: str
    windows: tuple[int, ...] = ()


_loaded_branches: list[tuple[DriverBranch, ...]] = []


def driver_branches() -> tuple[DriverBranch, ...]:
    """Return all lines of ``drivers.toml``, oldest first; it is read by the first call."""
    if not _loaded_branches:
        path = os.path.join(os.path.dirname(os.path.dirname(__file__)), "data", "drivers.toml")
        with open(path, "rb") as file:
            data: Mapping[str, Any] = import_module("tomllib").load(file)
        _loaded_branches.append(
            tuple(
                DriverBranch(
                    row["branch"],
                    parse_version(row["cuda"]),
                    row["first"],
                    data["sources"][row["source"]],
                    tuple(row.get("windows", ())),
                )
                for row in data["drivers"]
            )
        )
    return _loaded_branches[0]


def parse_version(text: str, what: str = "CUDA version") -> tuple[int, int]:
    """Return a version as numbers: (12, 2) for ``12.2`` and ``12.2.140``, (13, 0) for ``13``. Raises UsageError."""
    parts = text.strip().split(".")
    if not 1 <= len(parts) <= 3 or not all(part.isascii() and part.isdigit() and len(part) <= 4 for part in parts):
        raise UsageError(f"{text[:40]!r} is no {what}", hint="write it as 12.2")
    return int(parts[0]), int(parts[1]) if len(parts) > 1 else 0


def parse_cuda_version(text: str) -> tuple[int, int]:
    """Return a CUDA version of a driver as numbers: (12, 2) for ``12.2``.

    Raises UsageError for one that no driver has: the next major version is taken, in which much stays, and none later.
    """
    version, newest = parse_version(text), driver_branches()[-1].cuda
    if version[0] > newest[0] + 1:
        raise UsageError(
            f"no driver has CUDA {text[:40]}: {newest[0]}.{newest[1]} is the newest that is known",
            hint="nvidia-smi prints the CUDA version of a driver",
        )
    return version


def driver_cuda(text: str) -> tuple[int, int]:
    """Return the CUDA version of a driver: (12, 2) for ``535`` and ``535.104.05``.

    Raises UsageError for a branch that is not in the table.
    """
    number = text.strip().partition(".")[0]
    if number.isascii() and number.isdigit() and len(number) <= 4:
        for row in driver_branches():
            if int(number) in (row.branch, *row.windows):
                return row.cuda
    known = ", ".join(str(row.branch) for row in driver_branches()[-6:])
    raise UsageError(
        f"driver {text[:40]!r} is of no branch that is known ({known} are the last)",
        hint="nvidia-smi prints the CUDA version of a driver: name that, " + cli_or_api("--cuda 12.2", "cuda='12.2'"),
    )


def first_branch_with(cuda: tuple[int, int]) -> DriverBranch | None:
    """Return the first branch whose drivers have a CUDA version or a newer one; None if there is none yet."""
    return next((row for row in driver_branches() if row.cuda >= cuda), None)
