"""``info/index.json`` of a conda package: the lowest compute capability that it needs, as ``__cuda_arch >=8.0``.

How we know: CEP 46 (the virtual package has the lowest compute capability of the machine's devices); the match
specifications are those of CEP 29, of which lists of bounds are read.
"""

from __future__ import annotations

import re

from fatpack.commands.check.declared import (
    MetadataClaim,
    MetadataDeclaration,
    UnreadableDeclaration,
    parse_json_object,
    require_strings,
    truncate,
    unique_claims,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_PACKAGE = "__cuda_arch"
_BOUND = re.compile(r"(>=|<=|<|==|=|)\s{0,9}([0-9]{1,3})\.([0-9])(?:\.\*|\*)?(?:a0|\.0a0)?")


def conda_declaration(data: bytes) -> MetadataDeclaration:
    """Return what the file declares. Raises Unreadable."""
    return MetadataDeclaration(_PACKAGE, unique_claims(_conda_claims(parse_json_object(data))))


def _conda_claims(index: dict[str, Any]) -> Iterator[MetadataClaim]:
    for key in ("depends", "constrains"):
        for text in require_strings(index.get(key, []), key):
            if re.match(rf"{_PACKAGE}(?![\w-])", text):
                yield from _lowest(text)


def _lowest(text: str) -> Iterator[MetadataClaim]:
    words = text[len(_PACKAGE) :].strip()
    found = [_BOUND.fullmatch(part.strip()) for part in words.split(",")]
    bounds = [item for item in found if item is not None]
    lower = [(int(item[2]), int(item[3])) for item in bounds if not item[1].startswith("<")]
    if len(bounds) < len(found) or not lower:
        raise UnreadableDeclaration(f"{truncate(text)!r} has no lowest compute capability that can be read")
    major, minor = max(lower)
    yield MetadataClaim("lowest", "nvidia", f"sm_{major}{minor}", truncate(text))
