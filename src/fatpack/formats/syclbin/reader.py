"""Reader of SYCLBIN files of either version, and a label for every byte."""

from __future__ import annotations

from fatpack.errors import pluralize
from fatpack.formats import offload_binary
from fatpack.formats.syclbin import version1
from fatpack.formats.syclbin.layout import (
    ABSTRACT,
    HEADER,
    IR,
    IR_MODULE,
    MAGIC,
    NATIVE,
    NATIVE_IMAGE,
    PAYLOAD,
    SYCLBIN_FORMAT,
    SyclbinEntry,
    bundle_state,
)
from fatpack.formats.syclbin.properties import read_properties, to_plain_value
from fatpack.model import Container, Label, fill_gaps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fatpack.formats.syclbin.layout import SyclbinHeader
    from fatpack.io.source import View
    from fatpack.model import Image


# Reading.


def detect(view: View, at: int = 0) -> bool:
    """Return whether a SYCLBIN file seems to start at ``at``.

    It has the magic of version 1 and bytes for a version, or is an offload binary whose first entry has a role.
    """
    head = view.head(at, 8)
    if head[:4] == MAGIC:
        return len(head) == 8
    from fatpack.formats.syclbin import version2

    return version2.detect_version2(view, at)


def extent(view: View, at: int = 0) -> int | None:
    """Return how many bytes the file at ``at`` takes, or None if its header cannot be right."""
    if view.head(at, 4) == MAGIC:
        return version1.extent_version1(view, at)
    return offload_binary.extent(view, at)


def parse(view: View, at: int = 0) -> Container:
    """Return the file that starts at ``at``. Its images are views, not copies; their metadata is not part of them.

    Raises BadMagic, Unsupported (an unknown version), Truncated, BadValue and LimitExceeded; offsets are
    absolute.
    """
    head = view.head(at, 4)
    if not head or MAGIC.startswith(head):
        header, found, contents = version1.read_version1(view, at)
    else:
        from fatpack.formats.syclbin import version2

        header, found, contents = version2.read_version2(view, at)
    for module in header.modules:
        contents.facts(module.metadata, f"metadata of abstract module {module.number}")
    counts: dict[str, int] = {}
    images = []
    for entry in found:
        number = counts[entry.role] = counts.get(entry.role, -1) + 1
        images.append(contents.image(entry, f"{entry.role or 'image'}[{number}]"))
    outer, attrs = header.outer, {"state": bundle_state(header)}
    if outer is None:
        gaps = version1.undescribed_bytes(header, found)
        for gap in gaps:
            contents.faults.add_warning("FP1804", gap.span(), f"{len(gap)} bytes that belong to nothing")
        version, span, unknown = 1, header.body.span(), tuple(gap.span() for gap in gaps)
        findings = tuple(contents.faults.findings)
    else:
        version, span, unknown = 2, outer.span, outer.unknown
        findings = (*outer.findings, *contents.faults.findings)
        attrs["compression"] = outer.attrs.get("compression", "")
    return Container(
        format=SYCLBIN_FORMAT,
        version=version,
        images=tuple(images),
        span=span,
        attrs={key: text for key, text in attrs.items() if text},
        unknown=unknown,
        findings=findings,
        record=header,
    )


#: Characters of a value shown in a label.
_SHOWN = 200


def label_syclbin(view: View, header: SyclbinHeader, container: Container) -> Iterator[Label]:
    """Yield a label for every byte of a file, once, in order."""
    if header.outer is None:
        return fill_gaps(header.body, _of_tables(header, container))
    from fatpack.formats import offload_binary

    outer = offload_binary.labels(view, header.outer)
    if container.attrs.get("compression"):
        return outer  # header and stream: the content has no bytes in the file
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
    """Yield the labels of an offload binary, with its images divided into size, properties and image."""
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
    # Parts that DPC++ does not use, such as a second copy of metadata, are data of the outer binary.
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
        #: positions of texts that have labels already
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
