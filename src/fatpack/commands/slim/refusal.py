"""Refusals: wishes that would leave a container, or a device, with nothing, with kernels named."""

from __future__ import annotations

from fatpack.commands.slim.rows import arch_label, is_host, matches_pattern
from fatpack.errors import FatpackError, cli_or_api, pluralize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.commands.slim.selection import ImageSelection, UnsupportedContainer
    from fatpack.commands.slim.wishes import SlimOptions
    from fatpack.io.source import View

#: containers that a refusal names
_MAX_CONTAINERS_NAMED = 3


class SlimRefused(FatpackError):
    """Slimming would leave a container, or a device, with nothing; ``containers`` are those of which that is so."""

    exit_code = 1

    def __init__(
        self, problem: str, containers: Sequence[UnsupportedContainer], *, hint: str, chain: Sequence[str] = ()
    ) -> None:
        super().__init__(problem, hint=hint, chain=chain)
        self.containers = tuple(containers)


def refuse_losses(selection: ImageSelection, wishes: SlimOptions, view: View) -> None:
    """Raise Refused for containers that would be left with nothing, unless that is allowed.

    Patterns that keep nothing are refused, too.
    """
    _refuse_slip(selection, wishes, view)
    wrong = selection.refused
    if not wrong or wishes.allow_empty:
        return
    named = "; ".join(one.words for one in wrong[:_MAX_CONTAINERS_NAMED])
    more = f"; and {len(wrong) - _MAX_CONTAINERS_NAMED} more" if len(wrong) > _MAX_CONTAINERS_NAMED else ""
    raise SlimRefused(
        f"{_loss(selection)}: {named}{more}",
        wrong,
        hint=f"{cli_or_api('--keep', 'keep=')} names what stays all the same; "
        f"{cli_or_api('--allow-empty', 'allow_empty=True')} lets them go, and their use fails",
        chain=view.chain,
    )


def _refuse_slip(selection: ImageSelection, wishes: SlimOptions, view: View) -> None:
    """Raise Refused where only patterns say what stays and none of them means anything: all but PTX would go."""
    rows = [row for row in (*selection.kept, *selection.dropped) if not is_host(row.image)]
    if wishes.devices or not wishes.keep or not rows or any(matches_pattern(row.image, wishes.keep) for row in rows):
        return
    rows.sort(key=lambda row: (row.number, row.index))
    archs = ", ".join(dict.fromkeys(arch_label(row.image) for row in rows))
    option = cli_or_api("--keep", "keep=")
    raise SlimRefused(
        f"nothing in it is {' or '.join(wishes.keep)}: it has {archs}",
        (),
        hint=f"{option} names what stays; {cli_or_api('--drop', 'drop=')} what goes",
        chain=view.chain,
    )


def _loss(selection: ImageSelection) -> str:
    """Return what containers would lack in words, and what they have."""
    wrong = selection.refused
    devices = ", ".join(dict.fromkeys(name for one in wrong for name in one.device.split(", ") if name))
    archs = ", ".join(dict.fromkeys(arch for one in wrong for arch in one.archs))
    count = pluralize(len(wrong), "container")
    verb = "has" if len(wrong) == 1 else "have"
    if selection.lost:
        return f"{count} would serve {devices} no more, and {verb} {archs}"
    if selection.emptied and not all(one.device for one in wrong):
        return f"{count} would have no device code left, and {verb} {archs}"
    others = {row.number for row in selection.kept if not is_host(row.image)} - {one.number for one in wrong}
    where = f"{count} of {len(others) + len(wrong)}" if others else "the file"
    return f"nothing in {where} runs on {devices}: {count} {verb} {archs}"
