"""The groups of a link plan as plain data: the manifest of ``link-inputs``.

``schemas/link-inputs.schema.json`` describes it. A script that links needs the groups alone: for each a target and, in
the order of the link line, the names of the files.
"""

from __future__ import annotations

from fatpack.errors import pluralize
from fatpack.printable import format_size, printable
from fatpack.text.style import align_columns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from fatpack.commands.link_inputs.input_files import LinkImage, LinkInput
    from fatpack.commands.link_inputs.plan import ImageGroup, LinkPlan
    from fatpack.model import Target


SCHEMA = "fatpack.link-inputs/1"


def link_record(plan: LinkPlan) -> dict[str, Any]:
    """Return the document of a link line."""
    from fatpack.text.findings import FindingList, finding_record, unlisted_records

    found = FindingList()
    found.extend(plan.findings)
    unlisted = unlisted_records(found)
    names = {each.device.number: each.name for each in plan.files}
    return {
        "schema": SCHEMA,
        "llvm": plan.llvm,
        "groups": [_group(each, names) for each in plan.groups],
        "files": [_file(each.name, each.device, plan) for each in plan.files],
        "left": [_place(each, plan) for each in plan.unlinked],
        "inputs": [_input(each) for each in plan.inputs],
        "passed_by": list(plan.ignored_words),
        "findings": [finding_record(item) for item in found.kept],
        **({"unlisted_findings": unlisted} if unlisted else {}),
    }


def manifest_bytes(plan: LinkPlan) -> bytes:
    """Return the content of ``link-inputs.json``."""
    from fatpack.text.json import json_pieces

    return "".join((*json_pieces(link_record(plan)), "\n")).encode()


def _group(group: ImageGroup, names: Mapping[int, str]) -> dict[str, Any]:
    from fatpack.commands.link_inputs.input_files import is_bitcode

    return {
        "triple": group.target.triple,
        "arch": group.target.arch,
        "offloads": list(group.offloads),
        "bitcode_only": all(is_bitcode(each.image.data) for each in group.devices),
        "files": [names[each.number] for each in group.devices],
        **({"refusal": group.refusal} if group.refusal else {}),
    }


def _file(name: str, device: LinkImage, plan: LinkPlan) -> dict[str, Any]:
    return {"file": name, **_place(device, plan), "form": device.form, "size": device.image.size}


def _place(device: LinkImage, plan: LinkPlan) -> dict[str, Any]:
    image = device.image
    return {
        "input": plan.inputs[device.input].path,
        "member": device.member or None,
        "where": list(image.span.source),
        "offset": image.span.start,
        "triple": image.target.triple,
        "arch": image.target.arch,
        "offload": image.target.offload,
    }


def _input(item: LinkInput) -> dict[str, Any]:
    return {
        "path": item.path,
        "kind": item.kind,
        "whole_archive": item.is_whole,
        "images": item.images,
        **({"why": item.why} if item.why else {}),
        **({"other_sections": list(item.other)} if item.other else {}),
    }


# The groups of a link line as text, one line each, with their files below them.


#: Archives from which nothing was taken that are named.
_ARCHIVES_SHOWN = 4


def render_link_inputs(plan: LinkPlan, *, verbose: int = 0) -> Iterator[str]:
    """Yield the lines of a plan; ``verbose`` adds the files of each group, and inputs of which nothing is taken."""
    names = {each.device.number: each.name for each in plan.files}
    for line, group in zip(align_columns(list(map(_group_row, plan.groups))), plan.groups, strict=True):
        yield line
        if verbose:
            rows = [[names[each.number], printable(_title(each, plan))] for each in group.devices]
            yield from align_columns(rows, indent="  ")
        if group.refusal:
            yield f"  {group.refusal}"
    if plan.unlinked:
        targets = dict.fromkeys(_target(each.image.target) for each in plan.unlinked)
        archives = list(dict.fromkeys(plan.inputs[each.input].path for each in plan.unlinked))
        more = f" and {len(archives) - _ARCHIVES_SHOWN} more" if len(archives) > _ARCHIVES_SHOWN else ""
        yield printable(
            f"{pluralize(len(plan.unlinked), 'image')} in archives not linked, "
            "for targets that nothing else is for: "
            f"{', '.join(targets)}; --whole-archive in front of {', '.join(archives[:_ARCHIVES_SHOWN])}{more} "
            "takes all of its images"
        )
    for item in plan.inputs if verbose else ():
        if item.why:
            other = f"; device code in {', '.join(item.other)}" if item.other else ""
            yield printable(f"{item.path}: not linked: {item.why}{other}")


def _title(device: LinkImage, plan: LinkPlan) -> str:
    path = plan.inputs[device.input].path
    return f"{device.member} in {path}" if device.member else path


def _target(target: Target) -> str:
    return " ".join(filter(None, (target.triple, target.arch)))


def _group_row(group: ImageGroup) -> list[str]:
    total = sum(each.image.size for each in group.devices)
    count = pluralize(len(group.devices), "image")
    return [
        printable(_target(group.target) or "no target"),
        ",".join(group.offloads) or "none",
        f"{count}, {format_size(total)}",
    ]
