"""Entries: their strings and numbers, and their images, inflated on demand and without padding or NUL.

Listing inflates nothing. Some damage shows in the header and the first bytes of the stream: a size out of proportion, a
method that differs from the flags, a size that differs from the stream's own.
"""

from __future__ import annotations

import sys

from fatpack import limits, magic_numbers
from fatpack.binary.elf.quick_header import read_quick_header
from fatpack.codecs import (
    LZ4_AT_ONCE,
    decompress,
    inflate_beginning,
    inflate_pieces,
    inflation_budget,
    max_inflated_size,
)
from fatpack.errors import FatpackError, FormatError, LimitExceeded, Unsupported, format_hex
from fatpack.formats.cuda_fatbin.layout import (
    ALIGN,
    COMPRESSED,
    DESCRIPTOR,
    ELF,
    ENTRY,
    ENTRY_VERSION,
    FATBIN_FORMAT,
    FLAG_64_BIT,
    FLAG_ACCELERATED,
    FLAG_DEBUG,
    FLAG_FAMILY,
    FLAG_LINUX,
    FLAG_OBFUSCATED,
    FORMS,
    HOSTS,
    KINDS,
    METHODS,
    RELOCATABLE_PTX,
    TEXTS,
    UNKNOWN_KINDS,
    WITH_OPTIONS,
    CudaEntry,
    CudaEntryHeader,
    CudaEntryStrings,
    compression_method,
    fatbin_error,
    fatbin_errors,
    kind_words,
    padded_size,
    padded_string_size,
)
from fatpack.formats.diagnostics import FindingCollector
from fatpack.io.inflated import InflatedSource, PicklableCall
from fatpack.io.source import Source, View, VirtualName
from fatpack.model import Image, Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from typing_extensions import Buffer


# The variable area of an entry: identifier, and options or the copy of ``.nv.compat``.
#
# ::
#
#     identifier   at identifier_offset: the bytes, NUL, zeros to a multiple of 8
#     options      at options_offset: a descriptor, then the bytes, NUL, zeros to a multiple of 8
#     compat       the same descriptor, then one zero byte (the empty options), the section, zeros to a multiple of 8
#
# QUIRK(fatbinary 8): the padding to a multiple of 8 is not always zero.
# QUIRK(fatbinary 11 and older): options come first, and are eight zero bytes if there are none.
# QUIRK(fatbinary 12.4): an identifier that is empty takes eight zero bytes, and its offset is still 0.
# QUIRK(fatbinary 13): the size of ``compat`` does not count the zero byte in front of it.

#: the variable area of an entry without strings
NO_STRINGS = CudaEntryStrings()


def read_entry_strings(entry: View, head: CudaEntryHeader, faults: FindingCollector) -> CudaEntryStrings:
    """Return the strings of an entry; ``entry`` starts with the entry and ends at the limit for its strings.

    A string outside of ``entry`` is a fault and read as empty.
    """
    identifier, end = b"", ENTRY.size
    if head.identifier_offset and _is_inside(
        entry, head.identifier_offset, head.identifier_size, "identifier", "identifier_offset", faults
    ):
        identifier = entry.read(head.identifier_offset, head.identifier_size)
        end = max(end, head.identifier_offset + padded_string_size(head.identifier_size))
    options, compat = b"", b""
    if head.options_offset and _is_inside(
        entry, head.options_offset, DESCRIPTOR.size, "options", "options_offset", faults
    ):
        at, size = DESCRIPTOR.read(entry, head.options_offset)
        lead = 1 if head.kind == ELF else 0
        end = max(end, head.options_offset + DESCRIPTOR.size)
        if (at or size) and _is_inside(entry, at, lead + size, "options", "options_offset", faults):
            found = entry.read(at + lead, size)
            options, compat = (b"", found) if lead else (found, b"")
            end = max(end, at + padded_string_size(size))
    return CudaEntryStrings(identifier, options, compat, end)


def _is_inside(entry: View, at: int, size: int, what: str, field: str, faults: FindingCollector) -> bool:
    if ENTRY.size <= at and at + size <= len(entry):
        return True
    where = f"{format_hex(at)} + {format_hex(size)}"
    error = fatbin_error(
        entry,
        ENTRY.field_offset(field),
        what,
        f"{where} is outside of the header",
        expected=f"{ENTRY.size:#x} to {format_hex(len(entry))}",
        hint="read as if there were none; the entry is copied as it is",
    )
    faults.add_error("FP1406", error, entry.span(0, min(ENTRY.size, len(entry))))
    return False


