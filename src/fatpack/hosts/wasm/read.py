"""The sections of a WebAssembly module: pure arithmetic on their headers, no content is read."""

from __future__ import annotations

from fatpack.errors import BadValue, FormatError, LimitExceeded, Truncated
from fatpack.layout import Field, Layout
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View

FORMAT = "wasm"

HEADER = Layout(
    FORMAT,
    "header",
    (
        Field("magic", "bytes[4]", 'magic: a NUL and "asm"'),
        Field("version", "u32", "version: 1; components of modules have another"),
    ),
)

CUSTOM, CODE, DATA = 0, 10, 11
_KINDS = "custom type import function table memory global export start element code data data-count tag".split()

#: LIMIT: bytes of a name that are read, and sections. Modules have some 20 sections, with names of 30 bytes.
_LONGEST_NAME = 1024
_MOST_SECTIONS = 65536

#: LIMIT: custom sections whose names cannot be read. A tool writes none; two bytes of garbage can look like one.
_MOST_NAMELESS = 100

#: bytes of the longest LEB128 of 32 bits
_LONGEST_NUMBER = 5


class Section(Record):
    """A section: its ``number`` from 0 on, what it is, its name, where its header starts, and where its content lies.

    The content of a custom section starts behind its name, at ``offset``; sections without a name are called by what
    they are. ``body`` is where the header ends.
    """

    number: int
    kind: int
    name: str
    at: int
    body: int
    offset: int
    size: int

    @property
    def end(self) -> int:
        """Where the next section starts."""
        return self.offset + self.size


def sections_of(view: View) -> Iterator[Section | FormatError]:
    """Yield the sections in order; where their chain breaks, the error that ends it.

    A custom section whose name cannot be read is an error that ends nothing, but for very many of them.
    """
    at, number, nameless = HEADER.size, 0, 0
    while at < len(view):
        if number >= _MOST_SECTIONS or nameless >= _MOST_NAMELESS:
            what = f"{_MOST_SECTIONS} sections" if number >= _MOST_SECTIONS else f"{nameless} sections without a name"
            text, place = f"more than {what}; the rest is not listed", view.offset(at)
            yield LimitExceeded(text, format=FORMAT, offset=place, field="section", chain=view.chain)
            return
        field = f"section {number}"
        try:
            kind = view.head(at, 1)[0]
            size, body = _number(view, at + 1, len(view), f"{field}: size")
            if body + size > len(view):
                raise Truncated(
                    needed=size,
                    left=len(view) - body,
                    format=FORMAT,
                    offset=view.offset(body),
                    field=field,
                    chain=view.chain,
                )
        except FormatError as error:
            yield error
            return
        try:
            name, offset = _name(view, kind, body, body + size, field)
            yield Section(number, kind, name, at, body, offset, body + size - offset)
        except FormatError as error:
            nameless += 1
            yield error
        at, number = body + size, number + 1


def _name(view: View, kind: int, at: int, end: int, field: str) -> tuple[str, int]:
    """Return what a section is called, and where what follows its name starts. Raises FormatError."""
    if kind != CUSTOM:
        return (_KINDS[kind] if kind < len(_KINDS) else f"section of kind {kind}"), at
    size, start = _number(view, at, end, f"{field}: size of the name")
    if start + size > end:
        raise _bad(view, at, f"{field}: size of the name", f"at most {end - start}", str(size))
    return view.head(start, min(size, _LONGEST_NAME)).decode("utf-8", "backslashreplace"), start + size


def _number(view: View, at: int, end: int, field: str) -> tuple[int, int]:
    """Return an unsigned LEB128 of 32 bits, and where it ends. Raises FormatError for one that is longer, or cut."""
    stored = view.head(at, min(_LONGEST_NUMBER, end - at))
    value = 0
    for place, byte in enumerate(stored):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            if value >> 32:
                break
            return value, at + place + 1
    if len(stored) < _LONGEST_NUMBER:
        raise Truncated(
            needed=len(stored) + 1,
            left=len(stored),
            format=FORMAT,
            offset=view.offset(at),
            field=field,
            chain=view.chain,
        )
    raise _bad(view, at, field, "a LEB128 number of 32 bits", stored.hex(" "))


def _bad(view: View, at: int, field: str, expected: str, found: str) -> FormatError:
    return BadValue(
        "a wrong number",
        format=FORMAT,
        offset=view.offset(at),
        field=field,
        expected=expected,
        found=found,
        chain=view.chain,
    )
