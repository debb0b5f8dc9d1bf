"""Replacing and removing sections: the layout of a file after an edit, in which later parts move in their old order.

::

    old  header … │ section A │ edited │ B │ C │ symbols │ names │ table
    new  header … │ section A │ new contents │ B │ C │ symbols │ names │ table

Everything before the first edited section stays in place byte for byte. Later parts follow in their old order, each
with its own alignment, and their headers get the new offsets. Bytes between parts that are not alignment padding may
belong to another tool, and move along.
"""

from __future__ import annotations

from fatpack.binary.elf.editor.editable import (
    EditableFile,
    Patches,
    align_up,
    join_views,
    symbols_in_sections,
    total_size,
    zero_pieces,
)
from fatpack.binary.elf.editor.preconditions import (
    check_links,
    check_relocations,
    check_section,
    check_symbols,
    check_uses,
)
from fatpack.binary.elf.layout import (
    ALLOC,
    COMPRESSED,
    DYNSYM,
    NOBITS,
    NULL,
    SH_ADDRALIGN,
    SH_FLAGS,
    SH_LINK,
    SH_NAME,
    SH_OFFSET,
    SH_SIZE,
    SH_TYPE,
    SYMTAB,
)
from fatpack.errors import HostError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import TypeAlias

    from fatpack.binary.elf.editor.editable import DefinedElfSymbol, SectionRow
    from fatpack.io.source import Piece, View

    SectionChanges: TypeAlias = Mapping[int, Sequence[Piece] | None]
    """Section index → new contents, None for a section that goes."""

    ElfPart: TypeAlias = tuple[int, int, int]
    """(start, end, section index or one of the numbers below)"""


#: A part of the file that is not a section
_HEADER, _PROGRAMS, _TABLE = -1, -2, -3
_PART_NAMES = {_HEADER: "the ELF header", _PROGRAMS: "the program headers", _TABLE: "the section table"}


def list_parts(elf: EditableFile, changes: SectionChanges) -> list[ElfPart]:
    """Return all parts after the ELF header, by position.

    Raises HostError if two parts overlap, or a section that gets contents is outside the file.
    """
    parts = [(elf.header.section_offset, elf.table_end, _TABLE)]
    programs = elf.program_table()
    if programs[0] < programs[1]:
        parts.append((*programs, _PROGRAMS))
    for index, (_, kind, _, _, offset, size, *_) in enumerate(elf.section_rows):
        # The position of an empty section that is removed does not matter.
        if kind != NULL and (size or changes.get(index, ()) is not None):
            parts.append((offset, offset + (0 if kind == NOBITS else size), index))
    parts.sort()
    end, owner = elf.layouts.header.size, _HEADER
    for start, stop, part in parts:
        if start == stop and part not in changes:
            continue
        if start > len(elf.view):
            at = elf.section_field(part, "offset")
            raise elf.error(f"{_part_title(elf, part)} does not lie inside the file", at, "offset", found=f"{start:#x}")
        if start < end:
            raise HostError(
                f"{_part_title(elf, owner)} and {_part_title(elf, part)} overlap",
                hint="no tool makes such files on purpose; make the file again",
                chain=elf.view.chain,
            )
        end, owner = stop, part
    return parts


def _part_title(elf: EditableFile, part: int) -> str:
    return _PART_NAMES.get(part) or elf.title(elf.section(part))


def patch_in_place(
    elf: EditableFile,
    changes: SectionChanges,
    parts: Sequence[ElfPart],
    patches: Mapping[int, bytes],
) -> list[Piece]:
    """Return the file with contents replaced by others of the same size; nothing else changes."""
    edits, at = Patches(patches), 0
    pieces: list[Piece] = []
    for start, end, part in parts:
        if part in changes:
            pieces += [*edits.apply(elf.view, at, start), *(changes[part] or ())]
            at = end
    return join_views([*pieces, *edits.apply(elf.view, at, len(elf.view))])


