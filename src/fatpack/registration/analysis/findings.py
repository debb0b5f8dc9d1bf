"""Findings about registration evidence: missing registrations, their certainty, the probable cause, and advice.

Three kinds of files are correct without registrations: relocatable device code, which the link completes; libraries
that launch kernels of other files; and sources compiled for the host alone. So files are judged by handles, the
addresses that launches pass: a handle that is registered nowhere is always an error.
"""

from __future__ import annotations

from fatpack.errors import cli_or_api, pluralize
from fatpack.findings import finding
from fatpack.registration.analysis.counts import registers_entries
from fatpack.registration.analysis.descriptors import lacks_binary, starts_empty
from fatpack.registration.analysis.entries import NEW
from fatpack.registration.analysis.model import (
    HIP_IMAGE,
    MODELS,
    POP,
    REGISTER_BINARY,
    REGISTER_FUNCTION,
    REGISTER_OPENMP,
    STUB,
    TARGET_KERNEL,
    BinaryCall,
    find_wrappers,
    function_model,
    is_record,
    section_model,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Set
    from typing import TypeAlias

    from fatpack.binary.memory import HostMemory
    from fatpack.model import Finding
    from fatpack.registration.analysis.entries import OffloadEntry
    from fatpack.registration.analysis.model import RegistrationEvidence

    KernelsByArch: TypeAlias = Mapping[str, Set[str]]
    """Architecture → names of the kernels in all images for it; "" is for images that serve any, such as PTX."""


CERTAIN, LIKELY = "certain", "likely"

#: names that one finding shows
_MAX_NAMES_SHOWN = 4

#: offload kind → its name in messages
TITLES = {"cuda": "CUDA", "hip": "HIP", "openmp": "OpenMP", "sycl": "SYCL"}

HOST_STEP = "likely step: the compilation of the host code, or a later change to its module"


def registration_problems(evidence: RegistrationEvidence) -> Iterator[Finding]:
    """Yield findings about registrations and launches of CUDA and HIP in a file, and about its tables of entries."""
    yield from _damaged_tables(evidence)
    for model in evidence.models():
        yield from _of_model(evidence, model)
    yield from _handles(evidence)


def make_finding(evidence: RegistrationEvidence, code: str, at: int, text: str, sure: str, hint: str) -> Finding:
    """Return a finding at the offset of an address, or of the whole file."""
    view = evidence.memory.view
    position = evidence.memory.place(at) if at else 0
    sure = LIKELY if evidence.is_by_shape else sure
    span = view.slice(position, min(1, len(view) - position)).span() if position else view.span()
    return finding(code, span, f"{text} ({sure})", hint)


def confidence(evidence: RegistrationEvidence) -> str:
    """Return the certainty of constants: in objects they are relocations; in programs they were followed in code."""
    return LIKELY if evidence.is_linked else CERTAIN


def name_list(names: Iterable[str]) -> str:
    """Return some names as findings list them: the first ones, and the number of the others."""
    found = sorted(names)
    more = f" and {len(found) - _MAX_NAMES_SHOWN} more" if len(found) > _MAX_NAMES_SHOWN else ""
    return f"{', '.join(found[:_MAX_NAMES_SHOWN])}{more}"


def _damaged_tables(evidence: RegistrationEvidence) -> Iterator[Finding]:
    for table in evidence.tables:
        section = table.section
        if table.rest:
            span = section.data.slice(len(section.data) - table.rest, table.rest).span()
            text = f"{pluralize(table.rest, 'byte')} at the end of {section.name} are not a whole offload entry"
            yield finding("FP3056", span, text, "the section was cut or joined wrongly; compile again")
        if table.more:
            text = f"more than {pluralize(len(table.entries), 'offload entry')}; the others are not read"
            yield finding("FP1005", section.data.span(), text)


def _of_model(evidence: RegistrationEvidence, model: str) -> Iterator[Finding]:
    title, called = TITLES[model], evidence.called
    pop = next((name for name, its in POP.items() if its == model and name in called), "")
    stubs = _stubs(evidence, model)
    launches = [each for each in evidence.launches if each.model == model]
    wrappers = [each for each in evidence.wrappers if each.model == model]
    entries = [entry for entry in evidence.entries if entry.kind == model]
    register = _function(REGISTER_BINARY, model)
    registers = is_called(evidence, register)
    kernels = [each for each in evidence.registered if each.model == model and each.is_kernel and each.is_read]
    links = evidence.links if model == "cuda" else ()
    loops = [each for each in evidence.registered if each.model == model and not each.is_read]
    if not (wrappers or registers or entries or links or kernels or loops):
        if (pop and evidence.is_linked) or stubs or launches:
            sure = CERTAIN if evidence.is_linked else LIKELY
            what = f"{pluralize(len(stubs), 'kernel')} ({name_list(stubs.values())})" if stubs else "kernels"
            text = f"{title} host code launches {what}, and nothing in this file registers them"
            text += ": no wrapper, no call of a register function, no offload entry"
            hint = f"{HOST_STEP}: it did not get the device code"
            if not evidence.is_linked:
                hint += "; a source compiled for the host alone looks the same"
            at = next(iter(stubs), launches[0].at if launches else 0)
            yield make_finding(evidence, "FP3041", at, text, sure, hint)
        return
    is_known = evidence.reached is not None and bool(pop or stubs or launches or loops)
    # The device link of nvcc registers its records itself; an object has only the names of its units.
    is_of_link = bool(links) and not evidence.is_linked
    # A program may call its imports in ways that are not seen: through a pointer that it passes on.
    sure = LIKELY if register in called else CERTAIN
    if wrappers and not registers and not is_of_link and is_known:
        text = f"{pluralize(len(wrappers), 'record')} of {title} device code, and nothing registers them"
        text += f": {register} is not called"
        hint = f"{HOST_STEP}: its constructor is missing; compile it again"
        yield make_finding(evidence, "FP3053", wrappers[0].at, text, sure, hint)
    elif (kernels or loops) and not registers and not is_of_link and evidence.reached is not None:
        count = pluralize(len(kernels), "kernel") if kernels else "offload entries"
        text = f"{count} of {title} registered by calls, but no device code with them"
        text += f": {register} is not called"
        hint = f"{HOST_STEP}: the call of {register} is missing; compile it again"
        yield make_finding(evidence, "FP3053", (kernels or loops)[0].at, text, sure, hint)
    yield from _records(evidence, model)
    yield from _constructors(evidence, model, has_launches=bool(stubs or launches), has_entries=bool(entries))


def is_called(evidence: RegistrationEvidence, name: str) -> bool:
    """Return whether a file calls a function, or may call it.

    A name without a call in code that was followed is not called, for example after the calls were patched away.
    Objects that refer to it call it in ways that are not read.
    """
    count = evidence.called.get(name)
    return bool(count) or (count is not None and (not evidence.is_linked or bool(evidence.unfollowed)))


def _records(evidence: RegistrationEvidence, model: str) -> Iterator[Finding]:
    """Yield findings about the records in registering calls: no record at the address, or one registered twice.

    A record with a wrong magic in a section for records was reported already; a file that registers the records of
    other files has none.
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
            text = f"{name} registers {title} device code by a record at {address:#x}, {where}, but there is no record"
            hint = "likely step: a change to the file after its link, such as a removed section; link again"
            yield make_finding(evidence, "FP3057", first.at, text, confidence(evidence), hint)
        # In an object a relocation before a call shows its argument; the next call with the same one may have none.
        unread = [each for each in evidence.binaries if each.wrapper is None and each.caller == first.caller]
        count = len({each.at for each in binaries}) + (0 if evidence.is_linked else len(unread))
        times = max(count, starts.count(first.caller))
        # With nvcc's device link each unit has the call, and the last unit that starts executes it.
        if times > 1 and known.get(address) == 1:
            text = f"the record at {memory.place(address):#x} is registered {times} times, and so are its kernels"
            hint = f"{HOST_STEP}: a constructor or its call was doubled; compile it again"
            yield make_finding(evidence, "FP3058", first.at, text, LIKELY, hint)


def _stubs(evidence: RegistrationEvidence, model: str) -> dict[int, str]:
    """Return the stubs of a model by address; in a file of both models, only stubs that call its launch function."""
    others = [other for other in evidence.models() if other != model]
    if not others:
        return dict(evidence.stubs)
    of_model = {each.caller for each in evidence.launches if each.model == model}
    return {start: name for start, name in evidence.stubs.items() if start in of_model}


def _function(names: dict[str, str], model: str) -> str:
    return next(name for name, its in names.items() if its == model)


def _constructors(
    evidence: RegistrationEvidence, model: str, *, has_launches: bool, has_entries: bool
) -> Iterator[Finding]:
    """Yield findings about registering functions that no constructor calls, or that are called incompletely."""
    reached = evidence.reached
    if reached is None:
        return
    title = TITLES[model]
    # A file that passes on registrations of other files has no wrapper of its own.
    of_model = [each for each in evidence.binaries if each.model == model and lies_in_file(evidence, each.wrapper)]
    unreached = [each for each in of_model if each.caller not in reached]
    for each in unreached:
        yield never_run_finding(evidence, each)
    kernels = [each for each in evidence.registered if each.model == model and each.is_kernel]
    if unreached:
        return
    # The device link registers the container of a unit that nvcc compiled for it: only its kernels are its own.
    has_link = bool(evidence.links) and not of_model and not evidence.is_linked
    if has_link and kernels and all(each.caller not in reached for each in kernels):
        yield never_run_finding(evidence, BinaryCall(model, kernels[0].at, kernels[0].caller, None))
        return
    lost = [each for each in kernels if each.caller not in reached]
    if lost and of_model:
        callers = {function_title(evidence, each.caller) for each in lost}
        text = (
            f"{pluralize(len(lost), 'kernel')} would be registered by {name_list(callers)}, which no constructor calls"
        )
        hint = f"{HOST_STEP}: the call of {name_list(callers)} is missing; compile it again"
        yield make_finding(evidence, "FP3044", lost[0].at, text, LIKELY, hint)
    register = _function(REGISTER_FUNCTION, model)
    is_complete = bool(kernels) or is_called(evidence, register)
    if not evidence.is_linked or evidence.is_by_shape:
        is_complete = is_complete or has_entries or bool(evidence.links and not has_link)
    # The linker wrapper's loop registers variables and kernels, of the same entries.
    loops = [each for each in evidence.registered if each.model == model and not each.is_kernel and not each.is_read]
    is_lost_of_loop = bool(loops) and not evidence.is_by_shape and not is_called(evidence, register)
    # A loop over a table without entries, beside entries in another table: FP3049 says that.
    is_elsewhere = bool(evidence.skipped) and has_entries
    if (of_model or has_link) and not is_elsewhere and ((has_launches and not is_complete) or is_lost_of_loop):
        text = f"the constructor registers {title} device code, but none of its kernels: "
        text += "the offload entries are gone" if evidence.skipped else f"{register} is not called"
        hint = f"{HOST_STEP}: the calls of {register} were lost; compile it again"
        sure = LIKELY if register in evidence.called else CERTAIN
        yield make_finding(evidence, "FP3042", of_model[0].at if of_model else 0, text, sure, hint)


def never_run_finding(evidence: RegistrationEvidence, call: BinaryCall) -> Finding:
    """Return the finding that no constructor reaches a call that registers device code."""
    name, arguments = function_title(evidence, call.caller), evidence.memory.arguments
    text = f"{name} registers {TITLES[call.model]} device code, and no constructor runs it"
    where = ".CRT$XCU" if len(arguments) == 4 else ".init_array"
    hint = f"likely step: a step that removed {name} from {where} (llvm.global_ctors); compile the host code again"
    return make_finding(evidence, "FP3043", call.at, text, confidence(evidence), hint)


def lies_in_file(evidence: RegistrationEvidence, address: int | None) -> bool:
    """Return whether the registered address is in this file: runtimes and their wrappers pass on other addresses."""
    return address is not None and evidence.memory.section_at(address) is not None


def function_title(evidence: RegistrationEvidence, address: int) -> str:
    """Return the name of the function at an address."""
    function = evidence.memory.function_at(address)
    return function.name if function is not None and function.name else f"the function at {address:#x}"


def _handles(evidence: RegistrationEvidence) -> Iterator[Finding]:
    """Yield findings about single kernels: launched but not registered, or two with one handle."""
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
        hint = f"{HOST_STEP}: other kernels of this file are registered; compile it again"
        yield make_finding(evidence, "FP3045", next(iter(missing)), text, confidence(evidence), hint)
    if evidence.nulls:
        callers = {function_title(evidence, at) for at in evidence.nulls}
        text = f"{pluralize(len(evidence.nulls), 'launch')} of no kernel, in {name_list(callers)}"
        text += ": nvcc compiles these for a template that only host code instantiates"
        hint = "likely step: the device compilation, if a macro such as __CUDA_ARCH__ hides the template from it"
        yield make_finding(evidence, "FP3060", evidence.nulls[0], text, LIKELY, hint)
    by_handle: dict[int, set[str]] = {}
    of_entries: dict[int, set[str]] = {}
    for call in evidence.registered:
        if call.is_kernel and call.handle is not None and call.name:
            by_handle.setdefault(call.handle, set()).add(call.name)
    for entry in evidence.entries:
        if entry.is_kernel and entry.kind in MODELS:
            by_handle.setdefault(entry.address, set()).add(entry.name)
            of_entries.setdefault(entry.address, set()).add(entry.name)
    for handle, titles in by_handle.items():
        if len(titles) > 1:
            text = f"{name_list(titles)} are registered with one handle: a launch of one runs another"
            hint = "likely step: a link that folds equal functions; link with --icf=safe or without --icf"
            sure = CERTAIN if of_entries.get(handle) == titles else confidence(evidence)
            yield make_finding(evidence, "FP3048", handle, text, sure, hint)


def _launched_names(evidence: RegistrationEvidence, callers: Mapping[int, int]) -> list[str]:
    """Return the names of kernels; ``callers`` has the function that launches each, by handle."""
    names = {each.address: each.name for each in evidence.memory.symbols if each.is_defined}
    return [
        names.get(handle) or evidence.stubs.get(caller) or f"the one at {handle:#x}"
        for handle, caller in callers.items()
    ]


# OpenMP and SYCL: the descriptor of their images must exist, and be passed to the runtime at start-up.
#
# Objects of OpenMP have only entries: clang-linker-wrapper adds the registering code at the link. That code is checked
# in the object that the wrapper makes, and in the linked program.

LINK_STEP = (
    "likely step: a link without clang-linker-wrapper; link with clang --offload-link. It takes images from an archive "
    "only for targets that other files have, and a program does not show which archive that was: `fatpack link-inputs` "
    "with the link line names it, and --whole-archive before it takes all its images"
)

#: suffix of the byte that represents an OpenMP region; weak symbols in COFF have a second one
_REGION, _WEAK = ".region_id", ".region_id.default"


def descriptor_findings(evidence: RegistrationEvidence) -> Iterator[Finding]:
    """Yield findings about registrations of OpenMP and SYCL."""
    yield from _regions(evidence)
    for model in ("openmp", "sycl"):
        yield from _registered(evidence, model)


def _regions(evidence: RegistrationEvidence) -> Iterator[Finding]:
    """Yield the finding that regions are launched without entries; files that only call the runtime have no regions."""
    if TARGET_KERNEL not in evidence.called or any(entry.kind == "openmp" for entry in evidence.entries):
        return
    launches = [each for each in evidence.launches if each.model == "openmp"]
    regions = [each for each in evidence.memory.symbols if each.is_defined and _is_region(each.name)]
    count = len(regions) or len({each.handle for each in launches})
    if not count:
        return
    text = f"{pluralize(count, 'OpenMP region')} launched, but none has an offload entry"
    hint = f"{HOST_STEP}: the section of entries was lost; compile it again"
    at = launches[0].at if launches else regions[0].address
    yield make_finding(evidence, "FP3050", at, text, CERTAIN, hint)


def _is_region(name: str) -> bool:
    return name.endswith(_REGION) or _WEAK in name


def _registered(evidence: RegistrationEvidence, model: str) -> Iterator[Finding]:
    title, reached = TITLES[model], evidence.reached
    register = next(name for name, its in REGISTER_BINARY.items() if its == model)
    calls = [each for each in evidence.binaries if each.model == model]
    descriptors = [each for each in evidence.descriptors if each.model == model]
    wholes = evidence.offload_binaries if model == "sycl" else ()
    places = {each.at for each in descriptors}.union(wholes)
    if not calls and register not in evidence.called:
        entries = [entry for entry in evidence.entries if entry.kind == model]
        if evidence.memory.is_linked and entries and not descriptors:
            text = f"{pluralize(len(entries), 'offload entry')} of {title}, and nothing registers them"
            text += ": there is no descriptor of their images"
            yield make_finding(evidence, "FP3049", entries[0].at, text, CERTAIN, LINK_STEP)
        elif places and _is_unregistered(evidence, places) and reached is not None:
            what = f"{pluralize(len(descriptors), 'descriptor')} of {title} images"
            if not descriptors:
                what = f"{pluralize(len(wholes), 'offload binary')} of {title}"
            text = f"{what}, and nothing registers {'it' if len(places) == 1 else 'them'}: {register} is not called"
            sure = LIKELY if evidence.memory.is_linked else CERTAIN
            hint = "likely step: a change to the object that the linker wrapper made; link again"
            yield make_finding(evidence, "FP3053", min(places), text, sure, hint)
    elif reached is not None:
        yield from (
            never_run_finding(evidence, each)
            for each in calls
            if each.caller not in reached and lies_in_file(evidence, each.wrapper)
        )
        yield from _of_images(evidence, model, places, calls)


def _is_unregistered(evidence: RegistrationEvidence, places: set[int]) -> bool:
    """Return whether descriptors are not registered: no code refers to them, or all runtime functions have names."""
    is_seen = evidence.mentioned is None or bool(places & evidence.mentioned)
    return not evidence.memory.is_linked or bool(evidence.called) or not is_seen


def _of_images(
    evidence: RegistrationEvidence, model: str, places: set[int], calls: Iterable[BinaryCall]
) -> Iterator[Finding]:
    """Yield findings about addresses in registering calls, and in descriptors, at which there is no device code."""
    memory, title = evidence.memory, TITLES[model]
    hint = "likely step: a change to the file after its link; link again"
    for call in calls:
        address = call.wrapper
        if address and address not in places and lacks_binary(memory, address):
            text = f"{function_title(evidence, call.caller)} registers {title} device code at {address:#x}, where "
            text += "neither a descriptor nor an offload binary is"
            yield make_finding(evidence, "FP3057", address, text, confidence(evidence), hint)
    images = [each for item in evidence.descriptors if item.model == model for each in item.images]
    empty = [each for each in images if starts_empty(memory, each)] if evidence.is_linked else []
    if empty:
        text = f"{pluralize(len(empty), 'image')} of {len(images)} in the descriptors of {title} begin with zeros"
        yield make_finding(evidence, "FP3057", empty[0].begin, text, CERTAIN, hint)


# Comparison of the names that host code registers with the kernels of the images, and of calls with entries.
#
# Names are compared only if all images could be read. A kernel that one architecture lacks may be intended, and a
# kernel that is not registered here may be for another host file: those findings are notes.

#: the code of the note that images have kernels without a registration in this file
UNREGISTERED_KERNELS = "FP3052"

#: architectures that one finding shows
_MAX_ARCHS_SHOWN = 4

#: models whose runtimes find kernels in images by their registered names
_COMPARED = (*MODELS, "openmp")


def kernel_findings(evidence: RegistrationEvidence, kernels: KernelsByArch | None) -> Iterator[Finding]:
    """Yield findings about names on one side only; ``kernels`` is None if not all images could be read."""
    yield from _mixed(evidence)
    unreached = _idle(evidence)
    for model, (entries, why, sure) in unreached.items():
        text = f"{pluralize(len(entries), 'offload entry')} of {TITLES[model]}, and nothing registers them: {why}"
        yield make_finding(evidence, "FP3049", entries[0].at, text, sure, _hint(evidence, model, entries[0]))
    if kernels is None or any(each.symbol for each in evidence.wrappers):
        return  # the link brings an image
    names = set[str]().union(*kernels.values())
    lost = {entry.name for entries, _, _ in unreached.values() for entry in entries}
    lost -= {each.name for each in evidence.registered}
    kinds = evidence.kernels.items()
    registered = {name: model for name, model in kinds if model in _COMPARED and name not in lost}
    yield from _absent(evidence, {name for name in registered if name not in names})
    yield from _absent_somewhere(evidence, kernels, names.intersection(registered))
    # Kernels of OpenMP that are not regions are never registered.
    extra = names.difference(registered) if set(registered.values()) <= set(MODELS) else ()
    if registered and extra and not evidence.unread and not evidence.unfollowed and not evidence.links:
        text = f"{pluralize(len(extra), 'kernel')} in images, but not registered by this file: {name_list(extra)}"
        hint = "fine if another file of the program registers them; if none does, compile both sides of one source"
        sure = LIKELY if evidence.is_linked else CERTAIN
        yield make_finding(evidence, UNREGISTERED_KERNELS, 0, text, sure, hint)


def lost_variables(evidence: RegistrationEvidence, variables: Set[str]) -> Iterator[Finding]:
    """Yield the finding that variables of both host and images are not registered, although other calls register.

    A variable without registration is two variables: copies to its symbol fail, and kernels see the image's value.
    """
    lost = evidence.memory.shadows(unregistered_variables(evidence, variables))
    if lost:
        text = f"{pluralize(len(lost), 'variable')} in both host and images, but not registered: {name_list(lost)}"
        hint = f"{HOST_STEP}; compile it again"
        yield make_finding(evidence, "FP3059", min(lost.values()), text, LIKELY, hint)


def unregistered_variables(evidence: RegistrationEvidence, variables: Set[str]) -> Set[str]:
    """Return the variables of images that no call and no entry registers; none if some calls could not be read."""
    calls = [each for each in evidence.registered if each.model in MODELS]
    is_loop = registers_entries(evidence)
    is_read = is_loop or not (evidence.unread or any(not each.name for each in calls))
    entries = [entry for entry in evidence.entries if entry.kind in MODELS]
    if evidence.unfollowed or not is_read or not (entries if is_loop else calls):
        return frozenset()
    return variables - {each.name for each in calls} - {entry.name for entry in entries}


def _idle(evidence: RegistrationEvidence) -> dict[str, tuple[list[OffloadEntry], str, str]]:
    """Return the kernels' entries of a program that nothing registers, by model, with the reason and the certainty.

    A runtime inside the program that defines the registering function does not call it. (``-foffload-via-llvm``
    registers entries with OpenMP's runtime: those are left out if the program names no function of the model.)
    """
    found: dict[str, tuple[list[OffloadEntry], str, str]] = {}
    for model in MODELS if evidence.is_linked and not evidence.unfollowed else ():
        entries = [entry for entry in evidence.entries if entry.kind == model and entry.is_kernel]
        register = next(name for name, its in REGISTER_BINARY.items() if its == model)
        models = {each.model for each in evidence.wrappers} | {each.model for each in evidence.binaries}
        records = model in models
        is_named = any(function_model(name) == model for name in evidence.called)
        if entries and not records and (is_named or not evidence.descriptors):
            found[model] = entries, f"{register} is not called", CERTAIN if is_named else LIKELY
        elif entries and records and (evidence.walked is not None or evidence.skipped):
            walked = {table.section.address for table in evidence.tables} & (evidence.walked or frozenset())
            own = [table for table in evidence.tables if table.section.address not in walked]
            rest = [entry for table in own for entry in table.entries if entry.kind == model and entry.is_kernel]
            if rest:
                found[model] = rest, "the registering code reads other entries", LIKELY
    return found


def _hint(evidence: RegistrationEvidence, model: str, entry: OffloadEntry) -> str:
    if not any(each.model == model for each in evidence.wrappers):
        return LINK_STEP
    era, version = ("21 or newer", 22) if entry.layout in NEW else ("20 or older", 19)
    option = cli_or_api(f"--as={version}", f"llvm={version}")
    return f"the entries are of clang {era}, the wrapper is not; link with that clang, or wrap the images with {option}"


def missing_kernels(kernels: KernelsByArch, names: Set[str]) -> dict[str, list[str]]:
    """Return name → the architectures whose images lack it, for names that images of another architecture have."""
    archs = [arch for arch in kernels if arch]
    portable = kernels.get("", frozenset[str]())
    absent = {name: [arch for arch in archs if name not in kernels[arch]] for name in sorted(names - portable)}
    return {name: lacking for name, lacking in absent.items() if lacking and len(lacking) < len(archs)}


def _at(evidence: RegistrationEvidence, names: Set[str]) -> int:
    """Return the offset at which the first of some names is registered."""
    calls = next((each.at for each in evidence.registered if each.name in names), 0)
    return calls or next((entry.at for entry in evidence.entries if entry.name in names), 0)


def _absent(evidence: RegistrationEvidence, absent: Set[str]) -> Iterator[Finding]:
    if absent:
        text = f"{pluralize(len(absent), 'kernel')} registered here, but in no image: {name_list(absent)}"
        hint = "likely step: the device code is of another source or other options; compile both sides again"
        yield make_finding(evidence, "FP3046", _at(evidence, absent), text, CERTAIN, hint)


def _absent_somewhere(evidence: RegistrationEvidence, kernels: KernelsByArch, names: Set[str]) -> Iterator[Finding]:
    """Yield the note that some architectures lack kernels that others have, and no image serves any architecture."""
    found = missing_kernels(kernels, names)
    if found:
        archs = sorted({arch for lacking in found.values() for arch in lacking})
        more = f" and {len(archs) - _MAX_ARCHS_SHOWN} more" if len(archs) > _MAX_ARCHS_SHOWN else ""
        text = (
            f"{pluralize(len(found), 'kernel')} registered here that images for "
            f"{', '.join(archs[:_MAX_ARCHS_SHOWN])}{more} lack"
        )
        text += f", though others have them: {name_list(found)}"
        hint = "likely step: the compilation of the device code for that architecture, or the choice of images to pack"
        yield make_finding(evidence, "FP3054", _at(evidence, found.keys()), text, CERTAIN, hint)


def _mixed(evidence: RegistrationEvidence) -> Iterator[Finding]:
    """Yield the finding that no code reads the entries of a program, while its kernels are registered by calls."""
    if not evidence.is_linked or evidence.unread or evidence.unfollowed:
        return  # a loop over entries calls with names that are not constant
    for model in MODELS:
        entries = [entry for entry in evidence.entries if entry.kind == model and entry.is_kernel]
        calls = [each for each in evidence.registered if each.model == model and each.is_kernel]
        register = next(name for name, its in REGISTER_FUNCTION.items() if its == model)
        if entries and calls and evidence.called.get(register, 0) == len(calls):
            text = (
                f"{pluralize(len(entries), 'offload entry')} of {TITLES[model]} "
                f"beside {pluralize(len(calls), 'kernel')} registered by calls: "
                f"every call of {register} has a name of its own, and no code reads the entries"
            )
            hint = "likely step: the link of objects of two models, without clang-linker-wrapper; "
            hint += "compile all in one way, or link with clang --offload-link"
            yield make_finding(evidence, "FP3047", entries[0].at, text, LIKELY, hint)


# ELF programs: findings from names and entries alone, without reading code.


def program_findings(file: HostMemory) -> Iterator[Finding]:
    """Yield the findings that follow from the names that a program imports and defines."""
    from fatpack.registration.analysis.elf_program import count_entry_kinds

    names = {symbol.name for symbol in file.symbols}
    undefined = {symbol.name for symbol in file.symbols if not symbol.is_defined}
    kinds = count_entry_kinds(file)
    records = {each.model for each in find_wrappers(file)}
    for model in MODELS:
        title = TITLES[model]
        register = next(name for name, its in REGISTER_BINARY.items() if its == model)
        pop = next(name for name, its in POP.items() if its == model)
        if register in names:
            continue
        has_names = any(function_model(name) == model for name in names)
        if kinds.get(model) and has_names:
            text = f"{pluralize(kinds[model], 'offload entry')} of {title}, and nothing registers them"
            text += f": {register} is not called ({CERTAIN})"
            yield finding("FP3049", file.view.span(), text, LINK_STEP)
        elif pop in undefined and model not in records:
            stubs = [symbol.name for symbol in file.symbols if STUB in symbol.name]
            what = f"{pluralize(len(stubs), 'kernel')} ({name_list(stubs)})" if stubs else "kernels of its own"
            text = f"{title} code launches {what}, and nothing in this file registers them"
            text += f": no wrapper, {register} is not called, no offload entry ({CERTAIN})"
            hint = "likely step: the compilation of the host code: it did not get the device code"
            yield finding("FP3041", file.view.span(), text, hint)
    if REGISTER_OPENMP not in names and any(name.startswith("__tgt_") for name in names):
        if kinds.get("openmp"):
            text = f"{pluralize(kinds['openmp'], 'offload entry')} of OpenMP, and nothing registers them"
            text += f": {REGISTER_OPENMP} is not called ({CERTAIN})"
            yield finding("FP3049", file.view.span(), text, LINK_STEP)
        elif TARGET_KERNEL in undefined:
            text = f"OpenMP regions are launched, but none has an offload entry ({CERTAIN})"
            yield finding("FP3050", file.view.span(), text, LINK_STEP)
    absent = sorted(name for name in undefined if name.startswith(HIP_IMAGE))
    if absent:
        text = f"{name_list(absent)}: no file of the link had this HIP code ({CERTAIN})"
        hint = "likely step: the link of the device code; link with clang and -fgpu-rdc, as the objects were compiled"
        yield finding("FP3051", file.view.span(), text, hint)
