"""``inspect --runtime``: kernels that objects and programs launch and register, by object, program or member."""

from __future__ import annotations

import sys

from fatpack.command_line.messages import print_stderr
from fatpack.command_line.terminal import write_text
from fatpack.command_line.trees import ShownFile, TreeListing
from fatpack.commands.inspect.text import has_registration, registration_words
from fatpack.errors import FatpackError, pluralize
from fatpack.exit_codes import FINE, error_message, exit_code, exit_code_for_findings, worst_exit_code
from fatpack.inputs.files import Filter
from fatpack.io.open import is_tree
from fatpack.printable import printable
from fatpack.record import Record
from fatpack.registration.analysis import analyze, counts, findings
from fatpack.registration.analysis.counts import WRAPPER
from fatpack.registration.analysis.findings import name_list
from fatpack.scanner import registration_verdict as judgement
from fatpack.scanner import scan
from fatpack.scanner.context import detect_package
from fatpack.scanner.image_names import kernel_names_by_arch
from fatpack.selectors.address import open_argument
from fatpack.text.findings import FindingList, finding_lines, finding_record, unlisted_records
from fatpack.text.json import PreparedJson, json_text
from fatpack.text.style import align_columns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from fatpack.commands.inspect.listing import (
        FailureRecord,
        OffloadEntryRecord,
        RegisteredCalls,
        RegisteredKernel,
        RegisteredVariable,
        RegistrationCountsRecord,
        RegistrationFacts,
        RuntimeConstructor,
        RuntimeDescriptor,
        RuntimeRecord,
        RuntimeWrapper,
        UnitRecord,
    )
    from fatpack.inputs.files import InputFile
    from fatpack.io.source import View
    from fatpack.registration.analysis.findings import KernelsByArch
    from fatpack.registration.analysis.model import RegistrationEvidence


SCHEMA = "fatpack.runtime/1"


def registration_record(view: View) -> RuntimeRecord:
    """Return the record of one file."""
    scanned = judgement.ScannedContainers(scan(view))
    found = list(judgement.read_registering_files(view, scanned))
    verdict = judgement.make_verdict(scanned.findings, found)
    findings = FindingList()
    findings.extend(scanned.findings)
    findings.extend(item for part in found for item in part.findings)
    unlisted = unlisted_records(findings)
    record: RuntimeRecord = {
        "path": view.chain[0] if view.chain else "",
        "size": len(view),
        "verdict": verdict.word,
        "why_not": verdict.why_not if verdict.word == judgement.NOT_JUDGED else "",
        "not_checked": verdict.unchecked if verdict.word == judgement.AGREES else "",
        "units": [unit for part in found if (unit := _unit_record(part, scanned)) is not None],
        "findings": [finding_record(item) for item in findings.kept],
    }
    if unlisted:
        record["unlisted_findings"] = unlisted
    return record


def failed_registration_record(path: str, error: FatpackError | OSError) -> RuntimeRecord:
    """Return the record of a file that could not be read at all."""
    problem: FailureRecord = {"message": error_message(error), "exit_code": exit_code(error)}
    return {"path": path, "size": None, "units": [], "findings": [], "error": problem}


def _unit_record(part: judgement.RegisteringFile, scanned: judgement.ScannedContainers) -> UnitRecord | None:
    """Return the record of one object or program, None if it registers nothing."""
    evidence = part.evidence
    if evidence is None:
        return {"member": part.member, "host": part.host, "read": part.way}
    if not (evidence.called or evidence.wrappers or evidence.tables or evidence.stubs or evidence.binaries):
        return None
    facts = _facts(evidence, part.kernels)
    record: UnitRecord = {"member": part.member, "host": part.host, "read": part.way, **facts}
    if part.way == "no capstone":
        known = kernel_names_by_arch(scanned.containers.get(part.numbers, []), judgement.IMAGES) or {}
        likely = analyze.likely_registered(part.view, part.host, set[str]().union(*known.values()))
        record["likely"] = [name for name in likely if name not in evidence.kernels]
    return record


