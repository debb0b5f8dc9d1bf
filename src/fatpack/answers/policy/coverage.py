"""Whether a unit serves a device: the rules of its runtime (:mod:`fatpack.target.choice.asking`) say so."""

from __future__ import annotations

from fatpack.record import Record
from fatpack.target.choice.asking import ask
from fatpack.target.choice.settings import Settings
from fatpack.target.devices import Device
from fatpack.target.nvidia import parse_nvidia
from fatpack.target.vocabulary import vocabulary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.answers.policy.requirements import Requirement
    from fatpack.answers.policy.units import UnitRows
    from fatpack.facts import units as seen

_WAITS = "it is relocatable: what a device link makes of it is what counts"


class Service(Record):
    """What a unit is to a device: ``serves`` it or not, by which ``rule``, why, and whether that is certain.

    What nobody can know of it does not serve, and is not certain. ``compiles`` says that no machine code serves, and
    the driver compiles what does.
    """

    serves: bool
    rule: str
    reason: str
    is_certain: bool = True
    compiles: bool = False


def covers(unit: UnitRows, wanted: Requirement) -> Service:
    """Return whether a unit meets a requirement, PTX for later devices left aside."""
    if wanted.text:
        return _has_text(unit, wanted.text)
    found = served(unit.offered, wanted.device)
    if wanted.is_native and found.compiles:
        return Service(False, found.rule, f"no machine code is for it: {found.reason}")
    return found


def _has_text(unit: UnitRows, name: str) -> Service:
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
            return Service(True, rule, f"it has PTX for compute_{text.number}{text.suffix}", compiles=True)
    if offered.waits:
        return Service(False, "C14", _WAITS, is_certain=False)
    later = "" if wanted.suffix else " or an older one"
    return Service(False, rule, f"it has no PTX for {name}{later}")


def served(unit: seen.Unit, device: Device) -> Service:
    """Return what a unit is to a device; an AMD device is served in all states that it leaves open."""
    choices = ask(unit.asked, device, Settings())
    failed = [choice for choice in choices if choice.outcome == "fails"]
    if failed:
        states = ", ".join(choice.state for choice in failed)
        partly = f"nothing is for {states}" if len(failed) < len(choices) else failed[0].reason
        return Service(False, failed[0].rule, partly, all(choice.is_certain for choice in failed))
    if unit.waits:
        return Service(False, "C14", _WAITS, is_certain=False)
    unknown = next((choice for choice in choices if choice.outcome == "unknown"), None)
    if unknown is not None:
        return Service(False, unknown.rule, f"whether it runs is not known: {unknown.reason}", is_certain=False)
    compiled = next((choice for choice in choices if choice.outcome == "compiles"), None)
    first = choices[0] if compiled is None else compiled
    return Service(True, first.rule, first.reason, compiles=compiled is not None)


def has_later(unit: UnitRows, device: Device) -> bool:
    """Return whether every later device is served, also those that nobody knows yet: plain PTX is for all from its
    number on (C7), and what lies between the device and that number is served by something else.
    """
    arch, asked = device.nvidia, unit.offered
    parsed = [parse_nvidia(image.candidate.arch) for image in asked.images if image.candidate.form == "ptx"]
    numbers = [text.number for text in parsed if text is not None and not text.suffix]
    if arch is None or not numbers:
        return False
    known = (parse_nvidia(name) for name in vocabulary().nvidia)
    between = {each.number for each in known if each is not None and arch.number < each.number < min(numbers)}
    return all(served(asked, Device("nvidia", f"sm_{number}")).serves for number in sorted(between))
