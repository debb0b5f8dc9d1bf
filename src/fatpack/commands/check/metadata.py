"""Claims against units: whether something in the package serves what is declared, and what is there besides."""

from __future__ import annotations

import fnmatch
import os

from fatpack.commands.check.coverage import meets_requirement, supports_later_devices
from fatpack.commands.check.extras import normalize_name
from fatpack.commands.check.folders import declaring_files_in_folders, outermost_path
from fatpack.commands.check.model import Violation
from fatpack.commands.check.places import declaring_files_in_package
from fatpack.commands.check.policy import Requirement
from fatpack.errors import TargetError, pluralize
from fatpack.findings import CODES
from fatpack.inputs.files import SEPARATOR
from fatpack.targets.devices import parse_device
from fatpack.targets.nvidia import first_cuda_for_ptx, parse_nvidia

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.budget import Budget
    from fatpack.commands.check.declared import MetadataClaim, MetadataDeclaration
    from fatpack.commands.check.places import DeclaringFile
    from fatpack.commands.check.rule_context import FileImageSets, ImageSetRows

#: architectures that a message names
_NAMED = 12

_NOTHING = "nothing in it declares what its device code is for"
_HINT = "declare it in variant.json or METADATA of a wheel, info/index.json of conda's, control of Debian's packages"


def metadata_violations(found: Sequence[FileImageSets], names: Sequence[str], budget: Budget) -> Iterator[Violation]:
    """Yield where declarations and contents of packages differ, and what nothing declares, named or in a package."""
    met = [
        place for item in found if item.last.error is None for place in declaring_files_in_package(item.last, budget)
    ]
    met += declaring_files_in_folders(names, (item.last.path for item in found), budget)
    inside = {place.package: _inside(place, found) for place in met}
    scopes: dict[str, None] = {}
    for place in met:
        if place.problem:
            yield _violation("FP3301", place.path, "metadata", f"its declaration cannot be read: {place.problem}")
            scopes |= dict.fromkeys(inside[place.package])
    needs: dict[str, tuple[str, ...]] = {}
    for place in met:
        needs[place.package] = (*needs.get(place.package, ()), *place.needs)
    for place in met:
        packages = (place.package, *_wheels(met, needs[place.package])) if place.declarations else ()
        own = [path for package in packages for path in inside[package]]
        scopes |= dict.fromkeys(own)
        units = [unit for item in found if _is_in(item.last.path, own) for unit in item.units]
        for each in place.declarations:
            yield from _compared(place, each, units)
    yield from _undeclared(found, names, tuple(scopes))


def _violation(code: str, path: str, subject: str, text: str, hint: str = "") -> Violation:
    return Violation(code, CODES[code][0], path, subject, text, hint)


def _inside(place: DeclaringFile, found: Sequence[FileImageSets]) -> tuple[str, ...]:
    """Return the paths that what a place declares is about: all that is one of them, or in one."""
    files = (
        item.last.path
        for item in found
        if place.files and os.path.normpath(outermost_path(item.last.path)) in place.files
    )
    return place.package, *files


def _is_in(path: str, scopes: Sequence[str]) -> bool:
    return any(
        path == scope or path.startswith((f"{scope}{SEPARATOR}", f"{scope.rstrip(os.sep)}{os.sep}")) for scope in scopes
    )


def _wheels(met: Sequence[DeclaringFile], needs: Sequence[str]) -> list[str]:
    """Return the wheels of some distributions, among those that were met."""
    paths = dict.fromkeys(place.package for place in met)
    return [path for path in paths if normalize_name(os.path.basename(path).partition("-")[0]) in needs]


def _undeclared(found: Sequence[FileImageSets], names: Sequence[str], scopes: Sequence[str]) -> Iterator[Violation]:
    bare = [name for name in names if not any(_is_named(scope, name, names) for scope in scopes)]
    for name in bare:
        yield _violation("FP3313", name, "metadata", _NOTHING, _HINT)
    left: dict[str, int] = {}
    for item in found:
        path = item.last.path
        is_told = any(_is_named(path, name, names) for name in bare)
        if item.units and not is_told and not _is_in(path, scopes):
            outer = path.partition(SEPARATOR)[0]
            left[outer] = left.get(outer, 0) + 1
    for path, count in left.items():
        what = f"nothing declares what {pluralize(count, 'file')} with device code in it {'is' if count == 1 else 'are'} for"
        yield _violation("FP3313", path, "metadata", what, _HINT)


