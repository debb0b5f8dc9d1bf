"""The words that all outputs of a policy share: the first line, and one line for each violation."""

from __future__ import annotations

from fatpack.commands.check.model import UNJUDGED, VENDORS
from fatpack.commands.check.policy import REGISTERED
from fatpack.commands.doctor.model import NO_IMAGE_READ
from fatpack.errors import all_count_words, pluralize
from fatpack.inputs.files import SEPARATOR
from fatpack.printable import printable
from fatpack.scanner.registration_verdict import CODES, NOT_JUDGED
from fatpack.text.style import ellipsize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.commands.check.model import (
        CheckedLibrary,
        CheckResult,
        CompiledDevice,
        MissingKernels,
        RequiredDevices,
        Violation,
    )


#: subjects that the first line names
_FIRST = 3

#: what is about files that were named, or packages, and not about libraries with device code
_OF_PATHS = ("FP3301", "FP3302", "FP3307", "FP3308", "FP3311", "FP3313", "FP3315", "FP3340")

#: the words for a unit of images that lie in files of their own
_LOOSE = "loose images"

#: kernels of a unit that are named without -v, if they take no more than as many characters
_NAMED = 3
_LONGEST = 48


def check_headline(checked: CheckResult) -> str:
    """Return what matters most, in one line: ``lacks sm_120: 3 of 12 libraries; 2 more``."""
    groups: dict[str, list[Violation]] = {}
    for item in checked.violations:
        if item.is_broken:
            groups.setdefault(_subject(item), []).append(item)
    others = unchecked_words(checked)
    if not groups:
        units = pluralize(sum(item.units for item in checked.libraries), "unit")
        served = [_served(checked, each) for each in checked.required]
        # The first rule is that the devices are served.
        words = served or [f"{pluralize(len(checked.libraries), 'library')}, {units}"]
        unknown = not_judged_words(checked)
        is_said = any(item.code == UNJUDGED for item in checked.violations)
        rules = [rule for rule in checked.rules[len(served) > 0 :] if not is_said or rule != REGISTERED]
        words = [*unknown, *words]
        return printable(f"{checked.verdict}: {'; '.join([*words, *rules, *others])}")
    words = [_grouped(subject, items, checked) for subject, items in groups.items()]
    shown = words if len(words) <= _FIRST + 1 else [*words[:_FIRST], f"{len(words) - _FIRST} more"]
    text = "; ".join([*shown, *others])
    if checked.verdict == "unreadable":
        text = text.removeprefix("cannot be read: ")  # the verdict says so
    return printable(f"{checked.verdict}: {text}")


def not_judged_words(checked: CheckResult) -> list[str]:
    """Return in words why registration, or every image, was not judged, as the only item; none if all was."""
    if any(item.subject == NO_IMAGE_READ for item in checked.violations):
        return [NO_IMAGE_READ]
    found = [item for item in checked.violations if item.code == UNJUDGED]
    if not found:
        return []
    paths = {item.path for item in found}
    where = _names(paths) if len(checked.libraries) > 1 else ""
    why = found[0].message.removeprefix(f"{NOT_JUDGED}: ")
    return [f"{where}: {why}" if where else why]


def _served(checked: CheckResult, required: RequiredDevices) -> str:
    number = sum(required.vendor in item.vendors for item in checked.libraries)
    which = "the one library" if number == 1 else all_count_words(number, "library")
    verb = "serves" if number == 1 else "serve"
    after = {one.device: one for one in required.compiled}
    devices = [f"{name}{_after(after[name], required.vendor)}" if name in after else name for name in required.devices]
    return f"{which} with code for {VENDORS[required.vendor]} {verb} {', '.join(devices)}"


def _after(one: CompiledDevice, vendor: str) -> str:
    """Return that a device is served only after compiling, and by how many units."""
    what = "compiling PTX" if vendor == "nvidia" else "compiling"
    return f" (after {what})" if one.units == one.total else f" (after {what} in {one.units} of {one.total} units)"


def vendor_words(library: CheckedLibrary) -> str:
    """Return the vendors of a library in words: ``AMD and Intel``."""
    return " and ".join(VENDORS.get(vendor, vendor) for vendor in library.vendors)


