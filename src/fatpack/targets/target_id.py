"""AMD target IDs: a processor and what is fixed about two of its features.

``gfx90a:sramecc+:xnack-`` is code for a gfx90a with error-correcting memory on and retry on page faults off. A
feature that is not named may be either. Order does not matter; clang writes features in alphabetical order
(llvm/docs/AMDGPUUsage.rst, target ID). Nothing here reads the vocabulary's data, so whether a processor accepts a
feature is asked of :func:`fatpack.targets.check_target_id`.
"""

from __future__ import annotations

from fatpack.errors import TargetError
from fatpack.record import Record

_EXAMPLE = "a target ID looks like gfx90a:sramecc+:xnack-"


class TargetId(Record):
    """A target ID taken apart: ``features`` have their sign and are in alphabetical order."""

    processor: str
    features: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ":".join((self.processor, *self.features))


def parse_target_id(text: str) -> TargetId:
    """Return the parts of a target ID, as strictly as clang reads them.

    Raises TargetError for a missing processor, a feature without sign or name, and a feature given twice. Whether
    such a processor or feature exists is not checked.
    """
    processor, _, rest = text.partition(":")
    if not processor:
        raise TargetError(f"target ID {text!r} names no processor", hint=_EXAMPLE)
    # QUIRK(clang 22): one colon at the end is accepted and dropped, an empty feature anywhere else is not.
    features = rest.removesuffix(":").split(":") if rest else []
    seen = set()
    for feature in features:
        name, sign = feature[:-1], feature[-1:]
        if sign not in ("+", "-") or not name or name[-1] in "+-":
            raise TargetError(f"feature {feature!r} of {text!r} does not end in one + or -", hint=_EXAMPLE)
        if name in seen:
            raise TargetError(f"target ID {text!r} gives the feature {name} twice", hint="keep one of them")
        seen.add(name)
    return TargetId(processor, tuple(sorted(features)))


def canonical_target_id(text: str) -> str:
    """Return a target ID as clang stores it. Raises TargetError as :func:`parse_target_id` does."""
    return str(parse_target_id(text))


def feature_signs(arch: str) -> dict[str, str]:
    """Return feature → sign of an arch string from a file; what is malformed or repeated is passed over.

    LLVM compares stored target IDs that nobody validated in the same way (AMDGPUTargetParser.cpp, 2026).
    """
    found: dict[str, str] = {}
    for feature in arch.split(":")[1:]:
        if feature[-1:] in ("+", "-"):
            found.setdefault(feature[:-1], feature[-1])
    return found
