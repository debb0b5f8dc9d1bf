"""Targets in the headers of AMD's code objects: processors and features by the flags of their ELF header.

LLVM AMDGPUUsage, "ELF Code Object"; numbers from ``llvm/include/llvm/BinaryFormat/ELF.h`` of LLVM 22, and of LLVM main
(autumn 2026) for newer processors. gfx940 and gfx941 had numbers until LLVM 19.

==================  ===================================================================================
``EI_OSABI``        64 HSA (all of HIP and OpenMP), 65 PAL, 66 Mesa
``EI_ABIVERSION``   HSA: 0 code object v2, 1 v3, 2 v4, 3 v5, 4 v6
``e_flags`` 0xff    the processor
0x300, 0xc00        v4 and newer: xnack, sramecc; 0 not supported, 1 any, 2 off, 3 on
0x100, 0x200        v3, and other OSABIs: xnack, sramecc on; clear means off *or* not supported
0xff000000          v6: version of a generic processor
==================  ===================================================================================
"""

from __future__ import annotations

from fatpack import magic_numbers

#: e_flags & 0xff → processor
PROCESSORS = {
    0x20: "gfx600",
    0x21: "gfx601",
    0x22: "gfx700",
    0x23: "gfx701",
    0x24: "gfx702",
    0x25: "gfx703",
    0x26: "gfx704",
    0x28: "gfx801",
    0x29: "gfx802",
    0x2A: "gfx803",
    0x2B: "gfx810",
    0x2C: "gfx900",
    0x2D: "gfx902",
    0x2E: "gfx904",
    0x2F: "gfx906",
    0x30: "gfx908",
    0x31: "gfx909",
    0x32: "gfx90c",
    0x33: "gfx1010",
    0x34: "gfx1011",
    0x35: "gfx1012",
    0x36: "gfx1030",
    0x37: "gfx1031",
    0x38: "gfx1032",
    0x39: "gfx1033",
    0x3A: "gfx602",
    0x3B: "gfx705",
    0x3C: "gfx805",
    0x3D: "gfx1035",
    0x3E: "gfx1034",
    0x3F: "gfx90a",
    0x40: "gfx940",
    0x41: "gfx1100",
    0x42: "gfx1013",
    0x43: "gfx1150",
    0x44: "gfx1103",
    0x45: "gfx1036",
    0x46: "gfx1101",
    0x47: "gfx1102",
    0x48: "gfx1200",
    0x49: "gfx1250",
    0x4A: "gfx1151",
    0x4B: "gfx941",
    0x4C: "gfx942",
    0x4E: "gfx1201",
    0x4F: "gfx950",
    0x50: "gfx1310",
    0x51: "gfx9-generic",
    0x52: "gfx10-1-generic",
    0x53: "gfx10-3-generic",
    0x54: "gfx11-generic",
    0x55: "gfx1152",
    0x57: "gfx1154",
    0x58: "gfx1153",
    0x59: "gfx12-generic",
    0x5A: "gfx1251",
    0x5B: "gfx12-5-generic",
    0x5C: "gfx1172",
    0x5D: "gfx1170",
    0x5E: "gfx1171",
    0x5F: "gfx9-4-generic",
    0x62: "gfx11-7-generic",
    0x63: "gfx13-generic",
    0xEB: "gfx1250-strict",
}

#: EI_OSABI → triple
_TRIPLES = {64: "amdgcn-amd-amdhsa", 65: "amdgcn-amd-amdpal", 66: "amdgcn-mesa-mesa3d"}
_HSA = 64

#: e_flags >> 8 & 3 (xnack) and >> 10 & 3 (sramecc), v4 and newer → sign
_SIGNS = ("", "", "-", "+")


#: an ELF header for 64-bit little-endian files, and e_machine of AMD's processors
_HEADER, _MACHINE = 64, b"\xe0\0"


def flagged_target(flags: int, osabi: int, abi_version: int) -> tuple[str, str, int]:
    """Return architecture with features, triple and code object version by the header; "" for an unknown processor.

    The version is 0 for other OSABIs than HSA.
    """
    processor = PROCESSORS.get(flags & 0xFF, "")
    version = abi_version + 2 if osabi == _HSA else 0
    if version == 2:
        processor = ""
    elif version >= 4:
        sramecc, xnack = _SIGNS[flags >> 10 & 3], _SIGNS[flags >> 8 & 3]
    else:
        # A clear bit states nothing: the processor may lack the feature.
        sramecc, xnack = "+" if flags & 0x200 else "", "+" if flags & 0x100 else ""
    arch = processor
    if processor:
        arch += (f":sramecc{sramecc}" if sramecc else "") + (f":xnack{xnack}" if xnack else "")
    return arch, _TRIPLES.get(osabi, "amdgcn"), version


def target_in_header(head: bytes) -> tuple[str, str]:
    """Return architecture and triple of a code object by its first 64 bytes, "" and "" for anything else."""
    if len(head) < _HEADER or not head.startswith(magic_numbers.ELF + b"\2\1") or head[18:20] != _MACHINE:
        return "", ""
    return flagged_target(int.from_bytes(head[48:52], "little"), head[7], head[8])[:2]
