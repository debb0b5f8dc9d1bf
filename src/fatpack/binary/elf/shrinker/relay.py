"""Device code of a linked file laid down again: its bytes, the pointers to it, and what becomes of freed bytes."""

from __future__ import annotations

from fatpack.binary.elf.shrinker import cuts, pointers, shrink, symbols
from fatpack.binary.elf.shrinker.cuts import MAX_SEGMENTS, CannotShrinkElf
from fatpack.binary.elf.shrinker.linked import LinkedElfFile
from fatpack.binary.elf.shrinker.program_headers import ProgramHeaderSpace
from fatpack.binary.shrink import AUTO, SHRINK, ZERO, ShrinkResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.binary.elf.shrinker.linked import ChangedElfSection
    from fatpack.binary.elf.shrinker.shrink import ShrinkPlan
    from fatpack.binary.elf.shrinker.symbols import ContainerSymbol
    from fatpack.binary.shrink import ShrinkMode, ShrinkRequest
    from fatpack.io.source import View


def shrink_elf(view: View, change: ShrinkRequest, *, mode: ShrinkMode = AUTO) -> ShrinkResult:
    """Return a linked file with new contents of loaded sections, as pieces; bulk data is neither read nor copied.

    ``mode`` "shrink" takes freed bytes out of the file by whole pages and raises HostError where it cannot, "zero"
    leaves them as zeros, "auto" shrinks what it can; ``why`` of the answer then says what it could not.

    Raises HostError for a change that would break the file, FormatError for a damaged one, UsageError for an index
    that is no section's.
    """
    elf = LinkedElfFile(view)
    changed = elf.changed(change.contents)
    found = symbols.symbols_on_sections(elf, {each.section.index for each in changed})
    plan, why = (None, "") if mode == ZERO else _planned(elf, changed, found, is_strict=mode == SHRINK)
    reduced = {cut.changed.section.index for cut in plan.cuts} if plan else set[int]()
    patches = {
        **(plan.moved.patches if plan and plan.moved else {}),
        **symbols.symbol_patches(elf, changed, found, change.moves, reduced),
        **pointers.pointer_patches(elf, changed, change.moves, change.pointers),
    }
    pieces = shrink.assemble(elf, changed, patches, plan)
    gone = [(cut.start, cut.size) for cut in plan.cuts] if plan else []
    return ShrinkResult(pieces, SHRINK if plan else ZERO, gone, why)


def _planned(
    elf: LinkedElfFile, changed: Sequence[ChangedElfSection], named: Sequence[ContainerSymbol], *, is_strict: bool
) -> tuple[ShrinkPlan | None, str]:
    """Return what is cut, None if nothing, and why not more of it. Raises HostError for that if it is strict."""
    plan, reasons = None, list[str]()
    try:
        align = cuts.cut_alignment(elf)
        found, reasons = cuts.find_cuts(elf, changed, align, symbols.sections_with_end_symbol(elf, changed, named))
        plan, left = _with_room(elf, found, align)
        reasons += left
    except CannotShrinkElf as reason:
        reasons.append(str(reason))
    if reasons and is_strict:
        raise elf.refusal(f"the file cannot shrink: {reasons[0]}", "mode zero leaves zeros where the device code was")
    if plan is None and not reasons:
        return None, f"no section loses as much as a page of {align} bytes"
    return plan, "; ".join(reasons)


def _with_room(elf: LinkedElfFile, found: list[cuts.ElfCut], align: int) -> tuple[ShrinkPlan | None, list[str]]:
    """Return the plan that makes as many cuts as there is room for program headers, and what stays for lack of it."""
    splits, reasons = sum(cut.splits for cut in found), list[str]()
    if not splits:
        return (shrink.ShrinkPlan(found, None, align) if found else None), reasons
    if elf.program_count + splits > MAX_SEGMENTS:
        raise CannotShrinkElf(f"it would have more than {MAX_SEGMENTS} program headers")
    room = ProgramHeaderSpace(elf)
    if room.most < splits:
        number = splits - room.most
        reasons.append(
            f"{room.obstacle} stands behind the program headers, where there is room for {room.most} more and not for "
            f"{splits}, and cannot move"
        )
        found = cuts.best_cuts(found, splits - number)
        splits = room.most
    if not found:
        raise CannotShrinkElf(reasons[0])
    moved, found = room.made(splits, found, align)
    return shrink.ShrinkPlan(found, moved, align), reasons
