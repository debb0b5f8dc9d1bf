"""Archives with other member contents: headers, order and symbol tables stay, only sizes and offsets change.

The result is what ``llvm-ar`` makes of the changed members (checked for its GNU, BSD and COFF archives), except that
dates and owners stay those of the input. The new symbol tables need no symbol to be read; see ``symbols``.

QUIRK(llvm-ar, Darwin ar): names in front of data are padded so that the data starts at a multiple of 8; an archive
that keeps this rule keeps it after rewriting.
QUIRK(Darwin): Mach-O members are padded with newlines to a multiple of 8, and the size counts the padding.
"""

from __future__ import annotations

from fatpack.binary.archive.archive_layout import BIG, HEADER, MAGIC_SIZE, THIN
from fatpack.binary.archive.layout import find_symbol_table
from fatpack.binary.archive.reader import read_members
from fatpack.errors import HostError, UsageError
from fatpack.magic_numbers import MACH_O
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fatpack.binary.archive.reader import ArchiveMember
    from fatpack.io.source import Piece, View

#: The first bytes of Mach-O files, both word sizes and byte orders.


class _PlacedMember(Record):
    """An entry at its new place: the bytes between header and content (a BSD name), its content, and padding."""

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
    """Return the archive with the contents of some members exchanged; keys are member numbers as in ``Site.index``.

    Raises HostError for archives that cannot be written (thin, AIX, with ARM64EC tables), FormatError for damaged ones,
    UsageError for a number that no member has.
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
            # As it was: also a last newline that was never there stays missing.
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
    """Say whether all names in front of data are padded as little as makes the data start at a multiple of 8."""
    named = [entry for entry in entries if entry.kind == "file" and _name_size(entry)]
    return bool(named) and all(entry.data_at % 8 == 0 and _name_size(entry) - len(entry.name) < 8 for entry in named)


def _header(view: View, item: _PlacedMember) -> Piece:
    """Return the header as it was, but for the size and the length of a name in front of the data."""
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
    """Raise HostError unless both archives have the same members and symbols, whatever the members' contents."""
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
    """Return what must stay of an entry: its kind and name; date, owners and mode."""
    start, end = HEADER.field_offset("date"), HEADER.field_offset("size")
    return entry.kind, entry.name, view.read(entry.header_at + start, end - start)