def _is_named(path: str, name: str, names: Sequence[str]) -> bool:
    """Return whether a file is what a name stands for, or in it; of one name alone, all are."""
    inside = f"{name}{SEPARATOR}", f"{name.rstrip(os.sep)}{os.sep}"
    is_in = path == name or path.startswith(inside)
    return len(names) == 1 or is_in or fnmatch.fnmatchcase(path.partition(SEPARATOR)[0], name)


def _compared(
    place: DeclaringFile, declared: MetadataDeclaration, units: Sequence[ImageSetRows]
) -> Iterator[Violation]:
    for claim in declared.claims:
        why = _lack(claim, [unit for unit in units if unit.vendor == claim.vendor])
        if why:
            text = f"{declared.source} declares {claim.text}: {why}"
            hint = f"build for {claim.arch}, or declare it no more" if claim.arch else ""
            yield _violation("FP3311", place.package, claim.name or claim.text, text, hint)
    has = dict.fromkeys(arch for unit in units if unit.vendor in declared.lists for arch in unit.archs)
    listed = {claim.name for claim in declared.claims}
    lowest = max((_number(claim.arch) for claim in declared.claims if claim.kind == "lowest"), default=0)
    more = [arch for arch in has if arch not in listed and arch.partition(":")[0] not in listed]
    if lowest:
        archs = dict.fromkeys(arch for unit in units if unit.vendor == "nvidia" for arch in unit.archs)
        more += [arch for arch in archs if 0 < _number(arch) < lowest]
    if more:
        rest = f" and {len(more) - _NAMED} more" if len(more) > _NAMED else ""
        text = f"has {', '.join(more[:_NAMED])}{rest}, which {declared.source} does not declare"
        yield _violation("FP3312", place.package, "metadata", text)


def _number(arch: str) -> int:
    parsed = parse_nvidia(arch)
    return parsed.number if parsed is not None else 0


def _lack(claim: MetadataClaim, units: Sequence[ImageSetRows]) -> str:
    """Return why units do not bear out what is declared of them; "" if they do."""
    if not units:
        return "no device code for such devices is in it"
    if claim.kind == "cuda":
        return _newer(claim, units)
    return "" if any(claim.name in unit.archs for unit in units) else _unserved(claim, units)


def _unserved(claim: MetadataClaim, units: Sequence[ImageSetRows]) -> str:
    """Return why no unit serves a device for which there is no image of its own; "" if one does."""
    exact = parse_nvidia(claim.arch)
    try:
        wanted = Requirement(parse_device(claim.arch))
    except TargetError:
        return "no image is for it"
    if exact is not None and exact.suffix:
        return "no image is for exactly that"
    if claim.kind == "ptx":
        later = any(supports_later_devices(unit, wanted.device) for unit in units)
        return "" if later else "it has no PTX that later devices compile"
    answers = [meets_requirement(unit, wanted) for unit in units]
    return "" if any(answer.serves for answer in answers) else f"{answers[0].reason} [{answers[0].rule}]"


def _newer(claim: MetadataClaim, units: Sequence[ImageSetRows]) -> str:
    """Return which PTX needs a newer CUDA than is declared, where its version is known (rule C8)."""
    for row in (row for unit in units for row in unit.images if claim.version and row.form == "ptx"):
        major, _, minor = (row.ptx_version or "").partition(".")
        cuda = first_cuda_for_ptx((int(major), int(minor))) if major.isdecimal() and minor.isdecimal() else None
        if cuda is not None and cuda[: len(claim.version)] > claim.version:
            return f"PTX {row.ptx_version} in it needs a driver of CUDA {cuda[0]}.{cuda[1]} [C8]"
    return ""
