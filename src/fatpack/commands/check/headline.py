"""The first line about a policy, which all outputs and the result of the library share, and its words."""

from __future__ import annotations

from fatpack.commands.doctor.model import NO_IMAGE_READ
from fatpack.errors import all_count_words, pluralize
from fatpack.printable import format_size, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.commands.check.model import CheckedLibrary, CheckResult, CompiledDevice, RequiredDevices, Violation

#: Names of vendors of devices, for people.
VENDORS = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel", "apple": "Apple"}

#: the code for what programs register, where that was not judged
UNJUDGED = "FP3310"

#: the rule about what programs register, in words
REGISTERED = "launched kernels are registered"

#: subjects that the first line names
_FIRST = 3

#: what is about files that were named, or packages, and not about libraries with device code
_OF_PATHS = ("FP3301", "FP3302", "FP3307", "FP3308", "FP3311", "FP3313", "FP3315", "FP3340")


def check_headline(checked: CheckResult) -> str:
    """Return what matters most, in one line: ``lacks sm_120: 3 of 12 libraries; 2 more``."""
    groups: dict[str, list[Violation]] = {}
    for item in checked.violations:
        if item.is_broken:
            groups.setdefault(_subject(item), []).append(item)
    others = unchecked_words(checked)
    if not groups:
        units = pluralize(sum(item.units for item in checked.libraries), "unit")
        content = f"{pluralize(len(checked.libraries), 'library')}, {units}"
        if not (checked.files or checked.passed_by):  # the policy is about sizes alone
            content = f"{format_size(sum(item.size or 0 for item in checked.paths))}, of which nothing was read"
        served = [_served(checked, each) for each in checked.required]
        # The first rule is that the devices are served.
        words = served or [content]
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
    from fatpack.scanner.registration_verdict import NOT_JUDGED

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
    from fatpack.scanner.registration_verdict import CODES

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
