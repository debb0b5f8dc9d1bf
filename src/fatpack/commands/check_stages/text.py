"""JSON and text of ``check-stages``.

The record is ``stages`` in a document of ``fatpack.check/1``; ``schemas/check.schema.json`` describes it.
"""

from __future__ import annotations

from fatpack.errors import pluralize
from fatpack.printable import printable
from fatpack.text.findings import FindingList, finding_record, unlisted_records
from fatpack.text.style import align_columns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from fatpack.commands.check_stages.run import LostCode, StagesReport
    from fatpack.commands.check_stages.stage import BuildStage, HostSide, StageArchCode
    from fatpack.text.findings import FindingRecord, UnlistedRecord

SCHEMA = "fatpack.check/1"


def stages_record(checked: StagesReport) -> dict[str, Any]:
    """Return the document of a check: the stages, what was lost on the way, and the findings."""
    found = FindingList()
    found.extend(checked.findings)
    unlisted = unlisted_records(found)
    return {
        "schema": SCHEMA,
        "stages": [_stage(each) for each in checked.stages],
        "of_no_stage": [each.path for each in checked.others],
        "lost": [_lost(each) for each in checked.lost],
        "not_compared": [{"stage": each.stage.kind, "why": each.why} for each in checked.not_compared],
        "findings": [finding_record(item) for item in found.kept],
        **({"unlisted_findings": unlisted} if unlisted else {}),
    }


def _stage(stage: BuildStage) -> dict[str, Any]:
    return {
        "stage": stage.kind,
        "files": list(stage.paths),
        "architectures": [_part(each) for each in stage.parts],
        "unplaced": [code.form for code in stage.unplaced],
        "host": _host(stage.host),
    }


def _part(part: StageArchCode) -> dict[str, Any]:
    return {
        "triple": part.target.triple,
        "arch": part.target.arch,
        "forms": list(part.forms),
        "kernels": sorted(part.kernels),
        "all_named": part.is_whole,
    }


def _host(host: HostSide | None) -> dict[str, Any] | None:
    if host is None:
        return None
    return {
        "launched": sorted(host.launched),
        "registered": None if host.registered is None else sorted(host.registered),
        "why_not": host.why_not,
    }


def _lost(lost: LostCode) -> dict[str, Any]:
    return {
        "what": lost.what,
        "arch": lost.arch,
        "kernels": list(lost.kernels),
        "had": lost.had.kind,
        "stage": lost.lost.kind,
        "served_by": list(lost.served),
    }


def render_stages(document: Mapping[str, Any], *, verbose: int = 0) -> Iterator[str]:
    """Yield the lines of a document: a row for each stage, then the findings; ``verbose`` names the kernels."""
    from fatpack.text.findings import finding_lines

    stages = document["stages"]
    for stage, row in zip(stages, align_columns(list(map(_row, stages))), strict=True):
        yield row
        for part in stage["architectures"] if verbose else ():
            names = ", ".join(part["kernels"]) or ("none" if part["all_named"] else "not named")
            yield printable(f"  {part['arch'] or part['triple']} ({', '.join(part['forms'])}): {names}")
        if verbose and stage["host"]:
            for what in ("launched", "registered"):
                if stage["host"][what]:
                    yield printable(f"  {what}: {', '.join(stage['host'][what])}")
    groups: dict[str, list[FindingRecord]] = {}
    for item in document["findings"]:
        groups.setdefault(item["where"][0] if item["where"] else "", []).append(item)
    unlisted: dict[str, list[UnlistedRecord]] = {}
    for item in document.get("unlisted_findings", ()):
        unlisted.setdefault(item["where"][0] if item["where"] else "", []).append(item)
    for path in dict.fromkeys((*groups, *unlisted)):
        yield from finding_lines(groups.get(path, ()), unlisted=unlisted.get(path, ()), title=path, verbose=verbose)
    is_well = all(
        item["severity"] == "note" for item in (*document["findings"], *document.get("unlisted_findings", ()))
    )
    if is_well and len(stages) > 1:
        so_far = " as far as they can be compared" if document["not_compared"] else ""
        yield f"every stage has what those before it have{so_far}"


def _row(stage: Mapping[str, Any]) -> list[str]:
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