def lay_out(
    elf: EditableFile,
    changes: SectionChanges,
    parts: Sequence[ElfPart],
    patches: Mapping[int, bytes],
    count: int,
) -> list[Piece]:
    """Return the file with the contents of some sections replaced, or removed (None), and later parts moved.

    ``patches`` are changes of other parts; ``count`` is the number of remaining section headers.
    """
    view, layout = elf.view, elf.layouts.section
    cut = _cut(elf, changes, parts)
    _check_movable(elf, cut, changes)
    edits = Patches(patches)
    pieces: list[Piece] = []
    offsets: dict[int, int] = {}
    table, table_piece = elf.header.section_offset, -1
    position = old_end = cut
    for start, end, part in parts:
        if start < cut:
            continue
        align = elf.layouts.word if part == _TABLE else _alignment(elf.section_rows[part], start)
        if start == end and part not in changes:
            # In files of debug information, the offset of a loaded section without bytes has a meaning of its own.
            if not (elf.is_linked and elf.section_rows[part][SH_FLAGS] & ALLOC):
                offsets[part] = align_up(position, align)
            continue
        if start > old_end and not _is_padding(view, old_end, start, align):
            pieces.append(view.slice(old_end, start - old_end))
            position += start - old_end
            old_end = start
        before, old_end = old_end, end
        content = changes.get(part, ())
        if content is None:
            continue
        offset = align_up(position, align)
        if offset - position == start - before:
            pieces.append(view.slice(before, start - before))  # the same padding: merged with adjacent views
        else:
            pieces += zero_pieces(offset - position)
        if part == _TABLE:
            table, table_piece = offset, len(pieces)
            pieces.append(b"")
            position = offset + count * layout.size
            continue
        offsets[part] = offset
        moved = list(content) if part in changes else list(edits.apply(view, start, end))
        pieces += moved
        position = offset + total_size(moved)
    elf.check_size(position)
    rows = _rows(elf, changes, {index: min(offset, position) for index, offset in offsets.items()}, count)
    packed = b"".join(layout.pack(*row) for row in rows)
    in_place = {**patches, 0: elf.header_with(table, count)}
    if table_piece >= 0:
        pieces[table_piece] = packed
    else:
        in_place[table] = packed.ljust(elf.section_count * layout.size, b"\0")
    return join_views([*Patches(in_place).apply(view, 0, cut), *pieces])


def _cut(elf: EditableFile, changes: SectionChanges, parts: Sequence[ElfPart]) -> int:
    """Return the first changed position: the start of a changed section, or of its padding if it is removed."""
    end = max([elf.layouts.header.size, *(stop for _, stop in elf.segment_ranges())])
    for start, stop, part in parts:
        if part in changes:
            align = _alignment(elf.section_rows[part], start)
            is_padded = changes[part] is None and end <= start and _is_padding(elf.view, end, start, align)
            return end if is_padded else start
        if start < stop:
            end = max(end, stop)
    return elf.end


def _check_movable(elf: EditableFile, cut: int, changes: Collection[int]) -> None:
    """Raise HostError if something after the edited section must not move."""
    loaded = any(end > cut for _, end in elf.segment_ranges()) or elf.program_table()[1] > cut
    if elf.is_linked:
        loaded = loaded or any(
            row[SH_FLAGS] & ALLOC and row[SH_OFFSET] >= cut and row[SH_SIZE] and row[SH_TYPE] not in (NOBITS, NULL)
            for row in elf.section_rows
        )
    if loaded:
        title = elf.title(elf.section(min(changes, key=lambda index: elf.section_rows[index][SH_OFFSET])))
        raise HostError(
            f"parts of the program that are loaded at run time follow {title} and cannot move",
            hint="edit the object and link again",
            chain=elf.view.chain,
        )


def _alignment(row: SectionRow, start: int) -> int:
    """Return the alignment to keep for a section: none if its producer did not keep it either."""
    align = row[SH_ADDRALIGN]
    return align if align and not align & (align - 1) and start % align == 0 else 1


def _is_padding(view: View, start: int, end: int, align: int) -> bool:
    return end - start < max(align, 16) and view.is_zero(start, end - start)


def _rows(elf: EditableFile, changes: SectionChanges, offsets: Mapping[int, int], count: int) -> list[SectionRow]:
    """Return the new section table."""
    rows = list(elf.section_rows)
    rows[0] = elf.count_row(count)
    for index, offset in offsets.items():
        rows[index] = elf.row_with(rows[index], offset=offset)
    for index, content in changes.items():
        if content is None:
            rows[index] = (0,) * len(rows[index])
        else:
            rows[index] = elf.row_with(rows[index], size=total_size(content))
    return rows[:count]


# The edit: references are checked first, then the file is laid out again. No index changes: a removed section becomes a
# null header, and only at the end of the table the header is removed as well. ``preconditions`` has the refusals. In
# linked files nothing that is loaded may move, so only sections after all segments can be edited.


