"""Whether relocations of 32 bits reach over device code: the cause of ``relocation truncated to fit``.

Code for x86-64 reaches data through signed offsets of 32 bits (small and medium code model of the System V psABI);
AArch64 through ``adrp``, 4 GiB either way. Device code that a linker lays between code and data pushes them apart
(pytorch/pytorch#48588, NixOS/nixpkgs#220402).
"""

from __future__ import annotations

from fatpack.binary.elf import constants
from fatpack.binary.elf.file import ElfFile
from fatpack.errors import FormatError
from fatpack.findings import finding
from fatpack.printable import format_size
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from fatpack.binary.elf.file import ElfSection
    from fatpack.io.source import View
    from fatpack.model import Finding

#: e_machine → how far an instruction reaches that a relocation of 32 bits is in: x86-64, AArch64
_LIMITS = {62: 1 << 31, 183: 1 << 32}

_RELOCATABLE, _ALLOCATED, _CODE = 1, 2, 4

#: From this part of the limit on, a linked file or an object is said to be near it.
_NEAR = 0.5

#: LIMIT: sections of a file that are looked at; an object of one function per section has tens of thousands.
_MOST_SECTIONS = 1 << 18


class LoadedExtent(Record):
    """How far the loaded parts of a file lie apart; of an object, how many bytes they have. ``is_linked`` tells which.

    ``reached`` is the longest way from code to other loaded parts, ``device`` what of all loaded bytes is device code.
    """

    is_linked: bool
    span: int
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
        loaded = [item for item in elf.sections() if item.flags & _ALLOCATED and item.type != constants.NULL]
    except FormatError:
        return None  # said where the file was scanned
    own = sum(item.size for item in loaded if item.index in device)
    if not own:
        return None
    if elf.header.type == _RELOCATABLE:
        total = sum(item.size for item in loaded)
        return LoadedExtent(is_linked=False, span=total, reached=total, device=own, limit=limit)
    low, high = min(item.address for item in loaded), max(item.address + item.size for item in loaded)
    return LoadedExtent(is_linked=True, span=high - low, reached=_reached(loaded, device), device=own, limit=limit)


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
    from fatpack.errors import format_hex

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
