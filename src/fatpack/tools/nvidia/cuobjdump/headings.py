"""The heading that a dump prints for every entry of a fat binary."""

from __future__ import annotations

from fatpack.formats.cuda_fatbin.layout import (
    COMPRESSED,
    ELF,
    FLAG_64_BIT,
    FLAG_ACCELERATED,
    FLAG_DEBUG,
    FLAG_FAMILY,
    GROUP,
    HOSTS,
    LTOIR,
    PTX,
    RELOCATABLE_PTX,
    TILE_IR,
)
from fatpack.formats.cuda_fatbin.stored import CudaEntry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fatpack.formats.cuda_fatbin.stored import CudaEntryHeader, CudaGroup

_CUBIN, _INDEX = 0x04, 0x20

_KINDS = {
    0: "<invalid kind>",
    PTX: "ptx",
    ELF: "elf",
    _CUBIN: "cubin",
    LTOIR: "nvvm",
    _INDEX: "index",
    RELOCATABLE_PTX: "relocatable ptx",
    TILE_IR: "tile ir",
    GROUP: "concatenated entry",
}

_OPTIONS = {
    PTX: "ptxasOptions",
    RELOCATABLE_PTX: "ptxasOptions",
    LTOIR: "nvvmOptions",
    TILE_IR: "tileIROptions",
}


def arch_variant(head: CudaEntryHeader) -> str:
    """Return the letter of the architecture that an entry names: of both, ``a``."""
    return "a" if head.flags & FLAG_ACCELERATED else "f" if head.flags & FLAG_FAMILY else ""


def heading_lines(entry: CudaEntry | CudaGroup) -> list[str]:
    """Return the lines for an entry."""
    head = entry.head
    title = f"Fatbin {_KINDS.get(head.kind, '<unknown kind>')} code:"
    lines = [title, "=" * len(title)]
    if head.kind not in (_INDEX, GROUP):
        lines.append(f"arch = sm_{head.sm}{arch_variant(head)}")
    lines.append(f"code version = [{head.code_major},{head.code_minor}]")
    lines.append(f"host = {next((host for bit, host in HOSTS.items() if head.flags & bit), '<unknown>')}")
    lines.append(f"compile_size = {64 if head.flags & FLAG_64_BIT else 32}bit")
    if head.flags & FLAG_DEBUG:
        lines.append("has debug info")
    if head.flags & COMPRESSED:
        lines.append("compressed")
    if isinstance(entry, CudaEntry):
        if entry.area.identifier:
            lines.append(f"identifier = {decode_text(entry.area.identifier)}")
        if head.kind in _OPTIONS and has_options(entry):
            lines.append(f"{_OPTIONS[head.kind]} = {decode_text(entry.area.options)}")
    return lines


def has_options(entry: CudaEntry) -> bool:
    """Return whether an entry has options, which may be empty. QUIRK(fatbinary 11): of none the descriptor is zero."""
    place = entry.stored.head(entry.head.options_offset, 4) if entry.head.options_offset else b""
    return place != bytes(len(place))


def decode_text(stored: bytes) -> str:
    """Return stored bytes as text, up to the first NUL."""
    return stored.partition(b"\0")[0].decode("utf-8", "surrogateescape")


def text_pieces(pieces: Iterable[memoryview]) -> Iterator[memoryview]:
    """Yield a text in pieces, up to its first NUL."""
    for piece in pieces:
        end = bytes(piece).find(b"\0")
        if end >= 0:
            yield piece[:end]
            return
        yield piece
