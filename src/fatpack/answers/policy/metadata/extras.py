"""Extras of wheels whose device code lies in kpack archives of other wheels, one for each architecture.

::

    Provides-Extra: device-gfx942
    Requires-Dist: amd-torch-device-gfx942 == 2.10.0; extra == "device-gfx942"

How we know: TheRock (ROCm), which splits wheels so; older drafts of it have ``gfx942`` alone. The other wheels are
looked for among the packages that are checked: nothing is fetched.
"""

from __future__ import annotations

import re

from fatpack.answers.policy.metadata.declared import Claim, Declaration, bounded, fields, short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_EXTRA = re.compile(r"(?:device-)?(gfx[0-9a-f]{2,6})")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")
_MARKER = re.compile(r"""extra\s{0,9}==\s{0,9}["']([^"']{1,64})["']""")


def declaration(data: bytes) -> Declaration:
    """Return what METADATA declares by extras. Raises Unreadable."""
    return Declaration("Provides-Extra", bounded(_claims(data)), ("amd",))


def _claims(data: bytes) -> Iterator[Claim]:
    for name, value in fields(data):
        found = _EXTRA.fullmatch(value) if name == "provides-extra" else None
        if found is not None:
            yield Claim("image", "amd", found[1], short(value))


def needs(data: bytes) -> tuple[str, ...]:
    """Return the distributions that METADATA requires for architectures of AMD. Raises Unreadable."""
    found = dict[str, None]()
    for name, value in fields(data):
        if name != "requires-dist":
            continue
        marker = value.partition(";")[2]
        is_for_device = any(map(_EXTRA.fullmatch, _MARKER.findall(marker))) or "gfx_arch" in marker
        required = _NAME.match(value)
        if is_for_device and required is not None:
            found[normal(required[0])] = None
    return tuple(found)


def normal(name: str) -> str:
    """Return the name of a distribution as names are compared (PyPA, "Names and normalization")."""
    return re.sub("[-_.]+", "-", name).lower()
