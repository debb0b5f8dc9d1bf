"""What a file launches and registers, as plain data: one unit per object, program, or member of an archive."""

from __future__ import annotations

from fatpack import hosts
from fatpack.errors import FormatError, HostError, Unsupported
from fatpack.io import limits
from fatpack.model import Finding
from fatpack.outcomes import exit_code, message
from fatpack.report.finding_list import finding_record
from fatpack.runtime.evidence import compared, judging, units
from fatpack.scanner import Found, host_of, scan
from fatpack.scanner.known import kernels_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from fatpack.errors import FatpackError
    from fatpack.io.source import View
    from fatpack.runtime.evidence.facts import Evidence

SCHEMA = "fatpack.runtime/1"

#: LIMIT: bytes of images that are inflated and read for the names of their kernels. Of more than that the names that a
#: program registers are not compared with any.
_IMAGES = 64 << 20


def registration(view: View) -> dict[str, Any]:
    """Return the record of one file."""
    found_units: list[dict[str, Any]] = []
    findings: list[Finding] = []
    found: dict[tuple[int, ...], list[Found]] = {}
    for item in scan(view):
        if isinstance(item, Finding):
            findings.append(item)
        else:
            found.setdefault(item.member_numbers, []).append(item)
    known = {item.code for item in findings}
    for member, numbers, part in _parts(view, None, (), limits.NESTING):
        unit, more = _unit(part, member, found.get(numbers, []), known)
        findings += more
        if unit is not None:
            found_units.append(unit)
    return {
        "path": view.chain[0] if view.chain else "",
        "size": len(view),
        "units": found_units,
        "findings": [finding_record(item) for item in findings],
    }


def failed(path: str, error: FatpackError | OSError) -> dict[str, Any]:
    """Return the record of a file that could not be read at all."""
    problem = {"message": message(error), "exit_code": exit_code(error)}
    return {"path": path, "size": None, "units": [], "findings": [], "error": problem}


def _parts(
    view: View, member: str | None, numbers: tuple[int, ...], depth: int
) -> Iterator[tuple[str | None, tuple[int, ...], View]]:
    """Yield the host files in a file, with the names of members and the numbers that lead to them."""
    host = host_of(view)
    if host != "archive":
        yield member, numbers, view
        return
    if not depth:
        return
    try:
        for site in hosts.room("archive").locate(view):
            if not isinstance(site, Finding) and site.expects == hosts.MEMBER:
                name = site.member if member is None else f"{member}({site.member})"
                yield from _parts(site.data, name, (*numbers, site.number), depth - 1)
    except (FormatError, HostError, Unsupported):
        return  # the scan has reported it


def _unit(
    view: View, member: str | None, found: list[Found], known: set[str]
) -> tuple[dict[str, Any] | None, list[Finding]]:
    """Return the record of one object or program, None if it has to do with no runtime, and what is wrong with it.

    ``known`` are the codes of what the scan has found.
    """
    host = host_of(view)
    evidence, way = judging.read(view, host)
    if evidence is None:
        record: dict[str, Any] = {"member": member, "host": host, "read": way}
        return (record if found or way == "not read" else None), []
    names = evidence.called or evidence.wrappers or evidence.tables or evidence.stubs
    if not names:
        return None, []
    findings: list[Finding] = []
    kernels = kernels_of(found, _IMAGES) if found and evidence.kernels else None
    if evidence.is_linked:
        findings = [item for item in judging.verdicts_of(evidence, kernels) if item.code not in known]
    record = {"member": member, "host": host, "read": way, **_facts(evidence, kernels)}
    if way == "no capstone":
        named = set[str]().union(*(kernels_of(found, _IMAGES) or {}).values())
        likely = judging.likely(view, host, named)
        record["likely"] = [name for name in likely if name not in evidence.kernels]
    return record, findings


def _facts(evidence: Evidence, kernels: dict[str, set[str]] | None) -> dict[str, Any]:
    return {
        "linked": evidence.is_linked,
        "machine": evidence.memory.machine,
        "producer": units.producer(evidence),
        "awaited": units.awaited(evidence),
        "kernel_count": units.kernel_count(evidence),
        "variable_count": units.variable_count(evidence),
        "unread": evidence.unread,
        "registers_entries": units.is_of_entries(evidence),
        "unfollowed": evidence.unfollowed,
        "compared": kernels is not None,
        **({"lacking": compared.missing(kernels, evidence.kernels.keys())} if kernels else {}),
        "wrappers": _wrappers(evidence),
        "descriptors": _descriptors(evidence),
        "constructors": _constructors(evidence),
        **_calls(evidence),
        "entries": _entries(evidence),
        "called": dict(sorted(evidence.called.items())),
    }


def _wrappers(evidence: Evidence) -> list[dict[str, Any]]:
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


def _descriptors(evidence: Evidence) -> list[dict[str, Any]]:
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


def _constructors(evidence: Evidence) -> list[dict[str, Any]]:
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


def _calls(evidence: Evidence) -> dict[str, list[dict[str, Any]]]:
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


def _entries(evidence: Evidence) -> list[dict[str, Any]]:
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


def _title(evidence: Evidence, address: int | None) -> str:
    """Return the name of the function at an address, "" where none is known."""
    function = evidence.memory.function_at(address) if address is not None else None
    return "" if function is None else function.name


def _offset(evidence: Evidence, address: int) -> int | None:
    place = evidence.memory.place(address)
    return evidence.memory.view.offset(place) if place else None
