"""Objects for host processors (ELF of other machines, COFF and PE, Mach-O) and packages for Intel's FPGAs.

OpenMP can offload to the host, bundles contain the host's own object, and SYCL's images for CPUs and Intel GPUs are
such files. Only their kind and processor are identified; ``fatpack.binary`` reads hosts.
"""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.errors import FormatError
from fatpack.images.identification import ImageInfo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.binary.elf.quick_header import QuickHeader
    from fatpack.io.source import View
    from fatpack.layout import ByteOrder


# Packages for Intel's FPGAs: ELF files without a machine, with sections ``.acl.…``. ``.aoco`` and ``.aocr`` contain a
# compiled or linked design, ``.aocx`` the configuration of an FPGA, in ``.acl.fpga.bin``
# (intel/fpga-runtime-for-opencl, pkg_editor and ``acl_program.cpp``). DPC++ bundles them for the targets fpga_aoco,
# fpga_aocr and fpga_aocx. No sample was available: only the names of sections are known.

_PREFIX, _HARDWARE = ".acl.", ".acl.fpga.bin"


#: LIMIT: sections of a package, which has a few dozen; other files are not read.
_MOST = 1000


def identify_fpga_package(elf: QuickHeader, otherwise: ImageInfo) -> ImageInfo:
    """Identify a package; returns ``otherwise`` for an ELF that is none, or whose sections cannot be read."""
    if elf.section_count() > _MOST:
        return otherwise
    try:
        from fatpack.binary.elf.device_elf import DeviceElfSections

        names = {section.name for section in DeviceElfSections(elf.view).rows}
    except FormatError:
        return otherwise
    if not any(name.startswith(_PREFIX) for name in names):
        return otherwise
    if _HARDWARE in names:
        return ImageInfo("aocx", size=otherwise.size, detail="package for Intel FPGAs, with a hardware image")
    return ImageInfo("aocr", size=otherwise.size, detail="package for Intel FPGAs, without a hardware image")


#: e_machine → first part of the triple
_ELF_MACHINES = {
    3: "i386",
    20: "powerpc",
    21: "powerpc64",
    22: "s390x",
    40: "arm",
    62: "x86_64",
    183: "aarch64",
    # Intel's GPUs: images compiled ahead of time for SYCL, and the wrapper of SPIR-V for OpenMP.
    205: "spir64_gen",
    243: "riscv",
    247: "bpf",
    251: "ve",
    258: "loongarch64",
}

#: Machine of COFF and PE → first part of the triple
_COFF_MACHINES = {0x14C: "i386", 0x1C4: "arm", 0x8664: "x86_64", 0xAA64: "aarch64", 0xA641: "arm64ec"}

#: cputype of Mach-O → first part of the triple
_MACHO_MACHINES = {7: "i386", 12: "arm", 0x01000007: "x86_64", 0x0100000C: "arm64"}

#: magic of Mach-O → word size, byte order
_MACHO: dict[bytes, tuple[int, ByteOrder]] = {
    magic_numbers.BIG_MACH_O_32: (32, "big"),
    magic_numbers.BIG_MACH_O_64: (64, "big"),
    magic_numbers.MACH_O_32: (32, "little"),
    magic_numbers.MACH_O_64: (64, "little"),
}

#: Java classes have the magic of universal Mach-O too; their version, in the place of the count, is above 44.
_MOST_SLICES = 44

_COFF_HEADER, _COFF_SECTION = 20, 40


def identify_host_elf(elf: QuickHeader) -> ImageInfo:
    """Identify an ELF file for a machine other than the known GPUs."""
    machine = _ELF_MACHINES.get(elf.machine, "")
    if machine == "riscv":
        machine = f"riscv{elf.shape.bits}"
    elif machine == "powerpc64" and elf.view.head(5, 1) == b"\x01":
        machine = "powerpc64le"
    detail = f"{elf.describe()}, {machine or f'machine {elf.machine}'}"
    return ImageInfo("object", triple=machine, size=elf.extent()[0], detail=detail)


def identify_host_object(view: View, head: bytes) -> ImageInfo | None:
    """Identify a COFF, PE or Mach-O image; None for anything else."""
    magic = head[:4]
    if magic in _MACHO and len(head) >= 28:
        bits, order = _MACHO[magic]
        machine = _MACHO_MACHINES.get(int.from_bytes(head[4:8], order), "")
        return ImageInfo("object", triple=machine, detail=f"Mach-O {bits}-bit{machine and ', ' + machine}")
    if _is_universal(head):
        return ImageInfo("object", detail="universal Mach-O")
    if magic[:2] == magic_numbers.DOS:
        return _portable_executable(view)
    return _coff(view, head)


def _is_universal(head: bytes) -> bool:
    count = int.from_bytes(head[4:8], "big")
    if head.startswith(magic_numbers.UNIVERSAL_MACH_O):
        return 0 < count <= _MOST_SLICES
    return head.startswith(magic_numbers.UNIVERSAL_MACH_O_64) and count > 0


def _portable_executable(view: View) -> ImageInfo | None:
    from fatpack.binary.coff.layout import pe_header_offset

    at = pe_header_offset(view)
    stored = b"" if at is None else view.head(at, 2)
    if len(stored) < 2:
        return None
    machine = _COFF_MACHINES.get(int.from_bytes(stored, "little"), "")
    return ImageInfo("object", triple=machine, detail=f"PE{machine and ', ' + machine}")


def _coff(view: View, head: bytes) -> ImageInfo | None:
    """Identify a COFF object, which has no magic: machine, section table and symbol table must be plausible."""
    if head[:4] == magic_numbers.ANONYMOUS_COFF and len(head) >= 56:
        # ANON_OBJECT_HEADER_BIGOBJ: version 2, machine at 6, class ID at 12
        is_big = head[4:6] == b"\x02\0" and head[12:16] == magic_numbers.BIG_COFF_CLASS[:4]
        machine = _COFF_MACHINES.get(int.from_bytes(head[6:8], "little"), "")
        return ImageInfo("object", triple=machine, detail=f"COFF, {machine}") if is_big and machine else None
    machine = _COFF_MACHINES.get(int.from_bytes(head[:2], "little"), "")
    if not machine or len(head) < _COFF_HEADER:
        return None
    sections = int.from_bytes(head[2:4], "little")
    symbols = int.from_bytes(head[8:12], "little")
    has_optional_header = head[16:18] != b"\0\0"
    if has_optional_header or _COFF_HEADER + sections * _COFF_SECTION > len(view) or symbols > len(view):
        return None
    return ImageInfo("object", triple=machine, detail=f"COFF, {machine}")
