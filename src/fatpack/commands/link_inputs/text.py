"""What goes into which device link, as plain data: the manifest of ``link-inputs``.

``schemas/link-inputs.schema.json`` describes it. A script that links needs the groups alone: for each a target and, in
the order of the link line, the names of the files.
"""

from __future__ import annotations

from fatpack.commands.link_inputs.input_files import is_bitcode
from fatpack.text.finding_list import FindingList, finding_record, unlisted_records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from fatpack.commands.link_inputs.groups import ImageGroup
    from fatpack.commands.link_inputs.input_files import LinkImage, LinkInput
    from fatpack.commands.link_inputs.plan import LinkPlan

SCHEMA = "fatpack.link-inputs/1"


def link_record(plan: LinkPlan) -> dict[str, Any]:
    """Return the document of a link line."""
    found = FindingList()
    found.extend(plan.findings)
    unlisted = unlisted_records(found)
    names = {id(each.device): each.name for each in plan.files}
    return {
        "schema": SCHEMA,
        "llvm": plan.llvm,
        "groups": [_group(each, names) for each in plan.groups],
        "files": [_file(each.name, each.device, plan) for each in plan.files],
        "left": [_place(each, plan) for each in plan.left],
        "inputs": [_input(each) for each in plan.inputs],
        "passed_by": list(plan.passed_by),
        "findings": [finding_record(item) for item in found.kept],
        **({"unlisted_findings": unlisted} if unlisted else {}),
    }


def _group(group: ImageGroup, names: Mapping[int, str]) -> dict[str, Any]:
    return {
        "triple": group.target.triple,
        "arch": group.target.arch,
        "offloads": list(group.offloads),
        "bitcode_only": all(is_bitcode(each.image.data) for each in group.devices),
        "files": [names[id(each)] for each in group.devices],
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
