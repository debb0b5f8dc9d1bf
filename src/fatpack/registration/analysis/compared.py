"""Verdicts from comparing two sides: names that host code registers with the kernels of the images, calls with entries.

Names are compared only where all images could be read. What one architecture lacks may be meant, and what nobody here
registers may be for another host file: those are notes.
"""

from __future__ import annotations

from fatpack.errors import cli_or_api, pluralize
from fatpack.registration.analysis import functions
from fatpack.registration.analysis.described import LINK_STEP
from fatpack.registration.analysis.entries import NEW
from fatpack.registration.analysis.findings import CERTAIN, LIKELY, TITLES, make_finding, name_list

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Set
    from typing import TypeAlias

    from fatpack.model import Finding
    from fatpack.registration.analysis.entries import OffloadEntry
    from fatpack.registration.analysis.model import RegistrationEvidence

    KernelsByArch: TypeAlias = Mapping[str, Set[str]]
    """Architecture → names of the kernels in all images for it; "" stands for images that serve any, as PTX does."""

#: the code of the note that images have kernels which nobody here registers
UNREGISTERED_KERNELS = "FP3052"

#: architectures that one finding shows
_MAX_ARCHS_SHOWN = 4

#: the models whose runtimes look for kernels in images by the names that are registered
_COMPARED = (*functions.MODELS, "openmp")


def kernel_findings(evidence: RegistrationEvidence, kernels: KernelsByArch | None) -> Iterator[Finding]:
    """Yield what one side has and the other lacks; ``kernels`` is None if not all images could be read."""
    yield from _mixed(evidence)
    idle = _idle(evidence)
    for model, (entries, why, sure) in idle.items():
        text = f"{pluralize(len(entries), 'offload entry')} of {TITLES[model]}, and nothing registers them: {why}"
        yield make_finding(evidence, "FP3049", entries[0].at, text, sure, _hint(evidence, model, entries[0]))
    if kernels is None or any(each.symbol for each in evidence.wrappers):
        return  # the link brings an image
    names = set[str]().union(*kernels.values())
    lost = {entry.name for entries, _, _ in idle.values() for entry in entries}
    lost -= {each.name for each in evidence.registered}
    kinds = evidence.kernels.items()
    registered = {name: model for name, model in kinds if model in _COMPARED and name not in lost}
    yield from _absent(evidence, {name for name in registered if name not in names})
    yield from _absent_somewhere(evidence, kernels, names.intersection(registered))
    # What the device's side of OpenMP has besides regions is registered by nobody.
    extra = names.difference(registered) if set(registered.values()) <= set(functions.MODELS) else ()
    if registered and extra and not evidence.unread and not evidence.unfollowed and not evidence.links:
        text = f"{pluralize(len(extra), 'kernel')} in images, but not registered here: {name_list(extra)}"
        hint = "they may be for another file of the program; if not, compile both sides of one source"
        sure = LIKELY if evidence.is_linked else CERTAIN
        yield make_finding(evidence, UNREGISTERED_KERNELS, 0, text, sure, hint)


def lost_variables(evidence: RegistrationEvidence, variables: Set[str]) -> Iterator[Finding]:
    """Yield the finding that variables which host and images both have are not registered, where others calls are.

    Without its registration a variable has two lives: copies to its symbol fail, and kernels see what the image has.
    """
    calls = [each for each in evidence.registered if each.model in functions.MODELS]
    is_read = not (evidence.unread or evidence.unfollowed) and all(each.name for each in calls)
    if not is_read or not any(each.is_kernel for each in calls):
        return
    known = {each.name for each in calls} | {entry.name for entry in evidence.entries}
    lost = evidence.memory.shadows(variables - known)
    if lost:
        text = f"{pluralize(len(lost), 'variable')} of host and images both, and not registered: {name_list(lost)}"
        hint = "likely step: the compilation of the host code, or what was done to its module between; compile it again"
        yield make_finding(evidence, "FP3059", min(lost.values()), text, LIKELY, hint)


