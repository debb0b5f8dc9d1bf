"""Byte layouts as data: one table of fields per record, from which everything else is derived.

A :class:`Layout` is written once and gives

* ``read`` and ``pack``: a plain ``struct`` reader and writer, for every hot path,
* ``labels``: the name of each byte's field, for ``inspect --bytes`` and ``--at``,
* ``construct``: the same record as a construct ``Struct``, the reference in the tests and a tool for explorers,
* ``rows``: the table in the documents.

They cannot disagree, because there is only one table.
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


class FormatInfo(Record):
    """The description of a format or host, from which its page below ``docs/`` is made.

    ``name``: the name in JSON. ``title``: the name in text. ``description``: one paragraph on its purpose and its
    producers. ``references``: upstream files or documents with the revision or version that was read. ``reads`` and
    ``writes``: versions and variants. ``limitations``: at least one.
    """

    name: str
    title: str
    description: str
    references: tuple[str, ...]
    reads: str
    writes: str
    limitations: tuple[str, ...]


#: type name → struct code; :attr:`Field.code` handles ``bytes[n]``
_CODES = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i8": "b", "i16": "h", "i32": "i", "i64": "q"}
_ORDERS: dict[ByteOrder, str] = {"little": "<", "big": ">"}
#: struct code → bytes
_SIZES = {"B": 1, "H": 2, "I": 4, "Q": 8, "b": 1, "h": 2, "i": 4, "q": 8}


class Field(Record):
    """One field: a name, its type (``u32``, ``bytes[4]``), and a sentence with meaning and unit.

    ``show`` returns the text of a value; by default the decimal number, with its hexadecimal form.
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
        """Return the text of a value of this field."""
        if self.show is not None:
            return self.show(value)
        if isinstance(value, bytes):
            return value.hex(" ")
        return f"{value} ({format_hex(value)})" if value > 9 or value < 0 else str(value)


class Layout:
    """A record of fixed size: its ``name`` in the ``format``, its fields in order, and a byte order."""

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
            size = _SIZES.get(code) or int(code[:-1])  # the code of bytes[n] is "ns"
            places.append((offset, size, field))
            offset += size
        self._places = tuple(places)
        #: name → index among the values, offset
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
        """Return the field values at a position by name; slower than :meth:`read`. Raises Truncated."""
        return dict(zip((field.name for field in self.fields), self.read(view, at), strict=True))

    def partial(self, *names: str) -> struct.Struct:
        """Return a struct of the whole record that unpacks only some fields, in their order in the record."""
        codes = [field.code if field.name in names else f"{size}x" for _, size, field in self._places]
        return struct.Struct(_ORDERS[self.order] + "".join(codes))

    def pack(self, *values: Any) -> bytes:
        """Return the record with these field values as bytes."""
        return self.struct.pack(*values)

    def field_offset(self, name: str) -> int:
        """Return the offset of a field from the start of the record."""
        return self._by_name[name][1]

    def position(self, name: str) -> int:
        """Return the index of a field among the values of a record."""
        return self._by_name[name][0]

    def labels(self, view: View, at: int, prefix: str = "") -> Iterator[Label]:
        """Yield one label per field of the record at a position."""
        values = self.read(view, at)
        for (offset, size, field), value in zip(self._places, values, strict=True):
            name = f"{prefix}.{field.name}" if prefix else field.name
            yield Label(view.span(at + offset, size), name, field.describe(value), field.doc)

    def rows(self) -> Iterator[tuple[str, str, str, str, str]]:
        """Yield (offset, size, type, name, meaning) for the table in the documents."""
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
