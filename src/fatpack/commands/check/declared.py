"""What a declaration says, whatever it was written in, and how its files are read: with bounds."""

from __future__ import annotations

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

#: LIMIT: bytes of a file that declares; the largest METADATA of known wheels, with its description, have 200 kB.
MAX_DECLARATION_SIZE = 4 << 20

#: LIMIT: claims of one declaration
MAX_CLAIMS = 1000

#: LIMIT: characters of a value, which messages repeat
_LONGEST = 64


class UnreadableDeclaration(Exception):
    """A declaration that cannot be read, and why, in words."""


class MetadataClaim(Record):
    """One thing that is declared.

    ``kind`` is ``image`` (something serves the device ``arch``), ``ptx`` (so does PTX for it, and for later ones),
    ``lowest`` (that device is the lowest that is served), ``cuda`` (``version`` of CUDA whose driver is enough).
    ``text`` is what the file says.
    """

    kind: str
    vendor: str
    arch: str
    text: str
    version: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """What images that the claim is about are called, ``compute_90`` for PTX."""
        return f"compute_{self.arch.removeprefix('sm_')}" if self.kind == "ptx" else self.arch


class MetadataDeclaration(Record):
    """What one file declares by one means, its ``source``.

    ``lists`` are the vendors of whose images all are listed: what is there besides is not declared. Without claims
    the file declares nothing.
    """

    source: str
    claims: tuple[MetadataClaim, ...]
    lists: tuple[str, ...] = ()


def unique_claims(claims: Iterator[MetadataClaim]) -> tuple[MetadataClaim, ...]:
    """Return claims, each once. Raises Unreadable for too many."""
    found: dict[MetadataClaim, None] = {}
    for claim in claims:
        found[claim] = None
        if len(found) > MAX_CLAIMS:
            raise UnreadableDeclaration(f"it makes more than {MAX_CLAIMS} claims")
    return tuple(found)


def truncate(value: object) -> str:
    """Return a value for a message, cut where it is long."""
    text = value if isinstance(value, str) else type(value).__name__
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def parse_json_object(data: bytes) -> dict[str, Any]:
    """Return the object that JSON is. Raises Unreadable."""
    import json

    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        text = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise UnreadableDeclaration(f"it is no JSON: {truncate(text)}") from None
    return require_object(value, "it")


def require_object(value: object, what: str) -> dict[str, Any]:
    """Return a value that must be an object. Raises Unreadable."""
    if not isinstance(value, dict):
        raise UnreadableDeclaration(f"{what} is no object")
    return value


def require_strings(value: object, what: str) -> list[str]:
    """Return a value that must be a list of texts. Raises Unreadable."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise UnreadableDeclaration(f"{what} is no list of texts")
    return value


def header_fields(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield the fields before the first empty line, names in lower case: RFC 822, as METADATA and control have it.

    Raises Unreadable for bytes that are no UTF-8, and for lines that are no field.
    """
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError:
        raise UnreadableDeclaration("it is no UTF-8") from None
    name, values = "", list[str]()
    for line in lines:
        if not line.strip():
            break
        if line[0] in " \t":
            if not name:
                raise UnreadableDeclaration("its first line belongs to no field")
            values.append(line.strip())
            continue
        if name:
            yield name, " ".join(values)
        name, colon, value = line.partition(":")
        if not colon:
            raise UnreadableDeclaration(f"{truncate(line)!r} is no field")
        name, values = name.strip().lower(), [value.strip()]
    if name:
        yield name, " ".join(values)


def parse_declared_version(text: str) -> tuple[int, ...] | None:
    """Return the numbers of ``12`` or ``12.4``; None for what is neither."""
    parts = text.split(".")
    if len(text) > 12 or len(parts) > 2 or not all(part.isascii() and part.isdecimal() for part in parts):
        return None
    return tuple(int(part) for part in parts)
