"""Rules of a policy: one section for each option of ``check``."""

from __future__ import annotations

import fnmatch
import os
import re
import shlex

from fatpack.commands.check import policy, systems
from fatpack.commands.check.headline import UNJUDGED, VENDORS
from fatpack.commands.check.model import CheckedPath, MissingKernels, Violation
from fatpack.commands.check.policy import METADATA_RULE
from fatpack.commands.check.rule_context import (
    DeviceSupport,
    inside_prefixes,
    make_violation,
    meets_requirement,
    supports,
    supports_later_devices,
)
from fatpack.commands.doctor.model import NO_IMAGE_READ
from fatpack.commands.doctor.run import diagnose
from fatpack.errors import FatpackError, TargetError, cli_or_api, pluralize
from fatpack.exit_codes import (
    FINDINGS,
    FINE,
    INPUT_OUTPUT,
    MALFORMED,
    UNSUPPORTED,
    error_message,
    exit_code,
    exit_code_for_findings,
)
from fatpack.findings import CODES, format_finding, message_from_text
from fatpack.formats.kernel_cache.reader import stated_device
from fatpack.inputs.files import SEPARATOR
from fatpack.inputs.reopen import map_package_files, reopen
from fatpack.limits import Budget, current_budget
from fatpack.printable import format_size_and_limit, format_size_exactly
from fatpack.record import Record
from fatpack.scanner.registration_verdict import CODES as REGISTRATION_CODES
from fatpack.scanner.registration_verdict import NO_VERDICT, NOT_JUDGED, judge_file
from fatpack.scanner.unread_kinds import DEVICE_CODE, KINDS
from fatpack.tabular import image_kernels
from fatpack.tabular.columns import ImageRow
from fatpack.tabular.file_image_sets import row_arch_label, row_vendor, selection_key
from fatpack.tabular.hollow import find_hollow
from fatpack.tabular.image_kernels import ImageKernels
from fatpack.tabular.image_sets import (
    CACHED,
    COMPILER_INPUT,
    UNDECIDED,
    UNKNOWN_FORM,
    is_of_gcc,
    is_undecided,
    unknown_form_text,
)
from fatpack.tabular.skipped import NOT_READ
from fatpack.targets.devices import Device, parse_device
from fatpack.targets.nvidia import parse_nvidia

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from fatpack.commands.check.policy import Policy, Requirement
    from fatpack.commands.check.rule_context import RuleContext
    from fatpack.commands.doctor.model import DoctorResult
    from fatpack.inputs.files import InputFile
    from fatpack.inputs.map_files import Opener
    from fatpack.io.source import View
    from fatpack.model import Finding
    from fatpack.scanner.unread_kinds import UnreadKind
    from fatpack.tabular.columns import AnyRow
    from fatpack.tabular.file_image_sets import FileImageSets, ImageSetRows
    from fatpack.tabular.hollow import HollowKernel


# No image is for an architecture of ``--forbid``.

#: how the names of packages end that are slimmed as they are, and the tag that makes another name of one
_TAGS = {".whl": "1slim", ".conda": "slim", ".tar.bz2": "slim"}


def forbidden_violations(context: RuleContext) -> Iterator[Violation]:
    """Yield the libraries with forbidden images, pattern by pattern."""
    found = {pattern: [(item, _archs(item, pattern)) for item in context.found] for pattern in context.policy.forbid}
    #: the file that slim takes, a package for all files in it → what is to go
    dropped: dict[str, dict[str, None]] = {}
    for item, archs in (pair for pairs in found.values() for pair in pairs):
        dropped.setdefault(_outermost(item), {}).update(dict.fromkeys(archs))
    for pattern, pairs in found.items():
        for item, archs in pairs:
            if archs:
                names = ", ".join(dict.fromkeys(archs))
                text = f"contains {pluralize(len(archs), 'image')} for {names}, which the policy forbids ({pattern})"
                path = _outermost(item)
                yield make_violation(
                    "FP3306", item.last.path, pattern, text, _advice(path, item.last.path, dropped[path])
                )


def _archs(item: FileImageSets, pattern: str) -> list[str]:
    return [arch for unit in item.units for row in unit.images for arch in _matching(row, pattern)]


def _outermost(item: FileImageSets) -> str:
    return item.last.path.partition(SEPARATOR)[0]


def _advice(outermost: str, path: str, archs: Iterable[str]) -> str:
    """Return the command or call that takes architectures out of a file, or out of the package around it."""
    tag = next((tag for end, tag in _TAGS.items() if outermost.lower().endswith(end)), "")
    if outermost != path and not tag:
        return "take it out before it is packed: fatpack slim FILE --drop PATTERN -d slim"
    dropped = ",".join(filter(None, archs))
    named = outermost != path
    return cli_or_api(
        f"fatpack slim {shlex.quote(outermost)} --drop {shlex.quote(dropped)}"
        f"{f' --build-tag {tag}' if named else ''} -d slim",
        f"fatpack.slim({outermost!r}, OUTPUT, drop={dropped!r}{f', build_tag={tag!r}' if named else ''})",
    )


def _matching(row: AnyRow, pattern: str) -> list[str]:
    names = (row.arch or "", row_arch_label(row), row.processor or "")
    return [row_arch_label(row)] if any(name and fnmatch.fnmatchcase(name, pattern) for name in names) else []


# Images match their containers' metadata: the first bytes of each image were compared with it.

