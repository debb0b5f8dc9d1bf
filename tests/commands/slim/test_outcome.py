"""Results and messages of slimmed files."""

from __future__ import annotations

from fatpack.commands.slim.outcome import arch_sort_key


def test_architectures_are_in_the_order_of_their_numbers() -> None:
    archs = ["sm_75", "sm_90", "sm_90a", "sm_100"]
    assert sorted(archs[1::2] + archs[::2], key=arch_sort_key) == archs
    archs = ["gfx9-generic", "gfx900", "gfx90a", "gfx90a:xnack+", "gfx90c", "gfx942", "gfx1010", "gfx1250", "spir64"]
    assert sorted(archs[1::2] + archs[::2], key=arch_sort_key) == archs