def write_entry_strings(kind: int, area: CudaEntryStrings) -> tuple[bytes, int, int]:
    """Return a variable area in the layout of CUDA 12.5 and later, with identifier_offset and options_offset.

    Kinds with options have their block even if they are empty.
    """
    stored, identifier_at, options_at = b"", 0, 0
    if area.identifier:
        identifier_at = ENTRY.size
        stored += _field(area.identifier)
    if area.compat or kind in WITH_OPTIONS:
        text = area.compat or area.options
        lead = b"\0" if area.compat else b""
        options_at = ENTRY.size + len(stored)
        stored += DESCRIPTOR.pack(options_at + DESCRIPTOR.size, len(text)) + lead
        stored += text + bytes(padded_string_size(len(text)) - len(lead) - len(text))
    return stored, identifier_at, options_at


def _field(text: bytes) -> bytes:
    return text + bytes(padded_string_size(len(text)) - len(text))


# Headers of compressed data: the method, and the size of the content.
#
# Nothing is inflated for them. RFC 8878 (zstd), RFC 1950 (zlib), ``lz4_Frame_format.md`` of LZ4 1.10.

#: The longest header that is read: magic, descriptor, window, dictionary and content size of a zstd frame.
FRAME_HEAD_SIZE = 18


def has_method(method: str, head: bytes) -> bool:
    """Return whether a stream of that method may start with these bytes. An LZ4 block has no magic."""
    if method == "zlib":
        return len(head) >= 2 and head[0] & 15 == 8 and int.from_bytes(head[:2], "big") % 31 == 0
    magic = {"zstd": magic_numbers.ZSTD, "lz4-frame": magic_numbers.LZ4}.get(method)
    return magic is None or head.startswith(magic) or _is_skippable(head)


def _is_skippable(head: bytes) -> bool:
    return head[1:4] == magic_numbers.SKIPPABLE and head[0] & 0xF0 == 0x50


def frame_content_size(method: str, head: bytes) -> int | None:
    """Return the content size in the first frame's header; None if it has none."""
    reader = _SIZES.get(method)
    return reader(head) if reader and not _is_skippable(head) else None


def _zstd_size(head: bytes) -> int | None:
    descriptor = head[4] if len(head) > 4 else 0
    is_single = bool(descriptor & 0x20)
    size = (1 if is_single else 0, 2, 4, 8)[descriptor >> 6]
    at = 5 + (0 if is_single else 1) + (0, 1, 2, 4)[descriptor & 3]
    if not size or at + size > len(head):
        return None
    return int.from_bytes(head[at : at + size], "little") + (256 if size == 2 else 0)


def _lz4_size(head: bytes) -> int | None:
    has_size = len(head) >= 14 and head[4] & 8
    return int.from_bytes(head[6:14], "little") if has_size else None


_SIZES: Mapping[str, Callable[[bytes], int | None]] = {"zstd": _zstd_size, "lz4-frame": _lz4_size}


#: Memory for inflating: the distance of matches, for zstd at level 19. LZ4 inflates smaller blocks at once, and copies
#: them.
_WINDOW = 8 << 20

_SIZE_AT = ENTRY.field_offset("inflated_size")


def inflation_problem(entry: View, packed: View, head: CudaEntryHeader) -> FormatError | None:
    """Return the reason why the image of an entry cannot be read, if that shows without inflating it."""
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
    # Several frames may follow each other, so the first may be smaller than the total.
    if size is not None and size > head.inflated_size:
        problem = f"it is {head.inflated_size}, and the {method} frame holds {size} bytes"
        return fatbin_error(entry, _SIZE_AT, "inflated_size", problem)
    return None


def image_data(packed: View, head: CudaEntryHeader) -> View:
    """Return the image of a valid entry: a compressed one is inflated on demand."""
    method = compression_method(head.flags)
    if head.flags & FLAG_OBFUSCATED:
        return refused_view(packed, head.inflated_size if method else len(packed), PicklableCall(_obfuscated, packed))
    if method is None:
        return without_padding(packed, head.kind)
    return inflated_image(packed, head, head.kind in TEXTS and ends_in_nul(packed, len(packed) - 1, method))


def inflated_image(packed: View, head: CudaEntryHeader, has_nul: bool) -> View:
    """Return the compressed image of an entry, inflated on demand; ``has_nul``: a text with its NUL."""
    method = compression_method(head.flags) or ""
    inflate = PicklableCall(_inflated, packed, method, head.inflated_size, has_nul)
    stream = PicklableCall(_pieces, packed, method, head.inflated_size, has_nul)
    return lazy_inflated_view(
        packed, head.inflated_size - has_nul, method, inflate, stream, PicklableCall(_start, packed, method)
    )


def _start(packed: View, method: str, size: int) -> bytes:
    return inflate_beginning(packed, size, method=method, format=FATBIN_FORMAT)


