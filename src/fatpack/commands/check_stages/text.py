"""JSON and text of ``check-stages``.

The record is ``stages`` in a document of ``fatpack.check/1``; ``schemas/check.schema.json`` describes it.
"""

from __future__ import annotations

from fatpack.errors import pluralize
from fatpack.printable import printable
from fatpack.text.findings import FindingList, finding_lines_by_file, finding_record, unlisted_records
from fatpack.text.style import align_columns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import NotRequired, TypedDict

    from fatpack.commands.check_stages.run import LostCode, StagesReport
    from fatpack.commands.check_stages.stage import BuildStage, HostSide, StageArchCode
    from fatpack.text.findings import FindingRecord, UnlistedRecord

    class ArchCodeRecord(TypedDict):
        """The code of a stage for one architecture, and the names of its kernels."""

        triple: str
        arch: str
        forms: list[str]
        kernels: list[str]
        all_named: bool

    class HostSideRecord(TypedDict):
        """The kernels that host code launches and registers; ``registered`` is None if it was not read."""

        launched: list[str]
        registered: list[str] | None
        why_not: str

    class StageRecord(TypedDict):
        """One stage of a build."""

        stage: str
        files: list[str]
        architectures: list[ArchCodeRecord]
        unplaced: list[str]
        host: HostSideRecord | None

    class LostRecord(TypedDict):
        """Code that a stage had and a later one lacks."""

        what: str
        arch: str
        kernels: list[str]
        had: str
        stage: str
        served_by: list[str]

    class NotComparedRecord(TypedDict):
        """A stage that could not be compared, and the reason."""

        stage: str
        why: str

    class StagesDocument(TypedDict):
        """The document of ``check-stages``."""

        schema: str
        stages: list[StageRecord]
        of_no_stage: list[str]
        lost: list[LostRecord]
        not_compared: list[NotComparedRecord]
        findings: list[FindingRecord]
        unlisted_findings: NotRequired[list[UnlistedRecord]]


SCHEMA = "fatpack.check/1"


def stages_record(checked: StagesReport) -> StagesDocument:
    """Return the document of a check: the stages, what was lost on the way, and the findings."""
    found = FindingList()
    found.extend(checked.findings)
    unlisted = unlisted_records(found)
    document: StagesDocument = {
        "schema": SCHEMA,
        "stages": [_stage(each) for each in checked.stages],
        "of_no_stage": [each.path for each in checked.others],
        "lost": [_lost(each) for each in checked.lost],
        "not_compared": [{"stage": each.stage.kind, "why": each.why} for each in checked.not_compared],
        "findings": [finding_record(item) for item in found.kept],
    }
    if unlisted:
        document["unlisted_findings"] = unlisted
    return document


def _stage(stage: BuildStage) -> StageRecord:
    return {
        "stage": stage.kind,
        "files": list(stage.paths),
        "architectures": [_part(each) for each in stage.parts],
        "unplaced": [code.form for code in stage.unplaced],
        "host": _host(stage.host),
    }


def _part(part: StageArchCode) -> ArchCodeRecord:
    return {
        "triple": part.target.triple,
        "arch": part.target.arch,
        "forms": list(part.forms),
        "kernels": sorted(part.kernels),
        "all_named": part.is_whole,
    }


def _host(host: HostSide | None) -> HostSideRecord | None:
    if host is None:
        return None
    return {
        "launched": sorted(host.launched),
        "registered": None if host.registered is None else sorted(host.registered),
        "why_not": host.why_not,
    }


def _lost(lost: LostCode) -> LostRecord:
    return {
        "what": lost.what,
        "arch": lost.arch,
        "kernels": list(lost.kernels),
        "had": lost.had.kind,
        "stage": lost.lost.kind,
        "served_by": list(lost.served),
    }


def render_stages(document: StagesDocument, *, verbose: int = 0) -> Iterator[str]:
    """Yield the lines of a document: a row for each stage, then the findings; ``verbose`` names the kernels."""
    stages = document["stages"]
    for stage, row in zip(stages, align_columns(list(map(_row, stages))), strict=True):
        yield row
        for part in stage["architectures"] if verbose else ():
            names = ", ".join(part["kernels"]) or ("none" if part["all_named"] else "not named")
            yield printable(f"  {part['arch'] or part['triple']} ({', '.join(part['forms'])}): {names}")
        if verbose and (host := stage["host"]):
            for what, names_of in (("launched", host["launched"]), ("registered", host["registered"])):
                if names_of:
                    yield printable(f"  {what}: {', '.join(names_of)}")
    unlisted = document.get("unlisted_findings", [])
    yield from finding_lines_by_file(document["findings"], unlisted, verbose=verbose)
    is_well = all(item["severity"] == "note" for item in (*document["findings"], *unlisted))
    if is_well and len(stages) > 1:
        so_far = " as far as they can be compared" if document["not_compared"] else ""
        yield f"every stage has what those before it have{so_far}"


def _row(stage: StageRecord) -> list[str]:
    parts, host = stage["architectures"], stage["host"]
    kernels = {name for part in parts for name in part["kernels"]}
    places = [part["arch"] or part["triple"] for part in parts]
    archs = ", ".join((*places, *dict.fromkeys(stage["unplaced"]))) or "no device code"
    facts = [pluralize(len(kernels), "kernel")] if kernels else []
    if host and host["launched"]:
        facts.append(f"{len(host['launched'])} launched")
    if host and host["registered"] is not None:
        facts.append(f"{len(host['registered'])} registered")
    return [stage["stage"], printable(", ".join(stage["files"])), printable(archs), ", ".join(facts)]
