"""Checks of a file as a whole: the type that its name says, the reach of relocations, and the maps of its bytes."""

from __future__ import annotations

from fatpack import binary, formats, limits, magic_numbers
from fatpack.binary.elf import layout
from fatpack.binary.elf.device_elf import check_program_table
from fatpack.binary.elf.file import ElfFile
from fatpack.binary.elf.quick_header import read_quick_header
from fatpack.errors import FatpackError, FormatError, format_hex, pluralize
from fatpack.findings import finding
from fatpack.io.source import View
from fatpack.printable import format_size
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from fatpack.binary.elf.file import ElfSection
    from fatpack.commands.doctor.model import DoctorNotes
    from fatpack.io.source import Piece
    from fatpack.model import Finding, Label
    from fatpack.scanner import FoundContainer


# Check that a file is of the type that its name says: a container, a device image or a package.

#: how names of files end that hold device code, and nothing else
_DEVICE = (".fatbin", ".cubin", ".hipfb", ".hsaco", ".kpack", ".syclbin")
#: how names of packages end
_ARCHIVES = (".whl", ".conda", ".zip")
_PACKAGES = (*_ARCHIVES, ".deb", ".rpm", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst")

#: bytes of the record that ends a zip archive, and of a comment after it
_END, _COMMENT = 22, 0xFFFF


def extension_problem(view: View, path: str, *, has_device_code: bool) -> Finding | None:
    """Return what is wrong with a file that is no package, given its name and whether device code is in it."""
    name = path.lower()
    if name.endswith(_PACKAGES):
        if name.endswith(_ARCHIVES) and _ends_as_zip(view):
            text = "bytes precede the archive: other readers open it; fatpack reads no file in it"
            return finding("FP3607", view.span(), text, "get it again, or cut them off")
        text = f"its name says that it is a package, and its {pluralize(len(view), 'byte')} are none"
    elif name.endswith(_DEVICE) and not has_device_code:
        text = f"its name says that device code is in it, and in its {pluralize(len(view), 'byte')} is none"
    else:
        return None
    return finding("FP3607", view.span(), text, "get it again, or give it another name")


def _ends_as_zip(view: View) -> bool:
    size = min(len(view), _END + _COMMENT)
    return magic_numbers.ZIP_END in view.head(len(view) - size, size)


# Check that 32-bit relocations reach across the device code: if not, ld reports ``relocation truncated to fit``.
#
# Code for x86-64 reaches data through signed offsets of 32 bits (small and medium code model of the System V psABI);
# AArch64 through ``adrp``, 4 GiB either way. Device code that a linker lays between code and data pushes them apart
# (pytorch/pytorch#48588, NixOS/nixpkgs#220402).

#: e_machine → how far an instruction reaches that a relocation of 32 bits is in: x86-64, AArch64
_LIMITS = {62: 1 << 31, 183: 1 << 32}

_RELOCATABLE, _ALLOCATED, _CODE = 1, 2, 4

#: From this part of the limit on, a finding reports that a linked file or an object is near it.
_NEAR = 0.5

#: LIMIT: sections of a file that are looked at; an object of one function per section has tens of thousands.
_MOST_SECTIONS = 1 << 18


class LoadedExtent(Record):
    """The longest way from code to other loaded parts of a linked file (``is_linked``); of an object, their size.

    ``device`` is what of all loaded bytes is device code.
    """

    is_linked: bool
    reached: int
    device: int
    limit: int


def measure_extent(view: View, host: str, device: Collection[int]) -> LoadedExtent | None:
    """Return the extent of an ELF file; ``device`` are the numbers of its sections of device code.

    None for any other file, for processors with another reach, and where there is no device code in sections.
    """
    if host != "elf" or not device:
        return None
    try:
        elf = ElfFile(view)
        limit = _LIMITS.get(elf.header.machine)
        if limit is None or elf.section_count > _MOST_SECTIONS:
            return None
        loaded = [item for item in elf.sections() if item.flags & _ALLOCATED and item.type != layout.NULL]
    except FormatError:
        return None  # said where the file was scanned
    own = sum(item.size for item in loaded if item.index in device)
    if not own:
        return None
    if elf.header.type == _RELOCATABLE:
        total = sum(item.size for item in loaded)
        return LoadedExtent(is_linked=False, reached=total, device=own, limit=limit)
    return LoadedExtent(is_linked=True, reached=_reached(loaded, device), device=own, limit=limit)


def _reached(loaded: list[ElfSection], device: Collection[int]) -> int:
    """Return the longest way between code and what it refers to: everything loaded but device code itself."""
    code = [item for item in loaded if item.flags & _CODE]
    others = [item for item in loaded if item.index not in device and item.size]
    if not code or not others:
        return 0
    first, last = min(item.address for item in code), max(item.address + item.size for item in code)
    low, high = min(item.address for item in others), max(item.address + item.size for item in others)
    return max(last - low, high - first)


def overflow_findings(extent: LoadedExtent, view: View, archs: Mapping[str, int]) -> Iterator[Finding]:
    """Yield a finding where relocations hardly reach, with what to drop; ``archs`` are the bytes of each."""
    if extent.reached < extent.limit * _NEAR:
        return
    kind = "code and data lie up to" if extent.is_linked else "the loaded sections have"
    far = extent.reached > extent.limit and not extent.is_linked
    apart = " apart" if extent.is_linked else ""
    text = (
        f"{kind} {format_size(extent.reached)}{apart}, {format_size(extent.device)} of them device code; "
        f"relocations of 32 bits reach {format_size(extent.limit)} ({format_hex(extent.limit)})"
    )
    yield finding("FP3605" if far else "FP3606", view.span(), text, _advice(archs))


def _advice(archs: Mapping[str, int]) -> str:
    """Return what to drop: the architectures that take most."""
    most = sorted(archs.items(), key=lambda item: -item[1])[:4]
    if not most:
        return "link with fewer architectures, or compress device code"
    words = ", ".join(f"{arch} ({format_size(size)})" for arch, size in most)
    return f"compress device code, or leave out architectures; most bytes are for {words}"


# Check that every byte of a file is described once, and that writing a container again gives the stored bytes.


def check_host(view: View, host: str, notes: DoctorNotes) -> None:
    """Note whether the host's labels cover every byte of a file once. Raises FormatError for a damaged file."""
    if host == "raw":
        return
    if host == "elf":
        _check_programs(view)
    notes.count("byte maps")
    _check_labels(binary.get_host(host).labels(view), view, host, notes)


def _check_programs(view: View) -> None:
    """Check that the table of program headers lies inside an ELF file. Raises BadValue.

    The map of the file's bytes would leave a table outside of it out, and say nothing. Segments are not checked: a file
    with debug information alone has the program headers of its program (``eu-strip -f``).
    """
    elf = read_quick_header(view, view.head(0, 64))
    if elf is not None and elf.phnum != layout.ESCAPED:
        check_program_table(elf)


def check_container(found: FoundContainer, notes: DoctorNotes) -> None:
    """Note whether labels cover every byte of a container once, and whether writing it gives the same bytes.

    Raises FormatError for what is damaged in it.
    """
    container, view = found.container, found.view
    if container.is_fat_object:
        notes.skip("rewrites", "a fat object is laid out by its host, which is not written again")
        return
    room = formats.get_format(container.format)
    if container.format in formats.MODULES:
        notes.count("byte maps")
        _check_labels(room.labels(view, container), view, container.format, notes)
    try:
        at = _first_difference(room.write(container), view)
    except FatpackError as error:
        notes.skip("rewrites", error.problem)
        return
    if at is not None and any(image.stored_size is None for image in container.images):
        notes.skip("rewrites", "a container compressed as a whole is compressed anew, which gives other bytes")
        return
    notes.count("rewrites")
    if at is not None:
        text = f"written again, this container of {container.format} differs from byte {format_hex(at)} on"
        notes.add(finding("FP3601", view.span(), text, "an edit of this file would change more bytes than needed"))


def _check_labels(labels: Iterable[Label], view: View, what: str, notes: DoctorNotes) -> None:
    reached = view.start
    for label in labels:
        if label.span.start != reached or label.span.end <= reached:
            text = f"the map of this {what} has {label.name} at {format_hex(label.span.start)}, not at"
            notes.add(finding("FP3602", view.span(), f"{text} {format_hex(reached)}"))
            return
        reached = label.span.end
    if reached != view.end:
        text = f"the map of this {what} ends {pluralize(view.end - reached, 'byte')} before it does"
        notes.add(finding("FP3602", view.span(), text))


def _first_difference(pieces: Iterable[Piece], view: View) -> int | None:
    """Return the offset of the first byte that differs from those of a view, None if all are the same.

    A piece that is the same range of the same source is not read.
    """
    at = 0
    for piece in pieces:
        size = len(piece)
        if at + size > len(view):
            return view.end
        if isinstance(piece, View):
            if piece.source is not view.source or piece.start != view.start + at:
                for part in piece.read_once():
                    if view.head(at, len(part)) != part:
                        return view.offset(at)
                    at += len(part)
                continue
        else:
            data = memoryview(piece)
            for start in range(0, size, limits.CHUNK):
                part = data[start : start + limits.CHUNK]
                if view.head(at + start, len(part)) != part:
                    return view.offset(at + start)
        at += size
    return None if at == len(view) else view.offset(at)
