"""Packages for Intel's FPGAs: ELF files of no machine, with a section ``.acl.…`` for every piece of content.

``.aoco`` and ``.aocr`` hold a design that is compiled or linked, ``.aocx`` what an FPGA is programmed with, in
``.acl.fpga.bin`` (intel/fpga-runtime-for-opencl, pkg_editor and ``acl_program.cpp``). DPC++ bundles them for the
targets fpga_aoco, fpga_aocr and fpga_aocx. No sample was at hand: what is known are the names of their sections.
"""

from __future__ import annotations

from fatpack.binary.elf.device_elf import DeviceElfSections
from fatpack.errors import FormatError
from fatpack.images.identification import ImageInfo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.binary.elf.quick_header import QuickHeader

_PREFIX, _HARDWARE = ".acl.", ".acl.fpga.bin"


#: LIMIT: sections of a package. They have a few dozen; other files need not be looked at.
_MOST = 1000


def identify_fpga_package(elf: QuickHeader, otherwise: ImageInfo) -> ImageInfo:
    """Return what a package is; ``otherwise`` for an ELF that is none, or whose sections cannot be read."""
    if elf.section_count() > _MOST:
        return otherwise
    try:
        names = {section.name for section in DeviceElfSections(elf.view).rows}
    except FormatError:
        return otherwise
    if not any(name.startswith(_PREFIX) for name in names):
        return otherwise
    if _HARDWARE in names:
        return ImageInfo("aocx", size=otherwise.size, detail="package for Intel FPGAs, with a hardware image")
    return ImageInfo("aocr", size=otherwise.size, detail="package for Intel FPGAs, without a hardware image")