def edit_sections(view: View, changes: SectionChanges) -> list[Piece]:
    """Return the file with several sections changed at once: section index → new contents, or None to remove it.

    New contents are allowed if nothing refers to the inside of the section: no relocation changes it, its symbols are
    at its start, and relocations through them have no addend. The size of a symbol that spans the section changes too.

    A removed section leaves a null header, or none at the end of the table. It must not be loaded at run time, and no
    symbol, relocation, group or link may need it. Unused section and mapping symbols become null symbols. Its name is
    removed if it is the last of the table of names and has no other use.

    Raises HostError that names the obstacle, FormatError for a damaged file, UsageError for an unknown index.
    """
    elf = EditableFile(view)
    removed = {index for index, content in changes.items() if content is None}
    for index, content in sorted(changes.items(), key=lambda change: change[0]):
        check_section(elf, index, is_removed=content is None)
    # Checked first, because tables over the same bytes could make later steps read them many times.
    parts = list_parts(elf, changes)
    symbols = symbols_in_sections(elf, changes)
    check_symbols(elf, symbols, removed)
    check_relocations(elf, changes, symbols)
    check_uses(elf, symbols, removed)
    check_links(elf, removed, symbols)
    count = elf.section_count
    while count - 1 in removed:
        count -= 1
    patches = _symbol_patches(elf, symbols, changes)
    if all(
        content is not None and total_size(content) == elf.section_rows[i][SH_SIZE] for i, content in changes.items()
    ):
        return patch_in_place(elf, changes, parts, patches)
    names = _names_left(elf, removed)
    if names is not None and elf.names.offset >= _cut(elf, changes, parts):
        changes = {**changes, elf.names.index: [names]}
    return lay_out(elf, changes, parts, patches, count)


def _names_left(elf: EditableFile, removed: Collection[int]) -> View | None:
    """Return the table of names without the names at its end that only removed sections have, None if it stays whole.

    :func:`~fatpack.binary.elf.editor.append.embed_sections` adds names there: removing an embedded section restores the
    old table.
    """
    table = elf.names
    if table.flags & (ALLOC | COMPRESSED) or table.index in removed:
        return None
    strings = elf.contents(table)
    ends: dict[int, int] = {}
    for index in removed:
        at = elf.section_rows[index][SH_NAME]
        end = at + len(elf.string(strings, at).encode("utf-8", "surrogateescape")) + 1
        ends[end] = min(at, ends.get(end, at))
    size = len(strings)
    # A name at the end of a longer one is not the last.
    while size in ends and 0 < ends[size] < size and strings.read(ends[size] - 1, 1) == b"\0":
        size = ends[size]
    if size == len(strings):
        return None
    uses = max(row[SH_NAME] for index, row in enumerate(elf.section_rows) if index not in removed)
    for row in elf.section_rows:
        if row[SH_LINK] != table.index or row[SH_TYPE] == NULL:
            continue
        if row[SH_TYPE] not in (SYMTAB, DYNSYM):
            return None
        name_at, width = elf.layouts.symbol.position("name_offset"), elf.layouts.symbol.size
        symbols = elf.records(elf.layouts.symbol, row[SH_OFFSET], row[SH_SIZE] // width)
        uses = max(uses, max((symbol[name_at] for symbol in symbols), default=0))
    return strings.slice(0, size) if uses < size else None


def replace_section(view: View, index: int, content: Sequence[Piece]) -> list[Piece]:
    """Return the file with other contents in one section, as pieces; :func:`edit` has the rules and the errors."""
    return edit_sections(view, {index: content})


def remove_sections(view: View, indices: Sequence[int]) -> list[Piece]:
    """Return the file without the contents of some sections, as pieces; :func:`edit` has the rules and the errors."""
    return edit_sections(view, dict.fromkeys(indices))


def _symbol_patches(
    elf: EditableFile, symbols: Sequence[DefinedElfSymbol], changes: SectionChanges
) -> dict[int, bytes]:
    """Return patches (position → bytes) for the symbols of the changed sections."""
    layout = elf.layouts.symbol
    value_at, size_at = layout.position("value"), layout.position("size")
    patches: dict[int, bytes] = {}
    for symbol in symbols:
        content = changes[symbol.section]
        if content is None:
            # Linkers drop local null symbols; a symbol in a null section would be absolute for lld, and stay.
            patches[symbol.at] = bytes(layout.size)
            if symbol.wide_at is not None:
                patches[symbol.wide_at] = bytes(elf.layouts.index.size)
            continue
        section, values = elf.section(symbol.section), list(symbol.values)
        if section.size and symbol.size == section.size:
            values[size_at] = total_size(content)
            elf.check_size(values[size_at])
        if symbol.is_marker and total_size(content) != section.size:
            values[value_at] = elf.start_value(section)
        if tuple(values) != symbol.values:
            patches[symbol.at] = layout.pack(*values)
    return patches
