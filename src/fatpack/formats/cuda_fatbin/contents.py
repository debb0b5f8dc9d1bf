"""What the bytes of a new image decide about its entry: the code version, and what is copied out of a cubin."""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.errors import UsageError
from fatpack.formats.cuda_fatbin.cubin import read_cubin_facts
from fatpack.formats.cuda_fatbin.layout import ELF, FLAG_FINALIZABLE, LTOIR, TEXTS, TILE_IR
from fatpack.formats.cuda_fatbin.ptx_text import minify_ptx, ptx_version
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import Piece, View
    from fatpack.model import Image


class NewEntryContents(Record):
    """The bytes to store and what the entry says of them; ``code_version`` is (minor, major), None if unknown."""

    data: tuple[Piece, ...]
    code_version: tuple[int, int] | None = None
    flags: int = 0
    compat: bytes = b""


def new_entry_contents(image: Image, kind: int, sm: int, *, is_64_bit: bool, minifies: bool) -> NewEntryContents:
    """Return what a new entry of that kind takes from its image. Raises UsageError if the image is something else."""
    data = image.data
    if kind in TEXTS:
        # What NVRTC hands out ends in a NUL, and fatbinary compresses that of a file along with its own.
        text = data.tobytes().rstrip(b"\0")
        if b"\0" in text:
            raise UsageError("this PTX contains a NUL byte, where readers would end it", chain=data.chain)
        major, minor = ptx_version(text)
        return NewEntryContents((minify_ptx(text) if minifies else text, b"\0"), (minor, major))
    if kind == ELF:
        return _cubin(data, sm, is_64_bit=is_64_bit)
    head = data.head(0, 12)
    if kind == LTOIR:
        _check(head, magic_numbers.LTO_IR, "LTO-IR", data)
        return NewEntryContents((data,), (head[5], head[4]))
    if kind == TILE_IR:
        _check(head, magic_numbers.TILE_IR, "Tile IR", data)
        return NewEntryContents((data,), (int.from_bytes(head[10:12], "little"), head[8] << 8 | head[9]))
    return NewEntryContents((data,))


def _cubin(data: View, sm: int, *, is_64_bit: bool) -> NewEntryContents:
    cubin = read_cubin_facts(data)
    if cubin.sm != sm:
        raise UsageError(f"a cubin for sm_{cubin.sm} as one for sm_{sm}", chain=data.chain)
    if (cubin.bits == 64) != is_64_bit:
        raise UsageError(f"a cubin of {cubin.bits} bits as one of {64 if is_64_bit else 32}", chain=data.chain)
    flags = FLAG_FINALIZABLE if cubin.is_finalizable else 0
    return NewEntryContents((data,), (cubin.abi_version, cubin.elf_version), flags, cubin.compat)


def _check(head: bytes, magic: bytes, what: str, data: View) -> None:
    if not head.startswith(magic) or len(head) < 12:
        raise UsageError(f"this is no {what}", hint="other images need another form", chain=data.chain)