def _facts(evidence: RegistrationEvidence, kernels: KernelsByArch | None) -> RegistrationFacts:
    compared: RegistrationFacts = {"compared": kernels is not None}
    if kernels:
        compared["lacking"] = findings.missing_kernels(kernels, evidence.kernels.keys())
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
        **compared,
        "wrappers": _wrappers(evidence),
        "descriptors": _descriptors(evidence),
        "constructors": _constructors(evidence),
        **_calls(evidence),
        "entries": _entries(evidence),
        "called": dict(sorted(evidence.called.items())),
    }


def _wrappers(evidence: RegistrationEvidence) -> list[RuntimeWrapper]:
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


def _descriptors(evidence: RegistrationEvidence) -> list[RuntimeDescriptor]:
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


def _constructors(evidence: RegistrationEvidence) -> list[RuntimeConstructor]:
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


def _calls(evidence: RegistrationEvidence) -> RegisteredCalls:
    """Return what calls register and launch, each with the function that the call is in."""
    kernels: list[RegisteredKernel] = []
    variables: list[RegisteredVariable] = []
    for each in evidence.registered:
        function = _title(evidence, each.caller)
        if each.is_kernel:
            kernels.append({"model": each.model, "name": each.name, "handle": each.handle, "function": function})
        else:
            variables.append({"model": each.model, "name": each.name, "function": function})
    return {
        "kernels": kernels,
        "variables": variables,
        "launches": [
            {
                "model": each.model,
                "handle": each.handle,
                "offset": _offset(evidence, each.at),
                "function": evidence.stubs.get(each.caller) or _title(evidence, each.caller),
            }
            for each in evidence.launches
        ],
    }


def _entries(evidence: RegistrationEvidence) -> list[OffloadEntryRecord]:
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


# The text of ``inspect --runtime``.
#
# ::
#
#     libx.so: program, x86-64, read from its code
#       registered: 2 kernels, 1 variable, by nvcc
#       wrapper cuda v1 at 0x2f8 → 0x1200
#       constructor at 0x2de0 (.init_array): __sti____cudaRegisterAll registers 0x3f58
#       kernel cuda add_one at 0x11e9

_WAYS = {
    "relocations": "read from its relocations",
    "code": "read from its code",
    "not read": "its code is not read",
    "other": "its code is not read",
    "damaged": "its tables are damaged or could not be read",
    "lto": "LTO code: not looked at, compile it to see what it registers",
    "no capstone": "its code is read in part: pip install capstone (the extra fatpack[code]) for the rest",
}


def render_registration(record: RuntimeRecord) -> Iterator[str]:
    """Yield the lines for one file."""
    path = printable(record["path"])
    if not record["units"]:
        yield f"{path}: nothing that launches or registers device code"
    for unit in record["units"]:
        name = path if unit["member"] is None else f"{path}({printable(unit['member'])})"
        what = unit["host"] if "linked" not in unit else "program" if unit["linked"] else "object"
        facts = [what, unit.get("machine", ""), _WAYS[unit["read"]]]
        yield f"{name}: {', '.join(fact for fact in facts if fact)}"
        if "called" in unit:
            yield from _unit_lines(unit, is_registered=has_registration(record["findings"]))
        if "likely" in unit:
            names = unit["likely"]
            shown = f": {name_list(names)}" if names else ""
            count = pluralize(len(names), "kernel")
            yield printable(f"  probably registered: {count}, whose names are in the program's data{shown}")
    if record.get("verdict") in ("agrees", "not judged"):
        why = f": {record['why_not']}" if record["why_not"] else ""
        why += f"; not checked: {record['not_checked']}" if record["not_checked"] else ""
        yield printable(f"  verdict: {record['verdict']}{why}")
    unlisted = record.get("unlisted_findings", ())
    yield from finding_lines(record["findings"], "  ", unlisted=unlisted, path=record["path"], verbose=1)


