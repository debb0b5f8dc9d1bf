"""Archives made anew from files: what ``llvm-ar --format=gnu qcD`` makes of them, byte for byte.

::

    "!<arch>\\n"
    /                symbols: count, the member's header offset for each, names with NULs; u32 or u64, big-endian
    //               names of 16 bytes and more, or with a slash: each once, ended by "/\\n"
    member …         in the order given, names may repeat; dates and owners 0, mode 644

LLVM's own writers of archives of device code (clang-offload-bundler -type=a, llvm-offload-binary --archive) make the
same on systems other than Darwin, whatever the members are; ``llvm-ar`` without ``--format`` chooses another flavour
when the first member is a COFF, Mach-O or XCOFF file, or bitcode for such.

QUIRK(LLVM 22): an archive with objects that define nothing gets a table with no symbols and three NULs for names, for
old tools of Solaris; one without objects gets none.
"""

from __future__ import annotations

import struct

from fatpack.binary.archive.archive_layout import HEADER, LONG_NAMES, MAGIC_SIZE, REGULAR, TERMINATOR
from fatpack.binary.symbols_init import archive_symbols
from fatpack.errors import HostError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.io.source import Piece, View

#: When the last header is at this offset or behind, the table of symbols holds 64-bit offsets.
LARGEST_OFFSET = 1 << 32

#: With its slash, a name fills the 16 bytes of the header's field.
_SHORT_NAME = 15

#: Ten digits
_LARGEST_SIZE = 10**10 - 1


def build_gnu_archive(members: Sequence[tuple[bytes, View]]) -> list[Piece]:
    """Return a GNU archive of the members (name and bytes) in that order, as pieces; names are stored as they are.

    Symbol tables of members are read, their other bytes are not. Raises FormatError for an object whose symbols
    cannot be read, Unsupported for formats whose symbols fatpack does not know, UsageError for a name that no archive
    can hold, HostError for a member that is too large for one.
    """
    fields, long_names = _names(members)
    counts, symbol_names = _symbols(members)
    ahead = MAGIC_SIZE + (_entry_size(long_names) if long_names else 0)
    table: list[Piece] = []
    if symbol_names:
        table = _table(ahead, members, counts, symbol_names, "I") or _table(ahead, members, counts, symbol_names, "Q")
    pieces: list[Piece] = [REGULAR, *table]
    if long_names:
        pieces += [_gnu_header(LONG_NAMES, b"", b"", len(long_names)), long_names]
    for field, (_, data) in zip(fields, members, strict=True):
        pieces += [_gnu_header(field, b"0", b"644", len(data)), data, b"\n" * (len(data) % 2)]
    return [piece for piece in pieces if len(piece)]


def _names(members: Sequence[tuple[bytes, View]]) -> tuple[list[bytes], bytes]:
    """Return how headers spell the names, and the table of long names. Raises UsageError, HostError."""
    table = bytearray()
    fields: dict[bytes, bytes] = {}
    for name, data in members:
        if not name or b"\n" in name or b"\0" in name:
            raise UsageError(f"no member of an archive can have the name {repr(name)[1:]}", chain=data.chain)
        if len(data) > _LARGEST_SIZE:
            raise HostError(f"{len(data)} bytes are more than an archive can say of a member", chain=data.chain)
        if name not in fields:
            is_long = len(name) > _SHORT_NAME or b"/" in name
            fields[name] = b"/%d" % len(table) if is_long else name + b"/"
            table += name + b"/\n" if is_long else b""
    return [fields[name] for name, _ in members], bytes(table) + b"\n" * (len(table) % 2)


def _symbols(members: Sequence[tuple[bytes, View]]) -> tuple[list[int], bytes]:
    """Return how many symbols each member has, and all their names."""
    names = bytearray()
    counts = []
    has_objects = False
    for _, data in members:
        count = 0
        found = archive_symbols(data)
        if found is not None:
            has_objects = True
            for name in found:
                names += name + b"\0"
                count += 1
        counts.append(count)
        data.source.rest()
    return counts, bytes(names) or bytes(3 * has_objects)


def _table(
    ahead: int, members: Sequence[tuple[bytes, View]], counts: Sequence[int], names: bytes, code: str
) -> list[Piece]:
    """Return the table of symbols, with numbers of a struct code; none if they cannot hold the last member's offset.

    ``ahead`` are the bytes before the first member without the table.
    """
    width = struct.calcsize(code)
    size = width * (1 + sum(counts)) + len(names)
    padding = bytes(size % 2)
    at = ahead + HEADER.size + size + len(padding)
    numbers = [sum(counts)]
    for count, (_, data) in zip(counts, members, strict=True):
        if width == 4 and at >= LARGEST_OFFSET:
            return []
        numbers += [at] * count
        at += _entry_size(data)
    field = b"/" if width == 4 else b"/SYM64/"
    packed = struct.pack(f">{len(numbers)}{code}", *numbers)
    return [_gnu_header(field, b"0", b"0", size + len(padding)), packed, names, padding]


def _entry_size(content: Piece) -> int:
    """Return the bytes of an entry, header and padding included."""
    return HEADER.size + len(content) + len(content) % 2


def _gnu_header(field: bytes, number: bytes, mode: bytes, size: int) -> bytes:
    """Return a member header; ``number`` stands for date and owners."""
    return b"%-16s%-12s%-6s%-6s%-8s%-10d" % (field, number, number, number, mode, size) + TERMINATOR
