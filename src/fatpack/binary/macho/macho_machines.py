"""What processors are called in Mach-O: by objects and programs, and by the table of a universal file.

The numbers are those of ``mach/machine.h``, the names those of ``lipo`` and of the option ``-arch``
(llvm/lib/Object/MachOObjectFile.cpp, LLVM 22.1).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: cputype → its name, cpusubtype without capabilities → the architecture, as lipo and ``-arch`` spell them
_MACHINES: Mapping[int, tuple[str, Mapping[int, str]]] = {
    0x00000006: ("m68k", {}),
    0x00000007: ("i386", {}),
    0x0000000C: (
        "arm",
        {
            5: "armv4t",
            6: "armv6",
            7: "armv5e",
            9: "armv7",
            11: "armv7s",
            12: "armv7k",
            14: "armv6m",
            15: "armv7m",
            16: "armv7em",
        },
    ),
    0x00000012: ("ppc", {100: "ppc970"}),
    0x00000018: ("riscv32", {}),
    0x01000007: ("x86_64", {8: "x86_64h"}),
    0x0100000C: ("arm64", {2: "arm64e"}),
    0x01000012: ("ppc64", {}),
    0x0200000C: ("arm64_32", {}),
}
_CAPABILITIES = 0xFF000000


def architecture_name(machine: int, variant: int) -> str:
    """Return what lipo calls a processor: ``arm64``; ``cpu_0x63_0x1`` for one that it has no name for."""
    variant &= ~_CAPABILITIES
    name, variants = _MACHINES.get(machine, ("", {}))
    return variants.get(variant, name) or f"cpu_{machine:#x}_{variant:#x}"


def machine_name(machine: int) -> str:
    """Return a cputype in words."""
    name = _MACHINES.get(machine, ("unknown", {}))[0]
    return f"{name} ({machine:#x})"
