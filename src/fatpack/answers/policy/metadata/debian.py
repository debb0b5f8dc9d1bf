"""The control file of a Debian package: ``X-ROCm-GPU-Architecture: gfx900 gfx90a gfx1030``.

How we know: Debian's ROCm team (pkg-rocm-tools, rocm-target-arch(1), which also reads the field).
"""

from __future__ import annotations

from fatpack.answers.policy.metadata.declared import Claim, Declaration, Unreadable, bounded, fields, short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

FIELD = "X-ROCm-GPU-Architecture"


def declaration(data: bytes) -> Declaration:
    """Return what the file declares. Raises Unreadable."""
    return Declaration(FIELD, bounded(_claims(data)), ("amd",))


def _claims(data: bytes) -> Iterator[Claim]:
    for name, value in fields(data):
        for word in value.replace(",", " ").split() if name == FIELD.lower() else ():
            if not word.startswith("gfx"):
                raise Unreadable(f"{FIELD} has {short(word)!r}, which is no architecture")
            yield Claim("image", "amd", word, short(word))
