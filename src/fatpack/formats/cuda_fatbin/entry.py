"""From the stored bytes of an image to what they mean: inflated when they are asked for, without padding or NUL.

Listing inflates nothing. What is wrong all the same can be told from the header and the first bytes of the stream: a
size out of proportion, another method than the flags say, another size than the stream itself says.
"""

from __future__ import annotations

import sys

from fatpack import limits
from fatpack.binary.elf.quick_header import read_quick_header as elf_header
from fatpack.codecs import LZ4_AT_ONCE, decompress, inflate_beginning, inflation_budget, max_inflated_size
from fatpack.codecs import inflate_pieces as pieces_inflated
from fatpack.errors import FatpackError, FormatError, LimitExceeded, Unsupported, format_hex
from fatpack.formats.cuda_fatbin.faults import fatbin_error, fatbin_errors
from fatpack.formats.cuda_fatbin.frame import FRAME_HEAD_SIZE, frame_content_size, has_method
from fatpack.formats.cuda_fatbin.layout import ALIGN, ENTRY, FATBIN_FORMAT, FLAG_OBFUSCATED, TEXTS, compression_method
from fatpack.io.inflated import InflatedSource, PicklableCall
from fatpack.io.source import Source, View, VirtualName

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Buffer

    from fatpack.formats.cuda_fatbin.stored import CudaEntryHeader


#: What inflating takes: as far as matches go back, with zstd at level 19. LZ4 makes smaller blocks at once, and copies
#: them.
_WINDOW = 8 << 20

_SIZE_AT = ENTRY.field_offset("inflated_size")


def inflation_problem(entry: View, packed: View, head: CudaEntryHeader) -> FormatError | None:
    """Return why the image of an entry cannot be had, as far as that shows without inflating it."""
    if not head.padded_size:
        return fatbin_error(entry, ENTRY.field_offset("padded_size"), "padded_size", "there is no image")
    method = compression_method(head.flags)
    if method is not None:
        return _problem_of_sizes(entry, packed, head) or _problem_of_stream(entry, packed, head, method)
    if not head.compressed_size:
        return None
    sizes = f"{head.compressed_size} compressed bytes that inflate to {head.inflated_size}"
    text = f"they say not compressed, and the sizes {sizes}"
    return fatbin_error(entry, ENTRY.field_offset("flags"), "flags", text)


def _problem_of_sizes(entry: View, packed: View, head: CudaEntryHeader) -> FormatError | None:
    if not head.compressed_size or head.compressed_size > head.padded_size:
        where, room = ENTRY.field_offset("compressed_size"), f"1 to {format_hex(head.padded_size)}"
        return fatbin_error(entry, where, "compressed_size", f"it is {format_hex(head.compressed_size)}", room)
    if not head.inflated_size:
        return fatbin_error(entry, _SIZE_AT, "inflated_size", "it is 0, and the image is compressed")
    most = inflation_budget(packed)
    if head.inflated_size > most:
        claim = f"{len(packed)} bytes claim to inflate to {head.inflated_size}"
        hint = limits.inflated_hint(head.inflated_size)
        expected = f"at most {most} for all that a command inflates"
        return fatbin_errors.limit(entry, _SIZE_AT, "inflated_size", claim, expected, hint)
    return None


def _problem_of_stream(entry: View, packed: View, head: CudaEntryHeader, method: str) -> FormatError | None:
    if head.flags & FLAG_OBFUSCATED:
        return None
    if head.inflated_size > max_inflated_size(method, len(packed)):
        text = f"{len(packed)} bytes of {method} cannot hold {head.inflated_size}"
        return fatbin_error(entry, _SIZE_AT, "inflated_size", text)
    start = packed.head(0, FRAME_HEAD_SIZE)
    if not has_method(method, start):
        return fatbin_error(
            packed, 0, "compressed data", f"the flags say {method}, and it starts with {start[:4].hex(' ')}"
        )
    size = frame_content_size(method, start)
    # Several frames may follow each other, so the first may be smaller than all.
    if size is not None and size > head.inflated_size:
        problem = f"it is {head.inflated_size}, and the {method} frame holds {size} bytes"
        return fatbin_error(entry, _SIZE_AT, "inflated_size", problem)
    return None


def image_data(packed: View, head: CudaEntryHeader) -> View:
    """Return the image of an entry: an inflated one is inflated when it is read. The entry has no problem."""
    method = compression_method(head.flags)
    if head.flags & FLAG_OBFUSCATED:
        return refused_view(packed, head.inflated_size if method else len(packed), PicklableCall(_obfuscated, packed))
    if method is None:
        return without_padding(packed, head.kind)
    return inflated_image(packed, head, head.kind in TEXTS and ends_in_nul(packed, len(packed) - 1, method))


def inflated_image(packed: View, head: CudaEntryHeader, has_nul: bool) -> View:
    """Return the compressed image of an entry, which is inflated when it is read; ``has_nul``: a text with its NUL."""
    method = compression_method(head.flags) or ""
    inflate = PicklableCall(_inflated, packed, method, head.inflated_size, has_nul)
    stream = PicklableCall(_pieces, packed, method, head.inflated_size, has_nul)
    return lazy_inflated_view(
        packed, head.inflated_size - has_nul, method, inflate, stream, PicklableCall(_start, packed, method)
    )


