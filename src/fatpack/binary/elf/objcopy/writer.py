"""Writing ELF files as llvm-objcopy does: new tables of names and symbols, and a new layout of everything else."""

from __future__ import annotations

import struct

from fatpack.binary.elf.editor.editable import align_up, join_views, total_size, zero_pieces
from fatpack.binary.elf.layout import CREL, ESCAPED, FIRST_RESERVED, NOBITS, SYMTAB_SHNDX
from fatpack.binary.elf.objcopy import relocations, sections
from fatpack.binary.elf.objcopy.sections import MutableElfSection
from fatpack.binary.new_file import MergedStringTable, PieceList, check_filler_size, merge_strings
from fatpack.errors import HostError
from fatpack.io.source import View
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.binary.elf.objcopy.sections import ElfModel
    from fatpack.io.source import Piece


# Layers of bytes, because segments overlap, and headers are inside them


class Layer(Record):
    """A range of ``size`` bytes at a position; ``content`` None means zeros."""

    at: int
    size: int
    content: View | bytes | None


def flatten(layers: Sequence[Layer], end: int) -> list[Piece]:
    """Return the bytes from position 0 to ``end``: of overlapping layers the last one, zeros between them."""
    from heapq import heappop, heappush
    from itertools import pairwise

    edges = {edge for layer in layers for edge in (layer.at, layer.at + layer.size) if edge < end}
    events = sorted({0, end, *edges})
    starts = sorted((layer.at, number) for number, layer in enumerate(layers) if layer.size)
    active: list[tuple[int, int]] = []
    pieces: list[Piece] = []
    upcoming = 0
    for position, following in pairwise(events):
        while upcoming < len(starts) and starts[upcoming][0] <= position:
            number = starts[upcoming][1]
            heappush(active, (-number, layers[number].at + layers[number].size))
            upcoming += 1
        while active and active[0][1] <= position:
            heappop(active)
        layer = layers[-active[0][0]] if active else None
        pieces += _part(layer, position, following - position)
    return pieces


def _part(layer: Layer | None, position: int, size: int) -> Iterator[Piece]:
    if layer is None or layer.content is None:
        yield from zero_pieces(size)
    elif isinstance(layer.content, View):
        yield layer.content.slice(position - layer.at, size)
    else:
        yield layer.content[position - layer.at : position - layer.at + size]


_INDEX = 4

#: QUIRK(llvm-objcopy): it keeps only 32 bits of the entry size.
_ENTRY_SIZE = 0xFFFFFFFF


def write_model(model: ElfModel) -> list[Piece]:
    """Return the new file. Raises HostError if a necessary table was removed."""
    elf = model.elf
    _prune(model)
    names = model.names
    if names is None:
        raise HostError(
            "cannot write section header table because section header string table was removed",
            hint="remove other sections only",
            chain=elf.view.chain,
        )
    tables = _size_tables(model, names)
    segments_end = model.segments.lay_out()
    body, end = _lay_out(model, segments_end)
    _finish_headers(model)
    table = align_up(end, elf.layouts.word)
    file_end = table + (len(model.parts) + 1) * elf.layouts.section.size
    if file_end > elf.layouts.largest:
        raise HostError(
            f"the result would have {file_end} bytes, more than a {elf.layouts.bits}-bit ELF file can describe",
            hint="use a 64-bit host, or put less in it",
            chain=elf.view.chain,
        )
    made: dict[MutableElfSection, Sequence[Piece]] = {part: (b"\0", table.stored) for part, table in tables.items()}
    if model.symbol_table is not None and model.symbols is not None:
        strings = model.symbol_table.linked
        made[model.symbol_table] = (model.symbols.packed(tables[strings].offsets if strings else {}),)
        if model.indices is not None:
            made[model.indices] = (model.symbols.packed_indices(),)
    # Except for the zeros between them, segments consist of bytes of the old file, each of them once.
    check_filler_size(segments_end - len(elf.view), elf.view)
    result = PieceList(elf.view, _head(model, _header(model, names, table), segments_end))
    for part in body:
        if not part.size or part.type == NOBITS:
            continue
        result.fill(part.offset)
        if part.is_copied and part not in made:
            result.copy(part.old_offset, part.size)
        else:
            result.put(made.get(part, part.content))
            result.fill(part.offset + part.size)
    result.fill(table)
    result.put([_rows(model, names, tables[names])])
    return join_views(result.finished())


