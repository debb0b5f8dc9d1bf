"""Text of ``explain``: the verdict, then failures image by image, then all other units."""

from __future__ import annotations

import os

from fatpack.errors import pluralize
from fatpack.printable import printable, short_names
from fatpack.targets.selection.rules import MARKS
from fatpack.text.style import align_columns, wrap_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.commands.explain.model import (
        DeviceAnswer,
        ExplainResult,
        ImageAnswer,
        ImageSetAnswer,
        InstalledPackage,
        InstallerChoice,
        RuleAnswer,
        RuntimeErrorText,
    )
    from fatpack.tabular.image_sets import ImageSetLocation

#: places of units that a group names, without and with ``-v``
_PLACES, _MORE_PLACES = 3, 50

#: images refused by one rule that share a line if they are so many, and how many of them are named there
_ALIKE, _NAMES = 5, 12

#: the rule of variables of the environment that hide images
_HIDDEN = "C13"

#: what every driver inflates: nothing depends on it
_PLAIN = ("lz4",)

#: outcome → words
_OUTCOMES = {"runs": "runs", "compiles": "runs after compiling", "fails": "fails", "unknown": "not known to run"}

#: role of an image for the device
_FITS = {"yes": "fits", "no": "no", "unknown": "not known", "some": "in some states"}
_ROLES = {"taken": "taken", "may": "may be taken"}


def render_explain(explained: ExplainResult, *, verbose: int = 0, width: int = 0) -> Iterator[str]:
    """Yield the lines; ``verbose`` adds all that runs, every place, and the sources of the rules in full.

    Lines wider than ``width`` (0: any) go on in the next at a blank: commands and names of errors are to be copied.
    """
    yield from wrap_lines(_lines(explained, verbose), width)


def _lines(explained: ExplainResult, verbose: int) -> Iterator[str]:
    for choice in explained.installed:
        yield from _choice(choice, verbose)
    for package in explained.packages:
        yield from _package(package)
    if explained.installed or explained.packages:
        yield ""
    for number, device in enumerate(explained.devices):
        if number:
            yield ""
        yield from _device(device, verbose)
    for row in explained.unread:
        yield printable(f"not read: {row.path}: {row.problem}")
    if explained.rules:
        yield ""
        yield from _rules(explained.rules, verbose)


def _choice(choice: InstallerChoice, verbose: int) -> Iterator[str]:
    taken = os.path.basename(os.path.normpath(choice.path)) if choice.path else "nothing"
    yield printable(f"{choice.installer} takes {taken} of {choice.release}: {choice.reason}")
    for note in choice.notes:
        yield printable(f"  {note}")
    left = choice.left if verbose else choice.left[:_NAMES]
    yield from (printable(f"  not {each.name}: {each.reason}") for each in left)
    if len(left) < len(choice.left):
        yield f"  and {len(choice.left) - len(left)} more (-v lists them)"


def _package(package: InstalledPackage) -> Iterator[str]:
    variant = f", the variant {package.label}," if package.label else ""
    ends = []
    for one in package.outcomes:
        parts = [f"{one.runs} run" if one.runs != 1 else "1 runs"] if one.runs else []
        parts += [f"{one.fails} fail" if one.fails != 1 else "1 fails"] if one.fails else []
        parts += [f"{one.unknown} not known to run"] if one.unknown else []
        ends.append(f"{one.device}: {', '.join(parts)}")
    yield printable(f"{package.package}{variant} installed by {package.installer}: files on {'; on '.join(ends)}")
    for one in package.outcomes:
        if one.reason:
            yield printable(f"  {one.device}: {one.reason}")
    for note in package.notes:
        yield printable(f"  {note}")


def _device(device: DeviceAnswer, verbose: int) -> Iterator[str]:
    yield printable(device.verdict)
    yield from (printable(f"  {line}") for line in _files(device.units))
    for note in device.notes:
        yield printable(f"  {note}")
    folds: dict[object, list[ImageSetAnswer]] = {}
    for number, unit in enumerate(device.units):
        key = (unit.runtime, unit.outcome, unit.rule, unit.reason, unit.is_certain, unit.error, unit.fixes, unit.danger)
        folds.setdefault(number if verbose else key, []).append(unit)
    for units in folds.values():
        yield ""
        yield from _units(units, verbose)


def _files(units: tuple[ImageSetAnswer, ...]) -> list[str]:
    """Return the files that run and that do not; none for a single file. ``units`` has failing ones first."""
    ends: dict[str, str] = {}
    for unit in units:
        for place in unit.places:
            ends.setdefault(place.path, _OUTCOMES[unit.outcome])
    parts = []
    for outcome in reversed(_OUTCOMES.values()):
        paths = [path for path, end in ends.items() if end == outcome]
        more = f" and {len(paths) - _NAMES} more" if len(paths) > _NAMES else ""
        count = pluralize(len(paths), "file")
        parts += [f"{outcome}: {count}: {', '.join(short_names(paths[:_NAMES]))}{more}"] if paths else []
    return parts if len(ends) > 1 else []


