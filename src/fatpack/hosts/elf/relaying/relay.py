"""Device code of a linked file laid down again: its bytes, the pointers to it, and what becomes of freed bytes."""

from __future__ import annotations

from fatpack.hosts.elf.relaying import cuts, laying, pointers, symbols
from fatpack.hosts.elf.relaying.cuts import MOST_SEGMENTS, Whole
from fatpack.hosts.elf.relaying.linked import LinkedFile
from fatpack.hosts.elf.relaying.room import Room
from fatpack.hosts.relaying import AUTO, SHRINK, ZERO, Relayed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.hosts.elf.relaying.laying import Plan
    from fatpack.hosts.elf.relaying.linked import Changed
    from fatpack.hosts.elf.relaying.symbols import Symbol
    from fatpack.hosts.relaying import Mode, Relay
    from fatpack.io.source import View


def relay(view: View, change: Relay, *, mode: Mode = AUTO) -> Relayed:
    """Return a linked file with new contents of loaded sections, as pieces; bulk data is neither read nor copied.

    ``mode`` "shrink" takes freed bytes out of the file by whole pages and raises HostError where it cannot, "zero"
    leaves them as zeros, "auto" shrinks what it can; ``why`` of the answer then says what it could not.

    Raises HostError for a change that would break the file, FormatError for a damaged one, UsageError for an index
    that is no section's.
    """
    elf = LinkedFile(view)
    changed = elf.changed(change.contents)
    found = symbols.symbols_in(elf, {each.section.index for each in changed})
    plan, why = (None, "") if mode == ZERO else _planned(elf, changed, found, is_strict=mode == SHRINK)
    reduced = {cut.changed.section.index for cut in plan.cuts} if plan else set[int]()
    patches = {
        **(plan.moved.patches if plan and plan.moved else {}),
        **symbols.patches(elf, changed, found, change.moves, reduced),
        **pointers.patches(elf, changed, change.moves, change.pointers),
    }
    pieces = laying.laid(elf, changed, patches, plan)
    gone = [(cut.start, cut.size) for cut in plan.cuts] if plan else []
    return Relayed(pieces, SHRINK if plan else ZERO, gone, why)


def _planned(
    elf: LinkedFile, changed: Sequence[Changed], named: Sequence[Symbol], *, is_strict: bool
) -> tuple[Plan | None, str]:
    """Return what is cut, None if nothing, and why not more of it. Raises HostError for that if it is strict."""
    plan, reasons = None, list[str]()
    try:
        align = cuts.check(elf)
        found, reasons = cuts.cuts(elf, changed, align, symbols.ends(elf, changed, named))
        plan, left = _with_room(elf, found, align)
        reasons += left
    except Whole as reason:
        reasons.append(str(reason))
    if reasons and is_strict:
        raise elf.refusal(f"the file cannot shrink: {reasons[0]}", "mode zero leaves zeros where the device code was")
    if plan is None and not reasons:
        return None, f"no section loses as much as a page of {align} bytes"
    return plan, "; ".join(reasons)


def _with_room(elf: LinkedFile, found: list[cuts.Cut], align: int) -> tuple[Plan | None, list[str]]:
    """Return the plan that makes as many cuts as there is room for program headers, and what stays for lack of it."""
    splits, reasons = sum(cut.splits for cut in found), list[str]()
    if not splits:
        return (laying.Plan(found, None, align) if found else None), reasons
    if elf.program_count + splits > MOST_SEGMENTS:
        raise Whole(f"it would have more than {MOST_SEGMENTS} program headers")
    room = Room(elf)
    if room.most < splits:
        number = splits - room.most
        reasons.append(
            f"{room.obstacle} stands behind the program headers, where there is room for {room.most} more and not for "
            f"{splits}, and cannot move"
        )
        found = cuts.chosen(found, splits - number)
        splits = room.most
    if not found:
        raise Whole(reasons[0])
    moved, found = room.made(splits, found, align)
    return laying.Plan(found, moved, align), reasons