def _prune(model: ElfModel) -> None:
    """Remove tables that llvm-objcopy removes as needless, and add the one that it adds if it is missing."""
    symbols, table = model.symbols, model.symbol_table
    if table is not None and symbols is not None and not model.is_relocatable and len(symbols.order) == 1:
        strings = table.linked if table.linked is not model.names else None
        model.remove(lambda part: part is table or part is strings)
        symbols, table = model.symbols, model.symbol_table
    if model.symbol_table is not None and symbols is not None and not symbols.has_changed:
        for part in model.parts:
            if part.links_symbols:
                part.linked = model.symbol_table
    if any(part.has_symbol for part in model.parts[FIRST_RESERVED - 1 :]):
        if model.symbol_table is not None and model.indices is None:
            row = (0, SYMTAB_SHNDX, 0, 0, sections.NEW_SECTION_POSITION, 0, 0, 0, _INDEX, _INDEX)
            part = MutableElfSection(row, b".symtab_shndx", sections.INDICES, 0)
            part.linked = model.symbol_table
            model.parts.append(part)
            model.indices = part
    elif model.indices is not None:
        indices = model.indices
        model.remove(lambda part: part is indices)


def _size_tables(model: ElfModel, names: MutableElfSection) -> dict[MutableElfSection, MergedStringTable]:
    """Set the sizes of all sections that are written again, and return the string tables."""
    elf, symbols = model.elf, model.symbols
    wanted: dict[MutableElfSection, list[bytes]] = {part: [] for part in model.parts if part.kind == sections.STRINGS}
    wanted[names] += [part.name for part in model.parts]
    if model.symbol_table is not None and symbols is not None:
        if model.symbol_table.linked is not None:
            wanted[model.symbol_table.linked] += symbols.used_names()
        if model.indices is not None:
            model.indices.size = len(symbols.order) * _INDEX
    tables = {part: merge_strings([strings], 1) for part, strings in wanted.items()}
    for part, table in tables.items():
        part.size = 1 + len(table.stored)
    new = symbols.renumbering() if symbols is not None else None
    if new is not None:
        new[0] = 0  # relocations against no symbol stay so
    for part in model.parts:
        if part.kind == sections.SYMBOLS and symbols is not None:
            part.size = len(symbols.order) * elf.layouts.symbol.size
            part.entry_size, part.align = elf.layouts.symbol.size, elf.layouts.word
        elif part.kind == sections.GROUP:
            part.size = _INDEX * (1 + len(part.members))
        elif part.kind == sections.RELOCATIONS:
            _size_relocations(model, part, new)
    return tables


def _size_relocations(model: ElfModel, part: MutableElfSection, new: Sequence[int] | None) -> None:
    elf = model.elf
    if part.type == CREL:
        entries = relocations.read_crel_entries(elf, part)
        if new is not None:
            entries = [(offset, new[symbol], kind, addend) for offset, symbol, kind, addend in entries]
        part.is_copied, part.content = False, (relocations.encode_crel(entries, elf.layouts.bits),)
        part.size = total_size(part.content)
        return
    part.align = elf.layouts.word
    if new is not None and part.size:
        part.is_copied, part.content = False, (relocations.renumber_relocations(elf, part, new),)


def _lay_out(model: ElfModel, end: int) -> tuple[list[MutableElfSection], int]:
    """Assign a new number and position to every section, after the end of the segments.

    Return those outside of segments in the order of their positions, and the position after the last.
    """
    outside = []
    for index, part in enumerate(model.parts, 1):
        part.index = index
        if part.segment is not None:
            part.offset = part.segment.offset + part.old_offset - part.segment.old_offset
        else:
            outside.append(part)
    outside.sort(key=lambda part: part.old_offset)
    for part in outside:
        part.offset = end = align_up(end, part.align)
        if part.type != NOBITS:
            end += part.size
    return outside, end


