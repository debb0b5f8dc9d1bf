"""What every byte of a container is."""

from __future__ import annotations

from fatpack.formats.cir.modules.model import BytecodeContainer, TextContainer, TextModuleRecord
from fatpack.formats.diagnostics import not_parsed_error
from fatpack.model import Label

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.io.source import View
    from fatpack.model import Container, Image

_ALIASES = "aliases: names for types, attributes and locations, which modules share"
_METADATA = "file metadata: resources that modules use by key"
_TEXT = "the container itself, blanks and comments"


def label_container(container: Container) -> Iterator[Label]:
    """Return the labels of a container. Raises UsageError for one that was not read from a file."""
    record = container.record
    if isinstance(record, TextContainer):
        return _text_labels(record)
    if isinstance(record, BytecodeContainer):
        return _bytecode_labels(record, container.images)
    raise not_parsed_error("container")


def _text_labels(record: TextContainer) -> Iterator[Label]:
    """Yield the labels of a text."""
    outline = record.outline
    parts = [(start, end, "aliases", _ALIASES, "field") for start, end in outline.definitions]
    parts += [(start, end, "metadata", _METADATA, "field") for start, end in outline.metadata]
    for number, image in enumerate(record.images):
        start = image.span.start - outline.text.start
        if isinstance(image.record, TextModuleRecord):
            body = image.record.module.body[0]
            header = "the header of a module: its name and attributes"
            parts.append((start, body, f"module[{number}].header", header, "field"))
            start = body
        parts.append((start, image.span.end - outline.text.start, f"image[{number}]", "a module", "data"))
    yield from _filled(outline.text, parts, "text", _TEXT)


def _bytecode_labels(record: BytecodeContainer, images: Sequence[Image]) -> Iterator[Label]:
    """Yield the labels of bytecode: its header, its sections, and the modules in the IR section."""
    view, file = record.stored, record.file
    parts = [(0, file.header.end, "header", "magic, version and producer", "field")]
    modules = sorted(image.span.start - view.start for image in images if image.size)
    ends = {image.span.start - view.start: image.span.end - view.start for image in images}
    for section in file.sections:
        if section.data > section.start:
            parts.append((section.start, section.data, "section", f"header of the section of {section.name}", "field"))
        parts.append((section.data, section.end, section.name.replace(" ", "_"), f"section of {section.name}", "data"))
    inside = []
    for number, start in enumerate(modules):
        inside.append((start, ends[start], f"image[{number}]", "a module", "data"))
    yield from _filled(view, [*_without(parts, inside), *inside], "ir", "operations around the modules")


def _without(
    parts: Sequence[tuple[int, int, str, str, str]], inside: Sequence[tuple[int, int, str, str, str]]
) -> Iterator[tuple[int, int, str, str, str]]:
    """Yield the parts with those cut out that lie inside of them."""
    for start, end, name, doc, kind in parts:
        at = start
        for first, last, *_ in inside:
            if start <= first and last <= end:
                if first > at:
                    yield at, first, name, doc, kind
                at = last
        if end > at:
            yield at, end, name, doc, kind


def _filled(view: View, parts: Sequence[tuple[int, int, str, str, str]], name: str, doc: str) -> Iterator[Label]:
    """Yield labels for the parts in order, and for what lies between them; a part that overlaps another is cut."""
    at = 0
    for first, end, part, meaning, kind in sorted(parts):
        start = max(first, at)
        if end <= start:
            continue
        if start > at:
            yield Label(view.span(at, start - at), name, f"{start - at} bytes", doc)
        yield Label(view.span(start, end - start), part, f"{end - start} bytes", meaning, kind)
        at = end
    if at < len(view):
        yield Label(view.span(at), name, f"{len(view) - at} bytes", doc)
