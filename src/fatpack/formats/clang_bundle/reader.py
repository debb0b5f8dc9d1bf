"""The table of a binary bundle: descriptors and IDs, read so that damage to one entry does not cost the others.

LLVM stops at the first descriptor that is not right and then crashes (section 3.1 of the notes on bundles). Here the
table is followed as long as it makes sense:

1. A descriptor whose ID is sound and whose image is not is left out, and the next one is read. So it is with one whose
   ID is text and its image in place, but longer than any that is read.
2. The table ends before an image that is certain: where the next descriptor would reach into one or names an image
   outside, and its ID is no text, the stored number of entries is wrong.
3. An image that lies in the table is damaged, not the table.
"""

from __future__ import annotations

from fatpack import limits
from fatpack.errors import format_hex
from fatpack.formats.clang_bundle.clang_bundle_stored import BundleEntry
from fatpack.formats.clang_bundle.entries import FRONT
from fatpack.formats.clang_bundle.faults import bundle_error, bundle_errors
from fatpack.formats.clang_bundle.layout import DESCRIPTOR, HEADER
from fatpack.formats.diagnostics import FindingCollector
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.errors import LimitExceeded
    from fatpack.io.source import Span, View


class BundleTableRow(Record):
    """An entry that can be read, and the size of its image."""

    entry: BundleEntry
    size: int


class BundleTable(Record):
    """The rows that can be read, in stored order; ``count`` is the stored number of entries, ``end`` the table's."""

    rows: tuple[BundleTableRow, ...]
    count: int
    end: int


def read_table(rest: View, faults: FindingCollector) -> BundleTable:
    """Return the table of the bundle at the start of ``rest``. Raises Truncated when its header is cut."""
    front = _front(rest)
    (count,) = HEADER.struct.unpack_from(front)[1:]
    rows: list[BundleTableRow] = []
    at, total = HEADER.size, len(rest)
    lowest = total
    for number in range(count):
        if number >= limits.BUNDLE_ENTRIES:
            problem = f"{count} entries, {limits.BUNDLE_ENTRIES} are read"
            faults.unreadable("FP1005", too_many_entries_error(rest, 24, problem), rest.span(24, 8))
            break
        if at + DESCRIPTOR.size > total:
            _end_of_table(rest, at, number, f"the descriptor is past the end, {count} entries are stored", faults)
            # What is left of it belongs to the table all the same, unless it is the end of an image.
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
            faults.unreadable("FP1005", error, _row_span(rest, at))
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
    """Return the first bytes of a bundle. Raises Truncated when its header is cut."""
    if len(rest) < HEADER.size:
        raise bundle_errors.cut(rest, 0, "header", HEADER.size)
    return rest.head(0, FRONT)


def _is_garbage(rest: View, at: int, offset: int, id_size: int, is_doubtful: bool) -> bool:
    """Return whether the bytes at ``at`` cannot be a descriptor, so that the next one cannot be found either.

    ``is_doubtful``: the image is outside, or the descriptor reaches into the image of an earlier one.
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
    faults.unreadable("FP1302", error, _row_span(rest, at))


def _row_span(rest: View, at: int) -> Span:
    """Return where a descriptor is, as far as the bytes go."""
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
    faults.unreadable("FP1301", bundle_error(rest, entry.at, label, problem, expected, hint), span)


def id_too_long_error(view: View, at: int, field: str, problem: str) -> LimitExceeded:
    """Return the error for an ID of more than :data:`fatpack.limits.BUNDLE_ID` bytes."""
    expected = f"at most {limits.BUNDLE_ID} bytes"
    return bundle_errors.limit(view, at, field, problem, expected, limits.advice("BUNDLE_ID"))


def too_many_entries_error(view: View, at: int, problem: str) -> LimitExceeded:
    """Return the error for more entries than :data:`fatpack.limits.BUNDLE_ENTRIES`."""
    return bundle_errors.limit(view, at, "entry_count", problem, hint=limits.advice("BUNDLE_ENTRIES"))
