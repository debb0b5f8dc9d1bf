"""The law of memory tells a reader that allocates what a number claims from one that looks first."""

from __future__ import annotations

import pytest

from fatpack.testing.helpers import TracedMemory, assert_memory_within

DATA = (4).to_bytes(8, "little") + b"four"

#: the first eight bytes, as if they claimed 64 MiB
CASES = [(0, 64 << 20)]


def _trusting(data: bytes) -> bytearray:
    return bytearray(int.from_bytes(data[:8], "little"))


def _careful(data: bytes) -> bytearray:
    return bytearray(min(int.from_bytes(data[:8], "little"), len(data) - 8))


def test_what_a_number_claims_must_not_be_allocated() -> None:
    assert_memory_within(DATA, CASES, _careful, "reading")
    with pytest.raises(AssertionError, match=r"made reading allocate 67[0-9]{6} bytes, at most 8389"):
        assert_memory_within(DATA, CASES, _trusting, "reading")


def test_the_peak_is_that_of_the_block() -> None:
    with TracedMemory() as memory:
        assert memory.peak < 1 << 20
        assert len(bytearray(2 << 20)) == 2 << 20
        before = memory.peak
    after = bytearray(4 << 20)
    assert len(after) > memory.peak >= before >= 2 << 20
