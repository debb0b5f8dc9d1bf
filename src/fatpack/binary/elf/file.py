"""ELF hosts: a checked reader of whole files, which the editors use too (see :mod:`fatpack.binary.elf`).

The header is read at once, everything else on request. A table is read in blocks and returned as tuples in field order,
because an object of a large C++ or device library has tens of thousands of sections and a person waits for the answer;
an :class:`ElfSection` is made only for relevant ones. Names are compared in the string table
(``fatpack.binary.elf.device_sections``), and not decoded for all sections.

Extended numbering (gABI, "ELF Header"): with 65280 sections or more the header contains 0, and the count is the size
field of section 0; a string table index that large is the link field of section 0, a large number of program headers
its info field.
"""

from __future__ import annotations

import sys

from fatpack import limits
from fatpack.binary.elf.layout import (
    CLASSES,
    ESCAPED,
    EXECUTABLE,
    MAGIC,
    NOBITS,
    NULL,
    ORDERS,
    SHARED,
    STRTAB,
    elf_layouts,
    section_type_word,
)
from fatpack.binary.elf.table import FORMAT, check_inside, read_table_blocks, read_table_rows, table_limit_error
from fatpack.errors import BadMagic, BadValue, Truncated, format_hex
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from fatpack.io.source import View
    from fatpack.layout import Layout

#: A table of up to this many section headers is read once and kept: that of all but the largest objects.
_FEW = 256

#: LIMIT: bytes of a section name that are shown. Sections of C++ functions contain their mangled names of some thousand
#: characters; a hostile table could make every name as long as the file.
NAME_SIZE = 4096


class ElfHeader(Record):
    """The ELF header as stored; ``fatpack.binary.elf.layout`` documents the fields."""

    ident: bytes
    type: int
    machine: int
    version: int
    entry: int
    program_offset: int
    section_offset: int
    flags: int
    header_size: int
    program_entry_size: int
    program_count: int
    section_entry_size: int
    section_count: int
    names_index: int


class ElfSection(Record):
    """One section header as stored, with its ``index`` in the table."""

    index: int
    name_offset: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry_size: int

    @property
    def stored_size(self) -> int:
        """The number of bytes in the file: none for nobits and null sections."""
        return 0 if self.type in (NOBITS, NULL) else self.size

    @property
    def end(self) -> int:
        """The position after the section's bytes in the file."""
        return self.offset + self.stored_size


