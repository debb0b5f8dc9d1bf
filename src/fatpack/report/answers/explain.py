"""What ``explain`` answers, as text: the verdict first, then what fails, image by image, then the rest."""

from __future__ import annotations

import os

from fatpack.errors import counted
from fatpack.printable import printable
from fatpack.report.text import columns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.answers.explain.records import (
        DeviceAnswer,
        Explained,
        ImageAnswer,
        Place,
        RuleAnswer,
        Told,
        UnitAnswer,
    )

#: places of units that a group names, without and with ``-v``
_PLACES, _MORE_PLACES = 3, 50

#: groups of units that run of which the images are shown; the others come with ``-v``
_RUNNING = 3

#: how an image stands to the device
_FITS = {"yes": "fits", "no": "no", "unknown": "not known", "some": "in some states"}
_ROLES = {"taken": "taken", "may": "may be taken"}

_MARKS = {
    "S": "read in the runtime's source",
    "D": "the vendor's document",
    "F": "reported by users",
    "O": "observed on one device",
    "U": "not known to anybody",
}


def render(explained: Explained, *, verbose: int = 0) -> Iterator[str]:
    """Yield the lines; ``verbose`` adds all that runs, every place, and the sources of the rules in full."""
    for number, device in enumerate(explained.devices):
        if number:
            yield ""
        yield from _device(device, verbose)
    for row in explained.unread:
        yield printable(f"not read: {row.path}: {row.problem}")
    if explained.rules:
        yield ""
        yield from _rules(explained.rules, verbose)


def _device(device: DeviceAnswer, verbose: int) -> Iterator[str]:
    yield printable(device.verdict)
    for note in device.notes:
        yield printable(f"  {note}")
    running = 0
    for unit in device.units:
        is_fine = unit.outcome in ("runs", "compiles") and unit.is_certain
        running += is_fine
        if is_fine and running > _RUNNING and not verbose:
            continue
        yield ""
        yield from _unit(unit, verbose)
    if running > _RUNNING and not verbose:
        more = device.units[-(running - _RUNNING) :]
        yield ""
        yield f"  {counted(sum(one.count for one in more), 'container')} more that run (-v shows them)"


def _unit(unit: UnitAnswer, verbose: int) -> Iterator[str]:
    words = {"runs": "runs", "compiles": "runs after compiling", "fails": "fails", "unknown": "not known"}
    yield printable(f"  {words[unit.outcome]}: {_count(unit)} [{unit.rule}]: {unit.reason}")
    most = _MORE_PLACES if verbose else _PLACES
    for place in unit.places[:most] if unit.outcome in ("fails", "unknown") or verbose else ():
        yield printable(f"    {_place(place)}")
    if len(unit.places) > most and (unit.outcome in ("fails", "unknown") or verbose):
        yield f"    and {len(unit.places) - most} more"
    yield from columns([_image(image) for image in unit.images], indent="    ")
    for state in unit.states:
        yield printable(f"    on {state.state}: {words[state.outcome]} [{state.rule}] {state.reason}")
    if unit.told is not None:
        yield printable(f"    the program is told: {told_words(unit.told)}")
        if unit.told.also:
            yield printable(f"    or: {unit.told.also}")
    for mend in unit.mends:
        yield printable(f"    to mend: {mend}")


def _count(unit: UnitAnswer) -> str:
    noun = "program" if unit.runtime == "kpack" else "image" if unit.places[0].container is None else "container"
    files = len({place.path for place in unit.places})
    return counted(unit.count, noun) + (f" of {files} files" if files > 1 else "")


def told_words(told: Told) -> str:
    """Return an error as a line: the text, its number and its name."""
    names = ", ".join(filter(None, (None if told.code is None else str(told.code), *told.names[:1])))
    return f"{told.text}" + (f" ({names})" if names else "")


def _place(place: Place) -> str:
    where = [os.path.basename(place.path)]
    if place.binary:
        return f"{place.binary} in {where[0]}"
    if place.member:
        where.append(place.member)
    if place.container is not None:
        where.append(f"container {place.container}")
    at = f" at {place.offset:#x}" if place.offset is not None else ""
    section = f" in {place.section}" if place.section else ""
    return f"{': '.join(where)}{at}{section}"


def _image(image: ImageAnswer) -> list[str]:
    facts = [image.compression or "", f"PTX {image.ptx_version}" if image.ptx_version else ""]
    facts.append(f"needs CUDA {image.needs}" if image.needs else "")
    if image.has_kernel is not None:
        facts.append("has the kernel" if image.has_kernel else "lacks the kernel")
    return [
        printable(f"{image.count} x {image.name}" if image.count > 1 else image.name),
        "PTX" if image.form == "ptx" else printable(image.form),
        _ROLES.get(image.role) or _FITS[image.fits],
        image.rule,
        printable(image.reason),
        ", ".join(filter(None, facts)),
    ]


def _rules(rules: tuple[RuleAnswer, ...], verbose: int) -> Iterator[str]:
    if not verbose:
        yield f"rules: {', '.join(row.name for row in rules)} (-v prints them with their sources)"
        return
    yield "rules:"
    for row in rules:
        yield f"  {row.name:3}  {row.says}"
        yield f"       {_MARKS[row.mark]}: {row.source}"