def _finish_headers(model: ElfModel) -> None:
    """Set section and symbol numbers in headers, where llvm-objcopy updates them."""
    symbols = model.symbols
    new = symbols.renumbering() if symbols is not None else None
    for part in model.parts:
        if part.kind not in (sections.STRINGS, sections.COMPRESSED, sections.ADDED):
            part.link = part.linked.index if part.linked is not None else 0
        if part.target is not None:
            part.info = part.target.index
        if part.kind == sections.SYMBOLS and symbols is not None:
            part.info = symbols.last_local + 1
        elif part.kind == sections.GROUP:
            number = part.signature
            part.info = 0 if number < 0 else number if new is None else new[number]
            if number >= 0 and symbols is not None and symbols.is_local[number]:
                part.group_word &= ~_COMDAT
            pack = model.elf.layouts.index.pack
            words = (part.group_word, *(member.index for member in part.members))
            part.is_copied, part.content = False, (b"".join(map(pack, words)),)


#: Flag of a COMDAT group: linkers keep one of several with the same symbol.
_COMDAT = 1


def _head(model: ElfModel, header: bytes, end: int) -> list[Piece]:
    """Return everything up to the end of the segments."""
    segments, elf = model.segments, model.elf
    if not segments.listed:
        return [header[:end], *zero_pieces(end - len(header))]

    layers = [
        Layer(each.offset, each.file_size, elf.view.slice(each.old_offset, each.file_size)) for each in segments.listed
    ]
    for part in model.removed:
        if part.segment is not None and part.type != NOBITS:
            layers.append(Layer(part.old_offset - part.segment.old_offset + part.segment.offset, part.size, None))
    layout = elf.layouts.program
    fields = [field.name for field in layout.fields]
    layers.append(Layer(0, len(header), header))
    for segment in segments.listed:
        row = {**segment.row, "offset": segment.offset}
        packed = layout.pack(*(row[name] for name in fields))
        layers.append(Layer(segments.table.offset + segment.index * layout.size, layout.size, packed))
    return flatten(layers, end)


def _header(model: ElfModel, names: MutableElfSection, table: int) -> bytes:
    elf = model.elf
    header, count = elf.header, len(model.parts) + 1
    segments = model.segments.listed
    changed = header.replace(
        ident=header.ident[:6] + b"\1" + header.ident[7:9] + bytes(7),
        program_offset=model.segments.table.offset if segments else 0,
        section_offset=table,
        header_size=elf.layouts.header.size,
        program_entry_size=elf.layouts.program.size if segments else 0,
        program_count=len(segments),
        section_entry_size=elf.layouts.section.size,
        section_count=count if count < FIRST_RESERVED else 0,
        names_index=names.index if names.index < FIRST_RESERVED else ESCAPED,
    )
    return elf.layouts.header.pack(*(getattr(changed, field.name) for field in elf.layouts.header.fields))


def _rows(model: ElfModel, names: MutableElfSection, table: MergedStringTable) -> bytes:
    """Return the section table."""
    count = len(model.parts) + 1
    size = count if count >= FIRST_RESERVED else 0
    link = names.index if names.index >= FIRST_RESERVED else 0
    # QUIRK(llvm-objcopy): a section that is in a segment only by its address may be before it in the file.
    largest = model.elf.layouts.largest
    rows = [_row(model, (0, 0, 0, 0, 0, size, link, 0, 0, 0), None)]
    for part in model.parts:
        values = (
            table.offsets[part.name] if part.name else 0,
            part.type,
            part.flags,
            part.address,
            part.offset & largest,
            part.size,
            part.link,
            part.info,
            part.align,
            part.entry_size & _ENTRY_SIZE,
        )
        rows.append(_row(model, values, part))
    return b"".join(rows)


def _row(model: ElfModel, values: Sequence[int], part: MutableElfSection | None) -> bytes:
    try:
        return model.elf.layouts.section.pack(*values)
    except struct.error as error:
        title = f"'{part.title}'" if part is not None else "0"
        raise HostError(
            f"the new header of section {title} has a number that its fields cannot hold ({error})",
            hint="use the object before it was linked or edited",
            chain=model.elf.view.chain,
        ) from None
