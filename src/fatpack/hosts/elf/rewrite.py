"""Replacing and removing sections: what lies behind the edited section is laid out again, nothing else moves.

::

    old  header … │ section A │ edited │ B │ C │ symbols │ names │ table
    new  header … │ section A │ new contents │ B │ C │ symbols │ names │ table

Everything before the edited section stays in place byte for byte. Later parts follow in their old order, each on its
own alignment, and their headers say where. No index changes: a removed section becomes an all-zero (null) header, and
only at the end of the table the header goes as well. Bytes between parts that are no alignment padding belong to
somebody unknown and are carried along.

In linked files nothing that is loaded may move, so only sections behind all segments can be edited.
"""

from __future__ import annotations

from fatpack.errors import HostError, UsageError
from fatpack.hosts.elf import constants
from fatpack.hosts.elf.editable import EditableFile, Patches, align_up, is_zero, joined, total_size, zeros
from fatpack.hosts.elf.references import check_links, check_relocations, symbols_in, uses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from fatpack.hosts.elf.editable import Row
    from fatpack.hosts.elf.read import Section
    from fatpack.hosts.elf.references import DefinedSymbol
    from fatpack.io.source import View
    from fatpack.model import Piece

#: Types of sections whose bytes are device code and nothing that the file itself is made of.
EDITABLE_TYPES = (constants.PROGBITS, constants.OFFLOADING)

#: A part of the file that is no section
_HEADER, _PROGRAMS, _TABLE = -1, -2, -3
_PART_NAMES = {_HEADER: "the ELF header", _PROGRAMS: "the program headers", _TABLE: "the section table"}


def edit(view: View, changes: Mapping[int, Sequence[Piece] | None]) -> list[Piece]:
    """Return the file with several sections changed at once: section index → new contents, or None to take it out.

    New contents are allowed when nothing refers to the inside of the section: no relocation changes it, its symbols
    are at its start, and relocations through them have no addend. The size of a symbol that spans the section
    follows.

    A section that goes leaves a null header; one at the end of the table is dropped. It must not be loaded at run
    time, and no symbol, relocation, group or link may need it. Section and mapping symbols that nothing uses become
    null symbols.

    Raises HostError naming what stands in the way, FormatError for a damaged file, UsageError for an index that is
    none.
    """
    elf = EditableFile(view)
    gone = {index for index, content in changes.items() if content is None}
    for index, content in sorted(changes.items(), key=lambda change: change[0]):
        _check_section(elf, index, goes=content is None)
    # First of all, since tables over the same bytes could make all that follows read them many times.
    parts = _parts(elf, changes)
    symbols = symbols_in(elf, changes)
    _check_symbols(elf, symbols, gone)
    check_relocations(elf, changes, symbols)
    _check_uses(elf, symbols, gone)
    check_links(elf, gone, symbols)
    count = elf.section_count
    while count - 1 in gone:
        count -= 1
    patches = _symbol_patches(elf, symbols, changes)
    if all(content is not None and total_size(content) == elf.section_rows[i][5] for i, content in changes.items()):
        return _in_place(elf, changes, parts, patches)
    return _lay_out(elf, changes, parts, patches, count)


def replace(view: View, index: int, content: Sequence[Piece]) -> list[Piece]:
    """Return the file with other contents in one section, as pieces; :func:`edit` has the rules and the errors."""
    return edit(view, {index: content})


def remove(view: View, indices: Sequence[int]) -> list[Piece]:
    """Return the file without the contents of some sections, as pieces; :func:`edit` has the rules and the errors."""
    return edit(view, dict.fromkeys(indices))


