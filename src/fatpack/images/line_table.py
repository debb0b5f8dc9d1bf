"""The folders, files and times in the headers of line programs (``.debug_line``), versions 2 to 5 of DWARF.

::

    2 to 4   folders, then files: name, and as ULEB128 the number of the folder, the time, the size
    5        formats of entries, then entries: paths are here, or in .debug_line_str or .debug_str

A time is the number of seconds since 1970; 0 is one that is not known. Compilers that write it: ptxas up to 13.0.

Sources: DWARF 4, 6.2.4; DWARF 5, 6.2.4 and 7.22 (codes of contents), 7.5.6 (forms).
"""

from __future__ import annotations

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: LIMIT: entries of one table, and bytes of one name
_ENTRIES, _NAME = 4096, 1024

_PATH, _TIME = 1, 3

#: form → its size in bytes; the others have one that is stored, or end with a zero
_FIXED = {0x0B: 1, 0x05: 2, 0x06: 4, 0x07: 8, 0x1E: 16, 0x0E: 4, 0x1F: 4}
_STRING, _BLOCK, _UDATA, _STRP, _LINE_STRP, _DATA = 0x08, 0x09, 0x0F, 0x0E, 0x1F, frozenset((0x06, 0x07))


class LineEntry(Record):
    """An entry of a table: a ``source`` or a ``source folder`` (``kind``), with the name and the time that it stores.

    The time's bytes start at ``at`` and are ``unknown`` if it is not known; they are as many.
    """

    kind: str
    name: bytes
    time: int = 0
    at: int = 0
    unknown: bytes = b""


def read_line_tables(
    data: bytes, number: Callable[[bytes], int], strings: Callable[[str, int], bytes] | None = None
) -> Iterator[LineEntry]:
    """Yield the entries of all tables; what comes after a damaged or unknown header is left out.

    ``number`` reads a number in the file's byte order, and ``strings`` a text of another section, by its name and the
    position; None where positions are not final, as in relocatable files.
    """
    at = 0
    while at + 6 < len(data):
        size, version = number(data[at : at + 4]), number(data[at + 4 : at + 6])
        end = at + 4 + size
        if size >= 0xFFFFFFF0 or not 2 <= version <= 5 or end > len(data):
            return
        if version == 5:
            yield from _new_table(data, at, end, number, strings)
        else:
            yield from _old_table(data, at + 10 + (6 if version > 3 else 5), end)
        at = end


def _old_table(data: bytes, lengths: int, end: int) -> Iterator[LineEntry]:
    base = data[lengths - 1] if lengths - 1 < end else 0
    place = lengths + max(base - 1, 0)
    for _ in range(_ENTRIES):
        name, place = _text(data, place, end)
        if not name:
            break
        yield LineEntry("source folder", name)
    for _ in range(_ENTRIES):
        name, place = _text(data, place, end)
        if not name or place >= end:
            return
        _, start = _leb128(data, place, end)
        time, place = _leb128(data, start, end)
        yield LineEntry("source", name, time, start, _zero(place - start))
        _, place = _leb128(data, place, end)


def _new_table(
    data: bytes,
    at: int,
    end: int,
    number: Callable[[bytes], int],
    strings: Callable[[str, int], bytes] | None,
) -> Iterator[LineEntry]:
    lengths = at + 18
    place = lengths + max(data[lengths - 1] - 1, 0) if lengths - 1 < end else end
    for kind in ("source folder", "source"):
        if place >= end:
            return
        count, place = data[place], place + 1
        shape: list[tuple[int, int]] = []
        for _ in range(count):
            content, place = _leb128(data, place, end)
            form, place = _leb128(data, place, end)
            shape.append((content, form))
        entries, place = _leb128(data, place, end)
        for _ in range(min(entries, _ENTRIES) if shape else 0):
            name, time, where, unknown = b"", 0, 0, b""
            for content, form in shape:
                start = place
                value, place = _value(data, place, end, form)
                if place > end or place <= start:
                    return
                if content == _PATH:
                    name = value
                    if form in (_STRP, _LINE_STRP):
                        section = ".debug_str" if form == _STRP else ".debug_line_str"
                        name = strings(section, number(value))[:_NAME] if strings else b""
                elif content == _TIME and form == _UDATA:
                    time, where, unknown = _leb128(data, start, end)[0], start, _zero(place - start)
                elif content == _TIME and form in _DATA:
                    time, where, unknown = number(value), start, bytes(place - start)
            yield LineEntry(kind, name, time, where, unknown)


def _value(data: bytes, at: int, end: int, form: int) -> tuple[bytes, int]:
    """Return the bytes of a value and the position after it; a position that is no later for an unknown form."""
    if form in _FIXED:
        return data[at : at + _FIXED[form]], at + _FIXED[form]
    if form == _STRING:
        return _text(data, at, end)
    if form == _UDATA:
        return b"", _leb128(data, at, end)[1]
    if form == _BLOCK:
        size, start = _leb128(data, at, end)
        return b"", start + size
    return b"", at


def _text(data: bytes, at: int, end: int) -> tuple[bytes, int]:
    stop = data.find(b"\0", at, end)  # a slice would copy what follows for each name
    return (data[at : min(stop, at + _NAME)], stop + 1) if stop >= 0 else (b"", end)


def _leb128(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 64:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if not data[at - 1] & 128:
            break
    return value, at


def _zero(size: int) -> bytes:
    """Return 0 as ULEB128 of so many bytes: padding is allowed (DWARF 4, 7.6)."""
    return b"\x80" * (size - 1) + b"\0" if size else b""
