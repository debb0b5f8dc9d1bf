"""Binary bundles: the table, read so that damage to one entry does not lose the others, and the images.

LLVM stops at the first wrong descriptor and then crashes. Here the table is read as long as it makes sense:

1. A descriptor with a valid ID and an invalid image is omitted, and the next one is read; also one with a valid image
and an ID that is text, but longer than the limit. 2. The table ends before a certain image: if the next descriptor
would overlap one or names an image outside, and its ID is not text, the stored number of entries is wrong. 3. If an
image overlaps the table, the image is damaged, not the table.
"""

from __future__ import annotations

from fatpack import limits
from fatpack.errors import format_hex
from fatpack.formats import format_by_magic
from fatpack.formats.clang_bundle.bundle_id import parse_bundle_id
from fatpack.formats.clang_bundle.byte_labels import check_places
from fatpack.formats.clang_bundle.layout import (
    BUNDLE_FORMAT,
    DESCRIPTOR,
    HEADER,
    MAGIC,
    BinaryBundle,
    BundleEntry,
    bundle_error,
    bundle_errors,
    stored_bundle_entry,
)
from fatpack.formats.diagnostics import FindingCollector
from fatpack.model import Container, Image
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.errors import LimitExceeded
    from fatpack.io.source import Span, View
    from fatpack.model import Target


# Contents of entries: the text and target of an ID, the image, and the alignment of images.

#: Bytes of a bundle that are read at once: the whole table of most.
FRONT = 1024

#: Cache of the targets of IDs: a library has hundreds of bundles with the same dozen IDs.
_TARGETS: dict[str, Target] = {}
_MOST_TARGETS = 1000


def decode_id(stored: bytes) -> str:
    """Return a stored ID as text; bytes that are not UTF-8 survive as surrogates."""
    return stored.decode("utf-8", "surrogateescape")


def target_for_id(spelling: str) -> Target:
    """Return the target that an ID names."""
    target = _TARGETS.get(spelling)
    if target is None:
        if len(_TARGETS) >= _MOST_TARGETS:
            _TARGETS.clear()
        target = _TARGETS[spelling] = parse_bundle_id(spelling).target
    return target


def make_bundle_image(entry: BundleEntry, data: View) -> Image:
    """Return the image of an entry; a bundle does not store the form of its bytes."""
    spelling = decode_id(entry.id)
    size = data.end - data.start
    return Image(target_for_id(spelling), "", data, size, size, data.span(), None, {"id": spelling}, entry)


def find_alignment(places: Sequence[tuple[int, int]], table_end: int) -> int:
    """Return the ``-bundle-align`` that gives these offsets: 1 if nothing is padded, else the largest possible.

    ``places`` are the offset and the size of each image in the order of the table.
    """
    offsets = [offset for offset, _ in places]
    shared = 0
    for offset in offsets:
        rest = offset
        while rest:  # importing math would load a shared library
            shared, rest = rest, shared % rest
    power_count = min((shared & -shared).bit_length(), 32)
    if _fits(places, table_end, 1):
        return 1
    for shift in range(power_count - 1, -1, -1):
        if _fits(places, table_end, 1 << shift):
            return 1 << shift
    return shared if 0 < shared < 1 << 32 and _fits(places, table_end, shared) else 1 << max(power_count - 1, 0)


