"""Annotations for every byte of a fat binary."""

from __future__ import annotations

from fatpack.formats.cuda_fatbin.layout import (
    DESCRIPTOR,
    ENTRY,
    GROUP_TABLE,
    HEADER,
    MEMBER,
    CudaEntry,
    CudaGroup,
    Fatbin,
    compression_method,
)
from fatpack.model import Label, fill_gaps, gap_label

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.io.source import View

#: Bytes of a string shown in its label.
_SHOWN = 200


def label_fatbin(record: Fatbin) -> Iterator[Label]:
    """Yield a label for every byte of a fat binary, once, in order; a part that overlaps an earlier one is cut."""
    stored = record.stored
    yield from HEADER.labels(stored, 0, "header")
    reached = HEADER.size
    for number, (part, members) in enumerate(_with_members(record)):
        start = part.stored.start - stored.start
        if start > reached:
            yield gap_label(stored, reached, start)
        yield from fill_gaps(part.stored, _part_labels(part, members, f"entry[{number}]"))
        reached = start + len(part.stored)
    if reached < len(stored):
        yield gap_label(stored, reached, len(stored))


def _with_members(record: Fatbin) -> Iterator[tuple[CudaEntry | CudaGroup, Sequence[CudaEntry]]]:
    """Yield the parts of a fat binary, every group followed by its members."""
    # Two groups with equal headers are two groups: they are distinguished as objects.
    members: dict[int, list[CudaEntry]] = {}
    for part in record.parts:
        if isinstance(part, CudaEntry) and part.group is not None:
            members.setdefault(id(part.group), []).append(part)
    for part in record.parts:
        if isinstance(part, CudaGroup) or part.group is None:
            yield part, members.get(id(part), ())


def _part_labels(part: CudaEntry | CudaGroup, members: Sequence[CudaEntry], name: str) -> Iterator[Label]:
    head, stored = part.head, part.stored
    yield from ENTRY.labels(stored, 0, name)
    if isinstance(part, CudaEntry):
        yield from _area_labels(part, stored, name)
    else:
        at = head.options_offset
        if ENTRY.size <= at <= head.place - GROUP_TABLE.size:
            yield from GROUP_TABLE.labels(stored, at, name)
        for number, member in enumerate(members):
            inner = f"{name}.member[{number}]"
            yield from MEMBER.labels(member.stored, 0, inner)
            yield from _area_labels(member, member.stored, inner)
    method = compression_method(head.flags)
    size = min(head.compressed_size, head.padded_size) if method else head.padded_size
    if isinstance(part, CudaEntry) and not method:
        size = min(size, len(part.data) or size)
    if size:
        what = f"{size} bytes of {method}" if method else f"{size} bytes"
        doc = "the image" if isinstance(part, CudaEntry) else "the images of all members"
        yield Label(stored.span(head.place, size), f"{name}.image", what, doc, "data")


def _area_labels(entry: CudaEntry, stored: View, name: str) -> Iterator[Label]:
    """Yield labels for the strings of an entry that could be read."""
    head, area = entry.head, entry.area
    if area.identifier:
        at, size = head.identifier_offset, len(area.identifier)
        yield Label(stored.span(at, size), f"{name}.identifier", _shown(area.identifier), "without its NUL")
    if ENTRY.size <= head.options_offset <= min(len(stored), area.end) - DESCRIPTOR.size:
        yield from DESCRIPTOR.labels(stored, head.options_offset, f"{name}.options")
        at, size = DESCRIPTOR.read(stored, head.options_offset)
        if area.options:
            yield Label(stored.span(at, size), f"{name}.options", _shown(area.options), "without their NUL")
        if area.compat:
            doc = "the section .nv.compat of the cubin, after a NUL"
            yield Label(stored.span(at + 1, size), f"{name}.compat", f"{size} bytes", doc, "data")


def _shown(text: bytes) -> str:
    return repr(text[:_SHOWN])[1:]
