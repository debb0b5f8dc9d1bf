"""What was named could be read, and holds something that a policy could be held against."""

from __future__ import annotations

import os

from fatpack.commands.check.given import inside_prefixes, make_violation
from fatpack.commands.check.model import VENDORS, Violation
from fatpack.commands.check.policy_policy import METADATA_RULE
from fatpack.exit_codes import INPUT_OUTPUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.commands.check.given import RuleContext

#: suffixes of device code in formats that no room reads → what they are
_FORMATS = {
    "aks2": "AOTriton's archive of AMD code objects",
    "metallib": "a Metal library",
    "air": "Metal's intermediate code",
    "dxil": "DirectX code",
    "dxbc": "DirectX code",
    "cso": "a compiled DirectX shader",
}


def unread_violations(given: RuleContext, unmatched: Sequence[str]) -> Iterator[Violation]:
    """Yield what could not be read: it may hold anything."""
    given.told = set(unmatched)
    for name in unmatched:
        yield make_violation("FP3301", name, "pattern", "no file matches this pattern", unread=INPUT_OUTPUT)
    for item in given.found:
        last = item.last
        missed = given.missed.get(last.path)
        if missed is None:
            continue
        given.told.add(last.path)
        if last.error is None:
            hint = f"fatpack inspect {last.path} says more"
            yield make_violation("FP3301", last.path, last.path, missed.problem, hint, unread=missed.exit_code)
        elif not _is_gone(last.path, unmatched):
            yield make_violation("FP3301", last.path, last.path, missed.problem, unread=missed.exit_code)


def no_device_code(given: RuleContext) -> Iterator[Violation]:
    """Yield the names with no device code that the policy could be held against."""
    policy = given.policy
    vendors = dict.fromkeys(item.device.vendor for item in policy.require)
    if policy.metadata and policy.rules == (METADATA_RULE,):
        return  # what declares nothing, and holds nothing, is told there
    for name in given.names:
        if any(path == name or path.startswith(inside_prefixes(name)) for path in given.told):
            continue  # which has been said
        if not any(row_vendor in vendors or not vendors for row_vendor in given.vendors(name)):
            whose = " or ".join(VENDORS[vendor] for vendor in vendors)
            text = f"no device code{f' for {whose} devices' if whose else ''} was found: nothing was checked"
            yield make_violation("FP3302", name, "device code", text, "name what has some, or leave this out")
    for vendor in vendors:
        has_any = any(unit.vendor == vendor for item in given.found for unit in item.units)
        if not has_any and len(vendors) > 1 and not given.told:
            yield make_violation("FP3302", "", "device code", f"no device code for {VENDORS[vendor]} devices was found")


def skipped(given: RuleContext) -> Iterator[Violation]:
    """Yield a note for each file whose name says that its device code is in a format that is not read."""
    for item in given.found:
        last = item.last
        kind = _FORMATS.get(last.path.rpartition(".")[2].lower(), "")
        if kind and not item.units and last.host == "raw" and last.path not in given.told:
            yield make_violation("FP3317", last.path, last.path, f"not read: {kind}")


def unread_kernel_violations(given: RuleContext) -> Iterator[Violation]:
    """Yield the files of which kernels were asked for and could not be read."""
    for path, found in given.kernels.items():
        if found.problem and path not in given.told:
            yield make_violation("FP3301", path, "kernels", found.problem, f"fatpack inspect {path} says more")


def _is_gone(path: str, unmatched: Sequence[str]) -> bool:
    """Return whether a path is the folder of a pattern that no file has, because there is no such folder."""
    return not os.path.lexists(path) and any(name.startswith(os.path.join(path, "")) for name in unmatched)
