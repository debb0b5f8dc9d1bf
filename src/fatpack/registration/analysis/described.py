"""Verdicts about OpenMP and SYCL: whether what describes their images is there, and handed to the runtime at the start.

Objects of OpenMP are right to have entries and nothing else: clang-linker-wrapper adds what registers them when they
are linked. What it adds is judged wherever it is: in the object that it makes, and in the linked program.
"""

from __future__ import annotations

from fatpack.errors import pluralize
from fatpack.registration.analysis import functions
from fatpack.registration.analysis.findings import (
    CERTAIN,
    HOST_STEP,
    LIKELY,
    TITLES,
    lies_in_file,
    make_finding,
    never_run_finding,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.model import Finding
    from fatpack.registration.analysis.model import RegistrationEvidence

LINK_STEP = "likely step: the link, which clang-linker-wrapper did not do; link with clang --offload-link"

#: what compilers call the byte that stands for a region of OpenMP; COFF's weak symbols have another beside them
_REGION, _WEAK = ".region_id", ".region_id.default"


def descriptor_findings(evidence: RegistrationEvidence) -> Iterator[Finding]:
    """Yield what is wrong with what a file registers of OpenMP and SYCL."""
    yield from _regions(evidence)
    for model in ("openmp", "sycl"):
        yield from _registered(evidence, model)


def _regions(evidence: RegistrationEvidence) -> Iterator[Finding]:
    """Yield the finding that regions are launched and have no entries; who hands on others' launches has no regions."""
    if functions.TARGET_KERNEL not in evidence.called or any(entry.kind == "openmp" for entry in evidence.entries):
        return
    launches = [each for each in evidence.launches if each.model == "openmp"]
    regions = [each for each in evidence.memory.symbols if each.is_defined and _is_region(each.name)]
    count = len(regions) or len({each.handle for each in launches})
    if not count:
        return
    text = f"{pluralize(count, 'OpenMP region')} launched, and there is no offload entry for any"
    hint = f"{HOST_STEP}: the section of entries was lost; compile it again"
    at = launches[0].at if launches else regions[0].address
    yield make_finding(evidence, "FP3050", at, text, CERTAIN, hint)


def _is_region(name: str) -> bool:
    return name.endswith(_REGION) or _WEAK in name


def _registered(evidence: RegistrationEvidence, model: str) -> Iterator[Finding]:
    title, reached = TITLES[model], evidence.reached
    register = next(name for name, its in functions.REGISTER_BINARY.items() if its == model)
    calls = [each for each in evidence.binaries if each.model == model]
    descriptors = [each for each in evidence.descriptors if each.model == model]
    if not calls and register not in evidence.called:
        entries = [entry for entry in evidence.entries if entry.kind == model]
        if evidence.memory.is_linked and entries and not descriptors:
            text = f"{pluralize(len(entries), 'offload entry')} of {title}, and nothing registers them"
            text += ": there is no descriptor of their images"
            yield make_finding(evidence, "FP3049", entries[0].at, text, CERTAIN, LINK_STEP)
        elif descriptors and (evidence.called or not evidence.memory.is_linked) and reached is not None:
            text = f"{pluralize(len(descriptors), 'descriptor')} of {title} images, and nothing registers them"
            text += f": {register} is not called"
            sure = LIKELY if evidence.memory.is_linked else CERTAIN
            hint = "likely step: what was done to the object of the linker wrapper; link again"
            yield make_finding(evidence, "FP3053", descriptors[0].at, text, sure, hint)
    elif reached is not None:
        yield from (
            never_run_finding(evidence, each)
            for each in calls
            if each.caller not in reached and lies_in_file(evidence, each.wrapper)
        )
