"""The slices of a universal file: pure arithmetic on its table, no content is read."""

from __future__ import annotations

from fatpack.binary import MEMBER, CodeSection
from fatpack.binary.macho.macho_machines import architecture_name
from fatpack.binary.macho.universal_layout import FORMAT, HEADER, SLICES
from fatpack.errors import BadValue, FormatError, LimitExceeded, Truncated
from fatpack.findings import code_for_error, finding
from fatpack.io.source import View
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.model import Finding

#: LIMIT: records that are read. There are less than 20 architectures.
_MOST = 4096


class Slice(Record):
    """A record of the table: its ``number`` from 0 on, the architecture's name, and where the slice lies."""

    number: int
    title: str
    offset: int
    size: int


def read_slices(view: View) -> Iterator[Slice]:
    """Yield the records of the table in order.

    Raises FormatError where the table ends before its count, and for none; LimitExceeded behind the most that are read.
    """
    layout, count = SLICES[view.head(0, 4)], HEADER.read(view, 0)[1]
    present = min(count, (len(view) - HEADER.size) // layout.size, _MOST)
    for number, row in enumerate(layout.struct.iter_unpack(view.read(HEADER.size, present * layout.size))):
        yield Slice(number, architecture_name(row[0], row[1]), row[2], row[3])
    if present == _MOST < count:
        at = view.offset(HEADER.field_offset("slice_count"))
        text = f"more than {_MOST} slices; the rest is not listed"
        raise LimitExceeded(text, format=FORMAT, offset=at, field="nfat_arch", found=str(count), chain=view.chain)
    if present < count:
        at = HEADER.size + present * layout.size
        raise Truncated(
            needed=(count - present) * layout.size,
            left=len(view) - at,
            format=FORMAT,
            offset=view.offset(at),
            field="table of slices",
            chain=view.chain,
        )
    if not count:
        raise BadValue(
            "a universal file without slices",
            format=FORMAT,
            offset=view.offset(HEADER.field_offset("slice_count")),
            field="nfat_arch",
            expected="1 or more",
            found="0",
            chain=view.chain,
        )


def locate(view: View) -> Iterator[CodeSection | Finding]:
    """Yield every slice as a file of its own, called by its architecture; ``index`` counts them from 0.

    A slice that ends behind the file is listed as far as it goes, with a finding; one over the bytes of the table or of
    a slice in front of it in the file is a finding only, so that no byte is read twice.
    """
    found: list[Slice] = []
    problem: FormatError | None = None
    try:
        for item in read_slices(view):
            found.append(item)
    except FormatError as error:
        problem = error
    layout = SLICES.get(view.head(0, 4))
    reached = HEADER.size + len(found) * (layout.size if layout else 0)
    owner, owners = "the table", dict[int, str]()
    for item in sorted(found, key=lambda item: item.offset):
        if item.size and item.offset < reached:
            owners[item.number] = owner
        elif item.size:
            reached, owner = item.offset + item.size, f"slice {item.number}"
    for item in found:
        yield from _place(view, item, owners.get(item.number, ""))
    if problem is not None:
        at = 0 if problem.offset is None else min(problem.offset - view.start, len(view))
        text = problem.describe()
        yield finding(code_for_error("FP2512", problem), view.span(at), text, problem.hint, field=problem.field)


def _place(view: View, item: Slice, owner: str) -> Iterator[CodeSection | Finding]:
    title = f"slice {item.number} ({item.title})"
    start, end = min(item.offset, len(view)), item.offset + item.size
    if owner:
        yield finding("FP2513", view.span(start, 0), f"{title} overlaps {owner}: not read")
        return
    if end > len(view):
        text = f"{title} ends at {end:#x}, the file at {len(view):#x}"
        yield finding("FP2511", view.span(start), text, "the file looks cut short")
    if start < min(end, len(view)):
        outside = view.chain[-1] if view.chain else ""
        chain = (*view.chain[:-1], f"{outside}({item.title})")
        data = View(view.source, view.start + start, min(view.start + end, view.end), chain)
        yield CodeSection(data, None, item.number, item.title, MEMBER)
