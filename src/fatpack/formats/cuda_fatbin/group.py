"""Groups: several entries whose images are compressed as one (fatbinary 13.4 and later, ``-concat``).

::

    0x00  an entry of kind 0x100 whose flags say how the images are compressed
    0x40  number of members u32, bytes of this table u32
    0x48  the members: entries without images, each with its variable area behind it
    ....  the compressed images of all members, one behind the other

A member has no size of its own: it ends with its last string. Listing a group inflates nothing unless it holds texts,
whose length nothing else tells.
"""

from __future__ import annotations

from fatpack import limits
from fatpack.codecs import decompress
from fatpack.errors import FormatError, format_hex
from fatpack.formats.cuda_fatbin.area import read_entry_strings
from fatpack.formats.cuda_fatbin.entry import (
    inflated_group_pieces,
    inflation_problem,
    lazy_inflated_view,
    refused_size,
    refused_view,
    without_padding,
)
from fatpack.formats.cuda_fatbin.faults import fatbin_error, fatbin_errors
from fatpack.formats.cuda_fatbin.layout import (
    ENTRY,
    FATBIN_FORMAT,
    GROUP,
    GROUP_TABLE,
    MEMBER,
    TEXTS,
    compression_method,
)
from fatpack.formats.cuda_fatbin.reading_entry import check_entry
from fatpack.formats.cuda_fatbin.stored import CudaEntry, CudaEntryHeader, CudaEntryStrings, CudaGroup
from fatpack.io.inflated import PicklableCall

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Buffer

    from fatpack.formats.diagnostics import FindingCollector
    from fatpack.io.source import View


def read_group(stored: View, head: CudaEntryHeader, faults: FindingCollector) -> list[CudaEntry | CudaGroup]:
    """Return the group that ``stored`` holds, all its bytes, and its members; what is wrong becomes a finding."""
    packed = stored.slice(head.place, min(head.compressed_size, head.padded_size))
    problem = _not_compressed(stored, head) or inflation_problem(stored, packed, head)
    if problem is None:
        inside = _inflated(packed, head)
    else:
        faults.unreadable("FP1403", problem, stored.span())
        inside = _refused(packed, problem, head.inflated_size)
    rows = list(_rows(stored.slice(0, head.place), head, faults))
    group = CudaGroup(head, stored, inside, len(rows))
    members: list[CudaEntry | CudaGroup] = [group]
    expected = 0
    for number, (row, member, area) in enumerate(rows):
        wrong = problem or _misplaced(row, member, inside, expected)
        expected += member.padded_size
        if wrong is not None and problem is None:
            faults.unreadable("FP1409", wrong, row.span())
        data = packed = (
            _refused(inside, wrong, member.padded_size) if wrong else inside.slice(member.place, member.padded_size)
        )
        if wrong is None:
            check_entry(row, member, faults)
            try:
                data = without_padding(packed, member.kind) if member.kind in TEXTS else packed
            except FormatError as error:  # the first text of a group inflates it
                problem = error
                faults.unreadable("FP1403", error, stored.span())
                data = packed = _refused(inside, error, member.padded_size)
        members.append(CudaEntry(member, row, area, packed, data, group, number))
    return members


def _inflated(packed: View, head: CudaEntryHeader) -> View:
    method = compression_method(head.flags) or ""
    size = head.inflated_size
    return lazy_inflated_view(
        packed,
        size,
        method,
        PicklableCall(_decompressed, packed, method, size),
        PicklableCall(inflated_group_pieces, packed, method, size),
    )


def _not_compressed(stored: View, head: CudaEntryHeader) -> FormatError | None:
    if compression_method(head.flags) is not None:
        return None
    return fatbin_error(stored, ENTRY.field_offset("flags"), "flags", "a group that is not compressed")


def _rows(
    header: View, group: CudaEntryHeader, faults: FindingCollector
) -> Iterator[tuple[View, CudaEntryHeader, CudaEntryStrings]]:
    """Yield the bytes, numbers and strings of every member in the table of a group."""
    table_at = group.options_offset
    if not ENTRY.size <= table_at <= len(header) - GROUP_TABLE.size:
        where = ENTRY.field_offset("options_offset")
        text = f"the table of members at {format_hex(table_at)} is outside of the header"
        faults.unreadable("FP1409", fatbin_error(header, where, "options_offset", text), header.span())
        return
    count, size = GROUP_TABLE.read(header, table_at)
    table = header.slice(table_at, min(max(size, GROUP_TABLE.size), len(header) - table_at))
    at, found = GROUP_TABLE.size, 0
    while found < min(count, limits.IMAGES) and at + ENTRY.size <= len(table):
        rest = table.slice(at, len(table) - at)
        member = CudaEntryHeader(*ENTRY.read(rest, 0))
        area = read_entry_strings(rest, member, faults)
        row = rest.slice(0, min(area.end, len(rest)))
        yield row, member, area
        at += len(row)
        found += 1
    if found == limits.IMAGES < count:
        text, hint = f"{count} members, of which {found} are read", limits.advice("IMAGES")
        faults.unreadable("FP1005", fatbin_errors.limit(table, 0, "member_count", text, hint=hint), table.span())
    elif found != count or at != size:
        text = f"{count} members in {size} bytes by its head, {found} in {at} bytes are there"
        faults.unreadable("FP1409", fatbin_error(table, 0, "member_count", text), table.span())


def _misplaced(row: View, member: CudaEntryHeader, inside: View, expected: int) -> FormatError | None:
    """Return why a member has no image in the inflated bytes of its group; ``expected`` is where it should be."""
    if member.kind == GROUP:
        return fatbin_error(row, 0, "kind", "a group in a group")
    if not member.padded_size:
        return fatbin_error(row, ENTRY.field_offset("padded_size"), "padded_size", "there is no image")
    if member.place + member.padded_size <= len(inside):
        return None
    # Images follow each other: of the two numbers, the place is wrong if the image fits behind the one before.
    is_place = member.place >= len(inside) or expected + member.padded_size <= len(inside)
    field, number = ("image_offset", member.place) if is_place else ("padded_size", member.padded_size)
    room = format_hex(expected if is_place else len(inside) - member.place)
    text = f"it is {format_hex(number)}, past the {format_hex(len(inside))} inflated bytes of the group"
    return fatbin_error(row, MEMBER.field_offset(field), field, text, room if is_place else f"at most {room}")


def _decompressed(packed: View, method: str, size: int) -> Buffer:
    return decompress(packed, method, size, format=FATBIN_FORMAT)


def _refused(packed: View, error: FormatError, size: int) -> View:
    return refused_view(packed, refused_size(error, size), PicklableCall(error.with_traceback, None))