def _unit_lines(unit: UnitRecord, *, is_registered: bool) -> Iterator[str]:
    total: RegistrationCountsRecord = {
        "member": unit["member"],
        "models": [],
        "kernels": unit["kernel_count"],
        "variables": unit["variable_count"],
        "records": 0,
        "by": unit["producer"],
    }
    is_of_link = total["by"] == WRAPPER and not total["kernels"]
    own = registration_words(total, is_registered=is_registered)
    yield f"  {f'registered: what the link brings, by {WRAPPER}' if is_of_link else own}"
    is_loop = unit["registers_entries"]
    if is_loop:
        yield "  registers the offload entries of all objects"
    elif unit["unread"]:
        yield f"  {pluralize(unit['unread'], 'more kernel')}: the registration was not read"
    if unit["unfollowed"]:
        does = "launches or registers" if unit["unfollowed"] == 1 else "launch or register"
        yield f"  not followed: {pluralize(unit['unfollowed'], 'function')} that {does}"
    yield from (printable(f"  at the link {words}") for words in unit["awaited"])
    for each in unit["wrappers"]:
        target = each["symbol"] or (f"{each['target_offset']:#x}" if each["target_offset"] else f"{each['target']:#x}")
        yield printable(f"  wrapper {each['model']} v{each['version']} at {each['offset']:#x} → {target}")
    for descriptor in unit["descriptors"]:
        images = pluralize(len(descriptor["images"]), "image")
        yield printable(f"  descriptor {descriptor['model']} at {descriptor['offset'] or 0:#x}: {images}")
        for image in descriptor["images"]:
            place = f" at {image['data_offset']:#x}" if image["data_offset"] else ""
            yield printable(f"    image {image['target'] or '-'}{place}, {pluralize(image['size'], 'byte')}")
    for constructor in unit["constructors"]:
        title = constructor["function"] or f"{constructor['address']:#x}"
        priority = "" if constructor["priority"] is None else f", priority {constructor['priority']}"
        leads = [f"{wrapper:#x}" if wrapper is not None else "unknown" for wrapper in constructor["registers"]]
        what = f" registers {', '.join(leads)}" if leads else ""
        place = f" at {constructor['offset']:#x}" if constructor["offset"] else ""
        yield printable(f"  constructor{place} ({constructor['section']}{priority}): {title}{what}")
    yield from _call_lines(unit, has_loop=is_loop)
    yield from _lacking(unit.get("lacking", {}))


def _call_lines(unit: UnitRecord, *, has_loop: bool) -> Iterator[str]:
    """Yield what is registered and launched; with a loop over the entries, calls without a name are that loop."""
    for kernel in unit["kernels"]:
        if kernel["name"] or not has_loop:
            handle = f" at {kernel['handle']:#x}" if kernel["handle"] is not None else ""
            yield printable(f"  kernel {kernel['model']} {kernel['name'] or '(name not read)'}{handle}")
    for variable in unit["variables"]:
        if variable["name"] or not has_loop:
            yield printable(f"  variable {variable['model']} {variable['name'] or '(name not read)'}")
    for entry in unit["entries"]:
        size = f", {pluralize(entry['size'], 'byte')}" if entry["size"] else ""
        flags = f", flags {entry['flags']:#x}" if entry["flags"] else ""
        name = entry["name"] or "(name not read)"
        yield printable(f"  entry {entry['kind']} {name} at {entry['address']:#x}{size}{flags}")
    for launch in unit["launches"]:
        yield printable(f"  launch {launch['model']} of {launch['handle']:#x} in {launch['function'] or '?'}")


def _lacking(missing: dict[str, list[str]]) -> Iterator[str]:
    """Yield the table of the kernels that some architectures lack: what is registered, by what images have."""
    archs = sorted({arch for lacking in missing.values() for arch in lacking})
    if archs:
        rows = [["registered", *archs]]
        rows += [
            [name, *("missing" if arch in lacking else "yes" for arch in archs)] for name, lacking in missing.items()
        ]
        yield from map(printable, align_columns(rows, indent="  "))


# The run of ``fatpack inspect --runtime`` for files: registered and launched kernels, and the code that registers.


def show_registration(files: Sequence[str], *, as_json: bool, exclude: tuple[str, ...] = ()) -> int:
    """Print what the files register and launch, and return the exit code as ``inspect`` does.

    Of folders, patterns and packages every file that has to do with a runtime is shown, and a line counts the rest;
    ``exclude`` are patterns of files left out.
    """
    shown = _ShownRegistrations(as_json=as_json, exclude=exclude)
    records = (record for path in files for record in shown.records(path))
    if as_json:
        from fatpack.text.json import document_pieces

        sys.stdout.writelines(document_pieces({"schema": SCHEMA}, "files", records, tail=shown.tail))
    else:
        for record in records:
            _write(record)
    shown.end()
    return shown.code


