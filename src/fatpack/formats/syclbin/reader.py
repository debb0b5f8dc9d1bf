"""Which byte of a SYCLBIN file is what: every property has a label of its own."""

from __future__ import annotations

from fatpack.byte_map import fill_gaps
from fatpack.errors import pluralize
from fatpack.formats.syclbin.properties import read_properties, to_plain_value
from fatpack.formats.syclbin.stored import SyclbinEntry
from fatpack.formats.syclbin.syclbin_layout import ABSTRACT, HEADER, IR, IR_MODULE, NATIVE, NATIVE_IMAGE, PAYLOAD
from fatpack.model import Label

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fatpack.formats.syclbin.stored import SyclbinHeader
    from fatpack.io.source import View
    from fatpack.model import Container, Image

#: Characters of a value that a label shows.
_SHOWN = 200


def label_syclbin(view: View, header: SyclbinHeader, container: Container) -> Iterator[Label]:
    """Yield a label for every byte of a file, once, in order."""
    if header.outer is None:
        return fill_gaps(header.body, _of_tables(header, container))
    from fatpack.formats import offload_binary

    outer = offload_binary.labels(view, header.outer)
    if container.attrs.get("compression"):
        return outer  # header and stream: what is inside has no bytes in the file
    return fill_gaps(header.body, _of_entries(header, container.images, outer))


def _of_tables(header: SyclbinHeader, container: Container) -> Iterator[Label]:
    body = header.body
    yield from HEADER.labels(body, 0, "header")
    at = HEADER.size
    for number in range(len(header.modules)):
        yield from ABSTRACT.labels(body, at, f"abstract_module[{number}]")
        at += ABSTRACT.size
    texts = _PropertySetLabels()
    if header.global_metadata is not None:
        yield from texts.of(header.global_metadata, "global_metadata")
    for module in header.modules:
        yield from texts.of(module.metadata, f"abstract_module[{module.number}]")
    counts = dict(zip((IR, NATIVE), HEADER.read(body, 0)[3:5], strict=True))
    for role, layout in ((IR, IR_MODULE), (NATIVE, NATIVE_IMAGE)):
        for number in range(counts[role]):
            yield from layout.labels(body, at, f"{role}[{number}]")
            at += layout.size
    for number, entry in enumerate(_entries(container.images)):
        yield from texts.of(entry.metadata, f"image[{number}]")
        yield from _data(entry.data, number)


def _of_entries(header: SyclbinHeader, images: Sequence[Image], outer: Iterable[Label]) -> Iterator[Label]:
    """Yield the labels of an offload binary, those of its images divided into size, properties and image."""
    for label in outer:
        if label.kind != "data":
            yield label
    texts = _PropertySetLabels()
    named = {(entry.outer.span.start, entry.outer.span.end) for entry in _entries(images) if entry.outer is not None}
    if header.global_metadata is not None:
        yield from texts.of(header.global_metadata, "global_metadata")
    for module in header.modules:
        yield from texts.of(module.metadata, f"abstract_module[{module.number}]")
    for number, entry in enumerate(_entries(images)):
        if entry.role and entry.outer is not None:
            yield from PAYLOAD.labels(entry.outer.data, 0, f"image[{number}]")
            yield from texts.of(entry.metadata, f"image[{number}]")
        yield from _data(entry.data, number)
    # What DPC++ has no place for, as metadata that is there twice, is data of the binary around.
    for number, image in enumerate(header.outer.images if header.outer is not None else ()):
        place = image.span.start, image.span.end
        if image.size and place not in named and place not in texts.known:
            yield Label(image.span, f"entry[{number}].image", pluralize(image.size, "byte"), "the image", "data")


def _entries(images: Sequence[Image]) -> Iterator[SyclbinEntry]:
    return (image.record for image in images if isinstance(image.record, SyclbinEntry))


def _data(data: View, number: int) -> Iterator[Label]:
    if len(data):
        yield Label(data.span(), f"image[{number}]", pluralize(len(data), "byte"), "the image", "data")


class _PropertySetLabels:
    """The labels of property sets, each text once."""

    def __init__(self) -> None:
        #: where texts are that have labels
        self.known: set[tuple[int, int]] = set()

    def of(self, text: View, name: str) -> Iterator[Label]:
        """Yield a label for each line of a text, with its end."""
        place = text.start, text.end
        if place in self.known or not len(text):
            return
        self.known.add(place)
        content, reached = text.tobytes(), 0
        for item in read_properties(content):
            if item.at > reached:
                yield self._lines(text, content, reached, item.at, name)
            end = min(item.at + item.size + 1, len(content))
            value = str(to_plain_value(item.value))[:_SHOWN]
            yield Label(text.span(item.at, end - item.at), f"{name}.{item.name}", value, f"a property of {item.set}")
            reached = end
        if reached < len(content):
            yield self._lines(text, content, reached, len(content), name)

    @staticmethod
    def _lines(text: View, content: bytes, start: int, end: int, name: str) -> Label:
        words = repr(content[start:end].rstrip(b"\n")[:_SHOWN])[1:]
        return Label(text.span(start, end - start), f"{name}.set", words, "the name of a property set")