def _fits(places: Sequence[tuple[int, int]], at: int, align: int) -> bool:
    for offset, size in places:
        at = -(-at // align) * align
        if offset != at:
            return False
        at += size
    return True


class BundleTableRow(Record):
    """A readable entry, and the size of its image."""

    entry: BundleEntry
    size: int


class BundleTable(Record):
    """The readable rows, in stored order; ``count`` is the stored number of entries, ``end`` the end of the table."""

    rows: tuple[BundleTableRow, ...]
    count: int
    end: int


def read_table(rest: View, faults: FindingCollector) -> BundleTable:
    """Return the table of the bundle at the start of ``rest``. Raises Truncated if its header is cut."""
    front = _front(rest)
    (count,) = HEADER.struct.unpack_from(front)[1:]
    rows: list[BundleTableRow] = []
    at, total = HEADER.size, len(rest)
    lowest = total
    for number in range(count):
        if number >= limits.BUNDLE_ENTRIES:
            problem = f"{count} entries, {limits.BUNDLE_ENTRIES} are read"
            faults.add_error("FP1005", too_many_entries_error(rest, 24, problem), rest.span(24, 8))
            break
        if at + DESCRIPTOR.size > total:
            _end_of_table(rest, at, number, f"the descriptor is past the end, {count} entries are stored", faults)
            # The rest of it belongs to the table too, unless it is the end of an image.
            at = total if lowest == total else at
            break
        id_at = at + DESCRIPTOR.size
        is_near = id_at <= len(front)
        offset, size, id_size = DESCRIPTOR.struct.unpack_from(front, at) if is_near else DESCRIPTOR.read(rest, at)
        end = id_at + id_size
        is_outside = size > 0 and (offset < end or offset + size > total)
        is_doubtful = is_outside or end > lowest
        if (
            lowest == total < end
            and id_size <= limits.BUNDLE_ID
            and _is_text(rest.read(at + DESCRIPTOR.size, total - at - DESCRIPTOR.size))
        ):
            _end_of_table(rest, at, number, f"the ID is past the end, {count} entries are stored", faults)
            at = total
            break
        if _is_garbage(rest, at, offset, id_size, is_doubtful):
            _end_of_table(rest, at, number, f"no descriptor is here, {count} entries are stored", faults)
            break
        if id_size > limits.BUNDLE_ID:
            error = id_too_long_error(rest, at, f"entry[{number}]", f"the ID has {id_size} bytes")
            faults.add_error("FP1005", error, _row_span(rest, at))
            at = end
            continue
        entry = BundleEntry(front[id_at:end] if end <= len(front) else rest.read(id_at, id_size), offset, at)
        if is_outside:
            _damaged(rest, entry, size, f"entry[{number}]", end, faults)
        else:
            rows.append(BundleTableRow(entry, size))
            if size:
                lowest = min(lowest, offset)
        at = end
    sound = []
    for row in rows:
        if row.size and row.entry.offset < at:
            _damaged(rest, row.entry, row.size, "entry", at, faults)
        else:
            sound.append(row)
    return BundleTable(tuple(sound), count, at)


def _front(rest: View) -> bytes:
    """Return the first bytes of a bundle. Raises Truncated if its header is cut."""
    if len(rest) < HEADER.size:
        raise bundle_errors.cut(rest, 0, "header", HEADER.size)
    return rest.head(0, FRONT)


def _is_garbage(rest: View, at: int, offset: int, id_size: int, is_doubtful: bool) -> bool:
    """Return whether the bytes at ``at`` cannot be a descriptor, so that the next one cannot be found either.

    ``is_doubtful``: the image is outside, or the descriptor overlaps an earlier descriptor's image.
    """
    id_at = at + DESCRIPTOR.size
    if id_at + id_size > len(rest):
        return True
    if id_size > limits.BUNDLE_ID:
        return is_doubtful or not _is_text(rest.head(id_at, limits.BUNDLE_ID))
    if not id_size:
        return is_doubtful or not offset
    return is_doubtful and not _is_text(rest.head(id_at, id_size))


def _is_text(stored: bytes) -> bool:
    return all(0x20 <= byte < 0x7F for byte in stored)


def _end_of_table(rest: View, at: int, number: int, problem: str, faults: FindingCollector) -> None:
    at = min(at, len(rest))
    error = bundle_error(rest, at, f"entry[{number}]", problem, hint="the entries before it can be read")
    faults.add_error("FP1302", error, _row_span(rest, at))


def _row_span(rest: View, at: int) -> Span:
    """Return the span of a descriptor, cut at the end of the bytes."""
    return rest.span(at, min(DESCRIPTOR.size, len(rest) - at))


def _damaged(rest: View, entry: BundleEntry, size: int, name: str, table_end: int, faults: FindingCollector) -> None:
    where = f"{format_hex(entry.offset)} + {format_hex(size)}"
    if entry.offset < table_end:
        problem, expected = f"the image at {where} lies in the table of entries", f"at least {format_hex(table_end)}"
        hint = ""
    else:
        problem, expected = f"{where} is past the end", f"at most {format_hex(len(rest))}"
        hint = "the file looks cut short"
    label = f"{name} ({entry.id.decode('utf-8', 'backslashreplace')[:80]})"
    span = rest.span(entry.at, DESCRIPTOR.size + len(entry.id))
    faults.add_error("FP1301", bundle_error(rest, entry.at, label, problem, expected, hint), span)


def id_too_long_error(view: View, at: int, field: str, problem: str) -> LimitExceeded:
    """Return the error for an ID of more than :data:`fatpack.limits.BUNDLE_ID` bytes."""
    expected = f"at most {limits.BUNDLE_ID} bytes"
    return bundle_errors.limit(view, at, field, problem, expected, limits.advice("BUNDLE_ID"))


def too_many_entries_error(view: View, at: int, problem: str) -> LimitExceeded:
    """Return the error for more entries than :data:`fatpack.limits.BUNDLE_ENTRIES`."""
    return bundle_errors.limit(view, at, "entry_count", problem, hint=limits.advice("BUNDLE_ENTRIES"))


# Reading of a binary bundle: magic, table of entries, images.

#: Maximum distance from the end of a bundle to the next one: linkers align bundles to this, and pad with zeros.
_ALIGNMENT = 4096

#: QUIRK(HIP runtime): it reads this much of an uncompressed bundle and finds only entries in it.
_HIP_READS = 4096


def parse_binary(view: View, at: int, faults: FindingCollector, *, is_inflated: bool = False) -> Container:
    """Return the binary bundle that starts at ``at``, where the magic is; ``is_inflated``: it is the content of a
    compressed bundle."""
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
    """Return the size of a binary bundle, damage included. Raises Truncated if its header is cut."""
    rest = view.slice(at, len(view) - at)
    return _end(rest, _without_swallowed(rest, read_table(rest, FindingCollector()), FindingCollector()))


def _end(rest: View, table: BundleTable) -> int:
    return min(_stated_end(rest, table), len(rest))


def _stated_end(rest: View, table: BundleTable) -> int:
    """Return the end of a bundle by its table, which may be after the end of the bytes."""
    end = max([table.end, *(row.entry.offset + row.size for row in table.rows if row.size)])
    last = max([0, *(row.entry.offset for row in table.rows if not row.size)])
    # LLVM 19 and newer fill the file up to the offset of an empty last image; older ones leave it short.
    if end < last <= len(rest) and rest.slice(end, last - end).is_zero():
        return last
    return end


def _without_swallowed(rest: View, table: BundleTable, faults: FindingCollector) -> BundleTable:
    """Remove the last image if its offset or size is so wrong that it overlaps the next bundle.

    A magic inside an image does not prove that: an image may be a bundle, or a part of one. So that bundle must end
    after the image, and neither padding nor a container may follow the image; if zeros follow, the bundle must end with
    the file.
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
    faults.add_error("FP1301", bundle_error(rest, last.entry.at, decode_id(last.entry.id)[:80], problem), span)
    return table.replace(rows=tuple(row for row in table.rows if row is not last))


def _next_content(rest: View, at: int) -> int:
    """Return the end of the zeros that start at ``at``: the end of the view if there is more than a page of them."""
    end = min(at + _ALIGNMENT + 1, len(rest))
    found = rest.skip_zeros(at, end)
    return found if found < end else len(rest)


def _remarks(record: BinaryBundle, rest: View, faults: FindingCollector) -> None:
    """Report unexpected facts about the entries that are not damage."""
    seen: dict[bytes, int] = {}
    size = len(record.stored)
    # In a truncated bundle, offsets past the end are not the quirk of an old producer.
    is_whole = not any(item.severity == "error" for item in faults.findings)
    for number, image in enumerate(record.images):
        entry = stored_bundle_entry(image)
        if entry.id in seen:
            message = f"entries {seen[entry.id]} and {number} both are {decode_id(entry.id)!r}"
            faults.add_warning("FP1307", _place(rest, entry), message, "LLVM sees the last one only")
        seen[entry.id] = number
        if entry.offset > size and is_whole:
            span = _place(rest, entry)
            faults.add_warning(
                "FP1309", span, f"the empty entry {number} lies at {entry.offset:#x}, past the bundle's end"
            )


def _place(rest: View, entry: BundleEntry) -> Span:
    return rest.span(entry.at, DESCRIPTOR.size + len(entry.id))


def _check_hip_runtime(record: BinaryBundle, faults: FindingCollector) -> None:
    is_hip = any(image.target.offload == "hip" for image in record.images)
    if is_hip and record.table_end > _HIP_READS:
        span = record.stored.span(0, record.table_end)
        faults.add_warning(
            "FP1310", span, f"the table of entries takes {record.table_end} bytes, more than {_HIP_READS}"
        )
