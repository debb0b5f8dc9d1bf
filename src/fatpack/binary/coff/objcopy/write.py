"""Writing an object that was taken apart: every section behind the one before, then symbols and strings."""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.binary.coff.coff_layout import BIG_HEADER, BIG_SYMBOL, HEADER, MAX_SECTIONS, RELOCATION, SECTION, SYMBOL
from fatpack.binary.coff.layout import OVERFLOWED_RELOCATIONS, name_reference
from fatpack.binary.coff.objcopy import relocations
from fatpack.binary.coff.objcopy import symbols as tables
from fatpack.binary.coff.objcopy.sections import ESCAPED_COUNT
from fatpack.binary.coff.objcopy.symbol_sections import renumber_symbol_sections
from fatpack.binary.coff.objcopy.writer import align_up
from fatpack.binary.merged_strings import merge_strings
from fatpack.binary.new_file import PieceList
from fatpack.errors import HostError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from fatpack.binary.coff.objcopy.model import CoffModel
    from fatpack.binary.coff.objcopy.sections import MutableCoffSection
    from fatpack.io.source import Piece

_SHORT_NAME = 8
_CODE = 0x20
_LARGEST = 0xFFFFFFFF


def write_model(model: CoffModel) -> list[Piece]:
    """Return the new object; it is a big one if, and only if, it has too many sections for a classic one."""
    coff = model.coff
    is_big = len(model.parts) > MAX_SECTIONS
    width = (BIG_SYMBOL if is_big else SYMBOL).size
    has_changed = tables.renumber_symbols(model.symbols, width)
    has_gone = len(model.by_old_index) > 0 and any(symbol and symbol.index < 0 for symbol in model.by_old_index)
    if has_gone:
        for part in model.parts:
            relocations.check_kept_relocations(coff, part, model.by_old_index)
    tables.finish_auxiliary_records(model.symbols, model.by_old_index, coff.view.chain)
    if model.image is None:
        renumber_symbol_sections(model)
    names = merge_strings(
        (
            (part.name for part in model.parts if len(part.name) > _SHORT_NAME),
            (symbol.name for symbol in model.symbols if len(symbol.name) > _SHORT_NAME),
        ),
        4,
    )
    start, align = (BIG_HEADER if is_big else HEADER).size + len(model.parts) * SECTION.size, 1
    if model.image is not None:
        start, align = model.image.headers_size(len(model.parts)), model.image.file_align
    end = start
    rows: list[bytes] = []
    for part in model.parts:
        if part.relocation_count and not part.size:
            raise HostError(
                f"section '{part.title}' is empty and has relocations, which llvm-objcopy writes over the header",
                hint="compile the object again",
                chain=coff.view.chain,
            )
        row, end = _row(part, names.offsets, end)
        end = align_up(end, align)
        rows.append(row)
    if end + sum(symbol.record_count(width) for symbol in model.symbols) * width + 4 + len(names.stored) > _LARGEST:
        raise HostError("the object would outgrow 32-bit offsets", chain=coff.view.chain)
    tail = [tables.pack_symbols(model.symbols, names.offsets, is_big=is_big)]
    symbol_count = len(tail[0]) // width
    if names.stored or symbol_count or model.image is None:
        # QUIRK(llvm-objcopy): in images, an empty table of strings does not count its own size.
        size = 4 + len(names.stored) if names.stored or model.image is None else 0
        tail += [size.to_bytes(4, "little"), names.stored]
        first = _header(model, end, symbol_count, is_big=is_big)
    else:
        first = _header(model, 0, 0, is_big=is_big)
    body = PieceList(coff.view, [b"".join((first, *rows))])
    body.fill(start)
    _add_body(model, body, has_changed=has_changed)
    body.fill(end)
    body.put(tail)
    body.fill(align_up(body.at, align))
    return body.finished()


def _row(part: MutableCoffSection, names: Mapping[bytes, int], at: int) -> tuple[bytes, int]:
    """Return a section header for contents at a position, and the position behind contents and relocations."""
    flags, count = part.flags, part.relocation_count
    part.new_offset = at if part.size else 0
    at += part.size
    pointer = at if count else 0
    if count >= ESCAPED_COUNT:
        flags |= OVERFLOWED_RELOCATIONS
        at += RELOCATION.size
    at += count * RELOCATION.size
    name = part.name if len(part.name) <= _SHORT_NAME else name_reference(names[part.name])
    row = SECTION.pack(
        name,
        part.virtual_size,
        part.address,
        part.size,
        part.new_offset & _LARGEST,
        pointer & _LARGEST,
        part.line_offset,
        min(count, ESCAPED_COUNT),
        part.line_count,
        flags,
    )
    return row, at


def _add_body(model: CoffModel, body: PieceList, *, has_changed: bool) -> None:
    """Add contents and relocations of all sections."""
    debug = model.image.debug_directory(model.parts) if model.image is not None else None
    for part in model.parts:
        if part.size:
            body.fill(part.new_offset)
            stored_size = part.stored_size
            if debug is not None and part is debug[0]:
                _, start, records = debug
                body.copy(part.offset, start)
                body.put([records])
                stored_size -= start + len(records)
                body.copy(part.offset + start + len(records), stored_size)
            else:
                body.copy(part.offset, stored_size)
            body.put(part.content)
            # QUIRK(llvm-objcopy): code that is missing becomes breakpoints of x86, uninitialised data real zeros.
            body.fill(part.new_offset + part.size, b"\xcc" if part.flags & _CODE else b"\0")
        if part.relocation_count >= ESCAPED_COUNT:
            body.put([RELOCATION.pack(part.relocation_count + 1, 0, 0)])
        if part.relocation_count and has_changed:
            body.put([relocations.renumber_relocations(model.coff, part, model.by_old_index)])
        else:
            body.copy(part.relocations, part.relocation_count * RELOCATION.size)


def _header(model: CoffModel, symbol_offset: int, symbol_count: int, *, is_big: bool) -> bytes:
    coff = model.coff
    if model.image is not None:
        return model.image.headers(model.parts, symbol_offset, symbol_count)
    layout = BIG_HEADER if coff.is_big else HEADER
    old = layout.named(coff.view, 0)
    count = len(model.parts)
    if is_big:
        return BIG_HEADER.pack(
            magic_numbers.ANONYMOUS_COFF,
            2,
            old["machine"],
            old["time"],
            magic_numbers.BIG_COFF_CLASS,
            0,
            0,
            0,
            0,
            count,
            symbol_offset,
            symbol_count,
        )
    flags = 0 if coff.is_big else old["flags"]
    return HEADER.pack(old["machine"], count, old["time"], symbol_offset, symbol_count, 0, flags)
