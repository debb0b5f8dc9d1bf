"""The byte map of a PE image: file and section headers field by field, everything else whole."""

from __future__ import annotations

from fatpack.binary.pe.read import DOS_HEADER, HEADER, SECTION, SIGNATURE, SYMBOL_SIZE, UNINITIALIZED, PeFile
from fatpack.byte_map import fill_gaps
from fatpack.errors import Truncated
from fatpack.model import Label

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.binary.coff.layout import CoffSection
    from fatpack.io.source import View


def label_pe(view: View) -> Iterator[Label]:
    """Yield a label for every byte: file and section headers field by field, everything else whole."""
    try:
        image = PeFile(view)
    except Truncated:
        yield from fill_gaps(view, [])
        return
    start, at = min(DOS_HEADER.size, image.pe_offset), image.header_offset
    if start == DOS_HEADER.size:
        yield from DOS_HEADER.labels(view, 0, "dos")
    elif start:
        yield Label(view.span(0, start), "dos", "cut by the PE header", "DOS header", "data")
    if image.pe_offset > start:
        size = image.pe_offset - start
        yield Label(view.span(start, size), "stub", f"{size} bytes", "the program that DOS runs instead", "data")
    yield Label(view.span(image.pe_offset, len(SIGNATURE)), "signature", "PE")
    yield from HEADER.labels(view, at, "header")
    at = image.optional_offset
    size = min(image.optional_size, len(view) - at)
    if size:
        yield Label(view.span(at, size), "optional header", f"{size} bytes", "sizes, addresses, directories", "data")
    parts = [_part(image, section) for section in _whole_sections(image)]
    at = min(image.table_offset, len(view))
    for number in range(len(parts)):
        yield from SECTION.labels(view, at, f"section[{number + 1}]")
        at += SECTION.size
    if image.symbol_offset:
        size = image.symbol_count * SYMBOL_SIZE
        strings = view.head(image.symbol_offset + size, 4)
        size += int.from_bytes(strings, "little")
        span = view.span(image.symbol_offset, size)
        parts.append(Label(span, "symbols", f"{image.symbol_count} records", "symbols and strings", "data"))
    signed_at, size = image.certificates()
    span = view.span(signed_at, size)
    parts.append(Label(span, "certificates", f"{size} bytes", "the signature of the file", "data"))
    yield from fill_gaps(view, parts, at)


def _whole_sections(image: PeFile) -> list[CoffSection]:
    sections = []
    try:
        for section in image.sections():
            sections.append(section)
    except Truncated:
        pass  # what the whole headers describe is labelled
    return sections


def _part(image: PeFile, section: CoffSection) -> Label:
    name = image.name(section.stored_name).decode("utf-8", "backslashreplace")
    size = 0 if section.flags & UNINITIALIZED else section.raw_size
    span, doc = image.view.span(section.raw_offset, size), "contents, padded to the file alignment"
    return Label(span, f"section[{section.number}].data", f"{name}, {size} bytes", doc, "data")
