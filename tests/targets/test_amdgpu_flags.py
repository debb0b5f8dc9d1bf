"""The target in a code object's header is the one that LLVM's readers name."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest
from tests.reference import llvm_tool, run

from fatpack.targets.amdgpu_flags import PROCESSORS, flagged_target, target_in_header

#: LLVM before 20 had numbers for the first two; the last is AMD's own.
NOT_IN_LLVM_23 = {"gfx940", "gfx941", "gfx1250-strict"}

HSA, PAL, MESA = 64, 65, 66


def header(flags: int, osabi: int = HSA, version: int = 4, machine: int = 224) -> bytes:
    """Return the header of an ELF file without sections."""
    numbers = struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 0, 0, flags, 64, 56, 0, 64, 0, 0)
    return b"\x7fELF\2\1\1" + bytes([osabi, version]) + bytes(7) + numbers


@pytest.mark.reference
def test_every_number_is_the_processor_that_llvm_names(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number:02x}" for number in range(256)]
    for number, path in enumerate(paths):
        path.write_bytes(header(number))
    told = run(llvm_tool("llvm-readelf", "23"), "-h", *paths).stdout.decode()
    names = [found[1] or "" for found in re.finditer(r"Flags:\s+0x[0-9a-f]+(?:, (\w[\w-]*))?", told)]
    assert len(names) == 256
    ours = [PROCESSORS.get(number, "") for number in range(256)]
    assert {name for name, theirs in zip(ours, names, strict=True) if name and name != theirs} == NOT_IN_LLVM_23
    # The lowest numbers are r600's, which have no code objects.
    assert all(known or number < 0x20 for number, (name, known) in enumerate(zip(names, ours, strict=True)) if name)


@pytest.mark.parametrize(
    ("flags", "osabi", "version", "arch", "triple", "code_object"),
    [
        (0x3F, HSA, 2, "gfx90a", "amdgcn-amd-amdhsa", 4),
        (0x13F, HSA, 2, "gfx90a", "amdgcn-amd-amdhsa", 4),
        (0x23F, HSA, 2, "gfx90a:xnack-", "amdgcn-amd-amdhsa", 4),
        (0x33F, HSA, 3, "gfx90a:xnack+", "amdgcn-amd-amdhsa", 5),
        (0xF3F, HSA, 4, "gfx90a:sramecc+:xnack+", "amdgcn-amd-amdhsa", 6),
        (0x93F, HSA, 2, "gfx90a:sramecc-", "amdgcn-amd-amdhsa", 4),
        (0x03F, HSA, 1, "gfx90a", "amdgcn-amd-amdhsa", 3),
        (0x13F, HSA, 1, "gfx90a:xnack+", "amdgcn-amd-amdhsa", 3),
        (0x33F, HSA, 1, "gfx90a:sramecc+:xnack+", "amdgcn-amd-amdhsa", 3),
        (0x03F, HSA, 0, "", "amdgcn-amd-amdhsa", 2),
        (0x23F, PAL, 0, "gfx90a:sramecc+", "amdgcn-amd-amdpal", 0),
        (0x13F, MESA, 9, "gfx90a:xnack+", "amdgcn-mesa-mesa3d", 0),
        (0x13F, 0, 0, "gfx90a:xnack+", "amdgcn", 0),
        (0x54, HSA, 4, "gfx11-generic", "amdgcn-amd-amdhsa", 6),
        (0x1000054, HSA, 4, "gfx11-generic", "amdgcn-amd-amdhsa", 6),
        (0x3FF, HSA, 2, "", "amdgcn-amd-amdhsa", 4),
    ],
)
def test_features_are_read_by_the_version_of_the_code_object(
    flags: int, osabi: int, version: int, arch: str, triple: str, code_object: int
) -> None:
    assert flagged_target(flags, osabi, version) == (arch, triple, code_object)
    assert target_in_header(header(flags, osabi, version)) == (arch, triple)


def test_what_is_no_header_of_amd_has_no_target() -> None:
    whole = header(0x3F)
    for other in (
        whole[:63],
        b"\x7fELF\1" + whole[5:],
        b"\x7fELF\2\2" + whole[6:],
        header(0x3F, machine=190),
        bytes(64),
    ):
        assert target_in_header(other) == ("", "")
    assert target_in_header(whole + b"more") == ("gfx90a", "amdgcn-amd-amdhsa")
