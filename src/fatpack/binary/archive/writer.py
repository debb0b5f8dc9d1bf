"""Writing archives: with other contents of members, and new ones from files.

Rewriting keeps headers, order and symbol tables; only sizes and offsets change. The result equals that of ``llvm-ar``
for the changed members (tested for its GNU, BSD and COFF archives), except that dates and owners are those of the
input. No symbols have to be read; see ``layout``.

QUIRK(llvm-ar, Darwin ar): names before data are padded so that the data starts at a multiple of 8; rewriting preserves
this alignment.
QUIRK(Darwin): Mach-O members are padded with newlines to a multiple of 8, and the size counts the padding.
"""

from __future__ import annotations

import struct

from fatpack.binary.archive.layout import (
    BIG,
    HEADER,
    LONG_NAMES,
    MAGIC_SIZE,
    REGULAR,
    TERMINATOR,
    THIN,
    find_symbol_table,
)
from fatpack.binary.archive.reader import read_members
from fatpack.binary.symbols import archive_symbols
from fatpack.errors import HostError, UsageError
from fatpack.magic_numbers import MACH_O
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fatpack.binary.archive.reader import ArchiveMember
    from fatpack.io.source import Piece, View


# New archives, equal to the output of ``llvm-ar --format=gnu qcD``::
#
#     "!<arch>\n"
#     /                symbols: count, the member's header offset for each, names with NULs; u32 or u64, big-endian
#     //               names of 16 bytes and more, or with a slash: each once, followed by "/\n"
#     member …         in the given order, names may repeat; dates and owners 0, mode 644
#
# LLVM's writers of archives of device code (clang-offload-bundler -type=a, llvm-offload-binary --archive) write the
# same on systems other than Darwin, for any members; ``llvm-ar`` without ``--format`` selects another kind if the first
# member is a COFF, Mach-O or XCOFF file, or bitcode for such.
#
# QUIRK(LLVM 22): an archive with objects that define nothing gets a table with no symbols and three NULs for names, for
# old tools of Solaris; one without objects gets none.

#: If the last header is at this offset or after it, the symbol table has 64-bit offsets.
LARGEST_OFFSET = 1 << 32

#: Longest short name; with its slash it fills the 16 bytes of the header's field.
_SHORT_NAME = 15

#: Largest number of ten digits
_LARGEST_SIZE = 10**10 - 1


def build_gnu_archive(members: Sequence[tuple[bytes, View]]) -> list[Piece]:
    """Return a GNU archive of the members (name and bytes) in that order, as pieces; names are stored as given.

    Symbol tables of members are read, their other bytes are not. Raises FormatError for an object whose symbols cannot
    be read, Unsupported for formats whose symbols are not supported, UsageError for a name that no archive can contain,
    HostError for a member that is too large.
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
    """Return the names in the spelling of headers, and the table of long names. Raises UsageError, HostError."""
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
    """Return the number of symbols of each member, and all their names."""
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
        data.source.release_buffers()
    return counts, bytes(names) or bytes(3 * has_objects)


def _table(
    ahead: int, members: Sequence[tuple[bytes, View]], counts: Sequence[int], names: bytes, code: str
) -> list[Piece]:
    """Return the symbol table with numbers of a struct code; none if the last member's offset is too large for them.

    ``ahead``: number of bytes before the first member, without the table.
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
    """Return the bytes of an entry with header and padding."""
    return HEADER.size + len(content) + len(content) % 2


def _gnu_header(field: bytes, number: bytes, mode: bytes, size: int) -> bytes:
    """Return a member header; ``number`` is used for date and owners."""
    return b"%-16s%-12s%-6s%-6s%-8s%-10d" % (field, number, number, number, mode, size) + TERMINATOR


#: Magics of Mach-O, in both word sizes and byte orders.


class _PlacedMember(Record):
    """An entry in the new archive: the bytes between header and content (a BSD name), its content, and padding."""

    entry: ArchiveMember
    at: int
    name: Piece
    content: list[Piece]
    padding: Piece

    @property
    def size(self) -> int:
        """Bytes that the header counts."""
        return len(self.name) + sum(map(len, self.content))


def rewrite_members(view: View, contents: Mapping[int, Sequence[Piece]]) -> list[Piece]:
    """Return the archive with the contents of some members replaced; keys are member numbers, ``CodeSection.index``.

    Raises HostError for archives that cannot be written (thin, AIX, with ARM64EC tables), FormatError for damaged ones,
    UsageError for an unknown number.
    """
    entries = _checked(view)
    headers = frozenset(entry.header_at for entry in entries if entry.kind == "file")
    unknown = [number for number in contents if not 0 <= number < len(headers)]
    if unknown:
        raise UsageError(f"no member {unknown[0]}; the archive has {len(headers)}", chain=view.chain)
    placed = list(_place(view, entries, contents))
    moved = {item.entry.header_at: item.at for item in placed}
    pieces: list[Piece] = [view.slice(0, MAGIC_SIZE)]
    for item in placed:
        content = item.content
        if item.entry.kind == "symbols":
            content = [find_symbol_table(view, item.entry, headers).moved(moved)]
        pieces += [_header(view, item), item.name, *content, item.padding]
    return [piece for piece in pieces if len(piece)]


