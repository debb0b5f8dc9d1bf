"""What a host's side launches and registers, by name: only what runs counts, as far as verdicts tell.

Names that a file holds for a register function are not registered where no constructor leads to the call, and neither
are offload entries that nothing goes through.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Set

    from fatpack.registration.analysis.model import RegistrationEvidence

#: verdicts: no constructor leads to what registers; nothing calls what registers; calls pass entries by
_NEVER_RUN, _NOT_CALLED, _PASSED_BY = {"FP3043", "FP3044"}, {"FP3049", "FP3053"}, "FP3047"

#: the models that verdict FP3047 is about
_BY_CALLS = ("cuda", "hip")


def registered_kernels(evidence: RegistrationEvidence, codes: Set[str]) -> frozenset[str]:
    """Return the names of the kernels that a file registers when it is loaded; ``codes`` are those of its verdicts."""
    reached = evidence.reached if not _NEVER_RUN.isdisjoint(codes) else None
    callers: dict[str, set[int]] = {}
    for binary in evidence.binaries:
        callers.setdefault(binary.model, set()).add(binary.caller)

    def is_begun(model: str) -> bool:
        """Whether anything hands a model's device code to its runtime, as far as verdicts tell."""
        if model not in callers:
            return _NOT_CALLED.isdisjoint(codes)
        return reached is None or not callers[model].isdisjoint(reached)

    names = {
        each.name
        for each in evidence.registered
        if each.is_kernel and each.name and is_begun(each.model) and (reached is None or each.caller in reached)
    }
    entries = (each for each in evidence.entries if each.is_kernel and is_begun(each.kind))
    names.update(each.name for each in entries if _PASSED_BY not in codes or each.kind not in _BY_CALLS)
    return frozenset(names)


def launched_kernels(evidence: RegistrationEvidence) -> frozenset[str]:
    """Return the names of the kernels that a file launches, as far as what registers them tells the names."""
    names = {each.handle: each.name for each in evidence.registered if each.is_kernel and each.name}
    names.update((entry.address, entry.name) for entry in evidence.entries if entry.is_kernel)
    return frozenset(names[each.handle] for each in evidence.launches if each.handle in names)
