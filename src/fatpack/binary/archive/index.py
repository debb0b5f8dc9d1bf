"""The symbol tables of an archive against its members: linkers take the member that a name leads to, unread.

A table that was not renewed when members were exchanged makes links fail with symbols that nothing defines, or takes
another member than is meant.
"""

from __future__ import annotations

from fatpack.binary.archive.archive_layout import MAGIC_SIZE, THIN
from fatpack.binary.archive.layout import find_symbol_table
from fatpack.binary.archive.reader import DamagedMember, read_intact_members
from fatpack.binary.symbols_init import archive_symbols
from fatpack.errors import FormatError, Unsupported, pluralize
from fatpack.findings import finding
from fatpack.words_printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.binary.archive.layout import ArchiveSymbolTable
    from fatpack.binary.archive.reader import ArchiveMember
    from fatpack.io.source import View
    from fatpack.model import Finding

#: kinds of tables whose names follow the offsets, one for each
_GNU = (b"/", b"/SYM64/")

#: section of objects that GCC wrote for link-time optimisation: a plugin of ar lists symbols that no table has
_PLUGIN = b".gnu.lto_"

#: LIMIT: symbols that a finding names
_SHOWN = 3


def check_symbol_tables(view: View) -> Iterator[int | Finding]:
    """Yield what is wrong with symbol tables, and at last how many names were followed; nothing for thin archives.

    Every offset leads to the header of a member. In GNU's tables the member defines the symbol, where its symbols can
    be read: not those of Mach-O and WebAssembly, and not what GCC's plugin lists.
    """
    if view.head(0, MAGIC_SIZE) == THIN:
        return
    entries = [entry for entry in read_intact_members(view) if not isinstance(entry, DamagedMember)]
    files = {entry.header_at: entry for entry in entries if entry.kind == "file"}
    count = 0
    for entry in entries:
        if entry.kind != "symbols":
            continue
        try:
            table = find_symbol_table(view, entry, frozenset(files))
        except FormatError as error:
            yield finding("FP2107", view.span(entry.data_at, entry.size), error.describe(), "ranlib makes it anew")
            continue
        count += len(table.offsets)
        if entry.name in _GNU:
            yield from _undefined(view, entry, table, files)
    yield count


def _undefined(
    view: View, entry: ArchiveMember, table: ArchiveSymbolTable, files: dict[int, ArchiveMember]
) -> Iterator[Finding]:
    """Yield a finding for each member that does not define what the table says."""
    wanted: dict[int, set[bytes]] = {}
    start = table.at + len(table.numbers) * (8 if entry.name == b"/SYM64/" else 4)
    names = table.content.read(start, len(table.content) - start).split(b"\0")
    if len(names) <= len(table.offsets):
        text = f"the symbol table has {pluralize(len(table.offsets), 'offset')} and {pluralize(len(names) - 1, 'name')}"
        yield finding("FP2107", table.content.span(), text, "ranlib makes it anew")
        return
    for offset, name in zip(table.offsets, names, strict=False):
        wanted.setdefault(offset, set()).add(name)
    for offset, listed in wanted.items():
        member = files[offset]
        data = view.slice(member.data_at, member.size)
        try:
            found = archive_symbols(data)
            lost = listed.difference(found or ())
        except (FormatError, Unsupported):
            continue  # not read here, or told where the member is scanned
        if lost and data.source.find(_PLUGIN, data.start, data.end) < 0:
            shown = ", ".join(printable(name.decode("utf-8", "replace")) for name in sorted(lost)[:_SHOWN])
            more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
            title = printable(member.name.decode("utf-8", "replace"))
            text = f"the symbol table says that {title} defines {shown}{more}, and it does not"
            yield finding("FP2107", view.span(member.header_at, member.end - member.header_at), text, "run ranlib")
