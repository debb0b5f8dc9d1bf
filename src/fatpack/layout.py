"""Byte layouts as data: one table of fields per record, and everything else derived from it.

A :class:`Layout` is written once and gives

* ``read`` and ``pack``: a plain ``struct`` reader and writer, for every hot path,
* ``labels``: which byte is which field, for ``inspect --bytes`` and ``--at``,
* ``construct``: the same record as a construct ``Struct``, the oracle in the tests and a tool for explorers,
* ``rows``: the table of the documents.

They cannot disagree, because there is only the table.
"""

from __future__ import annotations

import struct

from fatpack.errors import Truncated, format_hex
from fatpack.model import Label
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, Literal, TypeAlias

    from fatpack.io.source import View

    ByteOrder: TypeAlias = Literal["little", "big"]


# What a room says about itself: the source of its page below ``docs/``.


class FormatInfo(Record):
    """The card of a format or host room.

    ``name`` is the name in JSON, ``title`` the one people use, ``description`` one paragraph: what it is for and who
    writes it. ``references`` are upstream files or documents with the revision or version they were read at.
    ``reads`` and ``writes`` name versions and variants. ``limitations`` are honest and never empty.
    """

    name: str
    title: str
    description: str
    references: tuple[str, ...]
    reads: str
    writes: str
    limitations: tuple[str, ...]


#: type name → struct code; ``bytes[n]`` is handled apart
_CODES = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i8": "b", "i16": "h", "i32": "i", "i64": "q"}
_ORDERS: dict[ByteOrder, str] = {"little": "<", "big": ">"}
#: struct code → bytes
_SIZES = {"B": 1, "H": 2, "I": 4, "Q": 8, "b": 1, "h": 2, "i": 4, "q": 8}


class Field(Record):
    """One field: our name, its type (``u32``, ``bytes[4]``), and a sentence with meaning and unit.

    ``show`` turns the value into words for people; by default hex with the decimal value beside it.
    """

    name: str
    type: str
    doc: str
    show: Callable[[Any], str] | None = None

    @property
    def code(self) -> str:
        """The field as a ``struct`` format code."""
        if self.type.startswith("bytes["):
            return f"{int(self.type[6:-1])}s"
        return _CODES[self.type]

    def describe(self, value: Any) -> str:
        """Return a value of this field in words."""
        if self.show is not None:
            return self.show(value)
        if isinstance(value, bytes):
            return value.hex(" ")
        return f"{value} ({format_hex(value)})" if value > 9 or value < 0 else str(value)


class Layout:
    """A record of fixed size: ``name`` in the terms of its ``format``, its fields in order, and a byte order."""

    def __init__(self, format: str, name: str, fields: Sequence[Field], order: ByteOrder = "little") -> None:
        self.format = format
        self.name = name
        self.fields = tuple(fields)
        self.order = order
        codes = [_CODES.get(field.type) or field.code for field in self.fields]
        self.struct = struct.Struct(_ORDERS[order] + "".join(codes))
        self.size = self.struct.size
        places, offset = [], 0
        for field, code in zip(self.fields, codes, strict=True):
            size = _SIZES.get(code) or int(code[:-1])  # of bytes, the code is their number and an s
            places.append((offset, size, field))
            offset += size
        self._places = tuple(places)
        #: name → place among the values, offset
        self._by_name = {field.name: (place, offset) for place, (offset, _, field) in enumerate(places)}

    def read(self, view: View, at: int) -> tuple[Any, ...]:
        """Return the field values at a position of a view. Raises Truncated, with format and offset."""
        if at < 0 or at + self.size > len(view):
            raise Truncated(
                needed=self.size,
                left=len(view) - at,
                format=self.format,
                offset=view.offset(at),
                field=self.name,
                chain=view.chain,
            )
        return self.struct.unpack(view.read(at, self.size))

    def named(self, view: View, at: int) -> dict[str, Any]:
        """Return the field values at a position by name, where that matters more than speed. Raises Truncated."""
        return dict(zip((field.name for field in self.fields), self.read(view, at), strict=True))

    def pack(self, *values: Any) -> bytes:
        """Return the record with these field values as bytes."""
        return self.struct.pack(*values)

    def field_offset(self, name: str) -> int:
        """Return the offset of a field from the start of the record."""
        return self._by_name[name][1]

    def position(self, name: str) -> int:
        """Return the place of a field among the values of a record."""
        return self._by_name[name][0]

    def labels(self, view: View, at: int, prefix: str = "") -> Iterator[Label]:
        """Yield one label per field of the record at a position."""
        values = self.read(view, at)
        for (offset, size, field), value in zip(self._places, values, strict=True):
            name = f"{prefix}.{field.name}" if prefix else field.name
            yield Label(view.span(at + offset, size), name, field.describe(value), field.doc)

    def rows(self) -> Iterator[tuple[str, str, str, str, str]]:
        """Yield (offset, size, type, name, meaning) as the documents print them."""
        for offset, size, field in self._places:
            kind = "bytes" if field.type.startswith("bytes") else field.type
            yield f"{offset:#04x}", str(size), kind, field.name, field.doc

    def construct(self) -> Any:
        """Return the layout as a construct ``Struct``, each field with its doc string."""
        import construct

        names = {"u": "Int{}u", "i": "Int{}s"}
        members = []
        for _, size, field in self._places:
            if field.type.startswith("bytes"):
                kind = construct.Bytes(size)
            else:
                suffix = "l" if self.order == "little" else "b"
                kind = getattr(construct, names[field.type[0]].format(field.type[1:]) + suffix)
            members.append(field.name / (kind * field.doc))
        return construct.Struct(*members)
