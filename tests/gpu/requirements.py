"""What the tests on a device need: the device is required or not, and what its driver cannot do is always skipped."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def cuda(version: int) -> str:
    """Return a version as the driver gives it, 13040, as people write it: 13.4."""
    return f"{version // 1000}.{version // 10 % 100}"


def no_device(reason: str) -> NoReturn:
    """Skip the test; with ``FATPACK_REQUIRE_GPU=1``, which asks for a device, fail it."""
    if os.environ.get("FATPACK_REQUIRE_GPU") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def needs_driver(version: int, found: int, what: str) -> None:
    """Skip the test if the driver is older than what it is for: a device was there, and nothing is wrong with it."""
    if found < version:
        pytest.skip(f"{what} needs a driver of CUDA {cuda(version)}, and this one is of CUDA {cuda(found)}")


def needs_capability(sm: int, found: int, what: str) -> None:
    """Skip the test if the device is another than what it is for."""
    if found != sm:
        pytest.skip(f"{what} is for compute capability {sm / 10}, and this device has {found / 10}")
