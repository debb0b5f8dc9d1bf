"""What in an ELF file refers to a section: symbols, relocations, groups and links.

An edit that moves or removes bytes must know everybody who points at them. A symbol's value alone does not prove that
only the start of a section is used: ``.long section+4`` reaches its inside through the section symbol and an addend,
which lies in the relocation (RELA) or in the bytes to be changed (REL).
"""

from __future__ import annotations

from fatpack.binary.elf import constants
from fatpack.binary.elf.layout import SH_LINK, SH_TYPE
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from fatpack.binary.elf.editor.editing_editable import EditableFile
    from fatpack.binary.elf.file import ElfSection

#: Relocation sections in encodings that are not read here. Objects get CREL with ``-Wa,--crel`` (LLVM 20 and newer).
PACKED_RELOCATIONS = (constants.RELR, constants.CREL, constants.ANDROID_REL, constants.ANDROID_RELA)

#: machine → relocation type → (bytes that hold the addend, mask of its bits). From the processor supplements of i386,
#: Arm (aaelf32) and MIPS (o32); HI16 and LO16 of MIPS are zero together when both immediates are.
REL_ADDENDS: dict[int, dict[int, tuple[int, int]]] = {
    constants.MACHINE_386: {
        1: (4, 0xFFFFFFFF),
        2: (4, 0xFFFFFFFF),
        9: (4, 0xFFFFFFFF),
        20: (2, 0xFFFF),
        21: (2, 0xFFFF),
        22: (1, 0xFF),
        23: (1, 0xFF),
    },
    constants.MACHINE_ARM: {
        2: (4, 0xFFFFFFFF),
        3: (4, 0xFFFFFFFF),
        5: (2, 0xFFFF),
        8: (1, 0xFF),
        24: (4, 0xFFFFFFFF),
        38: (4, 0xFFFFFFFF),
        42: (4, 0x7FFFFFFF),
    },
    constants.MACHINE_MIPS: {
        2: (4, 0xFFFFFFFF),
        3: (4, 0xFFFFFFFF),
        5: (4, 0xFFFF),
        6: (4, 0xFFFF),
        12: (4, 0xFFFFFFFF),
        18: (8, 0xFFFFFFFFFFFFFFFF),
    },
}


#: Mapping symbols tell disassemblers where code and data begin; clang puts a ``$d`` into ``.llvm.offloading`` of these
#: processors (aaelf32 and aaelf64, "Mapping symbols"; riscv-elf-psabi, "Mapping Symbol").
_MAPPING = {
    constants.MACHINE_ARM: ("$a", "$d", "$t"),
    constants.MACHINE_AARCH64: ("$d", "$x"),
    constants.MACHINE_RISCV: ("$d", "$x"),
}


class DefinedElfSymbol(Record):
    """A symbol that lies in one of the sections asked for.

    ``table`` is the index of its symbol table, ``number`` its place there, ``at`` the position of its record in the
    file, ``values`` the record as stored; ``section`` is the index of its section, extended numbering resolved, and
    ``wide_at`` the position of the word that holds it if the record cannot. ``is_marker`` is true for symbols that
    nobody means: the section symbol that ``ld -r`` makes for every section, and mapping symbols.
    """

    table: int
    number: int
    at: int
    section: int
    values: tuple[int, ...]
    name: str
    value: int
    size: int
    wide_at: int | None
    is_marker: bool

    @property
    def title(self) -> str:
        """The symbol as errors call it."""
        return f"symbol {self.name}" if self.name else f"symbol number {self.number}"


def symbols_in_sections(elf: EditableFile, indices: Collection[int]) -> list[DefinedElfSymbol]:
    """Return the symbols of all symbol tables that are defined in the sections with these indices."""
    found: list[DefinedElfSymbol] = []
    wide = {row[SH_LINK]: index for index, row in enumerate(elf.section_rows) if row[SH_TYPE] == constants.SYMTAB_SHNDX}
    for index, row in enumerate(elf.section_rows):
        if row[SH_TYPE] in (constants.SYMTAB, constants.DYNSYM):
            words = elf.section(wide[index]) if index in wide else None
            found += _symbols_of(elf, elf.section(index), words, indices)
    return found


