"""Bytes → model for the text bundle: entries between marker lines that are comments in the language of the text.

::

    \n// __CLANG_OFFLOAD_BUNDLE____START__ <ID>\n
    <text>
    \n// __CLANG_OFFLOAD_BUNDLE____END__ <ID>\n

LLVM ends an entry at the next END line, with any ID, and reads past the end of the file if there is none. Here an
entry ends at its own END line if it has one, so that text that contains marker lines is read whole.
"""

from __future__ import annotations

from fatpack import limits
from fatpack.codecs.hashes import xxh3
from fatpack.errors import pluralize
from fatpack.formats.clang_bundle.layout import (
    BUNDLE_FORMAT,
    COMMENTS,
    MAGIC,
    BundleEntry,
    TextBundle,
    bundle_error,
    bundle_errors,
)
from fatpack.formats.clang_bundle.reader import id_too_long_error, make_bundle_image, too_many_entries_error
from fatpack.formats.diagnostics import FindingCollector
from fatpack.model import Container
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fatpack.io.source import Span, View


# The order in which clang-offload-bundler lists and extracts the entries of a binary bundle.
#
# The tool keeps entries in an LLVM ``StringMap`` keyed by ID: later duplicates overwrite earlier ones, and it iterates
# over the map's buckets, not over the file. The same bytes and messages need the map's hash (XXH3 of 64 bits, no seed,
# the low half) and its probing. Only our replacement of that tool uses this order.
#
# Facts: llvm/lib/Support/StringMap.cpp of LLVM 19 to 22, and 23.1, whose map probes in steps of one; the orders are
# compared with the tools.


def llvm_order(ids: Iterable[bytes], llvm: str = "22") -> list[bytes]:
    """Return IDs, duplicates once, in the order in which that version of LLVM iterates over them."""
    growth = 0 if llvm == "23" else 1
    buckets: list[bytes | None] = [None] * 16
    for count, key in enumerate(dict.fromkeys(ids), 1):
        _place(buckets, key, growth)
        if 4 * count > 3 * len(buckets):
            old, buckets = buckets, [None] * (2 * len(buckets))
            for kept in old:
                if kept is not None:
                    _place(buckets, kept, growth)
    return [key for key in buckets if key is not None]


def _place(buckets: list[bytes | None], key: bytes, growth: int) -> None:
    """Put a key into the first free bucket, starting at its hash's; every step is longer by ``growth``."""
    at, step = xxh3(key) % len(buckets), 1
    while buckets[at] is not None:
        at = (at + step) % len(buckets)
        step += growth
    buckets[at] = key


def positions_in_llvm_order(ids: Sequence[bytes], llvm: str = "22") -> list[int]:
    """Return the positions of a bundle's entries as clang-offload-bundler lists them: of equal IDs the last one."""
    last = {key: position for position, key in enumerate(ids)}
    return [last[key] for key in llvm_order(ids, llvm)]


START = b"__START__ "
END = b"__END__ "

#: LIMIT: bytes at the start of a file that are searched for the first marker. The bundler writes it after one newline;
#: editors and scripts put a licence or a comment in front.
_HEAD = 4096


class _Marker(Record):
    """A marker line: ``at`` is the newline before it, ``end`` the position after the newline that ends it."""

    at: int
    end: int
    is_start: bool
    id: bytes
    is_crlf: bool


def find_comment(view: View, at: int = 0) -> str | None:
    """Return the comment token of the first START line within the first 4 KiB, None if there is none."""
    head = b"\n" + view.head(at, _HEAD)
    found = [(head.find(_line_start(comment, START)), comment) for comment in COMMENTS]
    return min(((place, comment) for place, comment in found if place >= 0), default=(0, None))[1]


def _line_start(comment: str, word: bytes = b"") -> bytes:
    return b"\n%s %s%s" % (comment.encode(), MAGIC, word)


def parse_text(view: View, at: int, faults: FindingCollector) -> Container:
    """Return the text bundle in ``view`` from ``at`` to its end. Raises BadMagic if no entry starts."""
    stored = view.slice(at, len(view) - at)
    comment = find_comment(stored)
    if comment is None:
        raise bundle_errors.magic(stored, 0, "not a bundle", f"{MAGIC.decode()}, CCOB or a line with a START marker")
    images = []
    unknown: list[Span] = []
    reached = 0
    rows = list(read_text_entries(stored, comment, faults))
    # An entry that was not read because of a limit is not stray text.
    is_stray = not any(item.code == "FP1005" for item in faults.findings)
    for entry, end in rows:
        _check_gap(stored, reached, entry.at, unknown, faults if is_stray else None)
        images.append(make_bundle_image(entry, stored.slice(entry.offset, end - entry.offset)))
        reached = entry.end
    _check_gap(stored, reached, len(stored), unknown, faults if is_stray else None)
    attrs = {"flavour": "text", "comment": comment}
    return Container(
        BUNDLE_FORMAT,
        0,
        tuple(images),
        stored.span(),
        attrs=attrs,
        unknown=tuple(unknown),
        findings=tuple(faults.findings),
        record=TextBundle(stored, tuple(images), attrs, comment),
    )


