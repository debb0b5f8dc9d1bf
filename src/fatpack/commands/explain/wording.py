"""The verdict on a device, in one sentence."""

from __future__ import annotations

from fatpack.errors import all_count_words, pluralize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fatpack.commands.explain.model import ImageSetAnswer
    from fatpack.targets.devices import Device

_VENDORS = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel"}


def device_verdict(
    device: Device,
    units: Sequence[ImageSetAnswer],
    kernel: str,
    passed: Mapping[str, int],
    unread: Sequence[str] = (),
    *,
    has_code: bool = True,
) -> str:
    """Return the sentence: how many containers run, and what the others answer. ``units`` has those that fail first.

    ``unread`` are the names of files that were not read, or not to their end: the sentence begins with them.
    ``has_code`` is whether there is device code at all.
    """
    total = sum(one.count for one in units)
    opening = f"{device.words}: {_unread(unread)}"
    if not total:
        return f"{opening}{_nothing(device, kernel, passed) if has_code else 'no device code was found'}"
    noun = _noun(units)
    fails = sum(one.count for one in units if one.outcome == "fails")
    unknown = sum(one.count for one in units if one.outcome == "unknown")
    compiles = sum(one.count for one in units if one.outcome == "compiles")
    runs = total - fails - unknown
    parts: list[str] = []
    for count, one, several in (
        (runs, "runs", "run"),
        (fails, "fails", "fail"),
        (unknown, "is not known to run", "are not known to run"),
    ):
        if count:
            which = str(count) if parts else _which(count, total, noun)
            parts.append(f"{which} {one if count == 1 else several}")
    if unknown == total > 1:
        parts = [f"none of the {pluralize(total, noun)} is known to run"]
    if compiles:
        parts[0] += f"{'' if compiles == runs else f', {compiles} of them'} after compiling"
    wrong = [one for one in units if one.outcome == ("fails" if fails else "unknown")]
    worst = max(wrong, key=lambda one: one.count, default=None)
    why = "" if worst is None else f": {_why(worst)}"
    return f"{opening}{', '.join(parts)}{why}"


def _unread(names: Sequence[str]) -> str:
    """Return how a sentence about files begins of which not all was read."""
    if not names:
        return ""
    which = names[0] if len(names) == 1 else pluralize(len(names), "file")
    return f"not all of {which} could be read; of what was read, "


def _why(unit: ImageSetAnswer) -> str:
    """Return what the program is told, in the words by which people look for it."""
    if unit.told is None:
        return unit.reason
    return f"{unit.told.text} ({unit.told.names[0]})" if unit.told.names else unit.told.text


def _which(count: int, total: int, noun: str) -> str:
    if total == 1:
        return "the library" if noun == "library" else f"the only {noun}"
    return all_count_words(total, noun) if count == total else f"{count} of {pluralize(total, noun)}"


def _nothing(device: Device, kernel: str, passed: Mapping[str, int]) -> str:
    vendor = _VENDORS[device.vendor]
    if kernel and passed:
        return f"the kernel is in no image for {vendor} devices that shows its kernels"
    return f"nothing in it is for {vendor} devices"


def _noun(units: Sequence[ImageSetAnswer]) -> str:
    nouns = {one.noun for one in units}
    return nouns.pop() if len(nouns) == 1 else "container"
