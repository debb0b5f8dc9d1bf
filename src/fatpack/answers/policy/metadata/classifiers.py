"""Classifiers of wheels: ``Environment :: GPU :: NVIDIA CUDA :: 12 :: 12.4``.

How we know: trove-classifiers. The last part is a version; what only says ``NVIDIA CUDA`` is for any.
"""

from __future__ import annotations

from fatpack.answers.policy.metadata.declared import Claim, Declaration, Unreadable, bounded, fields, short, version

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_CUDA = "Environment :: GPU :: NVIDIA CUDA"


def declaration(data: bytes) -> Declaration:
    """Return what METADATA declares by classifiers: the highest version that it names. Raises Unreadable."""
    claims = bounded(_claims(data))
    return Declaration("Classifier", (max(claims, key=lambda claim: claim.version[:1]),) if claims else ())


def _claims(data: bytes) -> Iterator[Claim]:
    for name, value in fields(data):
        if name != "classifier" or not value.startswith(_CUDA):
            continue
        last = value.rpartition("::")[2].strip()
        numbers = () if value == _CUDA else version(last)
        if numbers is None:
            raise Unreadable(f"{short(value)!r} has no version")
        # Minor versions of one CUDA are compatible with each other, so that only the first number tells.
        yield Claim("cuda", "nvidia", "", f"CUDA {last}" if numbers else "CUDA", numbers[:1])
