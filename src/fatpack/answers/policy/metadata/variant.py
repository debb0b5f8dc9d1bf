"""``variant.json`` of a wheel: what its variant is for.

::

    {"variants": {"cu128": {"nvidia": {"sm_arch": ["90_real", "120_virtual"], "cuda_version_lower_bound": ["12.8"]}}}}

Architectures are those of CMake: ``90_real`` is code for it, ``90_virtual`` PTX, ``90`` both. AMD's are target IDs.

How we know: PEP 825 (draft of 2026) and PEP 817 for the file; the properties are those of nvidia-variant-provider and
of ROCm's provider (TheRock, rocm-bootstrap): ``amd :: gfx_arch :: gfx942``.
"""

from __future__ import annotations

from fatpack.answers.policy.metadata.declared import (
    Claim,
    Declaration,
    Unreadable,
    bounded,
    json_object,
    short,
    table,
    texts,
    version,
)
from fatpack.errors import counted
from fatpack.target.nvidia import parse_nvidia

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_SOURCE = "variant.json"


def declaration(data: bytes) -> Declaration:
    """Return what the file declares. Raises Unreadable."""
    variants = table(json_object(data).get("variants"), "variants")
    if len(variants) != 1:
        raise Unreadable(f"it has {counted(len(variants), 'variant')}, and a wheel is one")
    spaces = table(next(iter(variants.values())), "the variant")
    found = {name: table(value, name) for name, value in spaces.items() if name in ("nvidia", "amd")}
    nvidia, amd = found.get("nvidia"), found.get("amd")
    claims = bounded(_claims(nvidia or {}, amd or {}))
    lists = [vendor for vendor, key in (("nvidia", "sm_arch"), ("amd", "gfx_arch")) if key in found.get(vendor, {})]
    lists += [vendor for vendor in ("nvidia", "amd") if vendor not in found and found]
    return Declaration(_SOURCE, claims, tuple(lists))


def _claims(nvidia: dict[str, Any], amd: dict[str, Any]) -> Iterator[Claim]:
    for text in texts(nvidia.get("sm_arch", []), "nvidia :: sm_arch"):
        number, _, form = text.partition("_")
        arch = parse_nvidia(f"sm_{number}")
        if arch is None or form not in ("", "real", "virtual"):
            raise Unreadable(f"nvidia :: sm_arch :: {short(text)} is no architecture")
        if form != "virtual":
            yield Claim("image", "nvidia", arch.name, text)
        if form != "real":
            yield Claim("ptx", "nvidia", arch.name, text)
    for text in texts(nvidia.get("cuda_version_lower_bound", []), "nvidia :: cuda_version_lower_bound"):
        numbers = version(text)
        if numbers is None:
            raise Unreadable(f"nvidia :: cuda_version_lower_bound :: {short(text)} is no version")
        yield Claim("cuda", "nvidia", "", f"CUDA {text}", numbers)
    for text in texts(amd.get("gfx_arch", []), "amd :: gfx_arch"):
        if not text.startswith("gfx"):
            raise Unreadable(f"amd :: gfx_arch :: {short(text)} is no architecture")
        yield Claim("image", "amd", text, short(text))
