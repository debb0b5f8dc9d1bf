"""Writer of LLVM offload binaries, byte-identical to the LLVM library for the same input.

Order of the parts: header, entries, string entries, string table, zeros to a multiple of 8, images back to back (v1
has one), zeros to a multiple of 8. Sources: llvm/lib/Object/OffloadBinary.cpp (``OffloadBinary::write``), LLVM 22 for
v1, LLVM 23 for v2 and LLVM main of 2026 for v3.
"""

from __future__ import annotations

from fatpack.errors import Unsupported, UsageError
from fatpack.formats.offload_binary.layout import (
    FORMS,
    MAGIC,
    OFFLOAD_KINDS,
    NewOffloadBinaryEntry,
    OffloadBinaryEntry,
    OffloadBinaryHeader,
    layouts_for_order,
)
from fatpack.io.source import piece_parts
from fatpack.model import Container, Image

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fatpack.io.source import Piece
    from fatpack.writer_options import OffloadBinaryOptions


# The string table: an ELF-style table with shared tails, the same as from LLVM's StringTableBuilder.
#
# Source: llvm/lib/MC/StringTableBuilder.cpp (kind ELF); byte-compared with llvm-offload-binary 22 and yaml2obj 22.


def _tail_order(text: bytes) -> list[int]:
    # Descending by the reversed bytes; the closing 1 puts a string before its own suffixes.
    return [-byte for byte in reversed(text)] + [1]


def build_string_table(strings: Iterable[bytes]) -> tuple[bytes, dict[bytes, int]]:
    """Return the table and the offset of every string in it.

    It starts with a NUL (the empty string), every string ends in NUL, and a string that is a tail of the previous one
    takes no space. Its bytes depend only on the set of strings.
    """
    table = bytearray(b"\0")
    offsets = {b"": 0}
    stored = b""
    for text in sorted({text for text in strings if text}, key=_tail_order):
        if stored.endswith(text):
            offsets[text] = len(table) - 1 - len(text)
            continue
        offsets[text] = len(table)
        table += text + b"\0"
        stored = text
    return bytes(table), offsets


_ALIGN = 8

_METHODS = ("zlib", "zstd")


def _padding(size: int) -> bytes:
    return bytes(-size % _ALIGN)


def entry_to_store(image: Image, version: int) -> OffloadBinaryEntry:
    """Return the entry to store for an image in that container version.

    An entry of an offload binary stays as it was stored, that of an ``--image`` option is laid out like LLVM's, and
    that of any other image is made from its target.

    Raises UsageError for an offload model or a key that the format cannot express.
    """
    if isinstance(image.record, OffloadBinaryEntry):
        return image.record
    if isinstance(image.record, NewOffloadBinaryEntry):
        from fatpack.formats.offload_binary.image_option import lay_out_entry

        return lay_out_entry(image.record, version)
    kinds = {form: kind for kind, form in FORMS.items()}
    offloads = {name: kind for kind, name in OFFLOAD_KINDS.items()}
    offload = image.target.offload
    if offload not in offloads:
        raise UsageError(
            f"an offload binary cannot say offload model {offload!r}",
            hint=f"it knows {', '.join(offloads)}",
        )
    pairs = {**image.attrs, "arch": image.target.arch, "triple": image.target.triple}
    strings = tuple(
        (_stored(key), _stored(value)) for key, value in pairs.items() if value or key not in ("arch", "triple")
    )
    return OffloadBinaryEntry(kinds.get(image.form, 0), offloads[offload], 0, strings)


