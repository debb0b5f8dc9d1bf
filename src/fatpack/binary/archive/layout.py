"""Byte layouts of archives, and symbol tables with other offsets.

The names in a table do not change when members grow or shrink, so it is rewritten without reading any member: every
offset of a header is replaced by the new offset of the same header.

QUIRK(BSD ar, llvm-ar): a BSD table is in the byte order of the members' target, which is not stated; the order in which
all numbers are valid is used.
"""

from __future__ import annotations

import struct

from fatpack import magic_numbers
from fatpack.errors import BadValue, HostError
from fatpack.layout import Field, Layout
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from fatpack.binary.archive.reader import ArchiveMember
    from fatpack.io.source import View


# Member headers, and the reserved names of entries that are not files

FORMAT = "archive"

#: The first 8 bytes. Members of a thin archive are other files; AIX "big" archives have a different layout.
REGULAR, THIN, BIG = magic_numbers.ARCHIVE, magic_numbers.THIN_ARCHIVE, magic_numbers.BIG_ARCHIVE
MAGIC_SIZE = 8

#: The end of every member header.
TERMINATOR = b"`\n"


def _text(value: bytes) -> str:
    return repr(value.rstrip(b" "))[2:-1]


HEADER = Layout(
    FORMAT,
    "member header",
    (
        Field("name", "bytes[16]", "ar_name: the member's name in one of several spellings, padded with blanks", _text),
        Field("date", "bytes[12]", "ar_date: seconds since 1970, decimal; 0 in deterministic archives", _text),
        Field("user", "bytes[6]", "ar_uid: owner's number, decimal", _text),
        Field("group", "bytes[6]", "ar_gid: group's number, decimal", _text),
        Field("mode", "bytes[8]", "ar_mode: file mode, octal", _text),
        Field("size", "bytes[10]", "ar_size: bytes of what follows, a BSD name included, decimal", _text),
        Field("terminator", "bytes[2]", "ar_fmag: a backquote and a newline", _text),
    ),
)

#: Encoding of the header offsets in symbol tables that can be rewritten: name → (byte order, struct code).
#: "?" is the byte order of the target, which BSD tables do not state; "second" is Microsoft's second table.
SYMBOL_TABLES = {
    b"/": (">", "I"),
    b"/SYM64/": (">", "Q"),
    b"second": ("<", "I"),
    b"__.SYMDEF": ("?", "I"),
    b"__.SYMDEF SORTED": ("?", "I"),
    b"__.SYMDEF_64": ("?", "Q"),
    b"__.SYMDEF_64 SORTED": ("?", "Q"),
}

LONG_NAMES = b"//"


class ArchiveSymbolTable(Record):
    """The location of offsets in a table: every ``stride``-th of the ``numbers`` from ``at`` on in ``content``.

    ``code`` is the struct code of one number, with byte order.
    """

    content: View
    code: str
    at: int
    numbers: tuple[int, ...]
    stride: int

    @property
    def offsets(self) -> tuple[int, ...]:
        """The header offsets in stored order, one per symbol (in Microsoft's second table one per member)."""
        return self.numbers[self.stride - 1 :: self.stride]

    def moved(self, new_offsets: Mapping[int, int]) -> bytes:
        """Return the whole table with other offsets. Raises HostError if one is too large."""
        new = [new_offsets[offset] for offset in self.offsets]
        if max(new, default=0) >> 8 * struct.calcsize(self.code):
            raise HostError(
                "the archive would outgrow the 32-bit offsets of its symbol table",
                hint="make the archive anew with llvm-ar, which then writes a 64-bit table",
                chain=self.content.chain,
            )
        numbers = list(self.numbers)
        numbers[self.stride - 1 :: self.stride] = new
        stored = struct.pack(f"{self.code[0]}{len(numbers)}{self.code[1]}", *numbers)
        rest = self.at + len(stored)
        return self.content.read(0, self.at) + stored + self.content.read(rest, len(self.content) - rest)


def find_symbol_table(view: View, member: ArchiveMember, headers: frozenset[int]) -> ArchiveSymbolTable:
    """Return a symbol table whose offsets are all in ``headers``. Raises BadValue if it is in no byte order."""
    order, letter = SYMBOL_TABLES[member.name]
    content = view.slice(member.data_at, member.size, member.title)
    for code in (f"{order}{letter}",) if order != "?" else (f"<{letter}", f">{letter}"):
        table = _read(content, code, member.name)
        if table is not None and headers.issuperset(table.offsets):
            return table
    raise BadValue(
        "the symbol table does not fit the members",
        format=FORMAT,
        offset=content.offset(0),
        field="symbol table",
        hint="repair it with ranlib first",
        chain=view.chain,
    )


def _read(content: View, code: str, kind: bytes) -> ArchiveSymbolTable | None:
    """Return the table if it is inside its member.

    GNU: count, offsets, names. Microsoft's second: the same in little-endian, and then symbols. BSD: size in bytes of
    (name, offset) pairs, and the pairs.
    """
    width = struct.calcsize(code)
    if len(content) < width:
        return None
    (first,) = struct.unpack(code, content.read(0, width))
    stride = 2 if kind.startswith(b"__.SYMDEF") else 1
    count, left = divmod(first, width) if stride == 2 else (first, 0)
    if left or count % stride or width + count * width > len(content):
        return None
    numbers = struct.unpack(f"{code[0]}{count}{code[1]}", content.read(width, count * width))
    return ArchiveSymbolTable(content, code, width, numbers, stride)
