"""ELF files for edits: checks, extents, patches, and all references to sections: symbols, relocations, groups, links.

An edit that moves or removes bytes must know all references to them. A symbol's value alone does not prove that only
the start of a section is used: ``.long section+4`` refers to its inside through the section symbol and an addend, which
is in the relocation (RELA) or in the bytes to be changed (REL).
"""

from __future__ import annotations

from fatpack.binary.elf import layout
from fatpack.binary.elf.file import ElfFile
from fatpack.binary.elf.layout import (
    ANDROID_REL,
    ANDROID_RELA,
    CREL,
    DYNSYM,
    ESCAPED,
    FIRST_RESERVED,
    MACHINE_386,
    MACHINE_AARCH64,
    MACHINE_ARM,
    MACHINE_MIPS,
    MACHINE_RISCV,
    REL,
    RELA,
    RELR,
    SECTION_SYMBOL,
    SH_LINK,
    SH_TYPE,
    SYMTAB,
    SYMTAB_SHNDX,
)
from fatpack.binary.elf.relocations import section_relocations
from fatpack.binary.elf.table import check_inside
from fatpack.errors import HostError
from fatpack.io.source import View
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from fatpack.binary.elf.file import ElfSection
    from fatpack.io.source import Piece

    SectionRow: TypeAlias = tuple[int, ...]
    """A section header as a tuple, in the order of its layout."""


#: Relocation sections in unsupported encodings. Objects get CREL with ``-Wa,--crel`` (LLVM 20 and newer).
PACKED_RELOCATIONS = (RELR, CREL, ANDROID_REL, ANDROID_RELA)

#: machine → relocation type → (bytes with the addend, mask of its bits). From the processor supplements of i386, Arm
#: (aaelf32) and MIPS (o32); HI16 and LO16 of MIPS are zero together if both immediates are.
REL_ADDENDS: dict[int, dict[int, tuple[int, int]]] = {
    MACHINE_386: {
        1: (4, 0xFFFFFFFF),
        2: (4, 0xFFFFFFFF),
        9: (4, 0xFFFFFFFF),
        20: (2, 0xFFFF),
        21: (2, 0xFFFF),
        22: (1, 0xFF),
        23: (1, 0xFF),
    },
    MACHINE_ARM: {
        2: (4, 0xFFFFFFFF),
        3: (4, 0xFFFFFFFF),
        5: (2, 0xFFFF),
        8: (1, 0xFF),
        24: (4, 0xFFFFFFFF),
        38: (4, 0xFFFFFFFF),
        42: (4, 0x7FFFFFFF),
    },
    MACHINE_MIPS: {
        2: (4, 0xFFFFFFFF),
        3: (4, 0xFFFFFFFF),
        5: (4, 0xFFFF),
        6: (4, 0xFFFF),
        12: (4, 0xFFFFFFFF),
        18: (8, 0xFFFFFFFFFFFFFFFF),
    },
}


#: Mapping symbols tell disassemblers where code and data begin; clang puts a ``$d`` into ``.llvm.offloading`` for these
#: processors (aaelf32 and aaelf64, "Mapping symbols"; riscv-elf-psabi, "Mapping Symbol").
_MAPPING = {
    MACHINE_ARM: ("$a", "$d", "$t"),
    MACHINE_AARCH64: ("$d", "$x"),
    MACHINE_RISCV: ("$d", "$x"),
}