def _check_gap(stored: View, start: int, end: int, unknown: list[Span], faults: FindingCollector | None) -> None:
    if start == end:
        return
    gap = stored.slice(start, end - start)
    unknown.append(gap.span())
    where = "before the first entry" if start == 0 else "after an entry"
    if faults is not None:
        faults.add_warning("FP1308", gap.span(), f"{len(gap)} bytes of text {where} belong to nothing")


def _markers(stored: View, comment: str, faults: FindingCollector) -> Iterator[_Marker]:
    """Yield the marker lines in order. The first may be the first line of all, with no newline before it.

    Lines with an ID above the limit are not markers; such START lines are reported.
    """
    needle = _line_start(comment)
    is_first_line = stored.head(0, len(needle) - 1) == needle[1:]
    at = -1 if is_first_line else stored.find(needle)
    reached = 0
    while at >= 0 or is_first_line:
        is_first_line = False
        line_at = at + len(needle)
        line = stored.head(line_at, len(START) + limits.BUNDLE_ID + 2)
        size = line.find(b"\n")
        word = next((word for word in (START, END) if line.startswith(word)), b"")
        spelled = line[len(word) : size if size >= 0 else None]
        is_crlf = spelled.endswith(b"\r")
        is_whole = size >= 0 or line_at + len(line) == len(stored)
        if word and is_whole and len(spelled) - is_crlf <= limits.BUNDLE_ID:
            place = max(at, reached)  # two marker lines in a row may share the newline between them
            if is_crlf and place > reached and stored.read(place - 1, 1) == b"\r":
                place -= 1
            reached = line_at + (size + 1 if size >= 0 else len(line))
            yield _Marker(place, reached, word == START, spelled.removesuffix(b"\r"), is_crlf)
        elif word == START:
            error = id_too_long_error(stored, line_at, "START line", "the ID is longer than what is read")
            faults.add_error("FP1005", error, stored.span(line_at, len(line)))
        at = stored.find(needle, max(reached - 1, at + 1))


def read_text_entries(stored: View, comment: str, faults: FindingCollector) -> Iterator[tuple[BundleEntry, int]]:
    """Yield every entry between marker lines with that comment token, and the end of its text."""
    markers = list(_markers(stored, comment, faults))
    if any(marker.is_crlf for marker in markers):
        faults.add_warning("FP1313", stored.span(0, 0), "lines end in CRLF", "convert the file to plain newlines")
    own_ends: dict[bytes, list[int]] = {}
    for number in reversed(range(len(markers))):
        if not markers[number].is_start:
            own_ends.setdefault(markers[number].id, []).append(number)
    number, found, seen = 0, 0, set[bytes]()
    while number < len(markers):
        start = markers[number]
        number += 1
        if not start.is_start:
            continue
        found += 1
        if found > limits.BUNDLE_ENTRIES:
            problem = f"more than {pluralize(limits.BUNDLE_ENTRIES, 'entry')}"
            faults.add_error(
                "FP1005", too_many_entries_error(stored, start.at, problem), stored.span(start.at, start.end - start.at)
            )
            return
        own = own_ends.get(start.id, [])
        while own and own[-1] < number:
            own.pop()
        closing = own[-1] if own else number
        end = markers[closing] if closing < len(markers) else None
        has_other_end = any(not marker.is_start for marker in markers[number:closing])
        _check_end(stored, start, end, has_other_end, start.id in seen, faults)
        seen.add(start.id)
        if end is None or end.is_start:
            text_end = end.at if end else len(stored)
            yield BundleEntry(start.id, start.end, start.at, text_end), text_end
            number = closing
        else:
            yield BundleEntry(start.id, start.end, start.at, end.end), end.at
            number = closing + 1


def _check_end(
    stored: View, start: _Marker, end: _Marker | None, has_other_end: bool, is_repeated: bool, faults: FindingCollector
) -> None:
    span = stored.span(start.at, start.end - start.at)
    name = start.id.decode("utf-8", "backslashreplace")[:80]
    if end is None or end.is_start:
        problem = "no END line before the next START line" if end else "no END line before the end of the file"
        faults.add_error(
            "FP1311", bundle_error(stored, start.at, f"entry {name}", problem, hint="the file looks cut short"), span
        )
    elif end.id != start.id:
        faults.add_warning(
            "FP1312", span, f"the END line of {name} names {end.id.decode('utf-8', 'backslashreplace')[:80]}"
        )
    elif has_other_end:
        faults.add_warning("FP1312", span, f"END lines of others are in the text of {name}; LLVM ends it at the first")
    if is_repeated:
        faults.add_warning("FP1307", span, f"{name} occurs again", "LLVM extracts only the first")
