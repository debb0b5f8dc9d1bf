"""Selected images taken out of any file that is edited: a linked one is slimmed, all others are edited as ever."""

from __future__ import annotations

from fatpack.ops.choose.presence import unmatched
from fatpack.ops.choose.select import describe
from fatpack.ops.edit import removal
from fatpack.ops.edit.editor import verify
from fatpack.ops.slim.checking import check_of
from fatpack.ops.slim.plan import is_linked, plan
from fatpack.ops.slim.wishes import Wishes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View
    from fatpack.ops.choose.select import Selector
    from fatpack.ops.edit.editor import Check


class Removal(removal.Removal):
    """A plan to take images out, and what verifies its result: raises HostError where that is not what was meant."""

    check: Check = verify


def remove(host: View, selector: Selector, *, allow_empty: bool = False) -> Removal:
    """Return the host without the selected images (all by default).

    A linked program or library keeps its addresses. Raises what :func:`fatpack.ops.edit.removal.remove` raises, and
    :class:`fatpack.ops.slim.choosing.refusal.Refused` for a linked file of which a container would lose all code.
    """
    if not is_linked(host):
        made = removal.remove(host, selector, allow_empty=allow_empty)
        return Removal(made.pieces, made.removed, made.notes, made.unseen, made.unmatched, made.damaged)
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
