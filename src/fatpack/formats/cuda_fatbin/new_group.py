"""Groups as fatbinary 13.4 and later write them (``-concat``)."""

from __future__ import annotations

from functools import partial

from fatpack.formats.cuda_fatbin.layout import (
    ELF,
    ENTRY,
    ENTRY_VERSION,
    FLAG_64_BIT,
    FLAG_DEBUG,
    FLAG_FINALIZABLE,
    GROUP,
    GROUP_TABLE,
    HOST_MASK,
    PTX,
    padded_size,
)
from fatpack.formats.cuda_fatbin.new_entry import METHOD_BITS, EntryDraft, compress_image, entry_header, finish_entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fatpack.formats.cuda_fatbin.styles import ProducerStyle
    from fatpack.io.source import Piece

_SHARED = FLAG_64_BIT | FLAG_DEBUG | HOST_MASK


def group_entries(drafts: Sequence[EntryDraft], style: ProducerStyle) -> Iterator[Callable[[], Sequence[Piece]]]:
    """Yield what makes entries and groups: PTX, cubins, and cubins that can be finalized make a group each.

    What is alone in its class is no group, and comes first with all that is of no class.
    """
    classes: dict[int, list[EntryDraft]] = {number: [] for number in range(4)}
    for draft in drafts:
        classes[_class_of(draft)].append(draft)
    groups = [members for number, members in classes.items() if number and len(members) > 1]
    in_groups = {id(draft) for members in groups for draft in members}
    for draft in drafts:
        if id(draft) not in in_groups:
            yield partial(finish_entry, draft, style)
    for members in groups:
        yield partial(_group, members, style)


def _class_of(draft: EntryDraft) -> int:
    """Return the number of the group that an entry may go into, in the order of groups; 0 for none."""
    if draft.kind == ELF:
        return 3 if draft.flags & FLAG_FINALIZABLE else 2
    return 1 if draft.kind == PTX else 0


def _group(members: Sequence[EntryDraft], style: ProducerStyle) -> Sequence[Piece]:
    images: list[Piece] = []
    table, at = b"", 0
    for member in members:
        size = padded_size(member.size)
        table += entry_header(member, member.flags, at, size)
        images += [*member.data, bytes(size - member.size)]
        at += size
    stream = compress_image(images, style)
    table = GROUP_TABLE.pack(len(members), GROUP_TABLE.size + len(table)) + table
    flags = members[0].flags & _SHARED | METHOD_BITS[style.method or ""]
    size = ENTRY.size + len(table)
    sizes = (padded_size(len(stream)), len(stream), ENTRY.size, 1, 0, 0, 0, 0, flags, 0, at)
    head = ENTRY.pack(GROUP, ENTRY_VERSION, size, *sizes)
    return [head + table, stream, bytes(-len(stream) % 8)]
