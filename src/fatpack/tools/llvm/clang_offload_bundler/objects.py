"""Object files as bundles: which files take part, their sections of bundles, and the host's object without them."""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.errors import FatpackError, FormatError
from fatpack.tools.llvm.clang_offload_bundler.settings import ArgumentError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fatpack.binary.coff.reader import CoffObject
    from fatpack.formats.clang_bundle.sections_fat_object import FatObjectImage
    from fatpack.io.source import Piece, View
    from fatpack.model import Finding

#: What precedes the bundle ID in the name of a section.
PREFIX = "__CLANG_OFFLOAD_BUNDLE__"

#: First bytes of object files that LLVM reads and its objcopy cannot add bundles to → the word for them.
_OTHERS = {
    magic_numbers.MACH_O_32: "Mach-O",
    magic_numbers.MACH_O_64: "Mach-O",
    magic_numbers.BIG_MACH_O_32: "Mach-O",
    magic_numbers.BIG_MACH_O_64: "Mach-O",
    magic_numbers.WASM: "WebAssembly",
    magic_numbers.XCOFF_32 + b"\0": "XCOFF",
    magic_numbers.XCOFF_64 + b"\0": "XCOFF",
    magic_numbers.DXIL: "DXContainer",
}


def object_format(view: View) -> str:
    """Return ``elf``, ``coff``, ``pe`` or the word for another object file; "" for what is none, or is damaged."""
    head = view.head(0, 4)
    if head == magic_numbers.ELF:
        return "elf" if _is_elf(view) else ""
    if head[:2] == magic_numbers.DOS:
        return "pe" if _is_image(view) else ""
    if head[1:2] in _COFF_MACHINES or head == magic_numbers.ANONYMOUS_COFF:
        from fatpack.binary.coff.reader import coff_kind

        if coff_kind(view) in ("classic", "big"):
            return "coff"
    return next((word for magic, word in _OTHERS.items() if head.startswith(magic)), "")


def _is_elf(view: View) -> bool:
    from fatpack.binary.elf.file import ElfFile

    try:
        ElfFile(view)
    except FormatError:
        return False
    return True


def _is_image(view: View) -> bool:
    from fatpack.binary.coff.objcopy.writer import PeImage

    try:
        return PeImage(view).table_end <= len(view)
    except FormatError:
        return False


#: Carriers that :mod:`fatpack.binary.coff.objcopy` takes: objects, and linked images of Windows.
_COFF = ("coff", "pe")

#: High bytes of the machine numbers of COFF objects: most files that are none need no further look.
_COFF_MACHINES = (b"\x86", b"\xaa", b"\xa6", b"\x01", b"\x02", b"\x0e", b"\x50", b"\x51", b"\x62", b"\x90")


def bundle_sections(view: View, carrier: str) -> tuple[list[FatObjectImage], list[Finding]]:
    """Return the sections of bundles in the order of the section table, and what is wrong with the object.

    Raises FormatError for a damaged object.
    """
    if carrier == "elf":
        return _in_elf(view)
    return (_in_coff(view, carrier), []) if carrier in _COFF else ([], [])


def _in_elf(view: View) -> tuple[list[FatObjectImage], list[Finding]]:
    from fatpack.binary import CodeSection
    from fatpack.binary.elf import locate
    from fatpack.formats.clang_bundle.sections_fat_object import FatObjectImage

    found, findings = [], []
    for site in locate(view):
        if not isinstance(site, CodeSection):
            findings.append(site)
        elif site.section and site.section.startswith(PREFIX):
            found.append(FatObjectImage(site.section.removeprefix(PREFIX), site.data, site.index or 0))
    return sorted(found, key=lambda part: part.section), findings


def _in_coff(view: View, carrier: str) -> list[FatObjectImage]:
    from fatpack.formats.clang_bundle.sections_fat_object import FatObjectImage

    coff: CoffObject
    if carrier == "pe":
        from fatpack.binary.coff.objcopy.writer import PeImage

        coff = PeImage(view)
    else:
        from fatpack.binary.coff.reader import CoffObject

        coff = CoffObject(view)
    strings = coff.strings()
    found = []
    for section in coff.sections():
        name = coff.name(section.stored_name, strings) if section.stored_name.startswith(b"/") else b""
        if name.startswith(PREFIX.encode()):
            # Of images, what lies behind the size in memory is padding.
            size = min(section.raw_size, section.virtual_size) if carrier == "pe" else section.raw_size
            data = view.slice(section.raw_offset if size else 0, size)
            spelling = name.decode("utf-8", "surrogateescape").removeprefix(PREFIX)
            found.append(FatObjectImage(spelling, data, section.number))
    return found


def with_sections(host: View, carrier: str, additions: Sequence[tuple[str, Sequence[Piece]]]) -> Iterable[Piece]:
    """Return a host object with sections added, as llvm-objcopy makes it. Raises Refusal where that cannot be done."""
    try:
        if carrier == "elf":
            from fatpack.binary.elf.objcopy import add_sections as add_to_elf

            return add_to_elf(host, additions)
        if carrier in _COFF:
            from fatpack.binary.coff.objcopy import add_sections as add_to_coff

            return add_to_coff(host, additions)
    except FatpackError as error:
        raise ArgumentError(f"cannot add sections to the host object: {error}") from error
    raise ArgumentError(
        f"cannot add sections to the host object: llvm-objcopy adds none to {carrier} files; use -type=bc"
    )


def without_sections(host: View, carrier: str) -> Iterable[Piece]:
    """Return a fat object without its sections of bundles, as llvm-objcopy makes it. Raises Refusal."""
    try:
        if carrier == "elf":
            from fatpack.binary.elf.objcopy import remove_sections as remove_from_elf

            return remove_from_elf(host, PREFIX)
        from fatpack.binary.coff.objcopy import remove_sections as remove_from_coff

        return remove_from_coff(host, PREFIX)
    except FatpackError as error:
        raise ArgumentError(f"cannot take the sections of bundles out of the object: {error}") from error
