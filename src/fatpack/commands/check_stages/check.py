"""The check of a unit: its files in the order of their stages, and what each lacks of those before it."""

from __future__ import annotations

import os

from fatpack.commands.check_stages.facts import (
    CONTAINERS,
    IMAGES,
    MODULES,
    OBJECTS,
    ORDER,
    PROGRAMS,
    BuildStage,
    StageFile,
    group_into_stages,
)
from fatpack.commands.check_stages.run import LostCode, UncomparedStage, compare_stages, first_archs
from fatpack.commands.check_stages.stage import read_stage_file
from fatpack.errors import pluralize
from fatpack.findings import finding
from fatpack.io.open import open_source
from fatpack.io.source import Span, VirtualName
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.model import Finding

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
    """What was found: the stages, what was lost on the way, and what could not be compared."""

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
    """Return the first of some names behind a colon, and how many there are besides."""
    more = f" and {len(names) - _MAX_KERNELS_SHOWN} more" if len(names) > _MAX_KERNELS_SHOWN else ""
    return f": {', '.join(names[:_MAX_KERNELS_SHOWN])}{more}" if names else ""


def _title(stage: BuildStage) -> str:
    names = [os.path.basename(path) for path in stage.paths]
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
