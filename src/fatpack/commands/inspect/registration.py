"""What a file launches and registers, as plain data: one unit per object, program, or member of an archive."""

from __future__ import annotations

from fatpack.exit_codes import error_message, exit_code
from fatpack.registration.analysis import analyze, compared, counts
from fatpack.scanner import registration_verdict as judgement
from fatpack.scanner import scan
from fatpack.scanner.known import kernel_names_by_arch
from fatpack.text.finding_list import FindingList, finding_record, unlisted_records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fatpack.errors import FatpackError
    from fatpack.io.source import View
    from fatpack.registration.analysis.compared import KernelsByArch
    from fatpack.registration.analysis.model import RegistrationEvidence

SCHEMA = "fatpack.registration.analysis/1"


def registration_record(view: View) -> dict[str, Any]:
    """Return the record of one file."""
    scanned = judgement.ScannedContainers(scan(view))
    found = list(judgement.read_registering_files(view, scanned))
    verdict = judgement.make_verdict(scanned.findings, found)
    findings = FindingList()
    findings.extend(scanned.findings)
    findings.extend(item for part in found for item in part.findings)
    unlisted = unlisted_records(findings)
    return {
        "path": view.chain[0] if view.chain else "",
        "size": len(view),
        "verdict": verdict.word,
        "why_not": verdict.why_not if verdict.word == judgement.NOT_JUDGED else "",
        "units": [unit for part in found if (unit := _unit_record(part, scanned)) is not None],
        "findings": [finding_record(item) for item in findings.kept],
        **({"unlisted_findings": unlisted} if unlisted else {}),
    }


def failed_registration_record(path: str, error: FatpackError | OSError) -> dict[str, Any]:
    """Return the record of a file that could not be read at all."""
    problem = {"message": error_message(error), "exit_code": exit_code(error)}
    return {"path": path, "size": None, "units": [], "findings": [], "error": problem}


def _unit_record(part: judgement.RegisteringFile, scanned: judgement.ScannedContainers) -> dict[str, Any] | None:
    """Return the record of one object or program, None if it registers nothing."""
    record: dict[str, Any] = {"member": part.member, "host": part.host, "read": part.way}
    evidence = part.evidence
    if evidence is None:
        return record
    if not (evidence.called or evidence.wrappers or evidence.tables or evidence.stubs or evidence.binaries):
        return None
    record |= _facts(evidence, part.kernels)
    if part.way == "no capstone":
        known = kernel_names_by_arch(scanned.containers.get(part.numbers, []), judgement.IMAGES) or {}
        likely = analyze.likely_registered(part.view, part.host, set[str]().union(*known.values()))
        record["likely"] = [name for name in likely if name not in evidence.kernels]
    return record


def _facts(evidence: RegistrationEvidence, kernels: KernelsByArch | None) -> dict[str, Any]:
    return {
        "linked": evidence.is_linked,
        "machine": evidence.memory.machine,
        "producer": counts.likely_producer(evidence),
        "awaited": counts.link_step_additions(evidence),
        "kernel_count": counts.kernel_count(evidence),
        "variable_count": counts.variable_count(evidence),
        "unread": evidence.unread,
        "registers_entries": counts.registers_entries(evidence),
        "unfollowed": evidence.unfollowed,
        "compared": kernels is not None,
        **({"lacking": compared.missing_kernels(kernels, evidence.kernels.keys())} if kernels else {}),
        "wrappers": _wrappers(evidence),
        "descriptors": _descriptors(evidence),
        "constructors": _constructors(evidence),
        **_calls(evidence),
        "entries": _entries(evidence),
        "called": dict(sorted(evidence.called.items())),
    }


def _wrappers(evidence: RegistrationEvidence) -> list[dict[str, Any]]:
    return [
        {
            "model": each.model,
            "address": each.at,
            "offset": evidence.memory.view.offset(each.position),
            "version": each.version,
            "target": each.target,
            "target_offset": _offset(evidence, each.target),
            "symbol": each.symbol,
        }
        for each in evidence.wrappers
    ]


def _descriptors(evidence: RegistrationEvidence) -> list[dict[str, Any]]:
    return [
        {
            "model": each.model,
            "address": each.at,
            "offset": _offset(evidence, each.at),
            "images": [
                {
                    "offset": _offset(evidence, image.at),
                    "data_offset": _offset(evidence, image.begin),
                    "size": max(image.end - image.begin, 0),
                    "target": image.target,
                }
                for image in each.images
            ],
        }
        for each in evidence.descriptors
    ]


def _constructors(evidence: RegistrationEvidence) -> list[dict[str, Any]]:
    return [
        {
            "section": each.section,
            "priority": each.priority,
            "offset": _offset(evidence, each.place),
            "address": each.function,
            "function": _title(evidence, each.function),
            "registers": [binary.wrapper for binary in evidence.binaries if binary.caller == each.function],
        }
        for each in evidence.constructors
    ]


def _calls(evidence: RegistrationEvidence) -> dict[str, list[dict[str, Any]]]:
    """Return what calls register and launch, each with the function that the call is in."""
    kernels, variables = [], []
    for each in evidence.registered:
        known = {"model": each.model, "name": each.name}
        function = {"function": _title(evidence, each.caller)}
        if each.is_kernel:
            kernels.append({**known, "handle": each.handle, **function})
        else:
            variables.append({**known, **function})
    launches = [
        {
            "model": each.model,
            "handle": each.handle,
            "offset": _offset(evidence, each.at),
            "function": evidence.stubs.get(each.caller) or _title(evidence, each.caller),
        }
        for each in evidence.launches
    ]
    return {"kernels": kernels, "variables": variables, "launches": launches}


def _entries(evidence: RegistrationEvidence) -> list[dict[str, Any]]:
    return [
        {
            "kind": each.kind,
            "offset": evidence.memory.view.offset(each.position),
            "address": each.address,
            "name": each.name,
            "flags": each.flags,
            "size": each.size,
            "data": each.data,
            "aux": each.aux,
            "layout": each.layout,
        }
        for each in evidence.entries
    ]


def _title(evidence: RegistrationEvidence, address: int | None) -> str:
    """Return the name of the function at an address, "" where none is known."""
    function = evidence.memory.function_at(address) if address is not None else None
    return "" if function is None else function.name


def _offset(evidence: RegistrationEvidence, address: int) -> int | None:
    place = evidence.memory.place(address)
    return evidence.memory.view.offset(place) if place else None
