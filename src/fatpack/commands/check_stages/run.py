"""Comparison of build stages: device code of each stage is searched for in the next ones.

A stage without device code of its own (a host's module, an object whose code comes with the link) is passed over; what
is lost is lost once, in the first stage that lacks it. Each stage is compared by itself: a later one that has what it
lacks may be older. Images alone may be some of several, each in a file of its own: what they lack and the next stage
has was not lost. Stages that cannot be compared are reported, not guessed.
"""

from __future__ import annotations

import os

from fatpack.commands.check_stages.stage import (
    CONTAINERS,
    IMAGES,
    MODULES,
    OBJECTS,
    ORDER,
    PROGRAMS,
    VARIANTS,
    BuildStage,
    StageArchCode,
    StageFile,
    arch_key,
    group_into_stages,
    is_for_same_target,
    processor_key,
    read_stage_file,
)
from fatpack.errors import pluralize
from fatpack.findings import finding
from fatpack.io.open import open_source
from fatpack.io.source import Span, VirtualName
from fatpack.record import Record
from fatpack.targets.compatibility import can_serve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence
    from typing import Literal

    from fatpack.model import Finding, Target

    LostKind = Literal["code", "arch", "kernels", "registration"]


#: LIMIT: lost architectures for which a substitute is looked for, and architectures that are asked whether they are
#: one. The compilers know 200 targets, of three vendors, and a unit is for some of one.
_ASKED = 64

#: architectures that a message names
_MAX_ARCHS_SHOWN = 6


class LostCode(Record):
    """Device code that a stage lacks and an earlier one has.

    ``what`` is ``code`` (all device code), ``arch`` (what is for one architecture), ``kernels`` (some of one
    architecture), or ``registration`` (kernels that the host's side does not register). ``served`` names architectures
    of the later stage whose code runs on a lost one all the same, as far as they were asked.
    """

    what: LostKind
    arch: str
    kernels: tuple[str, ...]
    had: BuildStage
    lost: BuildStage
    served: tuple[str, ...] = ()


class UncomparedStage(Record):
    """A part of a stage that could not be compared with the stage before it, and the reason."""

    stage: BuildStage
    why: str


class _CarriedCode(Record):
    """Device code for one architecture, and the last stage that has it."""

    part: StageArchCode
    stage: BuildStage


def compare_stages(stages: Sequence[BuildStage]) -> tuple[list[LostCode], list[UncomparedStage]]:
    """Return what was lost on the way through the stages, in their order, and what could not be compared."""
    lost: list[LostCode] = []
    not_compared: list[UncomparedStage] = []
    carried: dict[Hashable, _CarriedCode] = {}
    loose: dict[str, BuildStage] = {}
    registrations = _CarriedRegistrations()
    for number, stage in enumerate(stages):
        if number:
            after = stages[number + 1 : number + 2] if stage.kind == IMAGES else ()
            lost += _lost_code(stage, carried, after)
            lost += _lost_loose(stage, loose, after)
            lost += registrations.lost(stage, not_compared)
        if len(stages) > 1:
            not_compared += _untold(stage)
        _carry(stage, carried)
        registrations.carry(stage)
        loose.update((name, stage) for code in stage.unplaced for name in code.kernels or ())
    return lost, not_compared


def _lost_code(
    stage: BuildStage, carried: dict[Hashable, _CarriedCode], later: Sequence[BuildStage]
) -> Iterator[LostCode]:
    """Yield which device code a stage lacks, and none of some later ones has; what it lacks is not carried on."""
    if not carried:
        return
    if not stage.parts:
        host = stage.host
        if stage.unplaced or stage.kind in (MODULES, IMAGES, CONTAINERS) or (host is not None and host.awaits):
            return
        first = next(iter(carried.values())).stage
        yield LostCode("code", "", tuple(sorted(first.kernels)), first, stage)
        carried.clear()
        return
    parts, parts_later = _Places(stage.parts), _Places(part for other in later for part in other.parts)
    asked = 0
    for key, each in list(carried.items()):
        there, again = parts.same(each.part.target), parts_later.same(each.part.target)
        if not there:
            if not stage.unplaced and not again:
                asked += 1
                served = [part.title for part in stage.parts[:_ASKED] if asked <= _ASKED and _serves(part, each.part)]
                yield LostCode(
                    "arch", each.part.title, tuple(sorted(each.part.kernels)), each.stage, stage, tuple(served)
                )
                del carried[key]
            continue
        if all(part.is_whole for part in there):
            missing = each.part.kernels - frozenset[str]().union(*(part.kernels for part in (*there, *again)))
            if missing:
                yield LostCode("kernels", each.part.title, tuple(sorted(missing)), each.stage, stage)


