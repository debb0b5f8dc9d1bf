"""Mach-O files: objects, programs and libraries of macOS and iOS, read but never edited.

::

    0x00  magic, cputype u32, cpusubtype u32, filetype u32, ncmds u32, sizeofcmds u32, flags u32; 64 bits: reserved u32
    ....  ncmds load commands, each: cmd u32, cmdsize u32, and what the command says
          LC_SEGMENT[_64]: name[16], places in memory and in the file, nsects, then section headers:
          sectname[16], segname[16], addr, size, offset u32, …, flags u32
    ....  contents of the sections, relocations, symbols, signatures: where load commands say

All numbers are in the byte order of the magic. Device code is in sections, which are named by segment and section:

==============================  ==================================================================================
``__NV_CUDA,__nv_fatbin``       CUDA fat binaries (clang; CUDA for macOS ended with 10.2)
``__NV_CUDA,__nv_relfatbin``    the same of relocatable device code
``__HIP,__hip_fatbin``          HIP's bundles, from LLVM 23 on
``…,.llvm.offloading``          offload binaries added by llvm-objcopy: the name has exactly 16 bytes
``__LLVM,__offload``            the same, with a name in the style of Mach-O
==============================  ==================================================================================

Sources: ``mach-o/loader.h`` of Apple's cctools and ``llvm/include/llvm/BinaryFormat/MachO.h`` for the records. The
reference tests compare the results with LIEF and llvm-readobj 22, for output of clang 22 and 23 for arm64, x86_64,
i386, armv7 and arm64_32, and of ld64.lld 22.

QUIRK(clang 22 and 23): ``-fembed-offload-object`` and OpenMP offloading end in an error of the backend, since
``.llvm.offloading`` names no segment; HIP does so with clang 22 (LLVM pull request 183991).
QUIRK(clang-offload-bundler 22 and 23): makes no fat object of Mach-O, whose names are too short for a bundle ID.
"""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.binary.macho.layout import FORMAT, LAYOUTS_BY_MAGIC
from fatpack.binary.macho.locate import divided_sections, locate, sections
from fatpack.layout import FormatInfo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View
    from fatpack.model import Label

__all__ = [
    "DOC",
    "LAYOUTS",
    "REFUSAL",
    "detect",
    "divided_sections",
    "labels",
    "locate",
    "sections",
]

DOC = FormatInfo(
    name=FORMAT,
    title="Mach-O file",
    description=(
        "Objects, programs, libraries and plug-ins of macOS, iOS and their relatives. Written by clang, swiftc, rustc, "
        "ld64 and lld."
    ),
    references=(
        "mach-o/loader.h and mach-o/nlist.h of Apple's cctools 1010",
        "llvm/include/llvm/BinaryFormat/MachO.h and llvm/lib/Object/MachOObjectFile.cpp, LLVM 22.1",
        "clang/lib/CodeGen/CGCUDANV.cpp, LLVM 22.1 and 23.1 (names of sections)",
    ),
    reads="32 and 64 bits, both byte orders, any processor and kind of file",
    writes="nothing",
    limitations=(
        "Mach-O files are never edited: load commands, addresses and the code signature depend on what is there. "
        "llvm-objcopy --add-section=SEGMENT,SECTION=FILE adds a section to an object.",
        "The records that register device code (__NV_CUDA,__fatbin and __HIP,__fatbin) are not compared with it: a fat "
        "binary or bundle that no record leads to is listed without a warning.",
        "There are no fat objects: clang-offload-bundler refuses Mach-O, because names of sections have 16 bytes.",
        "No compiler puts offload binaries into Mach-O: clang 22 and 23 end in an error. They are found in "
        "__LLVM,__offload and .llvm.offloading, and in sections whose names say nothing.",
        "The files of a set (MH_FILESET, as kernel caches are) are not told apart, and encrypted programs of iOS are "
        "read as they are stored.",
        "LLVM's and NVIDIA's own tools find no device code in Mach-O, and neither do our replacements of them.",
        "Libraries of Metal have no section of a fixed name: they are found by their magic in any section.",
        "New archives of Mach-O objects are not written, because their symbols are not read.",
    ),
)

LAYOUTS = tuple(
    layout for shape in LAYOUTS_BY_MAGIC.values() for layout in (shape.header, shape.segment, shape.section)
)

#: Why Mach-O files cannot be edited, and an alternative.
REFUSAL = (
    "Mach-O files are not edited: load commands, addresses and the code signature depend on what is there",
    "compile or link again; llvm-objcopy --add-section=SEGMENT,SECTION=FILE adds a section to an object",
)


def detect(view: View) -> bool:
    """Return whether the bytes start with the magic of Mach-O in either word size and byte order."""
    return view.head(0, 4) in magic_numbers.MACH_O


def labels(view: View) -> Iterator[Label]:
    """Yield a label for every byte: headers, segments and sections field by field, everything else as a whole."""
    from fatpack.binary.macho import reader

    return reader.label_macho(view)