def unchecked_words(checked: CheckResult) -> list[str]:
    """Return in words the number of libraries that no rule applies to, and what no rule could check in libraries."""
    counts: dict[str, int] = {}
    parts: dict[str, int] = {}
    for item in checked.libraries:
        if not item.is_asked:
            counts[vendor_words(item)] = counts.get(vendor_words(item), 0) + 1
        for part in item.unchecked:
            parts[part] = parts.get(part, 0) + 1
    found = [f"not checked: {', '.join(f'{number} for {whose}' for whose, number in counts.items())}"] if counts else []
    total = len(checked.libraries)
    for part, number in parts.items():
        found.append(f"not checked{f' in {number} of {total}' if total > 1 else ''}: {part}")
    return found


def _subject(item: Violation) -> str:
    if item.code == "FP3303":
        return f"lacks {'PTX later than ' if item.subject.endswith('+ptx') else ''}{item.subject.removesuffix('+ptx')}"
    if item.subject == "pattern":
        return "no file matches"
    if item.code == "FP3302" and item.message.startswith("no device code for "):
        return item.message.partition(" was found")[0]
    return {
        "FP3301": "cannot be read",
        "FP3302": "no device code",
        "FP3305": f"not known if {item.subject} is served",
        "FP3304": f"nothing for {item.subject} itself",
        "FP3306": f"forbidden {item.subject}",
        "FP3307": "too large",
        "FP3308": "grew too much",
        UNJUDGED: "registration not judged",
        "FP3309": f"kernels without {item.subject}",
        "FP3311": f"declares {item.subject} without it",
        "FP3313": "declares nothing",
        "FP3314": "labels are wrong",
        "FP3315": "RECORD and files differ",
        "FP3340": "not read",
        "FP3342": f"Metal not for {item.subject}",
        "FP3343": f"Metal later than {item.subject}",
    }.get(item.code, item.subject if item.code.startswith("FP33") else _finding_word(item))


def _finding_word(item: Violation) -> str:
    if item.code.startswith("FP34"):
        return f"tables of {item.subject} and files differ"
    return "registration" if item.code.startswith(CODES) else "suspect"


def _grouped(subject: str, items: Sequence[Violation], checked: CheckResult) -> str:
    paths = {item.path for item in items}
    if items[0].subject == "pattern":
        return f"{subject} {_names(paths)}"
    if "" in paths or items[0].code in _OF_PATHS:
        return subject if paths == {""} else f"{subject}: {_names(paths)}"
    vendors = _vendors(items[0], checked)
    total = sum(not vendors or not vendors.isdisjoint(each.vendors) for each in checked.libraries)
    return f"{subject}: {len(paths)} of {pluralize(total, 'library')}" if total > 1 else subject


def _vendors(item: Violation, checked: CheckResult) -> set[str]:
    """Return whose devices a violation is about, of all if it is not about devices that must be served."""
    if item.code != "FP3303":
        return set()
    if item.subject.endswith("+ptx"):
        return {"nvidia"}
    bare = item.subject.removeprefix("machine code for ")
    names = {f"{bare}{ptx}{native}" for ptx in ("", "+ptx") for native in ("", "!")}
    return {each.vendor for each in checked.required if names & set(each.devices)}


def _names(paths: set[str]) -> str:
    found = sorted(path for path in paths if path)
    return found[0] if len(found) == 1 else f"{found[0]} and {len(found) - 1} more"


def kernel_words(names: tuple[str, ...] | None, *, verbose: int = 0) -> str:
    """Return the kernels of a unit in words, few of them unless ``verbose``; "" where there are none."""
    if names is None:
        return "kernels not read: the library is large; --kernels reads them"
    if not names:
        return ""
    if not verbose and sum(map(len, names[:_NAMED])) > _LONGEST:
        name = ellipsize(names[0], _LONGEST)
        return f"kernel {name}" if len(names) == 1 else f"{len(names)} kernels, as {name}"
    shown = names if verbose else names[:_NAMED]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return f"{'kernel' if len(names) == 1 else 'kernels'} {', '.join(shown)}{more}"


# A policy's outcome as text: the first line says what matters, then a library in a line, and below it its units.

#: beginnings of advice that differs between files only in the name of the file
_ALIKE = ("run fatpack inspect ", "fatpack slim ")

#: units of a library that are shown without -v
_SHOWN = 3