def _check_section(elf: EditableFile, index: int, *, goes: bool) -> None:
    """Raise UsageError or HostError if a section may not be edited, whoever refers to it."""
    if not 0 < index < elf.section_count:
        raise UsageError(f"there is no section {index}", hint=f"the file has 1 to {elf.section_count - 1}")
    section = elf.section(index)
    if section.type not in EDITABLE_TYPES:
        raise HostError(
            f"{elf.title(section)} has type {constants.section_type(section.type)}: it is no section of device code",
            hint=f"sections of type {' or '.join(map(constants.section_type, EDITABLE_TYPES))} can be edited",
            chain=elf.view.chain,
        )
    if section.flags & constants.COMPRESSED:
        raise HostError(
            f"{elf.title(section)} is compressed by its section flags",
            hint="decompress it first",
            chain=elf.view.chain,
        )
    if section.flags & (constants.MERGE | constants.STRINGS):
        raise HostError(
            f"{elf.title(section)} may be merged with others by the linker, entry by entry",
            hint="device code does not belong into such a section; compile it again",
            chain=elf.view.chain,
        )
    if section.flags & constants.ALLOC and (goes or elf.is_linked):
        raise HostError(
            f"{elf.title(section)} is loaded at run time",
            hint="it has its place in memory since the link; edit the object and link again"
            if elf.is_linked
            else "code refers to it when the program starts; replace its contents instead",
            chain=elf.view.chain,
        )


def _check_symbols(elf: EditableFile, symbols: Sequence[DefinedSymbol], gone: Collection[int]) -> None:
    for symbol in symbols:
        if symbol.is_marker:
            continue
        section = elf.section(symbol.section)
        if symbol.section in gone:
            raise HostError(
                f"{symbol.title} is defined in {elf.title(section)}",
                hint="replace the contents of the section instead",
                chain=elf.view.chain,
            )
        if symbol.value != _start_value(elf, section):
            raise HostError(
                f"{symbol.title} lies inside {elf.title(section)}, at {symbol.value:#x}",
                hint="only a section that is used as a whole can get other contents",
                chain=elf.view.chain,
            )


def _start_value(elf: EditableFile, section: Section) -> int:
    """Return the value of a symbol at the start of a section: an address in linked files, else an offset."""
    return section.address if elf.is_linked else 0


def _check_uses(elf: EditableFile, symbols: Sequence[DefinedSymbol], gone: Collection[int]) -> None:
    for use in uses(elf, symbols):
        goes = use.symbol.section in gone
        if use.addend == 0 and not goes:
            continue
        place = f"relocation {use.number} of {elf.title(use.relocations)}"
        target = elf.title(elf.section(use.symbol.section))
        hint = "only a section that is used as a whole can get other contents"
        if goes:
            problem, hint = f"{place} needs {target}", "replace the contents of the section instead"
        elif use.addend is None:
            problem = f"{place} has type {use.type}, of which it is not known how far into {target} it points"
        else:
            problem = f"{place} points {use.addend:+#x} bytes from the start of {target}"
        raise HostError(problem, hint=hint, chain=elf.view.chain)


def _symbol_patches(
    elf: EditableFile, symbols: Sequence[DefinedSymbol], changes: Mapping[int, Sequence[Piece] | None]
) -> dict[int, bytes]:
    """Return patches (position → bytes) for the symbols of the changed sections."""
    layout, position = elf.layouts.symbol, elf.layouts.position
    value_at, size_at = position(layout, "value"), position(layout, "size")
    patches: dict[int, bytes] = {}
    for symbol in symbols:
        content = changes[symbol.section]
        if content is None:
            # Linkers drop local null symbols; in a null section a symbol would be absolute for lld, and stay.
            patches[symbol.at] = bytes(layout.size)
            if symbol.wide_at is not None:
                patches[symbol.wide_at] = bytes(elf.layouts.index.size)
            continue
        section, values = elf.section(symbol.section), list(symbol.values)
        if section.size and symbol.size == section.size:
            values[size_at] = total_size(content)
            elf.check_size(values[size_at])
        if symbol.is_marker and total_size(content) != section.size:
            values[value_at] = _start_value(elf, section)
        if tuple(values) != symbol.values:
            patches[symbol.at] = layout.pack(*values)
    return patches


