"""Classifiers of wheels: ``Environment :: GPU :: NVIDIA CUDA :: 12 :: 12.4``.

How we know: trove-classifiers. The last part is a version; what only says ``NVIDIA CUDA`` is for any.
"""

from __future__ import annotations

from fatpack.commands.check.declared import (
    MetadataClaim,
    MetadataDeclaration,
    UnreadableDeclaration,
    header_fields,
    parse_declared_version,
    truncate,
    unique_claims,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_CUDA = "Environment :: GPU :: NVIDIA CUDA"


def classifier_declaration(data: bytes) -> MetadataDeclaration:
    """Return what METADATA declares by classifiers: the highest version that it names. Raises Unreadable."""
    claims = unique_claims(_classifier_claims(data))
    return MetadataDeclaration("Classifier", (max(claims, key=lambda claim: claim.version[:1]),) if claims else ())


def _classifier_claims(data: bytes) -> Iterator[MetadataClaim]:
    for name, value in header_fields(data):
        if name != "classifier" or not value.startswith(_CUDA):
            continue
        last = value.rpartition("::")[2].strip()
        numbers = () if value == _CUDA else parse_declared_version(last)
        if numbers is None:
            raise UnreadableDeclaration(f"{truncate(value)!r} has no version")
        # Minor versions of one CUDA are compatible with each other, so that only the first number tells.
        yield MetadataClaim("cuda", "nvidia", "", f"CUDA {last}" if numbers else "CUDA", numbers[:1])
