"""ELF files as hosts: objects, executables and shared objects of either word size and byte order.

::

    0x00  ELF header: class, byte order, type of the file, offsets of the tables
    ....  program headers (linked files): offsets and addresses of loaded segments
    ....  sections: code, data, symbols, names, device code
    ....  section table: name, type, flags, offset and size of every section

Device code is in sections (``device_sections`` has the rules). Editors never write a file from a parsed model: they
copy the old bytes, add or replace some, and patch the headers that must change (``editor.append``, ``editor.rewrite``).
The modules of this package are imported when they are used.

``layout`` declares every record, for readers, editors, documents and byte labels. There are two readers of headers,
because a library has one host and thousands of device images: of the header of a cubin, ``file`` takes 32 µs and
``quick_header`` one. Both read tables through ``table``:

================  ====================================================================================================
``file``          hosts, one at a time: every field is checked, and errors name the field. Editors, registration and
                  ``device_sections`` use it
``quick_header``  device images, thousands at a time: target and extent from one or two reads, almost unchecked
``device_elf``    sections, notes and relocations of a device image, for properties and digests of its kernels
``symbols``       symbol tables: all of a host, for ``file``; one of a device image, for ``quick_header``
``relocations``   relocations of both, in blocks of columns
``segments``      segments and dynamic tables of hosts
================  ====================================================================================================

``editor`` and ``shrinker`` have one model of a file, ``editor.editable.EditableFile``: they keep all bytes and patch
some records, so they read those as stored, with ``layout``. ``objcopy`` has a model of its own, since it writes every
section, symbol and header anew, as llvm-objcopy does.

Sources: the ELF gABI for all records; LLVM's source for the section type. The reference tests compare the bytes that
GNU ld, gold and lld link from edited objects with those from the originals.
"""

from __future__ import annotations

from fatpack.binary.elf import layout
from fatpack.binary.elf.file import is_elf
from fatpack.layout import FormatInfo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from fatpack.binary.elf.device_sections import DeviceSections
    from fatpack.binary.elf.editor.append import NewSection
    from fatpack.binary.host_sections import SectionSplit
    from fatpack.binary.shrink import ShrinkMode, ShrinkRequest, ShrinkResult
    from fatpack.io.source import Piece, View
    from fatpack.model import Label


__all__ = [
    "DOC",
    "detect",
    "divided_sections",
    "edit",
    "embed",
    "embed_sections",
    "grow",
    "labels",
    "locate",
    "remove",
    "replace",
    "sections",
    "shrink",
    "verify",
]

DOC = FormatInfo(
    name="elf",
    title="ELF object, executable or shared object",
    description=(
        "The object and program files of Linux, the BSDs and most embedded systems. Compilers put containers of device "
        "code into sections of objects; a link with device code turns them into loaded sections of programs. "
        "CUDA and HIP code registers its containers with records; these records are compared with the containers found."
    ),
    references=(
        "System V ABI, generic part (gABI), https://gabi.xinuos.com, read in 2026",
        "llvm/include/llvm/BinaryFormat/ELF.h and llvm/lib/Object/OffloadBinary.cpp, LLVM 22.1",
        "llvm/docs/Extensions.rst (SHT_LLVM_OFFLOADING), LLVM 22.1",
        "aaelf32, aaelf64 and riscv-elf-psabi: mapping symbols",
    ),
    reads="32 and 64 bits, both byte orders, any machine, more than 65279 sections",
    writes=(
        "sections added to objects, executables and shared objects; exchanged or removed in objects; fewer bytes in "
        "loaded sections of executables and shared objects, out of the file or as zeros; for fat objects, the whole "
        "file as llvm-objcopy 22 writes it"
    ),
    limitations=(
        "A section added to a linked file is not loaded at run time: tools see it, the program does not. Device code "
        "reaches a program by linking.",
        "Sections that are loaded at run time are not removed, and in linked files they do not grow. Where they lose "
        "bytes, only device code gets another address, and what makes room for a program header: the name of the "
        "interpreter, notes, tables that the loader finds by the dynamic table.",
        "A linked file gets smaller by whole pages. It keeps zeros instead if data follows the ELF image, segments "
        "overlap, the section is written to at run time, a symbol names its end, or no room can be made after the "
        "program headers. A part of an executable segment that is split stays executable, without code too.",
        "Linked files with relocations of pointers in CREL or Android's packed encoding, or of MIPS with addends, are "
        "not made smaller.",
        "If the section table is missing or damaged, the device code is found that records of CUDA and HIP point to. "
        "If they point to none, or with `inspect --deep`, all of the file is searched. Such files are not edited.",
        "Core files are not edited. Files with data after the ELF image (signatures, AppImages) are not edited "
        "either, but that loaded device code can become zeros; from Python, `fatpack.binary.elf.embed` adds to them "
        "with `keep_trailing=True`.",
        "Removing leaves an empty section header and the section's name, so that no section index changes.",
        "Added to in place, a host of 16 MB or more is not copied, and keeps its old section table as dead bytes.",
        "Relocations in CREL encoding are not read. If one could matter, replacing and removing are refused.",
        "Making an object fat or slim again writes it as llvm-objcopy does: bytes outside of sections and segments are "
        "lost. What that tool refuses or would damage is refused.",
    ),
)


