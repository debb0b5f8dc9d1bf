"""Members of thin archives, the byte map, and checks of symbol tables.

A thin archive contains names of files, which may be hostile. A name is followed only if the file, with symbolic links
resolved, is in the directory of the archive or below; any other name becomes a finding. Each file is yielded once, and
a thin archive inside a thin archive is not read: both ``ar`` programs flatten those, and a few hostile ones could
otherwise refer to each other endlessly.
"""

from __future__ import annotations

import os
import stat

from fatpack.binary.archive.layout import BIG, HEADER, MAGIC_SIZE, THIN, find_symbol_table
from fatpack.binary.archive.reader import ArchiveMember, DamagedMember, read_intact_members, read_members
from fatpack.binary.symbols import archive_symbols
from fatpack.errors import FormatError, Unsupported, pluralize
from fatpack.findings import finding
from fatpack.io.open import open_source
from fatpack.io.source import VirtualName
from fatpack.model import Label
from fatpack.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.binary.archive.layout import ArchiveSymbolTable
    from fatpack.io.source import View
    from fatpack.model import Finding


class ThinArchiveFiles:
    """The files of one thin archive."""

    def __init__(self, archive: View) -> None:
        self._archive = archive
        self._folder = _folder(archive)
        self._seen: set[tuple[int, int, int | None]] = set()
        self._nested: dict[str, dict[int, tuple[str, View]]] = {}

    def open(self, member: ArchiveMember) -> tuple[str, View] | Finding:
        """Return a member's name and bytes, or the finding why it cannot be read."""
        path = self._resolve(member)
        if not isinstance(path, str):
            return path
        try:
            status = os.stat(path)
            if not stat.S_ISREG(status.st_mode):
                # Opening a pipe would wait for a writer, and opening a device can have side effects.
                return self._finding("FP2103", member, "not a regular file")
            key = (status.st_dev, status.st_ino, member.origin)
            if key in self._seen:
                return self._finding("FP2106", member, "the same file as an earlier member")
            self._seen.add(key)
            if member.origin is not None:
                return self._open_nested(member, path)
            return member.title, self._open(path, member)
        except (OSError, FormatError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            return self._finding("FP2103", member, reason or "cannot be read")

    def _resolve(self, member: ArchiveMember) -> str | Finding:
        """Return the real path of a member's file, if it may be opened."""
        if self._folder is None:
            return self._finding(
                "FP2103", member, "this archive is not a file of its own, so there is no directory to look in"
            )
        if not member.name or b"\0" in member.name:
            return self._finding("FP2103", member, "no file can have this name")
        name = os.fsdecode(member.name)
        real = os.path.realpath(os.path.join(self._folder, name))
        if os.path.isabs(name) or os.path.commonpath((self._folder, real)) != self._folder:
            hint = "make a regular archive of these files to have them read"
            return self._finding("FP2104", member, "an absolute path, or one out of the archive's directory", hint)
        return real

    def _open(self, path: str, member: ArchiveMember) -> View:
        # The source has no path of its own, so that a thin archive in it has no directory and is not read.
        around = self._archive.source
        name = VirtualName(f"{around.name}({member.title})")
        return open_source(path, name=name, may_close=True, budget=around.budget).view()

    def _open_nested(self, member: ArchiveMember, path: str) -> tuple[str, View] | Finding:
        if path not in self._nested:
            nested = self._open(path, member)
            if nested.head(0, MAGIC_SIZE) == THIN:
                return self._finding("FP2106", member, "a thin archive named by a thin archive")
            self._nested[path] = {
                inner.header_at: (f"{member.title}({inner.title})", nested.slice(inner.data_at, inner.size))
                for inner in read_members(nested)
                if inner.kind == "file"
            }
        found = self._nested[path].get(member.origin or 0)
        return found or self._finding("FP2103", member, f"that archive has no member at offset {member.origin}")

    def _finding(self, code: str, member: ArchiveMember, problem: str, hint: str = "") -> Finding:
        span = self._archive.span(member.header_at, member.end - member.header_at)
        return finding(code, span, f"member {member.title}: {problem}", hint)


def _folder(archive: View) -> str | None:
    """Return the real path of an archive's directory; None if the path of its file is not known."""
    source = archive.source
    descriptor = source.fileno()
    if descriptor is None or not source.name:
        return None
    try:
        # A source may have any name ("<stdin>"): it is used only if it is the path of this very file.
        if not os.path.samestat(os.stat(source.name), os.fstat(descriptor)):
            return None
    except (OSError, ValueError):
        return None
    return os.path.realpath(os.path.dirname(source.name))


# Byte map

_CONTENTS = {
    "file": "the file's bytes",
    "symbols": "symbol table",
    "names": "long names",
    "reserved": "a table of Microsoft's",
}


def label_archive(view: View) -> Iterator[Label]:
    """Yield a label for every byte: fields of headers, contents as a whole, the rest of a damaged archive as one."""
    magic = view.head(0, MAGIC_SIZE)
    yield Label(view.span(0, len(magic)), "magic", repr(magic)[2:-1])
    at = MAGIC_SIZE
    try:
        if magic != BIG:
            for number, entry in enumerate(read_members(view)):
                yield from _entry(view, number, entry, magic == THIN)
                at = entry.end
    except FormatError as error:
        yield Label(view.span(at), "unknown", f"{len(view) - at} bytes", error.describe(), "unknown")
        return
    if at < len(view):
        yield Label(view.span(at), "unknown", f"{len(view) - at} bytes", "AIX big archive", "unknown")


def _entry(view: View, number: int, entry: ArchiveMember, is_thin: bool) -> Iterator[Label]:
    prefix = f"member[{number}]"
    yield from HEADER.labels(view, entry.header_at, f"{prefix}.header")
    name_at = entry.header_at + HEADER.size
    if entry.data_at > name_at:
        span = view.span(name_at, entry.data_at - name_at)
        yield Label(span, f"{prefix}.name", entry.title, "the member's name, padded with NULs")
    data_end = name_at if is_thin and entry.kind == "file" else entry.data_at + entry.size
    if data_end > entry.data_at:
        text = f"{entry.title}, {entry.size} bytes"
        yield Label(view.span(entry.data_at, entry.size), f"{prefix}.data", text, _CONTENTS[entry.kind], "data")
    if entry.end > data_end:
        span = view.span(data_end, entry.end - data_end)
        yield Label(span, "padding", "newline", "makes the next header start at an even offset", "padding")


# Checks of symbol tables. Linkers use the member to which a table refers, without reading its symbols. A table that was
# not updated when members were replaced makes links fail with undefined symbols, or links another member.

#: kinds of tables with one name per offset, after the offsets
_GNU = (b"/", b"/SYM64/")

#: section of GCC's objects for link-time optimisation: a plugin of ar lists symbols that are in no symbol table
_PLUGIN = b".gnu.lto_"

#: LIMIT: symbols that a finding names
_SHOWN = 3


def check_symbol_tables(view: View) -> Iterator[int | Finding]:
    """Yield the errors of symbol tables, and finally the number of checked names; nothing for thin archives.

    Every offset must be that of a member's header. In GNU tables the member must define the symbol, if its symbols can
    be read: not for Mach-O and WebAssembly, and not for symbols from GCC's plugin.
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
    """Yield a finding for each member that does not define a symbol of the table."""
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
            continue  # not supported, or reported when the member is scanned
        if lost and data.source.find(_PLUGIN, data.start, data.end) < 0:
            shown = ", ".join(printable(name.decode("utf-8", "replace")) for name in sorted(lost)[:_SHOWN])
            more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
            title = printable(member.name.decode("utf-8", "replace"))
            text = f"the symbol table says that {title} defines {shown}{more}, and it does not"
            yield finding("FP2107", view.span(member.header_at, member.end - member.header_at), text, "run ranlib")
