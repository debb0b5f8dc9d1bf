"""Replacing and removing sections: who refers to them is asked first, then the file is laid out again.

No index changes: a removed section becomes an all-zero (null) header, and only at the end of the table the header goes
as well. What lies where afterwards is in ``placement``, what is refused in ``refusal``. In linked files nothing that is
loaded may move, so only sections behind all segments can be edited.
"""

from __future__ import annotations

from fatpack.binary.elf.editor.editable import symbols_in_sections
from fatpack.binary.elf.editor.editing_editable import EditableFile, total_size
from fatpack.binary.elf.editor.preconditions import (
    check_links,
    check_relocations,
    check_section,
    check_symbols,
    check_uses,
)
from fatpack.binary.elf.editor.rewrite import lay_out, list_parts, patch_in_place
from fatpack.binary.elf.layout import SH_SIZE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.binary.elf.editor.editable import DefinedElfSymbol
    from fatpack.binary.elf.editor.rewrite import SectionChanges
    from fatpack.io.source import Piece, View


def edit_sections(view: View, changes: SectionChanges) -> list[Piece]:
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
        check_section(elf, index, goes=content is None)
    # First of all, since tables over the same bytes could make all that follows read them many times.
    parts = list_parts(elf, changes)
    symbols = symbols_in_sections(elf, changes)
    check_symbols(elf, symbols, gone)
    check_relocations(elf, changes, symbols)
    check_uses(elf, symbols, gone)
    check_links(elf, gone, symbols)
    count = elf.section_count
    while count - 1 in gone:
        count -= 1
    patches = _symbol_patches(elf, symbols, changes)
    if all(
        content is not None and total_size(content) == elf.section_rows[i][SH_SIZE] for i, content in changes.items()
    ):
        return patch_in_place(elf, changes, parts, patches)
    return lay_out(elf, changes, parts, patches, count)


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
            values[value_at] = elf.start_value(section)
        if tuple(values) != symbol.values:
            patches[symbol.at] = layout.pack(*values)
    return patches