def _stored(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def write(container: Container, options: OffloadBinaryOptions | None = None) -> Iterator[Piece]:
    """Yield the pieces of one binary; images are copied without reading them.

    ``container.version`` 1 takes exactly one image. The byte order, a longer header and unknown bytes at the end
    are those of ``container.record`` if it was parsed. ``options`` set the compression of version 3, by default
    ``attrs["compression"]``. Raises UsageError for contents that the version cannot store.
    """
    stored = container.record if isinstance(container.record, OffloadBinaryHeader) else None
    method = options.compression if options else container.attrs.get("compression")
    level = options.level if options else None
    if method is not None and container.version != 3:
        raise UsageError(f"version {container.version} cannot be compressed", hint="use container version 3")
    if method is not None and method not in _METHODS:
        # No field names the method: readers recognise zstd by its magic, and treat anything else as zlib.
        raise UsageError(f"compression {method!r} in an offload binary", hint=f"choose from {' and '.join(_METHODS)}")
    pieces, size = _lay_out(container, stored)
    if method is None:
        yield from pieces
        return
    yield from _compressed(pieces, size, stored, method, level)


def _lay_out(container: Container, stored: OffloadBinaryHeader | None) -> tuple[list[Piece], int]:
    version, images = container.version, container.images
    tables = layouts_for_order(stored.order if stored else "little")
    if version not in tables.header:
        raise UsageError(f"offload binary version {version}", hint="choose from 1, 2 and 3")
    if version == 1 and len(images) != 1:
        raise UsageError(
            f"an offload binary of version 1 holds one image, not {len(images)}",
            hint="write one binary per image, or use container version 2",
        )
    if stored is not None and sum(len(image.data) for image in images if not _is_new(image)) > len(stored.body):
        raise Unsupported(
            "images of this binary share their bytes; written separately they would take more than the whole binary",
            hint="extract the image you need and pack it again",
            chain=stored.body.chain,
        )
    header, string_layout = tables.header[version], tables.strings[version]
    entries = [entry_to_store(image, version) for image in images]
    extension: Sequence[Piece] = [stored.extension] if stored and stored.extension is not None else []
    tail: Sequence[Piece] = [stored.tail] if stored and stored.tail is not None else []

    table, offsets = build_string_table(text for entry in entries for pair in entry.strings for text in pair)
    if (extension or tail) and not any(entry.strings for entry in entries):
        table = b""  # it could not be told from the bytes after it, which are written as stored
    entries_at = header.size + sum(map(len, extension))
    strings_at = entries_at + tables.entry.size * len(entries)
    table_at = strings_at + string_layout.size * sum(len(entry.strings) for entry in entries)
    images_at = table_at + len(table)
    if not tail or any(len(image.data) for image in images):
        images_at += len(_padding(images_at))  # without images it would look like the first bytes of the tail

    records, string_entries = bytearray(), bytearray()
    image_at = images_at
    for entry, image in zip(entries, images, strict=True):
        records += tables.entry.pack(
            entry.image_kind,
            entry.offload_kind,
            entry.flags,
            strings_at + len(string_entries),
            len(entry.strings),
            image_at,
            len(image.data),
        )
        for key, value in entry.strings:
            if b"\0" in key or (version == 1 and b"\0" in value):
                where = "a key" if b"\0" in key else f"the value of {key.decode(errors='replace')!r}"
                raise UsageError(f"{where} contains a NUL byte, which version {version} cannot store")
            places = (table_at + offsets[key], table_at + offsets[value])
            string_entries += string_layout.pack(*places, *([len(value)] if version > 1 else []))
        image_at += len(image.data)
    end = image_at + sum(map(len, tail))
    size = end + len(_padding(end))
    last = tables.entry.size if version == 1 else len(entries)
    head = header.pack(MAGIC, version, size, entries_at, last, *([0] if version == 3 else []))
    front = [head, *extension, bytes(records), bytes(string_entries), table, bytes(images_at - table_at - len(table))]
    return [*front, *(image.data for image in images), *tail, _padding(end)], size


def _is_new(image: Image) -> bool:
    return isinstance(image.record, OffloadBinaryEntry) and image.record.image_offset < 0


def _compressed(
    pieces: Sequence[Piece], size: int, stored: OffloadBinaryHeader | None, method: str, level: int | None
) -> Iterator[Piece]:
    """Yield a compressed v3 binary: the header, everything else as one stream, and padding that ``size`` does not
    include."""
    from fatpack.codecs.compress import compress

    header = layouts_for_order(stored.order if stored else "little").header[3]
    fields = header.struct.unpack(bytes(pieces[0]))
    if len(fields) != len(header.fields) or fields[3] != header.size:
        raise UsageError("a longer header cannot be compressed", hint="write it uncompressed")
    data = compress(piece_parts(pieces[1:]), method, size - header.size, level)
    yield header.pack(MAGIC, 3, header.size + len(data), header.size, fields[4], size)
    yield data
    yield _padding(header.size + len(data))