def _units(units: list[ImageSetAnswer], verbose: int) -> Iterator[str]:
    """Yield the lines of units that answer in the same way; of the most frequent kind the images are shown."""
    unit = max(units, key=lambda one: one.count)
    places = tuple(place for one in units for place in one.places)
    is_fine = unit.outcome in ("runs", "compiles")
    doubt = "" if unit.is_certain or not is_fine else f" ({_doubt(unit)})"
    yield printable(f"  {_OUTCOMES[unit.outcome]}: {_count(unit, places)} [{unit.rule}]: {unit.reason}{doubt}")
    if not is_fine and not verbose:
        yield from _places(places, _PLACES)
    yield from align_columns(_images(unit.images, verbose), indent="    ")
    if verbose:  # there may be many
        yield from _places(places, _MORE_PLACES)
    if len(units) > 1:
        count = len(places) - unit.count
        do = "does" if count == 1 else "do"
        yield f"    {pluralize(count, 'more container')} with other images {do} the same (-v lists them)"
    for state in unit.states:
        yield printable(f"    on {state.state}: {_OUTCOMES[state.outcome]} [{state.rule}]: {state.reason}")
    if unit.error is not None:
        yield printable(f"    the program gets: {error_words(unit.error)}")
        for text in unit.error.also:
            yield printable(f"      {text}")
    for fix in unit.fixes:
        yield printable(f"    fix: {fix}")
    if unit.danger:
        yield printable(f"    do not use: {unit.danger}")


def _doubt(unit: ImageSetAnswer) -> str:
    """Return what is not certain of a unit that runs all the same."""
    if any(image.role == "may" for image in unit.images):
        return "it is not documented which fitting image is taken; each of them runs"
    return "not documented, and no report contradicts it"


def _places(places: tuple[ImageSetLocation, ...], most: int) -> Iterator[str]:
    for place in places[:most]:
        yield printable(f"    {_place(place)}")
    if len(places) > most:
        yield f"    and {len(places) - most} more"


def _images(images: tuple[ImageAnswer, ...], verbose: int) -> list[list[str]]:
    """Return the rows of images: loaded and fitting ones first. Images refused for one reason share a row."""
    order = ("taken", "may")
    shown = sorted(images, key=lambda one: (one.role not in order, one.fits == "no"))
    refused: dict[str, list[ImageAnswer]] = {}
    for one in shown:
        if one.fits == "no" and not one.role:
            refused.setdefault(one.rule, []).append(one)
    rows = []
    for image in shown:
        alike = refused.get(image.rule, []) if image.fits == "no" and not image.role else []
        if verbose or len(alike) < _ALIKE:
            rows.append(_image(image))
        elif image is alike[0]:
            names = [printable(one.name) for one in alike]
            more = [f"{len(names) - _NAMES} more"] if len(names) > _NAMES else []
            listed = ", ".join([*names[:_NAMES], *more])
            hidden = image.rule == _HIDDEN  # by what the environment says, whatever they are for
            words = f"{pluralize(len(names), 'image')}{'' if hidden else ' for others'}: {listed}"
            words += f": {printable(image.reason)}" if hidden else ""
            rows.append(["", "", "", _FITS["no"], image.rule, words])
    return rows


def _count(unit: ImageSetAnswer, places: tuple[ImageSetLocation, ...]) -> str:
    files = len({place.path for place in places})
    return pluralize(len(places), unit.noun) + (f" of {files} files" if files > 1 else "")


def error_words(error: RuntimeErrorText) -> str:
    """Return an error as a line: the text, its number and its name."""
    names = ", ".join(filter(None, (None if error.code is None else str(error.code), *error.names[:1])))
    return f"{error.text}" + (f" ({names})" if names else "")


def _place(place: ImageSetLocation) -> str:
    where = [os.path.basename(place.path)]
    if place.library:
        return f"{place.library} in {place.path}"
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
    facts = [
        "" if image.compression in _PLAIN else image.compression or "",
        f"PTX {image.ptx_version}" if image.ptx_version else "",
    ]
    facts.append(f"needs CUDA {image.needs}" if image.needs else "")
    facts.append(f"holds {image.holds}" if image.holds else "")
    if image.has_kernel is not None:
        facts.append("has the kernel" if image.has_kernel else "lacks the kernel")
    return [
        printable(f"{image.count} x {image.name}" if image.count > 1 else image.name),
        "PTX" if image.form == "ptx" else printable(image.form),
        ", ".join(filter(None, facts)),
        _ROLES.get(image.role) or _FITS[image.fits],
        image.rule,
        printable(image.reason),
    ]


def _rules(rules: tuple[RuleAnswer, ...], verbose: int) -> Iterator[str]:
    if not verbose:
        yield f"rules: {', '.join(row.name for row in rules)} (-v prints them with their sources)"
        return
    yield "rules:"
    for row in rules:
        yield f"  {row.name:3}  {row.says}"
        yield f"       {MARKS[row.mark]}: {row.source}"
