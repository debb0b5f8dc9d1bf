"""Embedding: sections are added at the end of an ELF file, and nothing else moves.

::

    before   header │ program headers, sections … │ names │ section table
    compact  header │ program headers, sections … │ new contents │ names + new ones │ section table + new headers
    plain    the whole old file                   │ new contents │ names + new ones │ section table + new headers

New headers are the last in the table, so every section index in symbols, links, groups and relocations keeps its
meaning. Of the old bytes only two to four in the header change: offset and length of the table.

*Compact* removes the old table, and the table of names if it has to grow, when they are at the end of the file; *plain*
leaves them in place as dead bytes, as in programs that end with other tables. Plain is also the form of a large file
that is edited in place: everything new can be on disk before the header is changed.

Linked files work the same way: the section is in no segment, so tools can find it, but it is not loaded at run time.
"""

from __future__ import annotations

from fatpack.binary.elf import layout
from fatpack.binary.elf.editor.editable import EditableFile, Patches, align_up, join_views, total_size, zero_pieces
from fatpack.binary.elf.layout import SH_NAME
from fatpack.errors import HostError, UsageError
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.binary.elf.editor.editable import SectionRow
    from fatpack.io.source import Piece, View

#: LIMIT: alignment of a new section; larger ones only add padding (compilers use 8 and 4096).
LARGEST_ALIGN = 1 << 16

#: Up to this many zero bytes before a table are alignment padding; more may be data of another tool.
_GAP = 63


class NewSection(Record):
    """A section to add: ``content`` in pieces, which may be views; ``align`` in bytes, a power of two.

    The defaults are those of clang 15 and newer for offload binaries: a type of its own, by which LLVM's tools find
    it, and SHF_EXCLUDE, so that a final link drops it and ``ld -r`` keeps it.
    """

    content: Sequence[Piece]
    name: str = ".llvm.offloading"
    type: int = layout.OFFLOADING
    flags: int = layout.EXCLUDE
    align: int = 8


def embed_sections(
    view: View,
    additions: Sequence[NewSection],
    *,
    unique: bool = False,
    keep_trailing: bool = False,
    only_growing: bool = False,
) -> list[Piece]:
    """Return the file with sections added, as pieces; bulk data is neither read nor copied.

    ``unique`` refuses a name that a section already has; otherwise there are then two, and LLVM finds both.
    ``keep_trailing`` allows bytes after the ELF image: they stay in place, in the middle of the new file.
    ``only_growing`` selects the plain form. Raises HostError if the file must not be edited, FormatError if it is
    damaged, UsageError for an impossible section.
    """
    for addition in additions:
        _check(addition)
    elf = EditableFile(view, keep_trailing=keep_trailing)
    if unique:
        _check_unique(elf, {addition.name for addition in additions})
    name_offsets, tail = _place_names(elf, [addition.name for addition in additions])
    position = len(view) if only_growing else _base(elf, growing=bool(tail))

    pieces: list[Piece] = []
    new_rows: list[SectionRow] = []
    base = position
    for addition, name_offset in zip(additions, name_offsets, strict=True):
        start = align_up(position, addition.align)
        size = total_size(addition.content)
        pieces += [*zero_pieces(start - position), *addition.content]
        new_rows.append((name_offset, addition.type, addition.flags, 0, start, size, 0, 0, addition.align, 0))
        position = start + size

    count = elf.section_count + len(additions)
    changed_rows = {0: elf.count_row(count)}
    if tail:
        start = position
        size = elf.names.size + len(tail)
        pieces += [elf.contents(elf.names), tail]
        # Section 0 is never the table of names, so neither row overwrites the other.
        changed_rows[elf.names.index] = elf.row_with(elf.row(elf.names.index), offset=start, size=size)
        position = start + size

    table = align_up(position, elf.layouts.word)
    pieces += zero_pieces(table - position)
    layout = elf.layouts.section
    elf.check_size(table + count * layout.size)
    old_table = elf.header.section_offset
    rows = Patches({old_table + index * layout.size: layout.pack(*row) for index, row in changed_rows.items()})
    pieces += rows.apply(view, old_table, elf.table_end)
    pieces += [layout.pack(*row) for row in new_rows]
    return join_views([*Patches({0: elf.header_with(table, count)}).apply(view, 0, base), *pieces])


def _check(addition: NewSection) -> None:
    if not addition.name or "\0" in addition.name:
        raise UsageError(f"{addition.name!r} cannot be the name of a section", hint="give a name without NUL")
    if not 0 < addition.align <= LARGEST_ALIGN or addition.align & (addition.align - 1):
        raise UsageError(
            f"a section cannot be aligned to {addition.align}", hint=f"give a power of two up to {LARGEST_ALIGN}"
        )
    if addition.flags & layout.ALLOC:
        raise UsageError(
            "a section that is loaded at run time cannot be added to a finished file",
            hint="compile the device code into the host instead",
        )


def _stored(name: str) -> bytes:
    """Return a name as stored in the table of names, with its NUL."""
    try:
        return name.encode("utf-8", "surrogateescape") + b"\0"
    except UnicodeEncodeError:
        raise UsageError(f"{name!r} cannot be the name of a section", hint="give a name in UTF-8") from None


def _check_unique(elf: EditableFile, names: set[str]) -> None:
    strings = elf.contents(elf.names)
    for index, row in enumerate(elf.section_rows):
        name = elf.string(strings, row[SH_NAME])
        if name in names:
            raise HostError(
                f"section {index} is already called {name}",
                hint="replace or remove it, or allow a second section of that name",
                chain=elf.view.chain,
            )


def _place_names(elf: EditableFile, names: Sequence[str]) -> tuple[list[int], bytes]:
    """Return the offset of each name in the table of names, and the bytes to add to the table.

    A name that the table has is not added, even if it is the end of a longer one (gABI, "String Table").
    """
    strings = elf.contents(elf.names)
    # Without its last NUL, the table's last name would continue into the first new one.
    tail = b"" if len(strings) and strings.read(len(strings) - 1, 1) == b"\0" else b"\0"
    separator = len(tail)
    offsets = []
    for name in names:
        stored = _stored(name)
        at = strings.find(stored)
        if at < 0:
            at = tail.find(stored)
            if at < 0:
                at = len(tail)
                tail += stored
            at += len(strings)
        offsets.append(at)
    if len(tail) == separator:
        return offsets, b""
    if elf.names.flags & (layout.ALLOC | layout.COMPRESSED):
        raise HostError(
            f"the table of section names, {elf.title(elf.names)}, is loaded or compressed and cannot grow",
            hint="use a name that a section of the file already has",
            chain=elf.view.chain,
        )
    return offsets, tail


def _base(elf: EditableFile, *, growing: bool) -> int:
    """Return the position of the new bytes: after everything in the old file that is still needed."""
    view = elf.view
    is_last = elf.header.section_offset >= elf.used_end and not elf.has_trailing
    if not is_last or not _is_gap(view, elf.used_end, elf.header.section_offset):
        return len(view)
    names = elf.names
    if growing and names.end == elf.used_end:
        without = elf.used_end_without(names.index)
        if without <= names.offset and _is_gap(view, without, names.offset):
            return without
    return elf.used_end


def _is_gap(view: View, start: int, end: int) -> bool:
    return end - start <= _GAP and view.is_zero(start, end - start)