class _Places:
    """Parts by their processors, so that each is compared with few others."""

    def __init__(self, parts: Iterable[StageArchCode]) -> None:
        self._parts: dict[Hashable, list[StageArchCode]] = {}
        for part in parts:
            self._parts.setdefault(processor_key(part.target), []).append(part)

    def same(self, wanted: Target) -> list[StageArchCode]:
        """Return the parts that are for a target of an earlier stage."""
        return [part for part in self._parts.get(processor_key(wanted), ()) if is_for_same_target(wanted, part.target)]


def _lost_loose(stage: BuildStage, loose: dict[str, BuildStage], later: Sequence[BuildStage]) -> Iterator[LostCode]:
    """Yield the kernels that a stage, and some later ones, have for no architecture, of code that did not say for which
    it is.
    """
    if not stage.parts or stage.unplaced or not all(part.is_whole for part in stage.parts):
        return
    there = stage.kernels.union(*(other.kernels for other in later))
    missing = [name for name in loose if name not in there]
    by_stage: dict[str, tuple[BuildStage, list[str]]] = {}
    for name in missing:
        had = loose.pop(name)
        by_stage.setdefault(had.kind, (had, []))[1].append(name)
    for had, names in by_stage.values():
        yield LostCode("kernels", "", tuple(sorted(names)), had, stage)


def _serves(there: StageArchCode, wanted: StageArchCode) -> bool:
    forms = [form for form in there.forms if form in ("cubin", "ptx")] or ["cubin"]
    return any(can_serve(there.target, wanted.target, nvidia_rules=True, form=form) for form in forms)


def _carry(stage: BuildStage, carried: dict[Hashable, _CarriedCode]) -> None:
    """Take on what a stage has. Where it does not name its kernels, those known before are still looked for."""
    keys: dict[Hashable, list[Hashable]] = {}
    for key, each in carried.items():
        keys.setdefault(processor_key(each.part.target), []).append(key)
    for part in stage.parts:
        near = keys.setdefault(processor_key(part.target), [])
        known, left = part, []
        for key in near:
            if not is_for_same_target(carried[key].part.target, part.target):
                left.append(key)
                continue
            before = carried.pop(key).part
            if not part.is_whole:
                known = known.replace(kernels=known.kernels | before.kernels)
        key = arch_key(part.target)
        near[:] = [*left, key]
        carried[key] = _CarriedCode(known, stage)


class _CarriedRegistrations:
    """Kernels that a host's side has to register, by what earlier stages show, and the last stage that shows each.

    Without a host's side, all kernels of the device code count as launched. What was reported as lost is not looked for
    again, until a stage registers it.
    """

    def __init__(self) -> None:
        self._by_host: dict[str, BuildStage] = {}
        self._by_code: dict[str, BuildStage] = {}
        self._reported: set[str] = set()

    def carry(self, stage: BuildStage) -> None:
        """Take on what a stage shows."""
        launched, registered = frozenset[str](), frozenset[str]()
        if stage.host is not None:
            launched, registered = stage.host.launched, stage.host.registered or registered
        self._by_host.update(dict.fromkeys(launched | registered, stage))
        self._by_code.update(dict.fromkeys(stage.kernels, stage))
        self._reported -= registered

    def lost(self, stage: BuildStage, not_compared: list[UncomparedStage]) -> Iterator[LostCode]:
        """Yield the kernels that a stage of host files does not register, and should."""
        if stage.kind not in (OBJECTS, PROGRAMS) or stage.host is None:
            return
        wanted = self._by_host or self._by_code
        known = stage.host.registered
        missing = [name for name in wanted if name not in self._reported and (known is None or name not in known)]
        if not missing:
            return
        if known is None or stage.host.why_not:
            why = stage.host.why_not or "nothing tells what it registers"
            not_compared.append(UncomparedStage(stage, f"which kernels are registered is not known: {why}"))
            return
        self._reported.update(missing)
        by_stage: dict[str, tuple[BuildStage, list[str]]] = {}
        for name in missing:
            by_stage.setdefault(wanted[name].kind, (wanted[name], []))[1].append(name)
        for kind in sorted(by_stage, key=ORDER.index):
            had, names = by_stage[kind]
            yield LostCode("registration", "", tuple(sorted(names)), had, stage)


def _untold(stage: BuildStage) -> Iterator[UncomparedStage]:
    """Yield notes about device code of a stage that does not name its kernels or its architecture."""
    open_parts = [part for part in stage.parts if not part.is_whole]
    if open_parts:
        forms = ", ".join(dict.fromkeys(form or "data" for part in open_parts for form in part.forms))
        archs = first_archs([part.title for part in open_parts])
        yield UncomparedStage(stage, f"the kernels for {archs} are not named by {forms}")
    if stage.crowded:
        processors = first_archs(stage.crowded)
        yield UncomparedStage(
            stage, f"code for more than {VARIANTS} variants of {processors} is taken as for no architecture"
        )
    nowhere = [code for code in stage.unplaced if arch_key(code.target) is None]
    if nowhere:
        forms = ", ".join(dict.fromkeys(code.form or "data" for code in nowhere))
        untold = "" if all(code.kernels is not None for code in nowhere) else ", or which kernels it has"
        yield UncomparedStage(stage, f"{forms} does not say for which architecture it is{untold}")


