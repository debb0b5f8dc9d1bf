"""Which byte of a kpack archive is what."""

from __future__ import annotations

from fatpack.byte_map import fill_gaps
from fatpack.errors import pluralize
from fatpack.formats.kpack.layout import COUNT, FRAME, HEADER
from fatpack.formats.kpack.stored import KpackEntry
from fatpack.formats.kpack.toc import KpackToc, decode_text
from fatpack.model import Label

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.formats.kpack.stored import KpackHeader
    from fatpack.io.source import View
    from fatpack.model import Container, Image


def label_kpack(body: View, header: KpackHeader, container: Container) -> Iterator[Label]:
    """Yield a label for every byte of an archive, once, in order."""
    return fill_gaps(body, _raw_labels(body, header, container))


def _raw_labels(body: View, header: KpackHeader, container: Container) -> Iterator[Label]:
    yield from HEADER.labels(body, 0, "header")
    if header.data_offset:
        yield from COUNT.labels(body, header.data_offset, "frames")
    for number, image in enumerate(container.images):
        entry = image.record
        if not isinstance(entry, KpackEntry):
            continue
        at = entry.stored.start - body.start
        if header.data_offset:
            yield from FRAME.labels(body, at - FRAME.size, f"image[{number}]")
        if len(entry.stored):
            words, doc = pluralize(len(entry.stored), "byte"), "the code object"
            yield Label(entry.stored.span(), f"image[{number}]", words, doc, "data")
    entries = [_entry(body, number, image) for number, image in enumerate(container.images)]
    yield from _table(body, header, [label for label in entries if label is not None])


def _entry(body: View, number: int, image: Image) -> Label | None:
    entry = image.record
    if not isinstance(entry, KpackEntry):
        return None
    text = f"{image.attrs['binary']} for {image.target.arch}: {image.attrs['type']}, blob {entry.ordinal}"
    return Label(body.span(entry.at, entry.end - entry.at), f"toc[{number}]", text, "the entry of a code object")


def _table(body: View, header: KpackHeader, entries: Sequence[Label]) -> Iterator[Label]:
    """Yield labels for the pairs of the table; of the pair that names the code objects, for each of its entries."""
    toc = KpackToc(body.slice(header.toc_offset, len(body) - header.toc_offset))
    yield Label(toc.view.span(0, 1), "toc", "", "the head of the table: how many pairs it has")
    ends = [at for at, _ in toc.pairs[1:]] + [toc.size]
    for (at, key), end in zip(toc.pairs, ends, strict=False):  # an empty map has an end, and no pair
        pair = Label(toc.view.span(at, end - at), f"toc.{decode_text(key)}", "", "a pair of the table")
        yield from _divided(pair, entries) if key == b"toc" else (pair,)


def _divided(pair: Label, entries: Sequence[Label]) -> Iterator[Label]:
    reached = pair.span.start
    for entry in sorted(entries, key=lambda entry: entry.span.start):
        if entry.span.start > reached:
            yield pair.replace(span=pair.span.replace(start=reached, end=entry.span.start))
        yield entry
        reached = entry.span.end
    if reached < pair.span.end:
        yield pair.replace(span=pair.span.replace(start=reached))
