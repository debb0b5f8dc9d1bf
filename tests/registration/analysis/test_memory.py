"""A host file as it lies in memory: functions that do not lie over each other."""

from __future__ import annotations

from fatpack.binary.memory import HostMemory, MemorySection, MemorySymbol
from fatpack.io.source import BytesSource


def test_no_function_lies_over_another_however_many_names_it_has() -> None:
    view = BytesSource(bytes(64)).view()
    symbols = [
        MemorySymbol(f"f{at}_{number}", at, 0, is_function=True, is_defined=True, is_local=False)
        for at in (0, 16, 48)
        for number in range(12)
    ]
    memory = HostMemory(view, "x86-64", 8, [MemorySection(1, ".text", 0, 64, view, True)], symbols, is_windows=False)
    assert [(each.start, each.end, each.name) for each in memory.functions] == [
        (0, 16, "f0_0"),
        (16, 48, "f16_0"),
        (48, 64, "f48_0"),
    ]