def render_check(checked: CheckResult, *, verbose: int = 0) -> Iterator[str]:
    """Yield the lines; ``verbose`` shows every unit and every kernel, and the libraries that keep to the policy."""
    yield check_headline(checked)
    package = ""
    for item in checked.violations:
        around, mark, inside = item.path.partition(SEPARATOR)
        if mark and around != package:
            yield printable(f"  {around}")
        package = around if mark else ""
        margin = "    " if mark else "  "
        yield from violation_lines(item, verbose=verbose, place=inside or around, margin=margin, hints=False)
    hints = _few(list(dict.fromkeys(item.hint for item in checked.violations if item.hint)), verbose)
    yield from (printable(f"  {'what to do:' if not at else '           '} {hint}") for at, hint in enumerate(hints))
    if verbose:
        broken = {item.path for item in checked.violations if item.is_broken}
        for library in checked.libraries:
            if library.path not in broken:
                units = pluralize(library.units, "unit")
                outcome = "ok" if library.is_asked else "not checked"
                what = library.words or f"{units} for {', '.join(library.archs)}"
                yield printable(f"  {outcome}: {library.path}: {what}")
    if checked.violations and any(item.is_broken for item in checked.violations):
        yield printable(f"  rules: {'; '.join(checked.rules) or 'every file can be read'}")
        if checked.files:
            yield f"  {pluralize(checked.files, 'file')} read, {len(checked.libraries)} with device code"
    if checked.unlooked:
        yield f"  {checked.unlooked.sentence()}"
    if checked.config:
        yield printable(f"  policy of {checked.config}")


def _few(hints: list[str], verbose: int) -> list[str]:
    """Return what to do; of what is the same for many files the first, unless ``verbose``."""
    for start in () if verbose else _ALIKE:
        alike = [hint for hint in hints if hint.startswith(start)]
        if len(alike) > _SHOWN:
            more, left_out = f"{alike[0]}, and so for {pluralize(len(alike) - 1, 'other file')}", set(alike[1:])
            hints = [more if hint == alike[0] else hint for hint in hints if hint not in left_out]
    return hints


def violation_lines(
    item: Violation, *, verbose: int = 0, place: str | None = None, margin: str = "  ", hints: bool = True
) -> Iterator[str]:
    """Yield the lines about one violation, the first of which is about all of it; ``place`` is printed unchanged."""
    name = item.path if place is None else place
    place = f"{name}: " if name else ""
    hint = f"; {item.hint}" if item.hint and hints else ""
    yield printable(f"{margin}{item.severity} {item.code}: {place}{item.message}{hint}")
    groups: dict[tuple[tuple[str, ...], str, tuple[str, ...] | None], list[MissingKernels]] = {}
    for hole in item.holes:
        groups.setdefault((hole.has, hole.reason, hole.kernels if item.code == "FP3309" or verbose else ()), []).append(
            hole
        )
    shown = list(groups.values()) if verbose else list(groups.values())[:_SHOWN]
    are_read = any(hole.kernels is not None for holes in shown for hole in holes)
    for holes in shown:
        yield printable(f"{margin}  {_units(holes, verbose, is_named=are_read)}")
    hidden = sum(len(holes) for holes in list(groups.values())[len(shown) :])
    if hidden:
        yield f"{margin}  and {pluralize(hidden, 'unit')} more; -v shows them"
    if shown and not are_read:
        yield f"{margin}  {kernel_words(None)}"


def _units(holes: list[MissingKernels], verbose: int, *, is_named: bool) -> str:
    first = holes[0]
    place = f"container {first.position}" if first.position else first.member or _LOOSE
    if first.section:
        place += f" ({first.section})"
    if len(holes) > 1:
        place = f"{len(holes)} units, first {place}"
    rule = f" [{first.rule}]" if first.rule else ""
    names: dict[str, None] | None = {}
    for hole in holes:
        names = None if names is None or hole.kernels is None else names | dict.fromkeys(hole.kernels)
    kernels = kernel_words(None if names is None else tuple(names), verbose=verbose)
    verb = "have" if len(holes) == 1 and place == _LOOSE else "has"
    words = f"{place} {verb} {', '.join(first.has)}; {first.reason}{rule}"
    return f"{words}: {kernels}" if kernels and is_named else words
