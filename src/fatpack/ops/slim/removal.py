"""Selected images, or all, taken out of a file: an object, a container, the members of an archive, a linked file.

A linked program or library keeps its addresses, so :func:`fatpack.ops.slim.plan.plan` takes its images out. All other
files are written anew by :func:`fatpack.ops.edit.meant.written`.
"""

from __future__ import annotations

from fatpack.formats.clang_bundle.sections.fat_object import stands_for_host
from fatpack.ops.choose.presence import NothingSelected, unmatched, unseen
from fatpack.ops.choose.select import describe
from fatpack.ops.edit.editor import verify
from fatpack.ops.edit.meant import choose, written
from fatpack.ops.slim.checking import check_of
from fatpack.ops.slim.plan import is_linked, plan
from fatpack.ops.slim.wishes import Wishes
from fatpack.record import Record

__all__ = ["NothingSelected", "Removal", "remove"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import Piece, View
    from fatpack.model import Finding
    from fatpack.ops.choose.select import Selector
    from fatpack.ops.edit.editor import Check
    from fatpack.ops.edit.meant import Meant
    from fatpack.scanner import Found, FoundImage


class Removal(Record):
    """A plan to take images out: the pieces of the new host, and in words what goes and what to know about the rest.

    ``unseen`` are findings about what was not read, and stays as it is; ``unmatched`` patterns that match nothing,
    ``damaged`` is the damage of members in which nothing is meant: they stay to the byte. ``check`` raises HostError
    for a result that is not what was meant.
    """

    pieces: tuple[Piece, ...]
    removed: tuple[str, ...]
    notes: tuple[str, ...] = ()
    unseen: tuple[Finding, ...] = ()
    unmatched: tuple[str, ...] = ()
    damaged: tuple[Finding, ...] = ()
    check: Check = verify


def remove(host: View, selector: Selector, *, allow_empty: bool = False) -> Removal:
    """Return the host without the selected images (all by default); of an archive, without those of all its members.

    Members of archives in which nothing is meant stay as they are, damaged or not. Raises NothingSelected, with what is
    there, HostError when it cannot be removed, and :class:`fatpack.ops.slim.choosing.refusal.Refused` for a linked file
    of which a container would lose all code.
    """
    if is_linked(host):
        return _of_linked(host, selector, allow_empty)
    meant = choose(host, selector, "remove")
    removed = [meant.titles[id(found)] + _words(where, image) for where, found, image in meant.images]
    notes = [meant.titles[id(found)] + text for found, text in _hosts_alone(meant)]
    left = written(meant, {id(image): () for _, _, image in meant.images}, allow_empty=allow_empty)
    return Removal(
        tuple(left),
        tuple(removed),
        tuple(notes),
        tuple(unseen(meant.items)),
        tuple(unmatched(meant.items, selector)),
        meant.damaged,
    )


def _of_linked(host: View, selector: Selector, allow_empty: bool) -> Removal:
    slimmed = plan(host, Wishes(selector=selector, allow_empty=allow_empty))
    items = list({id(row.found): row.found for row in (*slimmed.kept, *slimmed.dropped)}.values())
    return Removal(
        slimmed.pieces,
        tuple(describe(row.position, row.image) for row in slimmed.dropped),
        slimmed.notes,
        slimmed.unseen,
        tuple(unmatched(items, selector)),
        slimmed.damaged,
        check_of(slimmed),
    )


def _words(position: str, image: FoundImage) -> str:
    """Return what goes, in words; of a fat object's host that is not the object, but a byte that stands for it."""
    is_marker = stands_for_host(image.as_stored)
    return f"{position} the marker of the host, which stays" if is_marker else describe(position, image)


def _hosts_alone(meant: Meant) -> Iterator[tuple[Found, str]]:
    """Yield the containers that keep an image for their host and nothing else, each once, with words about it."""
    gone = {id(image) for _, _, image in meant.images}
    for position, found in {id(found): (position, found) for position, found, _ in meant.images}.values():
        left = [image.as_stored for image in found.images if id(image) not in gone]
        if left and all(image.target.offload == "host" for image in left):
            number = position.partition(".")[0]
            ids = ", ".join(image.attrs.get("id") or image.target.triple for image in left)
            yield found, f"container {number} has no device code left, only the image for its host ({ids})"