class DefinedElfSymbol(Record):
    """A symbol in one of the requested sections.

    ``table`` is the index of its symbol table, ``number`` its index there, ``at`` the position of its record in the
    file, ``values`` the record as stored; ``section`` is the index of its section, extended numbering resolved, and
    ``wide_at`` the position of the word with it if the record has no space for it. ``is_marker``: the symbol is not
    for programs: a section symbol, which ``ld -r`` makes for every section, or a mapping symbol.
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
        """The words for the symbol in errors."""
        return f"symbol {self.name}" if self.name else f"symbol number {self.number}"


def symbols_in_sections(elf: EditableFile, indices: Collection[int]) -> list[DefinedElfSymbol]:
    """Return the symbols of all symbol tables that are defined in the sections with these indices."""
    found: list[DefinedElfSymbol] = []
    wide = {row[SH_LINK]: index for index, row in enumerate(elf.section_rows) if row[SH_TYPE] == SYMTAB_SHNDX}
    for index, row in enumerate(elf.section_rows):
        if row[SH_TYPE] in (SYMTAB, DYNSYM):
            words = elf.section(wide[index]) if index in wide else None
            found += _symbols_of(elf, elf.section(index), words, indices)
    return found


def _symbols_of(
    elf: EditableFile, table: ElfSection, words: ElfSection | None, indices: Collection[int]
) -> Iterator[DefinedElfSymbol]:
    """Yield the symbols of one table; ``words`` is the section with its 32-bit section indices, if there is one."""
    layout = elf.layouts.symbol
    index_at, value_at, size_at = (layout.position(name) for name in ("section_index", "value", "size"))
    info_at, name_at = layout.position("info"), layout.position("name_offset")
    count = _entry_count(elf, table, layout.size)
    if words is not None and words.size < elf.layouts.index.size * count:
        raise elf.error(
            f"{elf.title(words)} has fewer indices than the table has symbols",
            elf.section_field(words.index, "size"),
            "size",
            f"at least {elf.layouts.index.size * count}",
            str(words.size),
        )
    strings = None
    for number, row in enumerate(elf.records(layout, table.offset, count)):
        section, wide_at = row[index_at], None
        if section >= FIRST_RESERVED:
            if section != ESCAPED or words is None:
                continue  # absolute and common symbols
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
            is_marker=row[info_at] & 0xF == SECTION_SYMBOL
            or (row[info_at] == 0 and name.partition(".")[0] in _MAPPING.get(elf.header.machine, ())),
        )


def _entry_count(elf: EditableFile, table: ElfSection, size: int) -> int:
    """Return the number of records in a table. Raises BadValue if its size or entry size is wrong."""
    if table.entry_size != size or table.size % size:
        raise elf.error(
            f"{elf.title(table)} is no table of records of {size} bytes",
            elf.section_field(table.index, "entry_size"),
            "entry_size",
            str(size),
            f"{table.entry_size}, {table.size} bytes",
        )
    return table.size // size


class SymbolUse(Record):
    """A relocation through one of the requested symbols: ``addend`` is None if it is unknown."""

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
        if section_row[SH_TYPE] not in (REL, RELA) or section_row[SH_LINK] not in by_table:
            continue
        numbers = by_table[section_row[SH_LINK]]
        section = elf.section(index)
        layout = elf.layouts.rela if section.type == RELA else elf.layouts.rel
        count = _entry_count(elf, section, layout.size)
        check_inside(elf.view, f"{layout.name} table", section.offset, count * layout.size)
        first = 0
        for block in section_relocations(elf, section):
            for number, row in enumerate(block.rows(), first):
                place, type, target, addend = row
                if target in numbers:
                    addend = _stored_addend(elf, section, place, type) if addend is None else addend
                    yield SymbolUse(section, number, type, numbers[target], addend)
            first += len(block.places)


def _stored_addend(elf: EditableFile, relocations: ElfSection, offset: int, type: int) -> int | None:
    """Return the addend in the bytes that a REL relocation changes; None if it is unknown for this processor."""
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
    """Return a member of a group that is one of the sections, or None."""
    # The first word contains flags, the others are section indices (gABI, "Section Groups").
    words = elf.records(elf.layouts.index, group.offset + 4, max(group.size // 4 - 1, 0))
    return next((member for (member,) in words if member in indices), None)


# Extents and patches. A host is never written from a parsed model: the old bytes are copied, new bytes are added, and
# the few header fields that must change are patched. Tools that write ELF files from their own model break some of them
# (relocations in the wrong byte order, lost section links, moved segments).

#: Up to this many zero bytes after the last part of a file are padding; more is data of another tool.
TRAILING_PADDING = 7

_ZEROS = bytes(64 << 10)


class EditableFile(ElfFile):
    """An ELF file whose tables and sections are all inside the file, so that it can be edited.

    ``section_rows`` are all section headers. ``used_end`` is the position after everything except the section table,
    ``end`` after that too; ``has_trailing``: other data follows. Raises HostError with an alternative for a file that
    must not be edited, and FormatError for a damaged one.
    """

    def __init__(self, view: View, *, keep_trailing: bool = False) -> None:
        super().__init__(view)
        self._section_rows: list[SectionRow] | None = None
        if self.header.type not in (layout.RELOCATABLE, layout.EXECUTABLE, layout.SHARED):
            raise HostError(
                f"an ELF file of type {layout.named_number(layout.FILE_TYPES, self.header.type)} is not edited",
                hint="objects, executables and shared objects are",
                chain=view.chain,
            )
        if not self.section_count:
            raise HostError(
                "the file has no section table to add to or take from",
                hint="edit the object or the unstripped program it was made from",
                chain=view.chain,
            )
        if self.header.section_offset < self.layouts.header.size:
            at = self.layouts.header.field_offset("section_offset")
            raise self.error("the section table lies in the header", at, "section_offset")
        self.names = self.names_section()
        _, self._stored_ends = self.stored_ranges()
        self._check_inside()
        self.used_end = self._parts_end(max(self._stored_ends))
        self.end = max(self.used_end, self.table_end)
        trailing = len(view) - self.end
        self.has_trailing = trailing > TRAILING_PADDING or not view.is_zero(self.end)
        if self.has_trailing and not keep_trailing:
            raise HostError(
                f"{trailing} bytes follow the ELF image at {view.offset(self.end):#x}: a signature, a file system or "
                "something else that is looked for there",
                hint="embed before they are appended; fatpack.binary.elf.embed(keep_trailing=True) keeps them",
                chain=view.chain,
            )

    @property
    def section_rows(self) -> list[SectionRow]:
        """All section headers, read on first access, because adding a section needs only two of them."""
        if self._section_rows is None:
            self._section_rows = list(self.rows())
        return self._section_rows

    def row(self, index: int) -> SectionRow:
        """Return one section header. The caller has checked the index."""
        table = self.layouts.section
        return table.read(self.view, self.header.section_offset + index * table.size)

    def _check_inside(self) -> None:
        """Raise BadValue for a segment or section that is not inside the file."""
        for start, stop in self.segment_ranges():
            if stop > len(self.view):
                at = self.header.program_offset
                raise self.error("a segment does not lie inside the file", at, "program header", found=f"{start:#x}")
        if max(self._stored_ends) > len(self.view):
            for index, end in enumerate(self._stored_ends):
                if end > len(self.view):
                    self.contents(self.section(index))  # raises the error with its name

    def _parts_end(self, sections_end: int) -> int:
        """Return the end of the header, program headers, segments and sections."""
        segments_end = max((stop for _, stop in self.segment_ranges()), default=0)
        return max(sections_end, segments_end, self.program_table()[1], self.layouts.header.size)

    def used_end_without(self, index: int) -> int:
        """Return the end of everything except one section and the section table."""
        ends = self._stored_ends
        return self._parts_end(max(max(ends[:index], default=0), max(ends[index + 1 :], default=0)))

    def start_value(self, section: ElfSection) -> int:
        """Return the value of a symbol at the start of a section: an address in linked files, else an offset."""
        return section.address if self.is_linked else 0

    def header_with(self, table: int, count: int) -> bytes:
        """Return the ELF header for a section table at another offset and of another length."""
        stored = count if count < layout.FIRST_RESERVED else 0
        changed = self.header.replace(section_offset=table, section_count=stored)
        return self.layouts.header.pack(*(getattr(changed, field.name) for field in self.layouts.header.fields))

    def row_with(self, row: SectionRow, **changes: int) -> SectionRow:
        """Return a section header with some fields changed."""
        values = list(row)
        for name, value in changes.items():
            values[self.layouts.section.position(name)] = value
        return tuple(values)

    def count_row(self, count: int) -> SectionRow:
        """Return section 0 for a table of ``count`` sections; it contains counts that do not fit into the header."""
        size = self.layouts.section.position("size")
        first = self.row(0)
        if count >= layout.FIRST_RESERVED:
            return self.row_with(first, size=count)
        return self.row_with(first, size=0) if first[size] and not self.header.section_count else first

    def check_size(self, end: int) -> None:
        """Raise HostError if the edited file would be too large for its own fields."""
        if end > self.layouts.largest:
            raise HostError(
                f"the result would have {end} bytes, more than a {self.layouts.bits}-bit ELF file can describe",
                hint="use a 64-bit host, or put less in it",
                chain=self.view.chain,
            )


def align_up(position: int, align: int) -> int:
    """Return the first multiple of ``align`` (0 and 1: any number) at or after a position."""
    return position if align <= 1 else -(-position // align) * align


def zero_pieces(count: int) -> Iterator[memoryview]:
    """Yield ``count`` zero bytes in bounded pieces, which share their bytes."""
    while count > 0:
        taken = min(count, len(_ZEROS))
        yield memoryview(_ZEROS)[:taken]
        count -= taken


class Patches:
    """Bytes that replace those of the input: position → bytes, without overlaps."""

    def __init__(self, patches: Mapping[int, bytes]) -> None:
        self._places = sorted(patches)
        self._patches = patches

    def apply(self, view: View, start: int, end: int) -> Iterator[Piece]:
        """Yield the bytes of a range: views of unchanged bytes, and the patches that start inside the range."""
        from bisect import bisect_left

        at = start
        for place in self._places[bisect_left(self._places, start) : bisect_left(self._places, end)]:
            if place > at:
                yield view.slice(at, place - at)
            yield self._patches[place]
            at = place + len(self._patches[place])
        if end > at:
            yield view.slice(at, end - at)


def join_views(pieces: Iterable[Piece]) -> list[Piece]:
    """Return the same pieces with adjacent views of one source merged, so that each is one copy."""
    result: list[Piece] = []
    for piece in pieces:
        last = result[-1] if result else None
        if not len(piece):
            continue
        if (
            isinstance(piece, View)
            and isinstance(last, View)
            and last.source is piece.source
            and last.end == piece.start
        ):
            result[-1] = View(last.source, last.start, piece.end, last.chain)
        else:
            result.append(piece)
    return result


def total_size(pieces: Iterable[Piece]) -> int:
    """Return the number of bytes in pieces, without reading them."""
    return sum(len(piece) for piece in pieces)
