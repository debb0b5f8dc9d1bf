"""Which byte of a WebAssembly module is what."""

from __future__ import annotations

from fatpack.byte_map import covered
from fatpack.errors import FormatError
from fatpack.hosts.wasm.read import CUSTOM, HEADER, sections_of
from fatpack.model import Label

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.hosts.wasm.read import Section
    from fatpack.io.source import View


def labels(view: View) -> Iterator[Label]:
    """Yield a label for every byte: headers and names of sections field by field, contents whole."""
    if len(view) < HEADER.size:
        yield from covered(view, [])
        return
    yield from HEADER.labels(view, 0, "header")
    found = (item for item in sections_of(view) if not isinstance(item, FormatError))
    yield from covered(view, (label for item in found for label in _section(view, item)), HEADER.size)


def _section(view: View, item: Section) -> Iterator[Label]:
    prefix, size = f"section[{item.number}]", item.end - item.body
    yield Label(view.span(item.at, 1), f"{prefix}.id", f"{item.name} ({item.kind})", "id: what the section is")
    doc = "size: bytes behind it that belong to the section, as LEB128"
    yield Label(view.span(item.at + 1, item.body - item.at - 1), f"{prefix}.size", str(size), doc)
    if item.kind == CUSTOM:
        doc = "name: its size as LEB128, and as many bytes of UTF-8"
        yield Label(view.span(item.body, item.offset - item.body), f"{prefix}.name", item.name, doc)
    if item.size:
        text = f"{item.name}, {item.size} bytes"
        yield Label(view.span(item.offset, item.size), f"{prefix}.data", text, "contents of the section", "data")
