"""``verify``: all that can be verified of what was named, as :mod:`fatpack.commands.doctor` does it, held to be right.

Every image is inflated and parsed, every hash, checksum and digest that is stored is compared. What that finds in files
of which something was said already is not said again.
"""

from __future__ import annotations

from fatpack.budget import Budget, current_budget
from fatpack.commands.check.labels import MISMATCH_CODES as LABELS
from fatpack.commands.check.model import Violation
from fatpack.commands.doctor.run import diagnose

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from fatpack.commands.check.policy_policy import Policy
    from fatpack.inputs.map_files import Opener
    from fatpack.model import Finding

#: what is wrong with a wheel as a package, not with its bytes
_PACKAGES = ("FP3603", "FP3604")

#: what of an answer's parts is only not verified
_IMAGES = ("images", "images of unknown form")


def checksum_violations(
    names: Sequence[str], policy: Policy, told: Collection[str], opener: Opener | None
) -> Iterator[Violation]:
    """Yield what is not whole, and a note for images that nobody can read. What was ``told`` of is left out."""
    # Everything is inflated a second time, which is what was asked for: it has an account of its own.
    budget = Budget(current_budget().inflated)
    found = diagnose(names, exclude=policy.exclude, deep=policy.deep, opener=opener, budget=budget)
    said: dict[str, list[Finding]] = {}
    for item in found.findings:
        said.setdefault(str(item.span.source[0]) if item.span.source else "", []).append(item)
    for patient in found.patients:
        own = said.get(patient.path, [])
        if patient.path in told:
            continue
        errors = [item for item in own if item.severity == "error" and item.code not in _PACKAGES]
        if patient.error is not None or errors:
            texts = [patient.error] if patient.error is not None else list(dict.fromkeys(map(_checksum_words, errors)))
            more = f", and {len(texts) - 1} more" if len(texts) > 1 else ""
            hint = f"fatpack doctor {patient.path} says more"
            yield Violation("FP3301", "error", patient.path, "content", f"{texts[0]}{more}", hint)
        elif patient.state in ("damaged", "unread") and not own:
            text = "something in it is damaged"
            yield Violation(
                "FP3301", "error", patient.path, "content", text, f"fatpack doctor {patient.path} says more"
            )
        for item in own:
            if item.code in _PACKAGES:
                yield Violation("FP3315", "error", patient.path, "RECORD", item.message, item.hint)
            elif item.code in LABELS:
                yield Violation("FP3314", "error", patient.path, "label", item.message)
    for skipped in found.not_verified:
        if skipped.what in _IMAGES:
            text = f"{skipped.count} {skipped.what} not verified: {skipped.why}"
            yield Violation("FP3316", "note", skipped.path, "content", text)


def _checksum_words(item: Finding) -> str:
    return f"{item.message} [{item.code}]"
