"""From evidence to verdicts: what is missing, how sure that is, which step has probably lost it, and what to do.

Three kinds of files lack something and are right: relocatable device code, which the link completes; libraries that
launch what others register; and sources compiled for the host alone. So a file is judged by handles, the addresses that
launches pass: one that is registered nowhere is wrong wherever the rest is.
"""

from __future__ import annotations

from fatpack.errors import pluralize
from fatpack.findings import finding
from fatpack.registration.analysis import functions
from fatpack.registration.analysis.model import BinaryCall
from fatpack.registration.analysis.wrappers import is_record, section_model

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from fatpack.model import Finding
    from fatpack.registration.analysis.model import RegistrationEvidence

CERTAIN, LIKELY = "certain", "likely"

#: names that one finding shows
_MAX_NAMES_SHOWN = 4

#: offload kind → what people call it
TITLES = {"cuda": "CUDA", "hip": "HIP", "openmp": "OpenMP", "sycl": "SYCL"}

HOST_STEP = "likely step: the compilation of the host code, or what was done to its module between"


def registration_problems(evidence: RegistrationEvidence) -> Iterator[Finding]:
    """Yield what is wrong with what a file of CUDA or HIP registers and launches, and with its tables of entries."""
    yield from _damaged_tables(evidence)
    for model in evidence.models():
        yield from _of_model(evidence, model)
    yield from _handles(evidence)


def make_finding(evidence: RegistrationEvidence, code: str, at: int, text: str, sure: str, hint: str) -> Finding:
    """Return a finding at the place of an address, or of the whole file."""
    view = evidence.memory.view
    position = evidence.memory.place(at) if at else 0
    sure = LIKELY if evidence.is_by_shape else sure
    span = view.slice(position, min(1, len(view) - position)).span() if position else view.span()
    return finding(code, span, f"{text} ({sure})", hint)


def confidence(evidence: RegistrationEvidence) -> str:
    """Return how sure constants are: the relocations of objects are there; those of programs were followed in code."""
    return LIKELY if evidence.is_linked else CERTAIN


def name_list(names: Iterable[str]) -> str:
    """Return some names as findings show them: the first ones, and how many more there are."""
    found = sorted(names)
    more = f" and {len(found) - _MAX_NAMES_SHOWN} more" if len(found) > _MAX_NAMES_SHOWN else ""
    return f"{', '.join(found[:_MAX_NAMES_SHOWN])}{more}"


def _damaged_tables(evidence: RegistrationEvidence) -> Iterator[Finding]:
    for table in evidence.tables:
        section = table.section
        if table.rest:
            span = section.data.slice(len(section.data) - table.rest, table.rest).span()
            text = f"{pluralize(table.rest, 'byte')} at the end of {section.name} are no whole offload entry"
            yield finding("FP3056", span, text, "the section was cut or put together wrongly; compile again")
        if table.more:
            text = f"more than {pluralize(len(table.entries), 'offload entry')}; the others are not read"
            yield finding("FP1005", section.data.span(), text)


def _of_model(evidence: RegistrationEvidence, model: str) -> Iterator[Finding]:
    title, called = TITLES[model], evidence.called
    pop = next((name for name, its in functions.POP.items() if its == model and name in called), "")
    stubs = _stubs(evidence, model)
    launches = [each for each in evidence.launches if each.model == model]
    wrappers = [each for each in evidence.wrappers if each.model == model]
    entries = [entry for entry in evidence.entries if entry.kind == model]
    register = _function(functions.REGISTER_BINARY, model)
    registers = is_called(evidence, register)
    kernels = [each for each in evidence.registered if each.model == model and each.is_kernel and each.is_read]
    links = evidence.links if model == "cuda" else ()
    if not (wrappers or registers or entries or links or kernels):
        if (pop and evidence.is_linked) or stubs or launches:
            sure = CERTAIN if evidence.is_linked else LIKELY
            what = f"{pluralize(len(stubs), 'kernel')} ({name_list(stubs.values())})" if stubs else "kernels"
            text = f"{title} host code launches {what}, and nothing here registers them"
            text += ": no wrapper, no call of a register function, no offload entry"
            hint = f"{HOST_STEP}, where the device code was not handed to it"
            if not evidence.is_linked:
                hint += "; a source compiled for the host alone looks the same"
            at = next(iter(stubs), launches[0].at if launches else 0)
            yield make_finding(evidence, "FP3041", at, text, sure, hint)
        return
    is_known = evidence.reached is not None and bool(pop or stubs or launches)
    # What a program imports it may call in ways that nobody sees: as through a pointer that it hands on.
    sure = LIKELY if register in called else CERTAIN
    if wrappers and not registers and not links and is_known:
        text = f"{pluralize(len(wrappers), 'record')} lead to {title} device code, and nothing registers them"
        text += f": {register} is not called"
        hint = f"{HOST_STEP}: its constructor is gone; compile it again"
        yield make_finding(evidence, "FP3053", wrappers[0].at, text, sure, hint)
    elif kernels and not registers and not links and evidence.reached is not None:
        text = f"{pluralize(len(kernels), 'kernel')} of {title} registered by calls, and no device code that has them"
        text += f": {register} is not called"
        hint = f"{HOST_STEP}: the call of {register} is gone; compile it again"
        yield make_finding(evidence, "FP3053", kernels[0].at, text, sure, hint)
    yield from _records(evidence, model)
    yield from _constructors(evidence, model, has_launches=bool(stubs or launches), has_entries=bool(entries))