def detect(view: View) -> bool:
    """Return whether a view starts as an ELF file does."""
    return is_elf(view)


def locate(view: View) -> DeviceSections:
    """Return an iterator over the sections that may contain device code; see ``device_sections.DeviceSections``."""
    from fatpack.binary.elf.device_sections import DeviceSections

    return DeviceSections(view)


def labels(view: View) -> Iterator[Label]:
    """Yield labels that cover every byte of the file once, in file order. Raises FormatError for a damaged header."""
    from fatpack.binary.elf import byte_labels

    return byte_labels.label_elf(view)


def sections(view: View) -> list[tuple[int, int, str, int]]:
    """Return (start, end, name, index) of every section with bytes; if tables are damaged, of the readable ones."""
    from fatpack.binary.elf import device_sections

    return device_sections.list_sections(view)


def divided_sections(view: View, places: DeviceSections | None = None) -> SectionSplit:
    """Return the sections with bytes, split into known ones of compilers and linkers, and others.

    ``places`` is the result of :func:`locate`, whose tables are then not read again.
    """
    return (places or locate(view)).division()


def embed(
    view: View,
    content: Sequence[Piece],
    *,
    name: str = ".llvm.offloading",
    section_type: int | None = None,
    flags: int = layout.EXCLUDE,
    align: int | None = None,
    unique: bool = False,
    keep_trailing: bool = False,
) -> list[Piece]:
    """Return the file with one section added, as pieces; the defaults are clang's for an offload binary.

    The name determines type and alignment, as in compilers; linkers drop the section, and ``ld -r`` keeps it.
    ``unique`` refuses a name that a section already has, ``keep_trailing`` allows bytes after the ELF image. For
    several sections at once see ``editor.append.embed_sections``, which also lists the errors.
    """
    from fatpack.binary.elf.editor import append

    usual = _section(content, name)
    addition = usual.replace(
        type=usual.type if section_type is None else section_type,
        flags=flags,
        align=usual.align if align is None else align,
    )
    return append.embed_sections(view, [addition], unique=unique, keep_trailing=keep_trailing)


def grow(view: View, content: Sequence[Piece], *, name: str) -> list[Piece]:
    """Return the result of ``embed`` without any change of old bytes: the file can be edited in place by appending."""
    from fatpack.binary.elf.editor import append

    return append.embed_sections(view, [_section(content, name)], only_growing=True)


def _section(content: Sequence[Piece], name: str) -> NewSection:
    """Return a section as clang makes it for an offload binary, or as other compilers do for another name."""
    from fatpack.binary.elf.editor.append import NewSection

    kind = layout.OFFLOADING if name == ".llvm.offloading" else layout.PROGBITS
    # HIP's runtime requires bundles at multiples of a page.
    return NewSection(content, name, kind, layout.EXCLUDE, 4096 if name == ".hip_fatbin" else 8)


def embed_sections(
    view: View, additions: Sequence[NewSection], *, unique: bool = False, keep_trailing: bool = False
) -> list[Piece]:
    """Return the file with sections added, as pieces; see :func:`fatpack.binary.elf.editor.append.embed_sections`."""
    from fatpack.binary.elf.editor import append

    return append.embed_sections(view, additions, unique=unique, keep_trailing=keep_trailing)


def replace(view: View, index: int, content: Sequence[Piece]) -> list[Piece]:
    """Return the file with other contents in one section; see
    :func:`fatpack.binary.elf.editor.rewrite.replace_section`."""
    from fatpack.binary.elf.editor import rewrite

    return rewrite.replace_section(view, index, content)


def remove(view: View, indices: Sequence[int]) -> list[Piece]:
    """Return the file without some sections; see :func:`fatpack.binary.elf.editor.rewrite.remove_sections`."""
    from fatpack.binary.elf.editor import rewrite

    return rewrite.remove_sections(view, indices)


def edit(view: View, changes: Mapping[int, Sequence[Piece] | None]) -> list[Piece]:
    """Return the file with several sections replaced or removed; see ``editor.rewrite.edit``."""
    from fatpack.binary.elf.editor import rewrite

    return rewrite.edit_sections(view, changes)


def shrink(view: View, change: ShrinkRequest, *, mode: ShrinkMode = "auto") -> ShrinkResult:
    """Return a linked file with other bytes in loaded sections; see
    :func:`fatpack.binary.elf.shrinker.shrink.shrink_elf`."""
    from fatpack.binary.elf.shrinker.shrink import shrink_elf

    return shrink_elf(view, change, mode=mode)


def verify(before: View, after: View, *, edited: Collection[int] | None = None) -> None:
    """Raise HostError unless ``after`` is a valid edit of ``before``; see ``editing.check.verify``."""
    from fatpack.binary.elf.editor import check

    check.verify_edit(before, after, edited=edited)