#: findings that say that a label is wrong; the last is a note, beside which those who read kernels have another one
MISMATCH_CODES = ("FP1101", "FP1102", "FP1103", "FP1105")
_NO_KERNELS = "FP1107"

#: the finding of images that cannot be compared with their labels
_OBFUSCATED = "FP1408"

_HINT = "the file was put together wrongly, or is damaged: build it again, or get it again"


def mismatch_violations(found: Iterable[FileImageSets]) -> Iterator[Violation]:
    """Yield what images of units are in place of what their labels say, a violation for all that are so alike."""
    for item in found:
        by_path: dict[str, list[ImageRow]] = {}
        for row in (row for unit in item.units for row in unit.images if _is_wrong(row)):
            by_path.setdefault(row.path, []).append(row)
        for path, rows in by_path.items():
            yield from _file_mismatches(path, rows)


def unverified_images(found: Iterable[FileImageSets]) -> Iterator[Violation]:
    """Yield a note for files with images whose labels were not checked, because their bytes cannot be read."""
    for item in found:
        if item.units and _OBFUSCATED in item.last.findings:
            text = "labels of images that NVIDIA's tools obfuscated are not checked: their bytes cannot be read"
            yield Violation(_OBFUSCATED, "note", item.last.path, "label", text, "")


def _is_wrong(row: ImageRow) -> bool:
    return any(code in row.findings for code in MISMATCH_CODES) or bool(row.size and not row.form)


def _file_mismatches(path: str, rows: list[ImageRow]) -> Iterator[Violation]:
    """Yield what is wrong in one file."""
    alike: dict[str, list[ImageRow]] = {}
    for row in rows:
        text = _mismatch_words(row)
        alike.setdefault(UNKNOWN_FORM if text.endswith(UNKNOWN_FORM) else text, []).append(row)
    for group in alike.values():
        text = _mismatch_words(group[0])
        place = f"image {group[0].position}" if group[0].position else "an image"
        more = f", and {pluralize(len(group) - 1, 'more image')} like it" if len(group) > 1 else ""
        yield Violation("FP3314", "error", path, "label", f"{place} is {text}{more}", _HINT)


def _mismatch_words(row: ImageRow) -> str:
    """Return what contradicts the label of an image: what the finding says, or without one what the row does."""
    for text in row.messages:
        if text.startswith(MISMATCH_CODES):
            return message_from_text(text)
    known = " or ".join(filter(None, (row.arch, row.stored_form, row.triple))) or "a device"
    if row.claimed:
        return f"stored for {known}, but the image is for {row.claimed}"
    if row.form and row.form != row.stored_form:
        return f"stored for {known}, but the bytes are {row.form}"
    return unknown_form_text(row.triple or "", row.arch or "", row.stored_form or "")


# Every kernel of a library exists for every architecture of the library.
#
# Architectures are taken for devices: a kernel for sm_80 alone serves sm_86 too, where a neighbour has code for both. A
# library that has PTX for later devices anywhere is to have it for every kernel.


