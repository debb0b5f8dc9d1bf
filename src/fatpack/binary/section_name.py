"""Names of sections as objects store them."""

from __future__ import annotations

from fatpack.errors import UsageError


def encode_section_name(name: str) -> bytes:
    """Return a name in UTF-8, undecodable bytes as they were. Raises UsageError for one that no section can have."""
    try:
        stored = name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        stored = b""
    if not stored or b"\0" in stored:
        raise UsageError(f"{name!r} cannot be the name of a section", hint="give a name in UTF-8 without NUL")
    return stored