class ElfFile:
    """An ELF file of either word size and byte order.

    The constructor reads the header and the first section headers. Positions are relative to the view. Raises BadMagic,
    Truncated, BadValue or LimitExceeded if the header contradicts itself or the size of the view. Without ``sections``,
    the section table is ignored.
    """

    def __init__(self, view: View, *, sections: bool = True) -> None:
        head = view.head(0, 64)
        ident = head[:16]
        if ident[:4] != MAGIC:
            raise BadMagic(
                "this is no ELF file",
                format=FORMAT,
                offset=view.offset(0),
                expected=MAGIC.hex(" "),
                found=ident[:4].hex(" ") or "nothing",
                chain=view.chain,
            )
        if len(ident) < 16:
            raise Truncated(
                needed=16, left=len(ident), format=FORMAT, offset=view.offset(0), field="ident", chain=view.chain
            )
        self.view = view
        if ident[4] not in CLASSES:
            raise self.error("the file is neither 32 nor 64 bits wide", 4, "class", "1 or 2", str(ident[4]))
        if ident[5] not in ORDERS:
            raise self.error("the byte order is neither little nor big", 5, "byte order", "1 or 2", str(ident[5]))
        self.layouts = elf_layouts(CLASSES[ident[4]], ORDERS[ident[5]])
        layout = self.layouts.header
        self.header = ElfHeader(*(layout.read(view, 0) if len(head) < layout.size else layout.struct.unpack_from(head)))
        self._few: list[tuple[int, ...]] | None = None
        self._few_columns: tuple[tuple[int, ...], ...] | None = None
        self._names_table: View | None = None
        self.section_count, self.names_index, self.program_count = (
            self._counts() if sections else (0, 0, self.header.program_count)
        )

    def error(self, problem: str, at: int, field: str, expected: str = "", found: str = "") -> BadValue:
        """Return the error for a wrong field at a position of the view."""
        return BadValue(
            problem,
            format=FORMAT,
            offset=self.view.offset(at),
            field=field,
            expected=expected,
            found=found,
            chain=self.view.chain,
        )

    def _counts(self) -> tuple[int, int, int]:
        """Return the numbers of sections, of the section with names, and of program headers, all unescaped."""
        header, table = self.header, self.layouts.section
        if not header.section_offset:
            if header.section_count:
                at = self.layouts.header.field_offset("section_count")
                raise self.error("sections are counted, but the table has no place", at, "section_count", "0")
            return 0, 0, header.program_count
        if header.section_offset + max(header.section_count, 1) * table.size > len(self.view):
            raise self._past_the_end()
        if header.section_entry_size != table.size:
            at = self.layouts.header.field_offset("section_entry_size")
            found = str(header.section_entry_size)
            raise self.error("wrong size of a section header", at, "section_entry_size", str(table.size), found)
        start, size = header.section_offset, header.section_count * table.size
        if 0 < header.section_count <= _FEW and start + size <= len(self.view):
            self._few = list(table.struct.iter_unpack(self.view.read(start, size)))
        first = self._few[0] if self._few else table.read(self.view, start)
        count = header.section_count or first[table.position("size")]
        check_inside(self.view, "section table", header.section_offset, count * table.size)
        if count > limits.SECTIONS:
            at = header.section_offset
            raise table_limit_error(self.view, "section_count", at, f"{count} sections", "SECTIONS", limits.SECTIONS)
        names = first[table.position("link")] if header.names_index == ESCAPED else header.names_index
        # Without sections there is no section 0 for the count, so 65535 is the real number.
        is_escaped = header.program_count == ESCAPED and count
        return count, names, first[table.position("info")] if is_escaped else header.program_count

    def _past_the_end(self) -> Truncated:
        """Return the error for an incomplete section table: the file is truncated, or the header is wrong.

        Linkers and compilers write the table last, so only segments can show that the file is truncated.
        """
        header, view, field_offset = self.header, self.view, self.layouts.header.field_offset
        wrong = f"e_shoff at {format_hex(view.offset(field_offset('section_offset')))}"
        if header.section_offset < len(view):
            wrong += f" or e_shnum at {format_hex(view.offset(field_offset('section_count')))}"
        return Truncated(
            needed=max(header.section_count, 1) * self.layouts.section.size,
            left=len(view) - header.section_offset,
            format=FORMAT,
            offset=view.offset(header.section_offset),
            field="section table",
            hint="" if self._lacks_segments() else f"the file is cut short, or {wrong} is wrong",
            chain=view.chain,
        )

    def _lacks_segments(self) -> bool:
        """Return whether segments, or their table, extend past the end of the file."""
        header, table = self.header, self.layouts.program
        if header.program_entry_size != table.size:
            return False
        end = header.program_offset + header.program_count * table.size
        if header.program_count and end > len(self.view):
            return True
        offset, size = table.position("offset"), table.position("file_size")
        found = read_table_rows(self.view, header.program_offset, header.program_count, table.struct)
        return any(row[offset] + row[size] > len(self.view) for row in found if row[size])

    @property
    def table_end(self) -> int:
        """The position after the section table."""
        return self.header.section_offset + self.section_count * self.layouts.section.size

    @property
    def is_linked(self) -> bool:
        """True for a linked program or library, whose sections have addresses and cannot move."""
        return self.header.type in (EXECUTABLE, SHARED)

    def records(self, layout: Layout, at: int, count: int) -> Iterator[tuple[Any, ...]]:
        """Yield the field values of ``count`` consecutive records from a position on. Raises Truncated."""
        check_inside(self.view, f"{layout.name} table", at, count * layout.size)
        return read_table_rows(self.view, at, count, layout.struct)

    def rows(self) -> Iterator[tuple[int, ...]]:
        """Yield all section headers as tuples in the order of the layout, which is fast for large tables."""
        if self._few is None:
            rows = self.records(self.layouts.section, self.header.section_offset, self.section_count)
            if self.section_count > _FEW:
                return rows
            self._few = list(rows)
        return iter(self._few)

    def columns(self, *fields: str) -> Sequence[Sequence[int]]:
        """Return some fields of all section headers as one sequence per field, which is the fastest way.

        70,000 headers take 2 ms per field; tuples of all fields take 25 ms.
        """
        table = self.layouts.section
        if 0 < self.section_count <= _FEW:
            if self._few_columns is None:
                self._few_columns = tuple(zip(*self.rows(), strict=True))
            return [self._few_columns[table.position(field)] for field in fields]
        types = {field.name: field.type for field in table.fields}
        columns: list[list[int]] = [[] for _ in fields]
        for block in self.table_blocks():
            words = {"u32": self._words(block, "I")}
            # 32-bit headers of 40 bytes do not consist of whole 64-bit words.
            words |= {"u64": self._words(block, "Q")} if self.layouts.bits == 64 else {}
            for column, field in zip(columns, fields, strict=True):
                column_words = words[types[field]]
                start, step = table.field_offset(field), table.size
                column.extend(column_words[start // column_words.itemsize :: step // column_words.itemsize].tolist())
        return columns

    def _words(self, block: bytes, code: str) -> memoryview:
        """Return a block as words in the byte order of the file."""
        if self.layouts.order == sys.byteorder:
            return memoryview(block).cast(code)  # type: ignore[call-overload, no-any-return]
        # Swapping needs array, whose import loads half of collections.
        from array import array

        swapped = array(code, block)
        swapped.byteswap()
        return memoryview(swapped)

    def table_blocks(self) -> Iterator[bytes]:
        """Yield the section table in blocks of whole headers; all but the last have the same number."""
        return read_table_blocks(self.view, self.header.section_offset, self.section_count, self.layouts.section.size)

    def stored_ranges(self) -> tuple[Sequence[int], list[int]]:
        """Return start and end of the bytes of every section; an end of 0 means no bytes."""
        types, offsets, sizes = self.columns("type", "offset", "size")
        empty = (NULL, NOBITS)
        ends = [
            offset + size if size and type not in empty else 0
            for type, offset, size in zip(types, offsets, sizes, strict=True)
        ]
        return offsets, ends

    def sections(self) -> Iterator[ElfSection]:
        """Yield all section headers with their indices."""
        for index, row in enumerate(self.rows()):
            yield ElfSection(index, *row)

    def section(self, index: int) -> ElfSection:
        """Return one section header. The caller has checked the index."""
        if self._few is not None:
            return ElfSection(index, *self._few[index])
        table = self.layouts.section
        return ElfSection(index, *table.read(self.view, self.header.section_offset + index * table.size))

    def section_field(self, index: int, field: str) -> int:
        """Return the position of a section header's field, for errors and patches."""
        table = self.layouts.section
        return self.header.section_offset + index * table.size + table.field_offset(field)

    def programs(self) -> Iterator[tuple[int, ...]]:
        """Yield all program headers as tuples in the order of the layout. Raises BadValue, Truncated."""
        if not self.program_count:
            return
        layout = self.layouts.program
        if self.header.program_entry_size != layout.size:
            at = self.layouts.header.field_offset("program_entry_size")
            found = str(self.header.program_entry_size)
            raise self.error("wrong size of a program header", at, "program_entry_size", str(layout.size), found)
        yield from self.records(layout, self.header.program_offset, self.program_count)

    def program_table(self) -> tuple[int, int]:
        """Return the half-open range of the program headers; an empty one if there are none."""
        start = self.header.program_offset if self.program_count else 0
        return start, start + self.program_count * self.layouts.program.size

    def segment_ranges(self) -> Iterator[tuple[int, int]]:
        """Yield the half-open file range of every segment with bytes in the file."""
        if not self.program_count:
            return
        offset, size = map(self.layouts.program.position, ("offset", "file_size"))
        for row in self.programs():
            if row[size]:
                yield row[offset], row[offset] + row[size]

    def contents(self, section: ElfSection, name: str = "") -> View:
        """Return the bytes of a section; ``name`` extends the chain. Raises BadValue if they are outside the file."""
        size = section.stored_size
        if size and section.offset + size > len(self.view):
            raise self.error(
                f"section {section.index} does not lie inside the file",
                self.section_field(section.index, "offset"),
                "offset",
                f"an end of at most {len(self.view):#x}",
                f"{section.offset:#x} + {size:#x}",
            )
        # Sections without bytes may claim any offset.
        return self.view.slice(section.offset if size else 0, size, name)

    def names_section(self) -> ElfSection:
        """Return the section with the section names. Raises BadValue if the header does not refer to one."""
        index, at = self.names_index, self.layouts.header.field_offset("names_index")
        if not 0 < index < self.section_count:
            raise self.error(
                "the table of section names is no section of the file",
                at,
                "names_index",
                f"1 to {self.section_count - 1}",
                str(index),
            )
        section = self.section(index)
        if section.type != STRTAB:
            raise self.error(
                f"section {index} should hold the section names",
                self.section_field(index, "type"),
                "type",
                section_type_word(STRTAB),
                section_type_word(section.type),
            )
        return section

    def names_table(self) -> View:
        """Return the table of section names. Raises BadValue if there is none, or if it is outside the file."""
        if self._names_table is None:
            self._names_table = self.contents(self.names_section())
        return self._names_table

    def string(self, table: View, at: int) -> str:
        """Return the string at a position of a string table, cut at NAME_SIZE; invalid UTF-8 is escaped."""
        return table.head(at, NAME_SIZE).split(b"\0", 1)[0].decode("utf-8", "backslashreplace")

    def name(self, section: ElfSection) -> str:
        """Return a section's name for reports and errors; "" if the table of names cannot be read."""
        try:
            return self.string(self.names_table(), section.name_offset)
        except (BadValue, Truncated):
            return ""

    def title(self, section: ElfSection) -> str:
        """Return ``section 7 (.hip_fatbin)``, for errors."""
        name = self.name(section)
        return f"section {section.index} ({name})" if name else f"section {section.index}"


def is_elf(view: View) -> bool:
    """Return whether a view starts with the magic of ELF."""
    return view.head(0, 4) == MAGIC