def _idle(evidence: RegistrationEvidence) -> dict[str, tuple[list[OffloadEntry], str, str]]:
    """Return the kernels' entries of a program that nothing registers, by model: with the reason, and how sure it is.

    That a runtime inside the program defines the function is no call of it. (``-foffload-via-llvm`` registers entries
    with OpenMP's runtime: they are not told where no function of the model is named.)
    """
    found: dict[str, tuple[list[OffloadEntry], str, str]] = {}
    for model in functions.MODELS if evidence.is_linked and not evidence.unfollowed else ():
        entries = [entry for entry in evidence.entries if entry.kind == model and entry.is_kernel]
        register = next(name for name, its in functions.REGISTER_BINARY.items() if its == model)
        models = {each.model for each in evidence.wrappers} | {each.model for each in evidence.binaries}
        records = model in models
        is_named = any(functions.function_model(name) == model for name in evidence.called)
        if entries and not records and (is_named or not evidence.descriptors):
            found[model] = entries, f"{register} is not called", CERTAIN if is_named else LIKELY
        elif entries and records and evidence.walked is not None:
            walked = {table.section.address for table in evidence.tables} & evidence.walked
            own = [table for table in evidence.tables if table.section.address not in walked]
            rest = [entry for table in own for entry in table.entries if entry.kind == model and entry.is_kernel]
            if rest:
                found[model] = rest, "what registers goes through other entries", LIKELY
    return found


def _hint(evidence: RegistrationEvidence, model: str, entry: OffloadEntry) -> str:
    if not any(each.model == model for each in evidence.wrappers):
        return LINK_STEP
    era, version = ("21 or newer", 22) if entry.layout in NEW else ("20 or older", 19)
    option = cli_or_api(f"--as={version}", f"llvm={version}")
    return f"the entries are of clang {era}, the wrapper is not; link with that clang, or wrap the images with {option}"


def missing_kernels(kernels: KernelsByArch, names: Set[str]) -> dict[str, list[str]]:
    """Return name → the architectures whose images lack it, of those that images of others have."""
    archs = [arch for arch in kernels if arch]
    portable = kernels.get("", frozenset[str]())
    absent = {name: [arch for arch in archs if name not in kernels[arch]] for name in sorted(names - portable)}
    return {name: lacking for name, lacking in absent.items() if lacking and len(lacking) < len(archs)}


def _at(evidence: RegistrationEvidence, names: Set[str]) -> int:
    """Return where the first of some names is registered."""
    calls = next((each.at for each in evidence.registered if each.name in names), 0)
    return calls or next((entry.at for entry in evidence.entries if entry.name in names), 0)


def _absent(evidence: RegistrationEvidence, absent: Set[str]) -> Iterator[Finding]:
    if absent:
        text = f"{pluralize(len(absent), 'kernel')} registered here, but in no image: {name_list(absent)}"
        hint = "likely step: the device code is of another source or other options; compile both sides again"
        yield make_finding(evidence, "FP3046", _at(evidence, absent), text, CERTAIN, hint)


def _absent_somewhere(evidence: RegistrationEvidence, kernels: KernelsByArch, names: Set[str]) -> Iterator[Finding]:
    """Yield the note that some architectures lack kernels which others have, and no image serves any architecture."""
    found = missing_kernels(kernels, names)
    if found:
        archs = sorted({arch for lacking in found.values() for arch in lacking})
        more = f" and {len(archs) - _MAX_ARCHS_SHOWN} more" if len(archs) > _MAX_ARCHS_SHOWN else ""
        text = f"{pluralize(len(found), 'kernel')} registered here that images for {', '.join(archs[:_MAX_ARCHS_SHOWN])}{more} lack"
        text += f", though others have them: {name_list(found)}"
        hint = "likely step: the compilation of the device code for that architecture, or the choice of images to pack"
        yield make_finding(evidence, "FP3054", _at(evidence, found.keys()), text, CERTAIN, hint)


def _mixed(evidence: RegistrationEvidence) -> Iterator[Finding]:
    """Yield the finding that nothing goes through the entries of a program, beside units that register themselves."""
    if not evidence.is_linked or evidence.unread or evidence.unfollowed:
        return  # who goes through entries calls with names that are not constant
    for model in functions.MODELS:
        entries = [entry for entry in evidence.entries if entry.kind == model and entry.is_kernel]
        calls = [each for each in evidence.registered if each.model == model and each.is_kernel]
        register = next(name for name, its in functions.REGISTER_FUNCTION.items() if its == model)
        if entries and calls and evidence.called.get(register, 0) == len(calls):
            text = f"{pluralize(len(entries), 'offload entry')} of {TITLES[model]} beside {pluralize(len(calls), 'kernel')}"
            text += (
                f" registered by calls: every call of {register} has a name of its own, none goes through the entries"
            )
            hint = "likely step: the link of objects of two models, without clang-linker-wrapper; "
            hint += "compile all in one way, or link with clang --offload-link"
            yield make_finding(evidence, "FP3047", entries[0].at, text, LIKELY, hint)
