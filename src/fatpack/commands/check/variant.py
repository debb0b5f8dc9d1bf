"""``variant.json`` of a wheel: what its variant is for.

::

    {"variants": {"cu128": {"nvidia": {"sm_arch": ["90_real", "120_virtual"], "cuda_version_lower_bound": ["12.8"]}}}}

Architectures are those of CMake: ``90_real`` is code for it, ``90_virtual`` PTX, ``90`` both. AMD's are target IDs.

How we know: PEP 825 (draft of 2026) and PEP 817 for the file; the properties are those of nvidia-variant-provider and
of ROCm's provider (TheRock, rocm-bootstrap): ``amd :: gfx_arch :: gfx942``.
"""

from __future__ import annotations

from fatpack.commands.check.declared import (
    MetadataClaim,
    MetadataDeclaration,
    UnreadableDeclaration,
    parse_declared_version,
    parse_json_object,
    require_object,
    require_strings,
    truncate,
    unique_claims,
)
from fatpack.errors import pluralize
from fatpack.targets.nvidia import parse_nvidia

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_SOURCE = "variant.json"


def variant_declaration(data: bytes) -> MetadataDeclaration:
    """Return what the file declares. Raises Unreadable."""
    variants = require_object(parse_json_object(data).get("variants"), "variants")
    if len(variants) != 1:
        raise UnreadableDeclaration(f"it has {pluralize(len(variants), 'variant')}, and a wheel is one")
    spaces = require_object(next(iter(variants.values())), "the variant")
    found = {name: require_object(value, name) for name, value in spaces.items() if name in ("nvidia", "amd")}
    nvidia, amd = found.get("nvidia"), found.get("amd")
    claims = unique_claims(_variant_claims(nvidia or {}, amd or {}))
    lists = [vendor for vendor, key in (("nvidia", "sm_arch"), ("amd", "gfx_arch")) if key in found.get(vendor, {})]
    lists += [vendor for vendor in ("nvidia", "amd") if vendor not in found and found]
    return MetadataDeclaration(_SOURCE, claims, tuple(lists))


def _variant_claims(nvidia: dict[str, Any], amd: dict[str, Any]) -> Iterator[MetadataClaim]:
    for text in require_strings(nvidia.get("sm_arch", []), "nvidia :: sm_arch"):
        number, _, form = text.partition("_")
        arch = parse_nvidia(f"sm_{number}")
        if arch is None or form not in ("", "real", "virtual"):
            raise UnreadableDeclaration(f"nvidia :: sm_arch :: {truncate(text)} is no architecture")
        if form != "virtual":
            yield MetadataClaim("image", "nvidia", arch.name, text)
        if form != "real":
            yield MetadataClaim("ptx", "nvidia", arch.name, text)
    for text in require_strings(nvidia.get("cuda_version_lower_bound", []), "nvidia :: cuda_version_lower_bound"):
        numbers = parse_declared_version(text)
        if numbers is None:
            raise UnreadableDeclaration(f"nvidia :: cuda_version_lower_bound :: {truncate(text)} is no version")
        yield MetadataClaim("cuda", "nvidia", "", f"CUDA {text}", numbers)
    for text in require_strings(amd.get("gfx_arch", []), "amd :: gfx_arch"):
        if not text.startswith("gfx"):
            raise UnreadableDeclaration(f"amd :: gfx_arch :: {truncate(text)} is no architecture")
        yield MetadataClaim("image", "amd", text, truncate(text))
