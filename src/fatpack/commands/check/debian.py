"""The control file of a Debian package: ``X-ROCm-GPU-Architecture: gfx900 gfx90a gfx1030``.

How we know: Debian's ROCm team (pkg-rocm-tools, rocm-target-arch(1), which also reads the field).
"""

from __future__ import annotations

from fatpack.commands.check.declared import (
    MetadataClaim,
    MetadataDeclaration,
    UnreadableDeclaration,
    header_fields,
    truncate,
    unique_claims,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

DEBIAN_FIELD = "X-ROCm-GPU-Architecture"


def debian_declaration(data: bytes) -> MetadataDeclaration:
    """Return what the file declares. Raises Unreadable."""
    return MetadataDeclaration(DEBIAN_FIELD, unique_claims(_debian_claims(data)), ("amd",))


def _debian_claims(data: bytes) -> Iterator[MetadataClaim]:
    for name, value in header_fields(data):
        for word in value.replace(",", " ").split() if name == DEBIAN_FIELD.lower() else ():
            if not word.startswith("gfx"):
                raise UnreadableDeclaration(f"{DEBIAN_FIELD} has {truncate(word)!r}, which is no architecture")
            yield MetadataClaim("image", "amd", word, truncate(word))
