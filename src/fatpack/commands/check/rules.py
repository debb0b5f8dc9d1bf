"""Every unit, or something in each library, serves the devices of ``--require``."""

from __future__ import annotations

from fatpack.commands.check.coverage import meets_requirement, supports_later_devices
from fatpack.commands.check.given import make_violation
from fatpack.commands.check.rule_context import selection_key
from fatpack.errors import pluralize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.commands.check.coverage import DeviceSupport
    from fatpack.commands.check.given import RuleContext
    from fatpack.commands.check.model import Violation
    from fatpack.commands.check.policy import Requirement
    from fatpack.commands.check.rule_context import FileImageSets, ImageSetRows


def requirement_violations(given: RuleContext) -> Iterator[Violation]:
    """Yield what does not serve the devices, one after the other."""
    for wanted in given.policy.require:
        yield from _required(given, wanted)


def _required(given: RuleContext, wanted: Requirement) -> Iterator[Violation]:
    """Yield the libraries in which a unit does not serve a device."""
    missing = dict.fromkeys(wanted.exact)
    broken: list[
        tuple[FileImageSets, list[ImageSetRows], list[tuple[ImageSetRows, DeviceSupport]], list[ImageSetRows]]
    ] = []
    for item in given.found:
        units = [unit for unit in item.units if unit.vendor == wanted.device.vendor]
        for arch in [arch for arch in missing if any(arch in unit.archs for unit in units)]:
            del missing[arch]
        lacking, without = _lacking(given, units, wanted), _image_sets_without_ptx(given, units, wanted)
        if lacking or without:
            broken.append((item, units, lacking, without))
    given.read_kernels(
        (item, unit) for item, _, lacking, without in broken for unit in (*(one for one, _ in lacking), *without)
    )
    for item, units, lacking, without in broken:
        known = [given.hole(item, unit, found.rule, found.reason) for unit, found in lacking]
        holes = [hole for hole in known if hole is not None]
        is_known = any(found.is_certain for _, found in lacking)
        if holes:
            count = f" in {len(holes)} of {pluralize(len(units), 'unit')}" if len(units) > 1 else ""
            code, text = "FP3303", f"lacks {wanted.title}{count}"
            if not is_known:
                code, text = "FP3305", f"whether {wanted.title} is served is not known{count}"
            yield make_violation(
                code, item.last.path, wanted.title, text, _mend(wanted), units=len(units), holes=tuple(holes)
            )
        if without:
            yield from _later(given, item, units, without, wanted)
    has_code = any(unit.vendor == "nvidia" for item in given.found for unit in item.units)
    for arch in missing if has_code else ():
        hint = f"build something for {arch}, or ask for sm_{_number(wanted)}"
        yield make_violation("FP3304", "", arch, f"nothing is for {arch} itself", hint)


def _lacking(
    given: RuleContext, units: Sequence[ImageSetRows], wanted: Requirement
) -> list[tuple[ImageSetRows, DeviceSupport]]:
    """Return the units that do not serve a device, if they break the policy."""
    known: dict[object, DeviceSupport] = {}
    lacking: list[tuple[ImageSetRows, DeviceSupport]] = []
    compiling = 0
    for unit in units:
        key = unit.offload, selection_key(unit.images)
        found = known.get(key)
        if found is None:
            known[key] = found = meets_requirement(unit, wanted)
        if not found.serves:
            lacking.append((unit, found))
        compiling += found.serves and found.compiles
    has_native = len(lacking) + compiling < len(units)
    if not wanted.text and units:
        if given.policy.per == "library" and has_native:
            compiling = 0
        before, total = given.compiled.get(wanted.words, (0, 0))
        given.compiled[wanted.words] = before + compiling, total + len(units)
    return lacking if _is_broken(given, lacking, units) else []


def _is_broken(given: RuleContext, lacking: Sequence[object], units: Sequence[ImageSetRows]) -> bool:
    """Return whether units that lack something can break the policy: it takes kernels, whose reading is dear."""
    return bool(lacking) and (given.policy.per == "unit" or len(lacking) == len(units))


def _image_sets_without_ptx(
    given: RuleContext, units: Sequence[ImageSetRows], wanted: Requirement
) -> list[ImageSetRows]:
    """Return the units without PTX for later devices, if that is asked for and they break the policy."""
    if not wanted.wants_ptx:
        return []
    known: dict[object, bool] = {}
    without = []
    for unit in units:
        key = unit.offload, selection_key(unit.images)
        if key not in known:
            known[key] = supports_later_devices(unit, wanted.device)
        without += [] if known[key] else [unit]
    return without if _is_broken(given, without, units) else []


def _later(
    given: RuleContext,
    item: FileImageSets,
    units: Sequence[ImageSetRows],
    without: Sequence[ImageSetRows],
    wanted: Requirement,
) -> Iterator[Violation]:
    reason = "no PTX that all later devices can compile"
    holes = [hole for unit in without if (hole := given.hole(item, unit, "C7", reason)) is not None]
    if holes:
        count = f" in {len(holes)} of {pluralize(len(units), 'unit')}" if len(units) > 1 else ""
        text = f"lacks PTX for devices later than {wanted.device.arch}{count}"
        hint = f"build with -gencode arch=compute_{_number(wanted)},code=compute_{_number(wanted)}"
        yield make_violation(
            "FP3303", item.last.path, f"{wanted.device.arch}+ptx", text, hint, units=len(units), holes=tuple(holes)
        )


def _number(wanted: Requirement) -> str:
    return wanted.device.arch.removeprefix("sm_")


def _mend(wanted: Requirement) -> str:
    arch = wanted.device.arch
    if wanted.device.vendor == "nvidia":
        return f"build with -gencode arch={wanted.text or f'compute_{_number(wanted)}'},code={wanted.text or arch}"
    return f"build with --offload-arch={arch}" if wanted.device.vendor == "amd" else f"build for {arch}"