def _lay_out(
    elf: EditableFile,
    changes: Mapping[int, Sequence[Piece] | None],
    parts: Sequence[tuple[int, int, int]],
    patches: Mapping[int, bytes],
    count: int,
) -> list[Piece]:
    """Return the file with the contents of some sections exchanged, or taken out (None), and later parts laid out.

    ``patches`` are bytes to exchange in the parts that stay, ``count`` how many section headers remain.
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
            # Where a loaded section without bytes would lie has a meaning of its own in files of debug information.
            if not (elf.is_linked and elf.section_rows[part][2] & constants.ALLOC):
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
            pieces.append(view.slice(before, start - before))  # the same padding: one view with what is around it
        else:
            pieces += zeros(offset - position)
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
    return joined([*Patches(in_place).apply(view, 0, cut), *pieces])


def _cut(
    elf: EditableFile, changes: Mapping[int, Sequence[Piece] | None], parts: Sequence[tuple[int, int, int]]
) -> int:
    """Return where the file starts to differ: at the first changed section, with its padding if it goes."""
    end = max([elf.layouts.header.size, *(stop for _, stop in elf.segment_ranges())])
    for start, stop, part in parts:
        if part in changes:
            align = _alignment(elf.section_rows[part], start)
            is_padded = changes[part] is None and end <= start and _is_padding(elf.view, end, start, align)
            return end if is_padded else start
        if start < stop:
            end = max(end, stop)
    return elf.end


def _in_place(
    elf: EditableFile,
    changes: Mapping[int, Sequence[Piece] | None],
    parts: Sequence[tuple[int, int, int]],
    patches: Mapping[int, bytes],
) -> list[Piece]:
    """Return the file with contents exchanged for others of the same size: nothing else changes."""
    edits, at = Patches(patches), 0
    pieces: list[Piece] = []
    for start, end, part in parts:
        if part in changes:
            pieces += [*edits.apply(elf.view, at, start), *(changes[part] or ())]
            at = end
    return joined([*pieces, *edits.apply(elf.view, at, len(elf.view))])


def _parts(elf: EditableFile, changes: Mapping[int, Sequence[Piece] | None]) -> list[tuple[int, int, int]]:
    """Return (start, end, section index or part) of everything behind the ELF header, by position.

    Raises HostError if two parts overlap, or a section that gets contents lies outside the file.
    """
    parts = [(elf.header.section_offset, elf.table_end, _TABLE)]
    programs = elf.program_table()
    if programs[0] < programs[1]:
        parts.append((*programs, _PROGRAMS))
    for index, (_, kind, _, _, offset, size, *_) in enumerate(elf.section_rows):
        # An empty section that goes has no place worth keeping.
        if kind != constants.NULL and (size or changes.get(index, ()) is not None):
            parts.append((offset, offset + (0 if kind == constants.NOBITS else size), index))
    parts.sort()
    end, owner = elf.layouts.header.size, _HEADER
    for start, stop, part in parts:
        if start == stop and part not in changes:
            continue
        if start > len(elf.view):
            at = elf.section_field(part, "offset")
            raise elf.bad(f"{_part_title(elf, part)} does not lie inside the file", at, "offset", found=f"{start:#x}")
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


def _check_movable(elf: EditableFile, cut: int, changes: Collection[int]) -> None:
    """Raise HostError if something behind the edited section must stay where it is."""
    loaded = any(end > cut for _, end in elf.segment_ranges()) or elf.program_table()[1] > cut
    if elf.is_linked:
        loaded = loaded or any(
            row[2] & constants.ALLOC and row[4] >= cut and row[5] and row[1] not in (constants.NOBITS, constants.NULL)
            for row in elf.section_rows
        )
    if loaded:
        title = elf.title(elf.section(min(changes, key=lambda index: elf.section_rows[index][4])))
        raise HostError(
            f"parts of the program that are loaded at run time follow {title} and cannot move",
            hint="edit the object and link again",
            chain=elf.view.chain,
        )


def _alignment(row: Row, start: int) -> int:
    """Return the alignment to keep for a section: none where its producer did not keep it either."""
    align = row[8]
    return align if align and not align & (align - 1) and start % align == 0 else 1


def _is_padding(view: View, start: int, end: int, align: int) -> bool:
    return end - start < max(align, 16) and is_zero(view, start, end)


def _rows(
    elf: EditableFile, changes: Mapping[int, Sequence[Piece] | None], offsets: Mapping[int, int], count: int
) -> list[Row]:
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
