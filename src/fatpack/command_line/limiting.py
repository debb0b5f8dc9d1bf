"""``--limit NAME=NUMBER`` and ``FATPACK_LIMITS``: for one command, more than usual for a file that is trusted."""

from __future__ import annotations

from fatpack import limits
from fatpack.errors import UsageError
from fatpack.printable import parse_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

#: name of a limit on the command line → what it bounds; the numbers and their reasons are in ``fatpack.limits``
LIMITS = {
    "inflated": "bytes that one command inflates in all",
    "output": "bytes that one command writes, if that is more than 100 times as much as it was given",
    "window": "bytes that inflating a package may keep to look back on",
    "nesting": "levels of containers inside images inside containers",
    "containers": "containers of a file",
    "images": "images of a container",
    "string-ratio": "bytes of names and other strings, as a multiple of what holds them",
    "string-table": "bytes of one table of symbol names",
    "bundle-id": "bytes of one bundle ID",
    "bundle-entries": "entries of one bundle",
    "attributes": "attributes of one module of a CIR container",
    "sections": "sections of an ELF file",
    "image-sections": "sections of a device image",
    "image-section-size": "bytes of one section of a device image that are read as a whole",
    "kernels": "kernels, or functions, of an image that are described",
    "ptx-header": "bytes from a kernel's name to its body in PTX",
    "ptx-name": "bytes of a kernel's name in PTX",
    "filler": "bytes of padding and uninitialised data in an object that is written anew",
    "kpack-toc": "bytes of the table of contents of a kpack archive",
    "property-sets": "bytes of the property sets of one module of a SYCLBIN file",
    "copies": "times that an object may grow because its sections overlap",
}


class LimitsInEffect:
    """Limits that hold while a ``with`` block runs; those from before hold again after it."""

    def __init__(self, texts: Iterable[str]) -> None:
        """Take texts of the form ``NAME=NUMBER``, where a number may have a unit as sizes have. Raises UsageError."""
        self._wanted = dict(map(_parsed, texts))
        self._before: dict[str, int] = {}

    def __enter__(self) -> Self:
        for name, number in self._wanted.items():
            self._before[name] = getattr(limits, name)
            setattr(limits, name, number)
        return self

    def __exit__(self, *_: object) -> None:
        for name, number in self._before.items():
            setattr(limits, name, number)


def current_limit(name: str) -> int:
    """Return the number of a limit as it stands."""
    number: int = getattr(limits, _constant(name))
    return number


def _constant(name: str) -> str:
    """Return the name of the constant of ``fatpack.limits``."""
    return name.upper().replace("-", "_")


def _parsed(text: str) -> tuple[str, int]:
    """Return the constant of ``fatpack.limits`` and the number that a text asks for."""
    name, equals, value = text.partition("=")
    if name not in LIMITS:
        raise UsageError(f"no limit {name!r}", hint=f"limits are {', '.join(LIMITS)}")
    try:
        number = parse_size(value)
    except ValueError:
        problem = f"{value!r} is no number" if equals else "a number is missing"
        raise UsageError(f"limit {name}: {problem}", hint=f"as in {name}=100000 or {name}=8G") from None
    return _constant(name), number
