"""Universal files of macOS (fat Mach-O): the same program, library or archive for several processors in one file.

::

    0x00  CA FE BA BE (offsets of 32 bits) or CA FE BA BF (64), nfat_arch u32, all numbers big-endian
    0x08  per slice: cputype u32, cpusubtype u32, offset, size, align u32; 64 bits: reserved u32
    ....  slices, each at a multiple of its alignment: a Mach-O file, an archive of such, or bitcode

A slice is a file of its own, and is named as a member of an archive is, by the architecture: ``libx.dylib(arm64)``,
``libx.a(arm64(a.o))``. Offsets count in the whole file.

How we know: ``mach-o/fat.h`` of Apple's cctools; what llvm-lipo 22 writes, with offsets of 32 and 64 bits, is compared
with LIEF, llvm-lipo and llvm-objdump in the reference tests. Java's classes start with the magic of 32 bits too: they
have a version of 45 or more where a universal file has the number of its slices (``llvm/lib/BinaryFormat/Magic.cpp``).
"""

from __future__ import annotations

from fatpack.binary.macho.universal import locate
from fatpack.binary.macho.universal_layout import FORMAT, HEADER, MAX_SLICES, SLICES
from fatpack.doc import FormatInfo
from fatpack.errors import HostError
from fatpack.magic_numbers import UNIVERSAL_MACH_O

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fatpack.io.source import Piece, View
    from fatpack.model import Label

__all__ = ["DOC", "LAYOUTS", "REFUSAL", "detect", "labels", "locate", "rewrite"]

DOC = FormatInfo(
    name=FORMAT,
    title="universal Mach-O file",
    description=(
        "Programs, libraries, objects and archives of macOS for several processors in one file. Written by lipo, "
        "llvm-lipo, libtool and rustc. Each slice is listed as a file of its own, named by its architecture."
    ),
    references=(
        "mach-o/fat.h of Apple's cctools 1010",
        "llvm/lib/Object/MachOUniversal.cpp and llvm/lib/BinaryFormat/Magic.cpp, LLVM 22.1",
    ),
    reads="tables of 32 and 64 bits; slices that are Mach-O files, archives, bitcode or anything else",
    writes="nothing",
    limitations=(
        "Universal files are never edited: lipo -thin takes a slice out, and lipo -create puts slices together.",
        "A slice that the count leaves out (an arm64 one that lipo was told to hide) is not listed.",
        "A file of more than 44 slices with offsets of 32 bits is taken for a class of Java.",
    ),
)

LAYOUTS = (HEADER, *SLICES.values())

#: Why such a file is not edited, and what would work.
REFUSAL = (
    "universal Mach-O files are not edited: slices depend on where they lie, and each has a signature of its own",
    "take it apart with lipo -thin, and put it together with lipo -create",
)


def detect(view: View) -> bool:
    """Say whether the bytes start as a universal file does, and not as a class of Java."""
    head = view.head(0, HEADER.size)
    if head[:4] not in SLICES or len(head) < HEADER.size:
        return False
    return head[:4] != UNIVERSAL_MACH_O or int.from_bytes(head[4:], "big") <= MAX_SLICES


def labels(view: View) -> Iterator[Label]:
    """Yield a label for every byte: the table field by field, slices whole."""
    from fatpack.binary.macho import universal_byte_map

    return universal_byte_map.label_universal(view)


def rewrite(view: View, contents: Mapping[int, Sequence[Piece]]) -> Sequence[Piece]:
    """Refuse what archives do: exchange the contents of members. Raises HostError with what would work."""
    problem, hint = REFUSAL
    raise HostError(problem, hint=hint, chain=view.chain)