def is_called(evidence: RegistrationEvidence, name: str) -> bool:
    """Return whether a file calls a function, or may: a name without a call in code that was followed is called by
    nobody, as where the calls were patched away. Objects that refer to it do so in ways that are not read.
    """
    count = evidence.called.get(name)
    return bool(count) or (count is not None and (not evidence.is_linked or bool(evidence.unfollowed)))


def _records(evidence: RegistrationEvidence, model: str) -> Iterator[Finding]:
    """Yield what is wrong with the records that are registered: that there is none where a call says, or one twice.

    A record with a wrong magic, in a section that is made for them, has been told; who hands on others' has none.
    """
    memory, title = evidence.memory, TITLES[model]
    known = {each.at: each.version for each in evidence.wrappers}
    calls: dict[int, list[BinaryCall]] = {}
    for each in evidence.binaries:
        if each.model == model and each.wrapper and each.wrapper not in memory.undefined:
            calls.setdefault(each.wrapper, []).append(each)
    starts = [each.function for each in evidence.constructors]
    for address, binaries in calls.items():
        first, section = binaries[0], memory.section_at(address)
        name = function_title(evidence, first.caller)
        if address not in known and not is_record(memory, address):
            if section is not None and section_model(section.name):
                continue
            where = f"in {section.name}" if section is not None else "which is in no section"
            text = f"{name} registers {title} device code by the record at {address:#x}, {where}: there is none"
            hint = "likely step: what was done to the file after its link, as a section removed; link again"
            yield make_finding(evidence, "FP3057", first.at, text, confidence(evidence), hint)
        times = max(len({each.at for each in binaries}), starts.count(first.caller))
        # Of nvcc's device link each unit has the call, and the last one that starts makes it.
        if times > 1 and known.get(address) == 1:
            text = (
                f"the record at {memory.place(address):#x} is registered {times} times: its kernels are there as often"
            )
            hint = f"{HOST_STEP}: a constructor or its call was doubled; compile it again"
            yield make_finding(evidence, "FP3058", first.at, text, LIKELY, hint)


def _stubs(evidence: RegistrationEvidence, model: str) -> dict[int, str]:
    """Return the stubs of a model by address: where a file has both, those that launch with its function."""
    others = [other for other in evidence.models() if other != model]
    if not others:
        return dict(evidence.stubs)
    mine = {each.caller for each in evidence.launches if each.model == model}
    return {start: name for start, name in evidence.stubs.items() if start in mine}


def _function(names: dict[str, str], model: str) -> str:
    return next(name for name, its in names.items() if its == model)


def _constructors(
    evidence: RegistrationEvidence, model: str, *, has_launches: bool, has_entries: bool
) -> Iterator[Finding]:
    """Yield what is wrong with the functions that register: that no constructor leads to them, or half of them."""
    reached = evidence.reached
    if reached is None:
        return
    title = TITLES[model]
    # A file that hands on what others register takes no wrapper of its own.
    mine = [each for each in evidence.binaries if each.model == model and lies_in_file(evidence, each.wrapper)]
    idle = [each for each in mine if each.caller not in reached]
    for each in idle:
        yield never_run_finding(evidence, each)
    kernels = [each for each in evidence.registered if each.model == model and each.is_kernel]
    if idle:
        return
    # What nvcc compiles for a device link registers its container there: only its kernels are its own.
    has_link = bool(evidence.links) and not mine and not evidence.is_linked
    if has_link and kernels and all(each.caller not in reached for each in kernels):
        yield never_run_finding(evidence, BinaryCall(model, kernels[0].at, kernels[0].caller, None))
        return
    lost = [each for each in kernels if each.caller not in reached]
    if lost and mine:
        callers = {function_title(evidence, each.caller) for each in lost}
        text = f"{pluralize(len(lost), 'kernel')} would be registered by {name_list(callers)}, which no constructor leads to"
        hint = f"{HOST_STEP}: the call of {name_list(callers)} is gone; compile it again"
        yield make_finding(evidence, "FP3044", lost[0].at, text, LIKELY, hint)
    register = _function(functions.REGISTER_FUNCTION, model)
    is_complete = bool(kernels or has_entries or (evidence.links and not has_link)) or is_called(evidence, register)
    if (mine or has_link) and has_launches and not is_complete:
        text = f"the constructor registers {title} device code, but none of its kernels: {register} is not called"
        hint = f"{HOST_STEP}: the calls of {register} were lost; compile it again"
        sure = LIKELY if register in evidence.called else CERTAIN
        yield make_finding(evidence, "FP3042", mine[0].at if mine else 0, text, sure, hint)