def first_archs(archs: Sequence[str]) -> str:
    """Return the first of some architectures, and how many there are besides."""
    more = f" and {len(archs) - _MAX_ARCHS_SHOWN} more" if len(archs) > _MAX_ARCHS_SHOWN else ""
    return f"{', '.join(archs[:_MAX_ARCHS_SHOWN])}{more}"


# The check of a unit: its files in the order of their stages, and what each lacks of those before it.

#: stage → the step that makes its files
_STEPS = {
    MODULES: "the front end, or cir-offload-merge",
    IMAGES: "the device compilation for that architecture",
    CONTAINERS: "the step that packs images: fatbinary, clang-offload-bundler or llvm-offload-binary",
    OBJECTS: "the host compilation, which embeds the device code and writes what registers it",
    PROGRAMS: "the link: clang-linker-wrapper, nvlink, or a linker alone where one of these was needed",
}

#: the finding for files that cannot be compared as stages of a unit
_NO_UNIT = "FP3206"

#: kernels that a message names
_MAX_KERNELS_SHOWN = 3


class StagesReport(Record):
    """Result: the stages, the lost code, and the parts that could not be compared."""

    stages: tuple[BuildStage, ...]
    others: tuple[StageFile, ...]
    lost: tuple[LostCode, ...]
    not_compared: tuple[UncomparedStage, ...]
    findings: tuple[Finding, ...]


def check_stages(paths: Sequence[str]) -> StagesReport:
    """Check the files of a unit. Raises OSError for a file that cannot be opened.

    Fails closed: whatever is damaged, or of no stage, is a finding of its own.
    """
    given = []
    for path in paths:
        with open_source(path) as source:
            given.append(read_stage_file(source.view(), path))
    return compare_stage_files(given)


def compare_stage_files(given: Sequence[StageFile]) -> StagesReport:
    """Return what the files of a unit, which were read, lost on the way through its stages."""
    others = tuple(each for each in given if not each.kind)
    found = group_into_stages(each for each in given if each.kind)
    lost, not_compared = compare_stages(found)
    findings = [item for each in given for item in each.findings]
    findings += [_no_stage(each) for each in others if not each.findings]
    if len(found) < 2 and not others:
        kind = found[0].kind if found else "nothing"
        text = f"all files are {kind}: only files of different stages of one unit can be compared"
        hint = f"name files of other stages too ({', '.join(ORDER)}), or hold each file against a policy"
        findings.append(finding(_NO_UNIT, _span(stage_paths(found)), text, hint))
    findings += [_finding(item) for item in lost]
    findings += [finding("FP3205", _span(each.stage.paths), f"{each.stage.kind}: {each.why}") for each in not_compared]
    return StagesReport(tuple(found), others, tuple(lost), tuple(not_compared), tuple(findings))


def stage_paths(found: Sequence[BuildStage]) -> tuple[str, ...]:
    """Return the files of several stages."""
    return tuple(path for each in found for path in each.paths)


def _no_stage(each: StageFile) -> Finding:
    text = "of no stage of a unit: it is neither CIR, device code, a container of it, nor an object or program"
    return finding(_NO_UNIT, _span((each.path,)), text, "leave it out, or name what the build made of it")


def _span(paths: Sequence[str]) -> Span:
    return Span(0, 0, (VirtualName(paths[0]),)) if paths else Span(0, 0, ())


def _finding(item: LostCode) -> Finding:
    code, text = _told(item)
    hint = f"likely step: {_STEPS[item.lost.kind]}"
    if item.served:
        hint += f"; code for {first_archs(item.served)} runs there all the same, perhaps compiled first"
    return finding(code, _span(item.lost.paths), text, hint)


def _told(item: LostCode) -> tuple[str, str]:
    """Return the code of what was lost, and the words."""
    before, names = _title(item.had), first_names(item.kernels)
    count = pluralize(len(item.kernels), "kernel")
    if item.what == "code":
        archs = first_archs([part.title for part in item.had.parts])
        return "FP3204", f"no device code is here; {before} has some for {archs}{names}"
    if item.what == "arch":
        return "FP3201", f"no device code for {item.arch}; {before} has {count if names else 'some'} for it{names}"
    if item.what == "kernels":
        return "FP3202", f"{count} of {before}{f' for {item.arch}' if item.arch else ''} not here{names}"
    return "FP3203", f"{count} of {before} not registered here{names}"


def first_names(names: Sequence[str]) -> str:
    """Return the first of some names after a colon, and how many there are besides."""
    more = f" and {len(names) - _MAX_KERNELS_SHOWN} more" if len(names) > _MAX_KERNELS_SHOWN else ""
    return f": {', '.join(names[:_MAX_KERNELS_SHOWN])}{more}" if names else ""


def _title(stage: BuildStage) -> str:
    names = [os.path.basename(path) for path in stage.paths]
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