class LackingKernels(Record):
    """Missing kernels of a library: ``title`` is the architecture; ``units`` lack them, with the names."""

    title: str
    units: tuple[tuple[ImageSetRows, tuple[str, ...]], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The kernels, each once."""
        return tuple(dict.fromkeys(name for _, names in self.units for name in names))


def find_lacking_kernels(units: Sequence[ImageSetRows], found: ImageKernels) -> Iterator[LackingKernels]:
    """Yield, for every architecture of a library, the kernels that nothing in their unit serves it with."""
    for vendor in dict.fromkeys(unit.vendor for unit in units):
        own = [(unit, _holders(unit, found)) for unit in units if unit.vendor == vendor]
        for device, names in _devices(own):
            missing = [(unit, tuple(_unserved(unit, holders, device, names))) for unit, holders in own]
            if any(names for _, names in missing):
                yield LackingKernels(device.arch, tuple(pair for pair in missing if pair[1]))
        yield from _kernels_without_ptx(own)


def find_uncompared(units: Sequence[ImageSetRows], found: ImageKernels) -> list[ImageSetRows]:
    """Return the units of which nothing was compared: no image of them shows kernels, as bitcode and LTO-IR."""
    return [
        unit
        for unit in units
        if not image_kernels.image_set_kernels(unit, found)
        and not any(row.form in image_kernels.FORMS_WITH_KERNEL_NAMES for row in unit.images)
    ]


def serve_any_device(units: Sequence[ImageSetRows], found: ImageKernels) -> bool:
    """Return whether a library has kernels, and all are in images for no device and no PTX, such as SPIR-V."""
    own = [(unit, _holders(unit, found)) for unit in units]
    rows = [row for _, holders in own for each in holders.values() for row in each]
    return bool(rows) and not _devices(own) and not any(row.form == "ptx" for row in rows)


def _holders(unit: ImageSetRows, found: ImageKernels) -> dict[str, list[ImageRow]]:
    """Return the images of a unit that have each kernel, in stored order."""
    holders: dict[str, list[ImageRow]] = {}
    for row in unit.images:
        for name in found.names.get(image_kernels.image_key(row), {}):
            holders.setdefault(name, []).append(row)
    return holders


def _devices(own: Sequence[tuple[ImageSetRows, dict[str, list[ImageRow]]]]) -> list[tuple[Device, set[str]]]:
    """Return the devices that images with kernels were made for, with their names there; PTX alone makes none.

    Two names may mean one device: CUDA 13 renamed sm_101 to sm_110.
    """
    names = {
        row.arch: None
        for _, holders in own
        for rows in holders.values()
        for row in rows
        if row.arch and row.form != "ptx"
    }
    found: dict[str, tuple[Device, set[str]]] = {}
    for name in names:
        try:
            one = parse_device(name)
        except TargetError:  # a generic processor, SPIR-V: no device
            continue
        found.setdefault(one.arch, (one, set()))[1].add(name)
    return list(found.values())


def _unserved(
    unit: ImageSetRows, holders: dict[str, list[ImageRow]], device: Device, names: Collection[str]
) -> Iterator[str]:
    answers: dict[object, bool] = {}
    for name, rows in holders.items():
        if device.arch not in names and any(row.form == "cubin" and row.arch in names for row in rows):
            continue  # made for the device under its name before, as the rest of the library
        key = selection_key(rows)
        if key not in answers:
            answers[key] = supports(unit.replace(images=tuple(rows)).offered, device).serves
        if not answers[key]:
            yield name


def _kernels_without_ptx(own: Sequence[tuple[ImageSetRows, dict[str, list[ImageRow]]]]) -> Iterator[LackingKernels]:
    """Yield the kernels without PTX for later devices, if others have it."""
    texts = [
        arch.number
        for _, holders in own
        for rows in holders.values()
        for row in rows
        if row.form == "ptx" and (arch := parse_nvidia(row.arch or "")) is not None and not arch.suffix
    ]
    if not texts:
        return
    highest = Device("nvidia", f"sm_{max(texts)}")
    missing = []
    for unit, holders in own:
        names = tuple(
            name
            for name, rows in holders.items()
            if not supports_later_devices(unit.replace(images=tuple(rows)), highest)
        )
        if names:
            missing.append((unit, names))
    if missing:
        yield LackingKernels("PTX for later devices", tuple(missing))


# Every path could be read, and has device code to check.

#: suffixes of device code in formats that no room reads → what they are
_FORMATS = {
    "metallib": "a Metal library",
    "air": "Metal's intermediate code",
    "dxil": "DirectX code",
    "dxbc": "DirectX code",
    "cso": "a compiled DirectX shader",
}


def unread_violations(context: RuleContext, unmatched: Sequence[str]) -> Iterator[Violation]:
    """Yield what could not be read: it may hold anything."""
    context.reported = set(unmatched)
    for name in unmatched:
        yield make_violation("FP3301", name, "pattern", "no file matches this pattern", unread=INPUT_OUTPUT)
    for item in context.found:
        last = item.last
        missed = context.missed.get(last.path)
        if missed is None:
            continue
        kind = _unread_kind(last)
        if kind is not None and kind.name in context.policy.allow_unread:
            text = f"not read, as allowed: {kind.one}"
            yield Violation("FP3341", "note", last.path, last.path, text, "")
            continue
        context.reported.add(last.path)
        if kind is not None:
            has = "files of this kind carry device code" if kind.carries == DEVICE_CODE else "it may hold device code"
            allow = cli_or_api(f"--allow-unread {kind.name}", f"allow_unread={kind.name!r}")
            hint = f"{kind.remedy}; {allow} accepts such files".lstrip("; ")
            text = f"not read: {kind.one}; {has}"
            yield make_violation("FP3340", last.path, last.path, text, hint, unread=missed.exit_code)
        elif last.error is None:
            hint = f"run fatpack inspect {last.path} for details"
            yield make_violation("FP3301", last.path, last.path, missed.problem, hint, unread=missed.exit_code)
        elif not _is_gone(last.path, unmatched):
            yield make_violation("FP3301", last.path, last.path, missed.problem, unread=missed.exit_code)


def _unread_kind(last: AnyRow) -> UnreadKind | None:
    """Return the kind of a file that is not read for its kind alone, and may hold device code; else None."""
    kind = KINDS.get(last.unread_kind or "") if isinstance(last, ImageRow) and last.error is None else None
    if kind is None or not kind.fails or last.exit_code not in (FINE, FINDINGS, UNSUPPORTED):
        return None
    return kind if {code for code in last.findings if code in NOT_READ} <= {"FP1006"} else None


def no_device_code(context: RuleContext) -> Iterator[Violation]:
    """Yield the paths without device code to check."""
    policy = context.policy
    vendors = dict.fromkeys(item.device.vendor for item in policy.require)
    if policy.systems:
        vendors["apple"] = None
    if policy.metadata and policy.rules == (METADATA_RULE,):
        return  # the rule about metadata reports these
    for name in context.names:
        if any(path == name or path.startswith(inside_prefixes(name)) for path in context.reported):
            continue  # another violation reports it
        if not any(vendor in vendors or not vendors for vendor in context.vendors(name)):
            whose = " or ".join(VENDORS[vendor] for vendor in vendors)
            text = f"no device code{f' for {whose} devices' if whose else ''} was found: nothing was checked"
            if any(row_vendor(row) in (vendors or VENDORS) for item in context.of(name) for row in item.inputs):
                text = f"what it has{f' for {whose} devices' if whose else ''} is {COMPILER_INPUT}: nothing was checked"
            if any(item.caches for item in context.of(name)):
                text = f"what it has is {CACHED}: nothing was checked"
            if any(is_undecided(item.last) for item in context.of(name)):
                text = f"what it has is {UNDECIDED}: nothing was checked"
            yield make_violation("FP3302", name, "device code", text, "give one with device code, or leave this out")
    for vendor in vendors:
        has_any = any(unit.vendor == vendor for item in context.found for unit in item.units)
        if not has_any and len(vendors) > 1 and not context.reported:
            yield make_violation("FP3302", "", "device code", f"no device code for {VENDORS[vendor]} devices was found")


def skipped(context: RuleContext) -> Iterator[Violation]:
    """Yield a note for each file of which nothing was checked.

    The name of one says that its device code is in a format that is not read, another is input of a compiler.
    """
    for item in context.found:
        last = item.last
        if item.inputs and last.path not in context.reported:
            yield Violation("FP3318", "note", last.path, "device code", f"not checked: {COMPILER_INPUT}")
        if is_undecided(last) and last.path not in context.reported:
            yield make_violation("FP2701", last.path, "device code", f"not checked: {UNDECIDED}")
        if item.caches and last.path not in context.reported:
            archs = dict.fromkeys(row.processor or "unknown targets" for row in item.caches)
            units = stated_device(last.path)[1]
            whose = f"{', '.join(archs)}{f' with {units} compute units' if units else ''}"
            text = f"a cache of {pluralize(len(item.caches), 'kernel')} for {whose}: it decides for no device"
            hint = "a library compiles the kernels that its cache lacks"
            yield Violation("FP2807", "note", last.path, "cache", text, hint)
        kind = _FORMATS.get(last.path.rpartition(".")[2].lower(), "")
        is_named = kind and not item.units and last.host == "raw" and not _unread_kind(last)
        if is_named and last.path not in context.reported:
            yield make_violation("FP3317", last.path, last.path, f"not read: {kind}")


def unread_kernel_violations(context: RuleContext) -> Iterator[Violation]:
    """Yield the files whose kernels were needed and could not be read."""
    for path, found in context.kernels.items():
        if found.problem and path not in context.reported:
            yield make_violation("FP3301", path, "kernels", found.problem, f"run fatpack inspect {path} for details")


def _is_gone(path: str, unmatched: Sequence[str]) -> bool:
    """Return whether a path is the folder of a pattern that no file has, because there is no such folder."""
    return not os.path.lexists(path) and any(name.startswith(os.path.join(path, "")) for name in unmatched)


# Programs register the kernels that they launch: the verdict of :mod:`fatpack.scanner.registration_verdict` on each
# library.

#: what is only a warning of a listing fails a check
_SEVERITIES = {"error": "error", "warning": "error", "note": "note"}

_HOSTS = ("elf", "pe", "coff", "archive", "macho", "bitcode", "wasm")


def registration_violations(context: RuleContext) -> Iterator[Violation]:
    """Yield what is wrong with the registration of files, and what of it was not judged: errors if that is strict.

    Device code that programs load by themselves is registered by none; if there is nothing else, nothing was judged.
    """
    hosts: list[str] = []
    loose: list[str] = []
    for item in context.found:
        last = item.last
        if last.host in _HOSTS and last.error is None:
            hosts.append(last.path)
        elif item.units:
            loose.append(last.path)
    severity = "error" if context.policy.strict else "note"
    packed = map_package_files(hosts, _of_leaf, context.budget, deep=context.policy.deep)
    is_any = False
    for path in hosts:
        verdicts = packed.get(path)
        registers, made, unchecked = (
            _file_registration_violations(path, context.budget) if verdicts is None else verdicts
        )
        is_any = is_any or registers
        if unchecked:
            context.unchecked.setdefault(path, []).append(unchecked)
        yield from (each.replace(severity=severity) if each.code == UNJUDGED else each for each in made)
    for path in () if is_any else loose:
        text = f"{NOT_JUDGED}: nothing in it registers its device code: it is no program, library or object"
        yield Violation(UNJUDGED, severity, path, "registration", text, "name the program that registers it")


def _of_leaf(leaf: InputFile) -> tuple[bool, list[Violation], str] | None:
    """Return whether a file in a package has to do with a runtime, the verdict on it, and what that leaves out.

    None for one that has to be opened to say what is wrong with it.
    """
    try:
        return None if leaf.view is None else _judged(leaf.view, leaf.path)
    except (FatpackError, OSError):
        return None


def _file_registration_violations(path: str, budget: Budget) -> tuple[bool, list[Violation], str]:
    try:
        with reopen(path, budget) as source:
            return _judged(source.view(), path)
    except (FatpackError, OSError) as error:
        made = Violation("FP3301", "error", path, "registration", error_message(error), unread=exit_code(error))
        return True, [made], ""


def _judged(view: View, path: str) -> tuple[bool, list[Violation], str]:
    verdict = judge_file(view)
    seen: dict[tuple[str, str], Violation] = {}
    for item in verdict.findings:
        made = Violation(item.code, _SEVERITIES[item.severity], path, "registration", item.message, item.hint)
        seen.setdefault((item.code, item.message), made)
    if verdict.word == NOT_JUDGED:
        seen[UNJUDGED, ""] = Violation(UNJUDGED, "note", path, "registration", verdict.text)
    return verdict.word != NO_VERDICT, list(seen.values()), verdict.unchecked


def requirement_violations(context: RuleContext) -> Iterator[Violation]:
    """Yield what does not serve the devices, one after the other."""
    for item in context.found if context.policy.require else ():
        sections = {row.section for unit in item.units for row in unit.images}
        if image_kernels.lacks_records(item.last, sections, context.budget):
            context.unchecked.setdefault(item.last.path, []).append(image_kernels.UNREGISTERED)
    for requirement in context.policy.require:
        yield from _required(context, requirement)
    if any(item.device.vendor == "amd" for item in context.policy.require):
        yield from _tensile_notes(context)


def _tensile_notes(context: RuleContext) -> Iterator[Violation]:
    """Yield notes about libraries of Tensile as a whole: files that nothing names, tables that were not read."""
    for library in context.tensile_libraries:
        for item in library.findings:
            yield Violation(item.code, "note", library.path, library.title, item.message, item.hint)


def _tensile_faults(context: RuleContext, requirement: Requirement) -> Iterator[Violation]:
    """Yield what is wrong with libraries of Tensile for a device that their tables are for."""
    for library in context.tensile_libraries if requirement.device.vendor == "amd" else ():
        target = library.target(_processor(requirement)) if library.is_read else None
        for item in target.findings if target is not None and target.parent else ():
            severity = "note" if item.severity == "note" else "error"
            unread = MALFORMED if item.severity == "error" else FINE
            yield Violation(
                item.code, severity, library.path, requirement.title, item.message, item.hint, unread=unread
            )


def _tensile_support(context: RuleContext, unit: ImageSetRows, requirement: Requirement) -> DeviceSupport | None:
    """Return whether the tables of a library of Tensile serve a device, None for a unit that is no such library.

    What is wrong with the files of a target that has tables are violations of their own.
    """
    library = context.tensile(unit)
    if library is None:
        return None
    serves, reason = library.support(_processor(requirement))
    return DeviceSupport(serves, "H16", reason)


def _processor(requirement: Requirement) -> str:
    return requirement.device.arch.partition(":")[0]


def _required(context: RuleContext, requirement: Requirement) -> Iterator[Violation]:
    """Yield the libraries in which a unit does not serve a device."""
    missing = dict.fromkeys(requirement.exact)
    broken: list[
        tuple[FileImageSets, list[ImageSetRows], list[tuple[ImageSetRows, DeviceSupport]], list[ImageSetRows]]
    ] = []
    for item in context.found:
        units = [unit for unit in item.units if unit.vendor == requirement.device.vendor]
        for arch in [arch for arch in missing if any(arch in unit.archs for unit in units)]:
            del missing[arch]
        unsupported, without_ptx = (
            _unsupported(context, units, requirement),
            _image_sets_without_ptx(context, units, requirement),
        )
        if unsupported or without_ptx:
            broken.append((item, units, unsupported, without_ptx))
    yield from _tensile_faults(context, requirement)
    context.read_kernels(
        (item, unit)
        for item, _, unsupported, without_ptx in broken
        for unit in (*(one for one, _ in unsupported), *without_ptx)
    )
    for item, units, unsupported, without_ptx in broken:
        known = [context.hole(item, unit, found.rule, found.reason) for unit, found in unsupported]
        holes = [hole for hole in known if hole is not None]
        is_known = any(found.is_certain for _, found in unsupported)
        if holes:
            count = f" in {len(holes)} of {pluralize(len(units), 'unit')}" if len(units) > 1 else ""
            code, text = "FP3303", f"lacks {requirement.title}{count}"
            if not is_known:
                code, text = "FP3305", f"it is not known if {requirement.title} is served{count}"
            tensile = context.tensile(units[0]) if len(units) == 1 else None
            is_linked_by_gcc = all(is_of_gcc(unit.first) for unit, _ in unsupported)
            remedy = _link_remedy(requirement) if is_linked_by_gcc else _remedy(requirement)
            remedy += _choice_advice(requirement.title, unsupported, units)
            yield make_violation(
                code,
                item.last.path if tensile is None else tensile.path,
                requirement.title,
                text,
                remedy if tensile is None else f"install {tensile.title} for {_processor(requirement)}",
                units=len(units),
                holes=tuple(holes),
            )
        if without_ptx:
            yield from _later(context, item, units, without_ptx, requirement)
    for item in context.found:
        yield from _emptied(context, item, requirement)
    has_code = any(unit.vendor == "nvidia" for item in context.found for unit in item.units)
    for arch in missing if has_code else ():
        hint = f"build code for {arch}, or require sm_{_number(requirement)}"
        yield make_violation("FP3304", "", arch, f"nothing is for {arch} itself", hint)


def _emptied(context: RuleContext, item: FileImageSets, requirement: Requirement) -> Iterator[Violation]:
    """Yield the violation that registered containers of a file have no image, and their kernels are in no other."""
    emptied = context.emptied(item) if context.policy.per == "unit" or not item.units else None
    if emptied is None or emptied.vendor != requirement.device.vendor:
        return
    which = pluralize(len(emptied.numbers), "registered container")
    code, text = "FP3303", f"lacks {requirement.title} in {which} without images: {emptied.lost}"
    if not emptied.lost:
        code, text = (
            "FP3305",
            f"it is not known if {requirement.title} is served: {which} without images; {emptied.why_not}",
        )
    # The file alone does not show if the container was empty from the start, or was emptied.
    hint = "compare with the original, which may never have had code for it; or take a file built for the device"
    rule = "C2" if emptied.vendor == "nvidia" else "H3"
    holes = tuple(
        MissingKernels(str(number), emptied.section, "", None, ("no image",), rule, "it is registered, and empty", ())
        for number in emptied.numbers
    )
    units = len(item.units) + len(emptied.numbers)
    yield make_violation(code, emptied.path, requirement.title, text, hint, units=units, holes=holes)


def _unsupported(
    context: RuleContext, units: Sequence[ImageSetRows], requirement: Requirement
) -> list[tuple[ImageSetRows, DeviceSupport]]:
    """Return the units that do not serve a device, if they break the policy."""
    known: dict[object, DeviceSupport] = {}
    unsupported: list[tuple[ImageSetRows, DeviceSupport]] = []
    compiling = 0
    for unit in units:
        key = unit.offload, selection_key(unit.images)
        found = _tensile_support(context, unit, requirement) or known.get(key)
        if found is None:
            known[key] = found = meets_requirement(unit, requirement)
        if not found.serves:
            unsupported.append((unit, found))
        compiling += found.serves and found.compiles
    has_native = len(unsupported) + compiling < len(units)
    if not requirement.text and units:
        if context.policy.per == "library" and has_native:
            compiling = 0
        before, total = context.compiled.get(requirement.words, (0, 0))
        context.compiled[requirement.words] = before + compiling, total + len(units)
    return unsupported if _is_broken(context, unsupported, units) else []


def _is_broken(context: RuleContext, unsupported: Sequence[object], units: Sequence[ImageSetRows]) -> bool:
    """Return whether units that lack something can break the policy: it takes kernels, whose reading is dear."""
    return bool(unsupported) and (context.policy.per == "unit" or len(unsupported) == len(units))


def _image_sets_without_ptx(
    context: RuleContext, units: Sequence[ImageSetRows], requirement: Requirement
) -> list[ImageSetRows]:
    """Return the units without PTX for later devices, if the policy requires it."""
    if not requirement.wants_ptx:
        return []
    known: dict[object, bool] = {}
    without_ptx = []
    for unit in units:
        key = unit.offload, selection_key(unit.images)
        if key not in known:
            known[key] = supports_later_devices(unit, requirement.device)
        without_ptx += [] if known[key] else [unit]
    return without_ptx if _is_broken(context, without_ptx, units) else []


def _later(
    context: RuleContext,
    item: FileImageSets,
    units: Sequence[ImageSetRows],
    without_ptx: Sequence[ImageSetRows],
    requirement: Requirement,
) -> Iterator[Violation]:
    reason = "no PTX that all later devices can compile"
    holes = [hole for unit in without_ptx if (hole := context.hole(item, unit, "C7", reason)) is not None]
    if holes:
        count = f" in {len(holes)} of {pluralize(len(units), 'unit')}" if len(units) > 1 else ""
        text = f"lacks PTX for devices later than {requirement.device.arch}{count}"
        hint = f"build with -gencode arch=compute_{_number(requirement)},code=compute_{_number(requirement)}"
        hint += _choice_advice("later devices", without_ptx, units)
        yield make_violation(
            "FP3303", item.last.path, f"{requirement.device.arch}+ptx", text, hint, units=len(units), holes=tuple(holes)
        )


def _choice_advice(served: str, lacking: Sequence[object], units: Sequence[object]) -> str:
    """Return what else to do if other units of the library serve: its host code may choose among them; else ""."""
    if len(lacking) == len(units):
        return ""
    option = cli_or_api("--per library", "per='library'")
    return f"; or {option} if the library chooses among its units itself: others of them serve {served}"


def _number(requirement: Requirement) -> str:
    return requirement.device.arch.removeprefix("sm_")


def _remedy(requirement: Requirement) -> str:
    arch = requirement.device.arch
    if requirement.device.vendor == "nvidia":
        virtual = requirement.text or f"compute_{_number(requirement)}"
        return f"build with -gencode arch={virtual},code={requirement.text or arch}"
    return f"build with --offload-arch={arch}" if requirement.device.vendor == "amd" else f"build for {arch}"


def _link_remedy(requirement: Requirement) -> str:
    """Return the advice for programs of GCC's offloading, which are compiled for accelerators when they are linked."""
    arch = requirement.device.arch.partition(":")[0]
    if requirement.device.vendor == "nvidia":
        return f"link with -foffload=nvptx-none -foffload-options=nvptx-none=-misa={arch}"
    return f"link with -foffload=amdgcn-amdhsa -foffload-options=amdgcn-amdhsa=-march={arch}"


# The rules of a policy, one module each: what was read goes in, violations come out. This is their order.


def evaluate_rules(context: RuleContext, opener: Opener | None) -> Iterator[Violation]:
    """Yield the violations, rule by rule; modules of unused rules are not imported."""

    policy = context.policy
    yield from no_device_code(context)
    mislabelled = list(mismatch_violations(context.found))
    yield from mislabelled
    if not policy.verify:  # which reports unreadable images itself
        yield from unverified_images(context.found)
    yield from requirement_violations(context)
    yield from systems.system_violations(context)
    yield from forbidden_violations(context)
    yield from size_violations(context)
    if policy.uniform:
        yield from uniform_violations(context)
    if policy.no_hollow:
        yield from hollow_violations(context)
    if policy.metadata:
        from fatpack.commands.check import metadata, variants

        wheels = variants.read_wheels(context)
        described, judged = variants.described_wheels(wheels), variants.judged_wheels(wheels)
        yield from metadata.metadata_violations(context.found, context.names, context.budget, described, judged)
        yield from variants.variant_violations(context, wheels)
    if policy.registered:
        yield from registration_violations(context)
    yield from unread_kernel_violations(context)
    if policy.verify:
        labelled = {item.path for item in mislabelled}
        yield from checksum_violations(context, labelled, opener)


# No path is larger than ``--max-size``, and none grew by more than ``--max-growth``.


def measure_paths(context: RuleContext) -> tuple[CheckedPath, ...]:
    """Return what was named with its size, and with how much it grew if it is one."""
    made = []
    for name in context.names:
        size, _ = policy.measure_total(name)
        if size is None:
            size = next((item.last.file_size for item in context.found if item.last.path == name), None)
        made.append(CheckedPath(name, size))
    return tuple(made)


def size_violations(context: RuleContext) -> Iterator[Violation]:
    """Yield what is too large, or of unknown size."""
    policy = context.policy
    if policy.max_size is None and not policy.max_growth:
        return
    sizes = measure_paths(context)
    for item in sizes:
        if policy.max_size is not None and item.size is not None and item.size > policy.max_size:
            size, limit = format_size_and_limit(item.size, policy.max_size)
            text = f"{size}, {format_size_exactly(item.size - policy.max_size)} over the limit of {limit}"
            hint = f"fatpack report {item.path} shows where the bytes are"
            yield make_violation("FP3307", item.path, "size", text, hint)
        elif item.size is None and not any(each.last.error for each in context.of(item.path)):
            yield make_violation("FP3301", item.path, "size", "its size is not known", unread=INPUT_OUTPUT)
    if policy.max_growth:
        yield from _grown(context, sizes)


def _grown(context: RuleContext, sizes: Sequence[CheckedPath]) -> Iterator[Violation]:
    percent, most = policy.parse_growth(context.policy.max_growth)
    old, problem, hint = policy.measure_earlier([item.path for item in sizes], context.policy.against)
    new = sum(item.size or 0 for item in sizes)
    if old is None or problem:
        yield make_violation("FP3301", context.policy.against, "growth", problem, hint, unread=INPUT_OUTPUT)
        return
    allowed = most if most is not None else int(old * (percent or 0.0) / 100)
    if new - old > allowed:
        share = f", {100 * (new - old) / old:.1f} %" if old else ""
        more = f"{format_size_exactly(new - old)} more than {context.policy.against}{share}"
        text = f"{format_size_exactly(new)}, {more}; {context.policy.max_growth} is allowed"
        yield make_violation("FP3308", sizes[0].path if len(sizes) == 1 else "", "growth", text)


# Every kernel is there for every architecture of its library: ``--uniform``.

NOT_UNIFORM = "kernels of each architecture, because no image with kernels is for one architecture alone"


def uniform_violations(context: RuleContext) -> Iterator[Violation]:
    """Yield what kernels lack, library by library."""
    for item in context.found:
        if not item.units:
            continue
        found = ImageKernels()
        for path in dict.fromkeys(row.path for unit in item.units for row in unit.images):
            found.merge(context.kernels[path])
        missed = find_uncompared(item.units, found)
        if serve_any_device(item.units, found):
            context.unchecked.setdefault(item.last.path, []).append(NOT_UNIFORM)
        if missed:
            forms = ", ".join(dict.fromkeys(row.form or "unknown" for unit in missed for row in unit.images))
            text = f"{pluralize(len(missed), 'unit')} cannot be compared: {forms} shows no kernels"
            yield make_violation("FP3301", item.last.path, "kernels", text)
        for lack in find_lacking_kernels(item.units, found):
            holes = tuple(
                MissingKernels(
                    unit.position,
                    unit.first.section or "",
                    unit.first.member or "",
                    unit.first.offset,
                    unit.archs,
                    "",
                    "other kernels of the library have it",
                    names,
                )
                for unit, names in lack.units
            )
            text = f"{pluralize(len(lack.names), 'kernel')} without {lack.title}, which others of it have"
            yield make_violation("FP3309", item.last.path, lack.title, text, units=len(item.units), holes=holes)


# No kernel does nothing on one architecture and something on another: ``--no-hollow``.

#: Kernels that are named in a violation.
_NAMED = 3

#: characters of a kernel's name in a violation; templates make names of thousands
_LONGEST_NAME = 60

#: forms of images whose code :mod:`fatpack.images.hollow` reads
_JUDGED_CODE = {"cubin", "ptx", "code-object"}


def hollow_violations(context: RuleContext) -> Iterator[Violation]:
    """Yield a violation for each architecture of a file with kernels that certainly do nothing there."""
    accepted = [re.compile(text) for text in context.policy.allow_hollow]
    for item in context.found:
        forms = {row.form or "unknown" for unit in item.units for row in unit.images} - _JUDGED_CODE
        if forms:
            unchecked = f"if kernels do nothing in images of {', '.join(sorted(forms))}, whose code is not read"
            context.unchecked.setdefault(item.last.path, []).append(unchecked)
    for path, found in context.kernels.items():
        of_label: dict[tuple[str, bool], list[HollowKernel]] = {}
        for kernel in find_hollow(found.codes):
            if not any(pattern.search(kernel.name) for pattern in accepted):
                of_label.setdefault((kernel.label, kernel.is_certain), []).append(kernel)
        for (label, is_certain), kernels in of_label.items():
            words = "; ".join(f"{_short_name(kernel.name)} {kernel.words}" for kernel in kernels[:_NAMED])
            more = f"; and {len(kernels) - _NAMED} more" if len(kernels) > _NAMED else ""
            do = "does" if len(kernels) == 1 else "do"
            if is_certain:
                some = f"certainly {do} nothing for {label}, and something for {kernels[0].other}"
            else:
                some = f"may do nothing for {label}"
            text = f"{pluralize(len(kernels), 'kernel')} {some}: {words}{more}"
            hint = "compile their bodies for it, do not build them for it, or accept them with "
            hint += cli_or_api("--allow-hollow REGEX", "allow_hollow")
            yield make_violation("FP3323" if is_certain else "FP3324", path, label, text, hint)


def _short_name(name: str) -> str:
    """Return the name of a kernel without its middle if it is long: its end tells templates of one name apart."""
    if len(name) <= _LONGEST_NAME:
        return name
    start = _LONGEST_NAME * 2 // 3
    return f"{name[:start]}…{name[start + 1 - _LONGEST_NAME :]}"


# ``verify``: everything that :mod:`fatpack.commands.doctor` verifies must be right.
#
# Every image is inflated and parsed, every stored hash, checksum and digest is compared. Files that another violation
# reports are left out.

#: what is wrong with a wheel as a package, not with its bytes
_PACKAGES = ("FP3603", "FP3604")

#: what of images is not verified, by how the words of it begin
_IMAGES = ("images", "content of", "modules of CIR")


def checksum_violations(context: RuleContext, labelled: Collection[str], opener: Opener | None) -> Iterator[Violation]:
    """Yield damaged and suspect files, and a note for each unverified item.

    Files that were reported are left out, except damaged files that were reported as not supported. The wrong labels
    of files in ``labelled`` were reported.
    """
    policy = context.policy
    # Everything is inflated a second time, so it has a budget of its own.
    budget = Budget(current_budget().inflated)
    found = diagnose(context.names, exclude=policy.exclude, deep=policy.deep, opener=opener, budget=budget)
    by_path: dict[str, list[Finding]] = {report.path: [] for report in found.affected}
    for item in found.findings:
        by_path.get(_file_of(item, by_path), []).append(item)
    for report in found.affected:
        own = by_path.get(report.path, [])
        errors = [item for item in own if item.severity == "error" and item.code not in _PACKAGES]
        if report.path in context.reported:
            missed = context.missed.get(report.path)
            damage = [item for item in errors if exit_code_for_findings([(item.severity, item.code)]) == MALFORMED]
            if missed is None or missed.exit_code != UNSUPPORTED or not damage:
                continue
            own = errors = damage
        if report.error is not None or errors:
            texts = (
                [report.error]
                if report.error is not None
                else list(dict.fromkeys(_damage_words(item, report.path) for item in errors))
            )
            more = f", and {len(texts) - 1} more" if len(texts) > 1 else ""
            hint = f"run fatpack doctor {report.path} for details"
            yield Violation("FP3301", "error", report.path, "content", f"{texts[0]}{more}", hint)
        elif report.state in ("damaged", "unread") and not own:
            text = "something in it is damaged"
            yield Violation(
                "FP3301", "error", report.path, "content", text, f"run fatpack doctor {report.path} for details"
            )
        for item in own:
            if item.code in _PACKAGES:
                yield Violation("FP3315", "error", report.path, "RECORD", item.message, item.hint)
            elif item.code in (*MISMATCH_CODES, _NO_KERNELS) and item.severity != "note":
                if report.path not in labelled:
                    yield Violation("FP3314", "error", report.path, "label", item.message)
            elif item.severity == "warning" and not (policy.registered and item.code.startswith(REGISTRATION_CODES)):
                yield Violation(item.code, "error", report.path, "content", _placed(item, report.path), item.hint)
        if report.state == "suspect" and not own:
            # Many files have the finding, and doctor lists only some of them.
            code = next((code for code, _ in found.more if CODES[code][0] == "warning"), "FP3301")
            text = "something in it is suspect"
            yield Violation(
                code, "error", report.path, "content", text, f"run fatpack doctor {report.path} for details"
            )
    yield from _unverified(found, policy)


def _unverified(found: DoctorResult, policy: Policy) -> Iterator[Violation]:
    """Yield a note for each thing of images that was not verified; with ``strict`` an error, if no image could be."""
    is_nothing = found.unjudged == NO_IMAGE_READ
    for skipped in found.not_verified:
        if skipped.what.startswith(_IMAGES):
            where = f" in {pluralize(skipped.files, 'file')}" if skipped.files > 1 else ""
            text = f"not verified: {skipped.count:,} {skipped.what}{where}: {skipped.why}"
            severity = "error" if policy.strict and is_nothing else "note"
            path = "" if where else skipped.path
            yield Violation("FP3316", severity, path, NO_IMAGE_READ if is_nothing else "content", text)


def _file_of(item: Finding, paths: Collection[str]) -> str:
    """Return the path, of those of ``paths``, of the file that a finding is in; "" if it is in none of them.

    In an archive the place begins with the members that lead to it: ``libx.a(x86_64)(x.o)``.
    """
    name = str(item.span.source[0]) if item.span.source else ""
    while name not in paths:
        name, mark, _ = name.rpartition("(")
        if not mark:
            return ""
    return name


def _damage_words(item: Finding, path: str) -> str:
    return f"{_placed(item, path)} [{item.code}]"


def _placed(item: Finding, path: str) -> str:
    """Return the message of a finding with its place in a file: ``at 0x18 (x.o → .nv_fatbin): …``."""
    return format_finding(item.replace(hint=""), path).removeprefix(item.code).removeprefix(": ").lstrip()
