"""Extras of wheels whose device code lies in kpack archives of other wheels, one for each architecture.

::

    Provides-Extra: device-gfx942
    Requires-Dist: amd-torch-device-gfx942 == 2.10.0; extra == "device-gfx942"

How we know: TheRock (ROCm), which splits wheels so; older drafts of it have ``gfx942`` alone. The other wheels are
looked for among the packages that are checked: nothing is fetched.
"""

from __future__ import annotations

import re

from fatpack.commands.check.declared import MetadataClaim, MetadataDeclaration, header_fields, truncate, unique_claims

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_EXTRA = re.compile(r"(?:device-)?(gfx[0-9a-f]{2,6})")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")
_MARKER = re.compile(r"""extra\s{0,9}==\s{0,9}["']([^"']{1,64})["']""")


def extras_declaration(data: bytes) -> MetadataDeclaration:
    """Return what METADATA declares by extras. Raises Unreadable."""
    return MetadataDeclaration("Provides-Extra", unique_claims(_extras_claims(data)), ("amd",))


def _extras_claims(data: bytes) -> Iterator[MetadataClaim]:
    for name, value in header_fields(data):
        found = _EXTRA.fullmatch(value) if name == "provides-extra" else None
        if found is not None:
            yield MetadataClaim("image", "amd", found[1], truncate(value))


def required_distributions(data: bytes) -> tuple[str, ...]:
    """Return the distributions that METADATA requires for architectures of AMD. Raises Unreadable."""
    found = dict[str, None]()
    for name, value in header_fields(data):
        if name != "requires-dist":
            continue
        marker = value.partition(";")[2]
        is_for_device = any(map(_EXTRA.fullmatch, _MARKER.findall(marker))) or "gfx_arch" in marker
        required = _NAME.match(value)
        if is_for_device and required is not None:
            found[normalize_name(required[0])] = None
    return tuple(found)


def normalize_name(name: str) -> str:
    """Return the name of a distribution as names are compared (PyPA, "Names and normalization")."""
    return re.sub("[-_.]+", "-", name).lower()