def _symbols_of(
    elf: EditableFile, table: ElfSection, words: ElfSection | None, indices: Collection[int]
) -> Iterator[DefinedElfSymbol]:
    """Yield the symbols of one table; ``words`` is the section with its 32-bit section indices, if it has one."""
    layout = elf.layouts.symbol
    index_at, value_at, size_at = (layout.position(name) for name in ("section_index", "value", "size"))
    info_at, name_at = layout.position("info"), layout.position("name_offset")
    count = _entry_count(elf, table, layout.size)
    if words is not None and words.size < elf.layouts.index.size * count:
        raise elf.bad(
            f"{elf.title(words)} has fewer indices than the table has symbols",
            elf.section_field(words.index, "size"),
            "size",
            f"at least {elf.layouts.index.size * count}",
            str(words.size),
        )
    strings = None
    for number, row in enumerate(elf.records(layout, table.offset, count)):
        section, wide_at = row[index_at], None
        if section >= constants.FIRST_RESERVED:
            if section != constants.ESCAPED or words is None:
                continue  # absolute, common and the like
            wide_at = words.offset + elf.layouts.index.size * number
            (section,) = elf.layouts.index.read(elf.view, wide_at)
        if section not in indices:
            continue
        if strings is None and 0 < table.link < elf.section_count:
            strings = elf.contents(elf.section(table.link))
        name = elf.string(strings, row[name_at]) if strings is not None else ""
        yield DefinedElfSymbol(
            table=table.index,
            number=number,
            at=table.offset + number * layout.size,
            section=section,
            values=row,
            name=name,
            value=row[value_at],
            size=row[size_at],
            wide_at=wide_at,
            is_marker=row[info_at] & 0xF == constants.SECTION_SYMBOL
            or (row[info_at] == 0 and name.partition(".")[0] in _MAPPING.get(elf.header.machine, ())),
        )


def _entry_count(elf: EditableFile, table: ElfSection, size: int) -> int:
    """Return the number of records in a table whose records have a fixed size. Raises BadValue if they do not."""
    if table.entry_size != size or table.size % size:
        raise elf.bad(
            f"{elf.title(table)} is no table of records of {size} bytes",
            elf.section_field(table.index, "entry_size"),
            "entry_size",
            str(size),
            f"{table.entry_size}, {table.size} bytes",
        )
    return table.size // size


class SymbolUse(Record):
    """A relocation through one of the symbols asked for: ``addend`` is None where that is not known."""

    relocations: ElfSection
    number: int
    type: int
    symbol: DefinedElfSymbol
    addend: int | None


def relocations_through(elf: EditableFile, symbols: Sequence[DefinedElfSymbol]) -> Iterator[SymbolUse]:
    """Yield the relocations through symbols, from all REL and RELA sections of their tables."""
    by_table: dict[int, dict[int, DefinedElfSymbol]] = {}
    for symbol in symbols:
        by_table.setdefault(symbol.table, {})[symbol.number] = symbol
    for index, section_row in enumerate(elf.section_rows):
        if section_row[SH_TYPE] not in (constants.REL, constants.RELA) or section_row[SH_LINK] not in by_table:
            continue
        numbers = by_table[section_row[SH_LINK]]
        section = elf.section(index)
        has_addend = section.type == constants.RELA
        layout = elf.layouts.rela if has_addend else elf.layouts.rel
        for number, row in enumerate(elf.records(layout, section.offset, _entry_count(elf, section, layout.size))):
            symbol_number, type = _split(elf, row[1])
            if symbol_number in numbers:
                addend = row[2] if has_addend else _stored_addend(elf, section, row[0], type)
                yield SymbolUse(section, number, type, numbers[symbol_number], addend)


def _split(elf: EditableFile, info: int) -> tuple[int, int]:
    """Return (symbol number, relocation type) of a relocation's info field."""
    layouts = elf.layouts
    if layouts.bits == 64 and layouts.order == "little" and elf.header.machine == constants.MACHINE_MIPS:
        # QUIRK(MIPS64, little-endian): the field is a 32-bit symbol number and four bytes, not one number.
        return info & 0xFFFFFFFF, info >> 32
    return info >> layouts.symbol_shift, info & layouts.type_mask


def _stored_addend(elf: EditableFile, relocations: ElfSection, offset: int, type: int) -> int | None:
    """Return the addend that lies in the bytes a REL relocation changes; None if this processor's is not known."""
    known = REL_ADDENDS.get(elf.header.machine, {}).get(type)
    if known is None or not 0 < relocations.info < elf.section_count:
        return None
    size, mask = known
    target = elf.section(relocations.info)
    if elf.is_linked or offset + size > target.stored_size:
        return None
    stored = elf.view.read(target.offset + offset, size)
    return int.from_bytes(stored, "little" if elf.layouts.order == "little" else "big") & mask


def find_group_member(elf: EditableFile, group: ElfSection, indices: Collection[int]) -> int | None:
    """Return a member of a group that is among the sections asked for, or None."""
    # The first word holds flags, the others are section indices (gABI, "Section Groups").
    words = elf.records(elf.layouts.index, group.offset + 4, max(group.size // 4 - 1, 0))
    return next((member for (member,) in words if member in indices), None)
