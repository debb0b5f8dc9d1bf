"""COFF objects (``.obj``): what compilers for Windows and UEFI write, in the classic layout and in that of ``/bigobj``.

::

    0x00  classic: machine u16, sections u16, time u32, symbols at u32, symbol records u32, 0 u16, flags u16
          big: 00 00 FF FF, version u16, machine u16, time u32, class id, 16 zero bytes, sections, symbols at, records
    0x14  (big: 0x38) section headers, 40 bytes each: name, sizes, offsets of contents and relocations, flags
    ....  contents and relocations
    ....  symbols, 18 bytes each (big: 20); after them the string table: its size u32, then names with NULs

Device code is in sections named ``.llvm.offloading…`` (LLVM), ``__CLANG_OFFLOAD_BUNDLE__…`` (bundler), ``.hip_fatbin``
and ``.nv_fatbin`` (HIP and CUDA without relocatable device code), ``__nv_relfatbin``. All are longer than 8 bytes, so
their names are in the string table.

``layout`` declares the records and ``reader`` reads objects. ``tables`` has the walks over symbols and relocations, for
PE images, registration and archives too.

Sources: the layout is Microsoft's PE/COFF specification; the big one follows LLVM's ``BigObjHeader``. Where clang
22 puts device code, and that lld-link makes the same programs of edited objects, is checked in the reference tests for
x86-64, i386 and arm64, classic and big. ``__nv_relfatbin`` was never seen in a COFF object.
"""

from __future__ import annotations

from fatpack.binary.coff.layout import (
    BIG_HEADER,
    BIG_SYMBOL,
    FORMAT,
    HEADER,
    RELOCATION,
    SECTION,
    SECTION_DEFINITION,
    SYMBOL,
)
from fatpack.binary.coff.reader import coff_kind, locate
from fatpack.layout import FormatInfo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from fatpack.io.source import Piece, View
    from fatpack.model import Label

__all__ = ["DOC", "LAYOUTS", "detect", "edit", "embed", "labels", "locate", "remove", "replace", "sections", "verify"]

DOC = FormatInfo(
    name=FORMAT,
    title="COFF object",
    description=(
        "The object files of compilers for Windows and UEFI. Written by cl, clang, clang-cl, MinGW and rustc; big "
        "objects (/bigobj) hold more than 65279 sections. CUDA and HIP code registers its containers with records; "
        "these records are compared with the containers found."
    ),
    references=(
        "Microsoft PE and COFF specification",
        "llvm/include/llvm/BinaryFormat/COFF.h and llvm/lib/Object/COFFObjectFile.cpp, LLVM 22.1",
        "llvm/lib/MC/WinCOFFObjectWriter.cpp, LLVM 22.1 (checksums, long names)",
        "llvm/lib/Object/OffloadBinary.cpp, LLVM 22.1 (section names)",
    ),
    reads="classic and big objects of any machine that LLVM knows",
    writes=(
        "the same, with sections of device code added, exchanged or removed; for fat objects, the whole file as "
        "llvm-objcopy 22 writes it"
    ),
    limitations=(
        "Objects that hold the compiler's intermediate code (/GL) are recognised, but not read.",
        "Objects with COFF line numbers, with bytes after the string table, or in another order than compilers write, "
        "are not edited.",
        "Removing leaves an empty section and its name. If that would be an empty image of a fat object, the "
        "section is renamed to .removed.",
        "Only sections that the linker drops can be removed. Contents can be exchanged only if nothing refers to a "
        "place inside them.",
        "A classic object with 65279 sections cannot take another: it is not turned into a big one.",
        "Making an object fat or slim again writes it as llvm-objcopy does: a big object becomes a classic one if it "
        "can, and uninitialised data becomes zeros. What that tool refuses or would damage is refused.",
        "No result was checked with Microsoft's linker.",
    ),
)

LAYOUTS = (HEADER, BIG_HEADER, SECTION, SYMBOL, BIG_SYMBOL, SECTION_DEFINITION, RELOCATION)


def detect(view: View) -> bool:
    """Return whether the bytes are a COFF object. There is no magic: header and section headers must make sense."""
    return coff_kind(view) is not None


def labels(view: View) -> Iterator[Label]:
    """Yield a label for every byte: headers field by field, contents, relocations, symbols and strings whole."""
    from fatpack.binary.coff.reader import label_coff

    return label_coff(view)


def sections(view: View) -> list[tuple[int, int, str, int]]:
    """Return (start, end, name, number) of every section with bytes; if tables are damaged, of the readable ones."""
    from fatpack.binary.coff.reader import sections

    return sections(view)


def embed(view: View, content: Sequence[Piece], *, name: str = ".llvm.offloading") -> Iterable[Piece]:
    """Return the object with one more section, as pieces; the linker drops it, whatever its name.

    Raises HostError when the object must not be edited, FormatError when it is damaged.
    """
    from fatpack.binary.coff.editor import embed_section

    return embed_section(view, content, name.encode())


def replace(view: View, index: int, content: Sequence[Piece]) -> Iterable[Piece]:
    """Return the object with other contents in the section of number ``index`` (from 1 on), as pieces.

    Raises HostError that names the obstacle, FormatError for a damaged object.
    """
    from fatpack.binary.coff.editor import replace_section

    return replace_section(view, index, content)


def remove(view: View, indices: Sequence[int]) -> Iterable[Piece]:
    """Return the object without the contents of some sections (numbers from 1 on), as pieces.

    Raises HostError when the linker keeps a section or something refers to it, FormatError for a damaged object.
    """
    from fatpack.binary.coff.editor import remove_sections

    return remove_sections(view, indices)


def edit(view: View, changes: Mapping[int, Sequence[Piece] | None]) -> Iterable[Piece]:
    """Return the object with the contents of several sections exchanged, or taken out (None), as pieces.

    Raises what ``replace`` and ``remove`` raise.
    """
    from fatpack.binary.coff.editor import edit_sections

    return edit_sections(view, changes)


def verify(before: View, after: View) -> None:
    """Raise HostError unless ``after`` is ``before`` with other device code, and all else the same byte for byte."""
    from fatpack.binary.coff.editor import verify_edit

    verify_edit(before, after)