def _inflated(packed: View, method: str, size: int, has_nul: bool) -> memoryview:
    """Return the inflated image, without the NUL of a text."""
    data = memoryview(decompress(packed, method, size, format=FATBIN_FORMAT))
    return _without_nul(packed, data) if has_nul else data


def _without_nul(packed: View, data: memoryview) -> memoryview:
    """Return the end of a text without its NUL. Raises BadValue if there is none."""
    if data[-1]:
        raise fatbin_error(packed, 0, "compressed data", "the text in it does not end in NUL")
    return data[:-1]


def _pieces(packed: View, method: str, size: int, has_nul: bool) -> Iterator[bytes | bytearray | memoryview]:
    """Yield the inflated image: in one piece if that takes no more memory than several."""
    if size <= _WINDOW:
        yield _inflated(packed, method, size, has_nul)
        return
    for piece in inflate_pieces(packed, method, size, format=FATBIN_FORMAT):
        size -= len(piece)
        yield piece if size or not has_nul else bytes(_without_nul(packed, memoryview(piece)))


def inflated_group_pieces(packed: View, method: str, size: int) -> Iterator[bytes | bytearray | memoryview]:
    """Yield the inflated images of a group."""
    return _pieces(packed, method, size, False)


def ends_in_nul(view: View, last: int, method: str) -> bool:
    """Return whether a compressed text whose last byte is at ``last`` ends in NUL, without inflating it.

    QUIRK(fatbinary 8): there is no NUL. It only compressed with LZ4, whose blocks always end with literals.
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
    """Return ``size`` bytes that a function makes from stored ones on demand, at once or as a stream.

    ``start`` makes only the given number of first bytes.
    """
    name = VirtualName(f"inflated {method} at {format_hex(packed.start)}")
    present = min(len(packed), packed.source.present)
    piece_size = 2 * size if method == "lz4" and size <= LZ4_AT_ONCE else min(size, _WINDOW)
    source = InflatedSource(
        size, inflate, name, present=present, origin=packed.source, stream=stream, piece_size=piece_size, start=start
    )
    return View(source, 0, size, (*packed.chain, name))


class _RefusedSource(Source):
    """Bytes that cannot be read: reading them raises the error."""

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
    """Return a view of ``size`` bytes whose every read raises an error, even of no bytes."""
    name = VirtualName(f"image at {format_hex(packed.start)}")
    source = _RefusedSource(name, size, packed.source.present, error)
    return View(source, 0, size, (*packed.chain, name))


def refused_size(error: FormatError, stated: int) -> int:
    """Return the size of an image that cannot be read: the stated one if only a limit forbids it, else 0."""
    return min(stated, sys.maxsize) if isinstance(error, LimitExceeded) else 0  # no view is longer


def _obfuscated(packed: View) -> Unsupported:
    return Unsupported(
        f"{FATBIN_FORMAT} at {format_hex(packed.offset(0))}: the image is obfuscated by its producer",
        hint="only NVIDIA's linker reads it; the entry is copied as it is",
        chain=packed.chain,
    )


def without_padding(data: View, kind: int) -> View:
    """Return an uncompressed image without the zeros after it, if its form has a length.

    A text ends at its NUL, an ELF at the end of its last part. LTO-IR and unknown kinds keep up to 7 zero bytes.
    """
    if kind in TEXTS:
        start = max(len(data) - ALIGN, 0)
        return data.slice(0, start + len(data.head(start, ALIGN).rstrip(b"\0")))
    elf = read_quick_header(data, data.head(0, 64))
    if elf is None:
        return data
    # ptxas writes one of the two tables last: mostly only the header has to be read.
    end = max(elf.shoff + elf.shnum * elf.shentsize, elf.phoff + elf.phnum * elf.phentsize)
    if end != len(data):
        end = elf.extent()[0] or len(data)
    return data.slice(0, min(end, len(data)))


def is_refused(view: View) -> bool:
    """Return whether the bytes of a view cannot be read."""
    return view.source.is_refused


# Reading an entry: its bytes → its record → its image.

_VARIANTS = {0: "", FLAG_ACCELERATED: "a", FLAG_FAMILY: "f", FLAG_ACCELERATED | FLAG_FAMILY: "af"}


def read_entry(stored: View, head: CudaEntryHeader, faults: FindingCollector) -> CudaEntry:
    """Return the entry whose bytes are ``stored``; faults inside become findings."""
    area = NO_STRINGS
    if head.options_offset or head.identifier_offset:
        area = read_entry_strings(stored.slice(0, head.place), head, faults)
    check_entry(stored, head, faults)
    size = head.padded_size
    if head.flags & COMPRESSED and 0 < head.compressed_size < size:
        size = head.compressed_size
    packed = stored.slice(head.place, size)
    problem = inflation_problem(stored, packed, head)
    if problem is None:
        return CudaEntry(head, stored, area, packed, image_data(packed, head))
    faults.add_error("FP1403", problem, stored.span())
    data = refused_view(packed, refused_size(problem, head.inflated_size), PicklableCall(problem.with_traceback, None))
    return CudaEntry(head, stored, area, packed, data)


def check_entry(entry: View, head: CudaEntryHeader, faults: FindingCollector) -> None:
    """Report unexpected numbers of an entry that can still be read."""
    flags = head.flags
    if head.kind not in KINDS or head.version != ENTRY_VERSION:
        what = f"kind {head.kind:#x}" if head.kind not in KINDS else f"version {head.version:#x}"
        faults.add_warning(
            "FP1407", entry.span(0, ENTRY.size), f"an entry of {what}", "it is listed, and copied as it is"
        )
    elif head.kind in UNKNOWN_KINDS:
        faults.add_warning(
            "FP1407", entry.span(0, ENTRY.size), unknown_kind_message(head.kind), "it is listed, and copied as it is"
        )
    if not flags & COMPRESSED:
        if head.inflated_size and not head.compressed_size:
            text = f"not compressed, and it inflates to {head.inflated_size} bytes"
            faults.add_warning("FP1405", entry.span(0, ENTRY.size), text)
    elif flags & COMPRESSED not in METHODS:
        text = f"more than one method of compression ({flags & COMPRESSED:#x}); taken for {compression_method(flags)}"
        faults.add_warning("FP1405", entry.span(0, ENTRY.size), text)
    # QUIRK(fatbinary 8): it adds padding even to a multiple of 8.
    elif head.compressed_size and padded_size(head.compressed_size) + ALIGN < head.padded_size:
        text = f"{head.compressed_size} compressed bytes are padded to {head.padded_size}"
        faults.add_warning("FP1405", entry.span(0, ENTRY.size), text)


def unknown_kind_message(kind: int) -> str:
    """Return the message about an entry of a kind that no producer is known to write."""
    return f"an entry of kind {kind_words(kind)}, which no known producer writes and no driver takes"


#: Cache of targets: a library has thousands of images for a dozen of them.
_TARGETS: dict[tuple[int, int], Target] = {}
_MOST_TARGETS = 1000


def entry_target(sm: int, flags: int) -> Target:
    """Return the target of an image by the number and the flags of its entry."""
    place = (sm, flags & (FLAG_64_BIT | FLAG_ACCELERATED | FLAG_FAMILY))
    known = _TARGETS.get(place)
    if known is None:
        triple = "nvptx64-nvidia-cuda" if flags & FLAG_64_BIT else "nvptx-nvidia-cuda"
        variant = _VARIANTS[flags & (FLAG_ACCELERATED | FLAG_FAMILY)]
        if len(_TARGETS) >= _MOST_TARGETS:
            _TARGETS.clear()
        known = _TARGETS[place] = Target(triple, f"sm_{sm}{variant}" if sm or variant else "", "cuda")
    return known


def entry_attrs(head: CudaEntryHeader, identifier: bytes, options: bytes) -> Mapping[str, str]:
    """Return the attributes of an entry beyond the common model; the default, 64-bit code for a Linux host, is
    omitted."""
    attrs = {}
    if identifier:
        attrs["identifier"] = _text(identifier)
    if options:
        attrs["options"] = _text(options)
    if head.kind not in FORMS or head.kind == RELOCATABLE_PTX:
        attrs["kind"] = KINDS.get(head.kind, f"{head.kind:#x}")
    if not head.flags & FLAG_LINUX:
        attrs["host"] = next((host for bit, host in HOSTS.items() if head.flags & bit), "none")
    if head.flags & FLAG_DEBUG:
        attrs["debug"] = "yes"
    if head.flags & FLAG_OBFUSCATED:
        attrs["obfuscated"] = "yes"
    return attrs


def _text(stored: bytes) -> str:
    return stored.decode("utf-8", "surrogateescape")


def entry_image(entry: CudaEntry) -> Image:
    """Return the image of an entry."""
    head, data, packed = entry.head, entry.data, entry.packed
    # A member has no span in the file: its bytes are in the inflated bytes of the group.
    is_member = entry.group is not None
    method = compression_method((entry.group.head if entry.group is not None else head).flags)
    where = packed if method and not is_member else data
    return Image(
        entry_target(head.sm, head.flags),
        FORMS.get(head.kind, ""),
        data,
        len(data),
        None if is_member else len(where),
        where.span(),
        method,
        entry_attrs(head, entry.area.identifier, entry.area.options),
        entry,
    )