class _ShownRegistrations:
    """Records or text of each argument, and the exit code so far."""

    def __init__(self, *, as_json: bool, exclude: tuple[str, ...]) -> None:
        self._as_json, self._exclude = as_json, exclude
        self._trees: TreeListing | None = None
        self.code = FINE

    def records(self, path: str) -> Iterator[Any]:
        """Yield the record of a file, or what is shown of each file in a tree."""
        if is_tree(path):
            yield from self._of_tree(path)
            return
        try:
            source, view = open_argument(path)
            with source:
                if detect_package(view):
                    yield from self._of_tree(view.chain[0] if view.chain else path, view)
                    return
                record = registration_record(view)
        except BrokenPipeError:
            raise
        except (FatpackError, OSError) as error:
            self.code = worst_exit_code((self.code, exit_code(error)))
            yield failed_registration_record(path, error)
            return
        self.code = worst_exit_code(
            (self.code, exit_code_for_findings((item["severity"], item["code"]) for item in record["findings"]))
        )
        yield record

    def _of_tree(self, path: str, view: View | None = None) -> Iterator[Any]:

        if self._trees is None:
            self._trees = registration_trees(self._exclude, as_json=self._as_json)
        for item in self._trees.shown(path, view):
            yield item.content if self._as_json else item
        self.code = worst_exit_code((self.code, self._trees.code))

    def tail(self) -> dict[str, object]:
        """Return what JSON says of the trees after their files: how much was met in each."""
        return {"trees": [item.record() for item in self._trees.summaries]} if self._trees is not None else {}

    def end(self) -> None:
        """Print the line that ends what is shown of trees, and say which patterns left nothing out of them."""
        if self._trees is None:
            return
        from fatpack.command_line.trees import report_unused, summary_line

        if not self._as_json:
            write_text([summary_line(self._trees.summaries, deep=True, what="unit")])
        sys.stdout.flush()
        report_unused(self._exclude, self._trees.summaries)


def _write(record: Any) -> None:
    """Print the record of a file, or the lines that were made of one in a tree."""
    is_record = isinstance(record, dict)
    error = record.get("error", {}).get("message") if is_record else record.error
    if error:
        sys.stdout.flush()
        print_stderr(f"fatpack: error: {error}")
    else:
        write_text(render_registration(record) if is_record else record.content)


# The run of ``fatpack inspect --runtime`` for folders, patterns and packages: files that register or launch.
#
# Others are counted, unless something is wrong with them.


class _RegistrationReader(Record):
    """Makes the text or the record of one file of a tree."""

    as_json: bool

    def __call__(self, leaf: InputFile) -> ShownFile:
        if leaf.error is not None:
            return self._made(
                failed_registration_record(leaf.path, leaf.error), exit_code(leaf.error), is_file=not leaf.package
            )
        if leaf.package:
            found = [finding_record(item) for item in leaf.findings]
            code = exit_code_for_findings((item["severity"], item["code"]) for item in found)
            record: RuntimeRecord = {"path": leaf.path, "size": leaf.size, "units": [], "findings": found}
            return self._made(record, code, is_file=False) if code else ShownFile(is_file=False)
        assert leaf.view is not None
        try:
            record = registration_record(leaf.view)
        except (FatpackError, OSError) as error:
            return self._made(failed_registration_record(leaf.path, error), exit_code(error))
        record["path"], size = leaf.path, len(leaf.view)
        code = exit_code_for_findings((item["severity"], item["code"]) for item in record["findings"])
        count = len(record["units"])
        return self._made(record, code, images=count or None, size=size) if count or code else ShownFile(size=size)

    def _made(self, record: RuntimeRecord, code: int, **facts: Any) -> ShownFile:
        error = record["error"]["message"] if record.get("error") else ""
        if self.as_json:
            return ShownFile(PreparedJson(json_text(record, "\n  ")), code, error, **facts)
        return ShownFile(None if error else list(render_registration(record)), code, error, **facts)


def registration_trees(exclude: tuple[str, ...], *, as_json: bool) -> TreeListing:
    """Return what shows the folders, patterns and packages that one command was given."""
    return TreeListing(_RegistrationReader(as_json), Filter(exclude))