def _place(
    view: View, entries: Sequence[ArchiveMember], contents: Mapping[int, Sequence[Piece]]
) -> Iterator[_PlacedMember]:
    has_aligned_names = _has_aligned_names(entries)
    at = MAGIC_SIZE
    for entry in entries:
        old = view.slice(entry.data_at, entry.size)
        new = None if entry.number is None else contents.get(entry.number)
        content: list[Piece] = [old] if new is None else _padded(new, old)
        name: Piece = view.slice(entry.header_at + HEADER.size, _name_size(entry))
        if has_aligned_names and _name_size(entry) and entry.kind == "file":
            name = entry.name + bytes(-(at + HEADER.size + len(entry.name)) % 8)
        end = at + HEADER.size + len(name) + sum(map(len, content))
        padding: Piece = b"\n" * (end % 2)
        if new is None:
            # Unchanged, even if the newline after the last member is missing.
            data_end = entry.data_at + entry.size
            padding = view.slice(data_end, entry.end - data_end)
        yield _PlacedMember(entry, at, name, content, padding)
        at = end + len(padding)


def _name_size(entry: ArchiveMember) -> int:
    return entry.data_at - entry.header_at - HEADER.size


def _padded(content: Sequence[Piece], old: View) -> list[Piece]:
    is_padded = len(old) % 8 == 0 and old.head(0, 4) in MACH_O
    return [*content, b"\n" * (-sum(map(len, content)) % 8 if is_padded else 0)]


def _checked(view: View) -> list[ArchiveMember]:
    """Return all entries of an archive that can be rewritten. Raises HostError and FormatError."""
    magic = view.head(0, MAGIC_SIZE)
    if magic == THIN:
        raise HostError(
            "a thin archive holds no members to exchange",
            hint="edit the files it names, then run ranlib on it",
            chain=view.chain,
        )
    if magic == BIG:
        raise HostError("AIX big archives cannot be edited", chain=view.chain)
    entries = list(read_members(view))
    for entry in entries:
        if entry.kind == "reserved":
            raise HostError(
                f"the archive has a table {entry.title}, which fatpack cannot rewrite",
                hint="make the archive anew from changed members with llvm-lib or lib",
                chain=view.chain,
            )
    return entries


def _has_aligned_names(entries: Sequence[ArchiveMember]) -> bool:
    """Return whether all names before data have the smallest padding that aligns the data to a multiple of 8."""
    named = [entry for entry in entries if entry.kind == "file" and _name_size(entry)]
    return bool(named) and all(entry.data_at % 8 == 0 and _name_size(entry) - len(entry.name) < 8 for entry in named)


def _header(view: View, item: _PlacedMember) -> Piece:
    """Return the old header with another size and length of the name before the data."""
    entry = item.entry
    if item.size >= 10**10:
        raise HostError(f"member {entry.title} would be larger than an archive can say", chain=view.chain)
    header = bytearray(view.read(entry.header_at, HEADER.size))
    if len(item.name) != _name_size(entry):
        header[0:16] = b"#1/%-13d" % len(item.name)
    if item.size != _name_size(entry) + entry.size:
        at = HEADER.field_offset("size")
        header[at : at + 10] = b"%-10d" % item.size
    return bytes(header)


def verify_members(before: View, after: View) -> None:
    """Raise HostError unless both archives have the same members and symbols; contents may differ."""
    old, new = (list(read_members(view)) for view in (before, after))
    if [_identity(before, entry) for entry in old] != [_identity(after, entry) for entry in new]:
        raise HostError("the rewritten archive has other members", chain=after.chain)
    places: list[list[list[int]]] = []
    for view, entries in ((before, old), (after, new)):
        files = {entry.header_at: number for number, entry in enumerate(entries) if entry.kind == "file"}
        tables = (find_symbol_table(view, entry, frozenset(files)) for entry in entries if entry.kind == "symbols")
        places.append([[files[offset] for offset in table.offsets] for table in tables])
    if places[0] != places[1]:
        raise HostError("the symbols of the rewritten archive lead to other members", chain=after.chain)


def _identity(view: View, entry: ArchiveMember) -> tuple[str, bytes, bytes]:
    """Return the properties of an entry that must not change: its kind and name; date, owners and mode."""
    start, end = HEADER.field_offset("date"), HEADER.field_offset("size")
    return entry.kind, entry.name, view.read(entry.header_at + start, end - start)
