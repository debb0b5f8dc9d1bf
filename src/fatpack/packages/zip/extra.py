"""Extra fields of zip archives (APPNOTE 4.5): taken apart and put together again, what is not understood as it is."""

from __future__ import annotations

import zlib

from fatpack.packages.zip.layout import EXTRA_64, EXTRA_NAME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    #: number of a field, -1 for what is none, and its bytes with their header
    ExtraField: TypeAlias = tuple[int, bytes]


def split_extra(extra: bytes) -> list[ExtraField]:
    """Return the fields of an extra field in order. Bytes behind the last whole one are the last part, as number -1.

    QUIRK(zipalign): the Android tool adds zeros, fewer than a header has.
    """
    found, at = [], 0
    while at + 4 <= len(extra):
        number, size = (int.from_bytes(extra[place : place + 2], "little") for place in (at, at + 2))
        if at + 4 + size > len(extra):
            break
        found.append((number, extra[at : at + 4 + size]))
        at += 4 + size
    return [*found, (-1, extra[at:])] if at < len(extra) else found


def make_field(number: int, content: bytes) -> ExtraField:
    """Return a field with its header."""
    return number, number.to_bytes(2, "little") + len(content).to_bytes(2, "little") + content


def with_zip64_field(extra: list[ExtraField], content: bytes) -> list[ExtraField]:
    """Return fields with that content in the one of Zip64, where it was or in front of all; without it for b""."""
    new = [make_field(EXTRA_64, content)] if content else []
    place = next((place for place, (number, _) in enumerate(extra) if number == EXTRA_64), 0)
    rest = [part for part in extra if part[0] != EXTRA_64]
    return [*rest[:place], *new, *rest[place:]]


def with_unicode_name(extra: list[ExtraField], name: bytes) -> list[ExtraField]:
    """Return fields in which Info-ZIP's second name of a file, where there is one, is its new name too."""
    content = b"\1" + zlib.crc32(name).to_bytes(4, "little") + name
    return [make_field(EXTRA_NAME, content) if number == EXTRA_NAME else (number, part) for number, part in extra]