def never_run_finding(evidence: RegistrationEvidence, call: BinaryCall) -> Finding:
    """Return the finding that no constructor leads to a call that registers device code."""
    name, arguments = function_title(evidence, call.caller), evidence.memory.arguments
    text = f"{name} registers {TITLES[call.model]} device code, and no constructor runs it"
    where = ".CRT$XCU" if len(arguments) == 4 else ".init_array"
    hint = f"likely step: whatever took {name} out of {where} (llvm.global_ctors); compile the host code again"
    return make_finding(evidence, "FP3043", call.at, text, confidence(evidence), hint)


def lies_in_file(evidence: RegistrationEvidence, address: int | None) -> bool:
    """Return whether what is registered lies in this file: runtimes, and who stands before one, hand on others'."""
    return address is not None and evidence.memory.section_at(address) is not None


def function_title(evidence: RegistrationEvidence, address: int) -> str:
    """Return what the function at an address is called."""
    function = evidence.memory.function_at(address)
    return function.name if function is not None and function.name else f"the function at {address:#x}"


def _handles(evidence: RegistrationEvidence) -> Iterator[Finding]:
    """Yield what is wrong with single kernels: launched but not registered, or two that are one."""
    known = {each.handle for each in evidence.registered if each.is_kernel}
    entries = {entry.address for entry in evidence.entries}
    kinds = {entry.kind for entry in evidence.entries}
    calling = {each.model for each in evidence.registered if each.is_kernel}
    missing: dict[int, int] = {}
    for each in evidence.launches:
        judged = each.model in kinds or (each.model in calling and not evidence.unread)
        if judged and each.handle not in known and each.handle not in entries:
            missing.setdefault(each.handle, each.caller)
    if missing:
        names = _launched_names(evidence, missing)
        text = f"{pluralize(len(missing), 'kernel')} launched here, but not registered: {name_list(names)}"
        hint = f"{HOST_STEP}: others of this file are registered; compile it again"
        yield make_finding(evidence, "FP3045", next(iter(missing)), text, confidence(evidence), hint)
    if evidence.nulls:
        callers = {function_title(evidence, at) for at in evidence.nulls}
        text = f"{pluralize(len(evidence.nulls), 'launch')} of no kernel, in {name_list(callers)}"
        text += ": nvcc makes such of a template that host code uses and device code has not"
        hint = "likely step: a macro that hides a use of the template from the device's side, as __CUDA_ARCH__ does"
        yield make_finding(evidence, "FP3060", evidence.nulls[0], text, LIKELY, hint)
    by_handle: dict[int, set[str]] = {}
    of_entries: dict[int, set[str]] = {}
    for call in evidence.registered:
        if call.is_kernel and call.handle is not None and call.name:
            by_handle.setdefault(call.handle, set()).add(call.name)
    for entry in evidence.entries:
        if entry.is_kernel and entry.kind in functions.MODELS:
            by_handle.setdefault(entry.address, set()).add(entry.name)
            of_entries.setdefault(entry.address, set()).add(entry.name)
    for handle, titles in by_handle.items():
        if len(titles) > 1:
            text = f"{name_list(titles)} are registered with one handle: a launch of one runs another"
            hint = "likely step: a linker that folds equal functions; link with --icf=safe or without --icf"
            sure = CERTAIN if of_entries.get(handle) == titles else confidence(evidence)
            yield make_finding(evidence, "FP3048", handle, text, sure, hint)


def _launched_names(evidence: RegistrationEvidence, callers: Mapping[int, int]) -> list[str]:
    """Return what kernels are called; ``callers`` has the function that launches each, by handle."""
    names = {each.address: each.name for each in evidence.memory.symbols if each.is_defined}
    return [
        names.get(handle) or evidence.stubs.get(caller) or f"the one at {handle:#x}"
        for handle, caller in callers.items()
    ]
