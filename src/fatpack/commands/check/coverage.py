"""Whether a unit serves a device: the rules of its runtime (:mod:`fatpack.targets.selection.select_image`) say so."""

from __future__ import annotations

from fatpack.record import Record
from fatpack.targets.devices import Device
from fatpack.targets.nvidia import parse_nvidia
from fatpack.targets.selection.choice_settings import RuntimeSettings
from fatpack.targets.selection.select_image import select_image
from fatpack.targets.vocabulary import load_vocabulary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.commands.check.policy import Requirement
    from fatpack.commands.check.rule_context import ImageSetRows
    from fatpack.tabular import image_sets as seen

_WAITS = "it is relocatable: what a device link makes of it is what counts"


class DeviceSupport(Record):
    """What a unit is to a device: ``serves`` it or not, by which ``rule``, why, and whether that is certain.

    What nobody can know of it does not serve, and is not certain. ``compiles`` says that no machine code serves, and
    the driver compiles what does.
    """

    serves: bool
    rule: str
    reason: str
    is_certain: bool = True
    compiles: bool = False


def meets_requirement(unit: ImageSetRows, wanted: Requirement) -> DeviceSupport:
    """Return whether a unit meets a requirement, PTX for later devices left aside."""
    if wanted.text:
        return _has_text(unit, wanted.text)
    found = supports(unit.offered, wanted.device)
    if wanted.is_native and found.compiles:
        return DeviceSupport(False, found.rule, f"no machine code is for it: {found.reason}")
    return found


def _has_text(unit: ImageSetRows, name: str) -> DeviceSupport:
    """Return whether a unit has PTX of a name, or for an older device if the name is plain (C7)."""
    wanted = parse_nvidia(name)
    assert wanted is not None
    rule = {"a": "C4", "f": "C5"}.get(wanted.suffix, "C7")
    offered = unit.offered
    for image in offered.images:
        text = parse_nvidia(image.candidate.arch) if image.candidate.form == "ptx" else None
        if text is None or text.suffix != wanted.suffix:
            continue
        if text.number == wanted.number or (not text.suffix and text.number < wanted.number):
            return DeviceSupport(True, rule, f"it has PTX for compute_{text.number}{text.suffix}", compiles=True)
    if offered.waits:
        return DeviceSupport(False, "C14", _WAITS, is_certain=False)
    later = "" if wanted.suffix else " or an older one"
    return DeviceSupport(False, rule, f"it has no PTX for {name}{later}")


def supports(unit: seen.ImageSet, device: Device) -> DeviceSupport:
    """Return what a unit is to a device; an AMD device is served in all states that it leaves open."""
    choices = select_image(unit.asked, device, RuntimeSettings())
    failed = [choice for choice in choices if choice.outcome == "fails"]
    if failed:
        states = ", ".join(choice.state for choice in failed)
        partly = f"nothing is for {states}" if len(failed) < len(choices) else failed[0].reason
        return DeviceSupport(False, failed[0].rule, partly, all(choice.is_certain for choice in failed))
    if unit.waits:
        return DeviceSupport(False, "C14", _WAITS, is_certain=False)
    unknown = next((choice for choice in choices if choice.outcome == "unknown"), None)
    if unknown is not None:
        return DeviceSupport(False, unknown.rule, f"whether it runs is not known: {unknown.reason}", is_certain=False)
    compiled = next((choice for choice in choices if choice.outcome == "compiles"), None)
    first = choices[0] if compiled is None else compiled
    return DeviceSupport(True, first.rule, first.reason, compiles=compiled is not None)


def supports_later_devices(unit: ImageSetRows, device: Device) -> bool:
    """Return whether every later device is served, also those that nobody knows yet: plain PTX is for all from its
    number on (C7), and what lies between the device and that number is served by something else.
    """
    arch, asked = device.nvidia, unit.offered
    parsed = [parse_nvidia(image.candidate.arch) for image in asked.images if image.candidate.form == "ptx"]
    numbers = [text.number for text in parsed if text is not None and not text.suffix]
    if arch is None or not numbers:
        return False
    known = (parse_nvidia(name) for name in load_vocabulary().nvidia)
    between = {each.number for each in known if each is not None and arch.number < each.number < min(numbers)}
    return all(supports(asked, Device("nvidia", f"sm_{number}")).serves for number in sorted(between))
