"""Bytes → model for the binary bundle: magic, table of entries, images."""

from __future__ import annotations

from fatpack.errors import format_hex
from fatpack.formats import format_by_magic
from fatpack.formats.clang_bundle.byte_labels import check_places
from fatpack.formats.clang_bundle.clang_bundle_stored import BinaryBundle, BundleEntry, stored_bundle_entry
from fatpack.formats.clang_bundle.entries import decode_id, find_alignment, make_bundle_image
from fatpack.formats.clang_bundle.faults import bundle_error
from fatpack.formats.clang_bundle.layout import BUNDLE_FORMAT, DESCRIPTOR, HEADER, MAGIC
from fatpack.formats.clang_bundle.reader import BundleTable, read_table
from fatpack.formats.diagnostics import FindingCollector
from fatpack.model import Container

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import Span, View

#: How far behind a bundle the next one may start: linkers align bundles to this, and pad with zeros.
_ALIGNMENT = 4096

#: QUIRK(HIP runtime): it reads this much of a bundle that is not compressed and looks for its entries there alone.
_HIP_READS = 4096


def parse_binary(view: View, at: int, faults: FindingCollector, *, is_inflated: bool = False) -> Container:
    """Return the binary bundle that starts at ``at``, where the magic is; ``is_inflated``: it comes from another."""
    total = len(view) - at
    rest = view.slice(at, total)
    table = read_table(rest, faults)
    if not is_inflated:
        table = _without_swallowed(rest, table, faults)
    stored = rest.slice(0, _end(rest, table))
    images = tuple(
        [make_bundle_image(row.entry, rest.slice(min(row.entry.offset, total), row.size)) for row in table.rows]
    )
    align = find_alignment([(row.entry.offset, row.size) for row in table.rows], table.end)
    attrs = {"flavour": "binary", "align": str(align)}
    record = BinaryBundle(stored, images, attrs, table.count, table.end)
    _remarks(record, rest, faults)
    if not is_inflated:
        _check_hip_runtime(record, faults)
    return Container(
        BUNDLE_FORMAT,
        0,
        images,
        stored.span(),
        attrs=attrs,
        unknown=tuple(check_places(record, faults)),
        findings=tuple(faults.findings),
        record=record,
    )


def binary_extent(view: View, at: int) -> int:
    """Return the bytes that a binary bundle takes, damage included. Raises Truncated when its header is cut."""
    rest = view.slice(at, len(view) - at)
    return _end(rest, _without_swallowed(rest, read_table(rest, FindingCollector()), FindingCollector()))


def _end(rest: View, table: BundleTable) -> int:
    return min(_stated_end(rest, table), len(rest))


def _stated_end(rest: View, table: BundleTable) -> int:
    """Return where a bundle ends by its table, which may be behind what is there."""
    end = max([table.end, *(row.entry.offset + row.size for row in table.rows if row.size)])
    last = max([0, *(row.entry.offset for row in table.rows if not row.size)])
    # LLVM 19 and newer fill the file up to the offset of an empty last image; older ones leave it short.
    if end < last <= len(rest) and rest.slice(end, last - end).is_zero():
        return last
    return end


def _without_swallowed(rest: View, table: BundleTable, faults: FindingCollector) -> BundleTable:
    """Leave the last image out if its offset or size is so wrong that it reaches into the next bundle.

    A magic inside an image is no container of ours: an image may be a bundle, or a part of one. So this is only
    believed where that bundle reaches further than the image, and what is behind the image is neither padding nor a
    container; before zeros it must end where the file does.
    """
    rows = sorted((row for row in table.rows if row.size), key=lambda row: row.entry.offset + row.size)
    if not rows:
        return table
    last = rows[-1]
    end = last.entry.offset + last.size
    before = max([table.end, *(row.entry.offset + row.size for row in rows[:-1])])
    follower = rest.head(_next_content(rest, end), len(MAGIC))
    if _stated_end(rest, table) >= len(rest) or (follower and format_by_magic(follower) is not None):
        return table
    at = _next_content(rest, before)
    if rest.head(at, len(MAGIC)) != MAGIC:
        at = rest.slice(0, end).find(MAGIC, before)
    if not 0 <= at < end:
        return table
    nested = rest.slice(at, len(rest) - at)
    if len(nested) < HEADER.size:
        return table
    nested_end = at + _stated_end(nested, read_table(nested, FindingCollector()))
    if nested_end <= end or (not follower and nested_end != len(rest)):
        return table
    problem = f"the image reaches into the bundle at {format_hex(rest.offset(at))}"
    span = rest.span(last.entry.at, DESCRIPTOR.size + len(last.entry.id))
    faults.unreadable("FP1301", bundle_error(rest, last.entry.at, decode_id(last.entry.id)[:80], problem), span)
    return table.replace(rows=tuple(row for row in table.rows if row is not last))


def _next_content(rest: View, at: int) -> int:
    """Return where the zeros end that start at ``at``: the end of the view if they go on for more than a page."""
    end = min(at + _ALIGNMENT + 1, len(rest))
    found = rest.skip_zeros(at, end)
    return found if found < end else len(rest)


def _remarks(record: BinaryBundle, rest: View, faults: FindingCollector) -> None:
    """Note what is unexpected about the entries without being damage."""
    seen: dict[bytes, int] = {}
    size = len(record.stored)
    # Of what is cut short, offsets past the end are no quirk of an old producer.
    is_whole = not any(item.severity == "error" for item in faults.findings)
    for number, image in enumerate(record.images):
        entry = stored_bundle_entry(image)
        if entry.id in seen:
            message = f"entries {seen[entry.id]} and {number} both are {decode_id(entry.id)!r}"
            faults.unexpected("FP1307", _place(rest, entry), message, "LLVM sees the last one only")
        seen[entry.id] = number
        if entry.offset > size and is_whole:
            span = _place(rest, entry)
            faults.unexpected(
                "FP1309", span, f"the empty entry {number} lies at {entry.offset:#x}, past the bundle's end"
            )


def _place(rest: View, entry: BundleEntry) -> Span:
    return rest.span(entry.at, DESCRIPTOR.size + len(entry.id))


def _check_hip_runtime(record: BinaryBundle, faults: FindingCollector) -> None:
    is_hip = any(image.target.offload == "hip" for image in record.images)
    if is_hip and record.table_end > _HIP_READS:
        span = record.stored.span(0, record.table_end)
        faults.unexpected(
            "FP1310", span, f"the table of entries takes {record.table_end} bytes, more than {_HIP_READS}"
        )