def _start(packed: View, method: str, size: int) -> bytes:
    return inflate_beginning(packed, size, method=method, format=FATBIN_FORMAT)


def _inflated(packed: View, method: str, size: int, has_nul: bool) -> memoryview:
    """Return what an image inflates to, without the NUL of a text."""
    data = memoryview(decompress(packed, method, size, format=FATBIN_FORMAT))
    return _without_nul(packed, data) if has_nul else data


def _without_nul(packed: View, data: memoryview) -> memoryview:
    """Return the end of a text without its NUL. Raises BadValue where there is none."""
    if data[-1]:
        raise fatbin_error(packed, 0, "compressed data", "the text in it does not end in NUL")
    return data[:-1]


def _pieces(packed: View, method: str, size: int, has_nul: bool) -> Iterator[bytes | bytearray | memoryview]:
    """Yield what an image inflates to: in one piece if that takes no more memory than several."""
    if size <= _WINDOW:
        yield _inflated(packed, method, size, has_nul)
        return
    for piece in pieces_inflated(packed, method, size, format=FATBIN_FORMAT):
        size -= len(piece)
        yield piece if size or not has_nul else bytes(_without_nul(packed, memoryview(piece)))


def inflated_group_pieces(packed: View, method: str, size: int) -> Iterator[bytes | bytearray | memoryview]:
    """Yield what the images of a group inflate to."""
    return _pieces(packed, method, size, False)


def ends_in_nul(view: View, last: int, method: str) -> bool:
    """Return whether a compressed text, whose ``last`` byte is there, ends in NUL, without inflating it.

    QUIRK(fatbinary 8): there is no NUL. It compressed with LZ4 alone, and the end of an LZ4 block are always literals.
    """
    return method != "lz4" or view.read(last, 1) == b"\0"


def lazy_inflated_view(
    packed: View,
    size: int,
    method: str,
    inflate: Callable[[], Buffer],
    stream: Callable[[], Iterator[bytes | bytearray | memoryview]],
    start: Callable[[int], bytes] | None = None,
) -> View:
    """Return ``size`` bytes that a function makes of stored ones when they are read, and that come in a stream too.

    ``start`` makes so many first ones alone.
    """
    name = VirtualName(f"inflated {method} at {format_hex(packed.start)}")
    present = min(len(packed), packed.source.present)
    piece_size = 2 * size if method == "lz4" and size <= LZ4_AT_ONCE else min(size, _WINDOW)
    source = InflatedSource(
        size, inflate, name, present=present, origin=packed.source, stream=stream, piece_size=piece_size, start=start
    )
    return View(source, 0, size, (*packed.chain, name))


class _RefusedSource(Source):
    """Bytes that cannot be had: reading them says why."""

    is_at_hand = False
    is_refused = True

    def __init__(self, name: str, size: int, present: int, error: Callable[[], FatpackError]) -> None:
        self.name = name
        self.size = size
        self.present = present
        self._error = error

    def read(self, offset: int, size: int) -> bytes:
        """Raise the error."""
        raise self._error()

    def pieces(self, offset: int, size: int) -> Iterator[memoryview]:
        """Raise the error."""
        raise self._error()


def refused_view(packed: View, size: int, error: Callable[[], FatpackError]) -> View:
    """Return a view of ``size`` bytes, of which every read raises an error; also where there are none."""
    name = VirtualName(f"image at {format_hex(packed.start)}")
    source = _RefusedSource(name, size, packed.source.present, error)
    return View(source, 0, size, (*packed.chain, name))


def refused_size(error: FormatError, stated: int) -> int:
    """Return the size of an image that cannot be had: the stated one if only a limit forbids it, else 0."""
    return min(stated, sys.maxsize) if isinstance(error, LimitExceeded) else 0  # no view is longer


def _obfuscated(packed: View) -> Unsupported:
    return Unsupported(
        f"{FATBIN_FORMAT} at {format_hex(packed.offset(0))}: the image is obfuscated by its producer",
        hint="only NVIDIA's linker reads it; the entry is copied as it is",
        chain=packed.chain,
    )


def without_padding(data: View, kind: int) -> View:
    """Return an image that is not compressed without the zeros behind it, as far as its form tells its length.

    A text ends at its NUL, an ELF where its own headers say. LTO-IR and unknown kinds keep up to 7 zero bytes.
    """
    if kind in TEXTS:
        start = max(len(data) - ALIGN, 0)
        return data.slice(0, start + len(data.head(start, ALIGN).rstrip(b"\0")))
    elf = elf_header(data, data.head(0, 64))
    if elf is None:
        return data
    # ptxas writes one of the two tables last: mostly the header is all that has to be read.
    end = max(elf.shoff + elf.shnum * elf.shentsize, elf.phoff + elf.phnum * elf.phentsize)
    if end != len(data):
        end = elf.extent()[0] or len(data)
    return data.slice(0, min(end, len(data)))


def is_refused(view: View) -> bool:
    """Return whether the bytes of a view cannot be had."""
    return view.source.is_refused
