"""The symbol table as llvm-objcopy rewrites it: local symbols first, without those of removed sections."""

from __future__ import annotations

from fatpack.binary.elf.layout import ESCAPED, FIRST_RESERVED, MACHINE_MIPS
from fatpack.binary.new_file import read_strings_at
from fatpack.errors import HostError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from fatpack.binary.elf.file import ElfFile
    from fatpack.binary.elf.objcopy.sections import MutableElfSection

#: Section indices of symbols that mean no section: absolute and common symbols, and those of single machines (amdgpu's
#: LDS, small common of MIPS and Hexagon). llvm-objcopy refuses all others.
_SPECIAL = {FIRST_RESERVED + 0xF1, FIRST_RESERVED + 0xF2}
_SPECIAL_BY_MACHINE: Mapping[int, Collection[int]] = {
    MACHINE_MIPS: (0xFF00, 0xFF03, 0xFF04),
    164: (0xFF00, 0xFF01, 0xFF02, 0xFF03, 0xFF04),
    224: (0xFF00,),
}

_UNDEFINED = 0
_LOCAL = 0


class MutableElfSymbols:
    """The symbols of a file, each identified by its number in the old table.

    ``order``: old numbers in the order of the new table. ``homes``: sections of the symbols, by old number.
    ``has_changed``: a symbol has another number than before.
    """

    def __init__(
        self,
        elf: ElfFile,
        parts: Sequence[MutableElfSection],
        table: MutableElfSection,
        indices: MutableElfSection | None,
    ) -> None:
        self.elf = elf
        layout = elf.layouts.symbol
        self._section_at = layout.position("section_index")
        self._name_at = layout.position("name_offset")
        info_at = layout.position("info")
        if table.entry_size != layout.size or table.size % layout.size or not table.size:
            raise elf.error(
                "the symbol table does not hold whole symbols",
                elf.section_field(table.old_index, "size"),
                "size",
                f"a multiple of {layout.size}",
                f"{table.size}, entries of {table.entry_size}",
            )
        self.rows = list(elf.records(layout, table.old_offset, table.size // layout.size))
        self.names = self._read_names(table)
        wide = self._read_wide(indices)
        self.homes: list[MutableElfSection | None] = []
        for number, row in enumerate(self.rows):
            self.homes.append(self._home(parts, number, row[self._section_at], wide))
        for home in self.homes:
            if home is not None:
                home.has_symbol = True
        self.is_local = [row[info_at] >> 4 == _LOCAL for row in self.rows]
        self.order: Sequence[int] = range(len(self.rows))
        self.has_changed = False

    def _read_names(self, table: MutableElfSection) -> list[bytes]:
        strings = table.linked
        assert strings is not None
        elf = self.elf
        view = elf.contents(elf.section(strings.old_index))
        content = view.tobytes()
        places = [row[self._name_at] for row in self.rows]
        if not content.endswith(b"\0") or max(places) >= len(content):
            at = elf.section_field(strings.old_index, "size")
            raise elf.error("a symbol's name lies outside the table of names", at, "size", found=f"{len(content):#x}")
        names = read_strings_at(content, places, view)
        return [names[place] for place in places]

    def _read_wide(self, indices: MutableElfSection | None) -> list[int] | None:
        """Return the section numbers of symbols whose own field is too small; None if no symbol has one."""
        if not any(row[self._section_at] == ESCAPED for row in self.rows):
            return None
        layout = self.elf.layouts.index
        if indices is None:
            raise HostError(
                "a symbol has index SHN_XINDEX but no SHT_SYMTAB_SHNDX section exists",
                hint="make it again",
                chain=self.elf.view.chain,
            )
        if indices.size != len(self.rows) * layout.size or indices.entry_size != layout.size:
            raise HostError(
                "symbol section index table does not have the same number of entries as the symbol table",
                hint="make it again",
                chain=self.elf.view.chain,
            )
        return [row[0] for row in self.elf.records(layout, indices.old_offset, len(self.rows))]

    def _home(
        self, parts: Sequence[MutableElfSection], number: int, index: int, wide: Sequence[int] | None
    ) -> MutableElfSection | None:
        if index == _UNDEFINED:
            return None
        if index == ESCAPED and wide is not None:
            index = wide[number]
        elif index >= FIRST_RESERVED:
            if index in _SPECIAL or index in _SPECIAL_BY_MACHINE.get(self.elf.header.machine, ()):
                return None
            raise HostError(
                f"symbol '{self.title(number)}' has unsupported value greater than or equal to SHN_LORESERVE: {index}",
                hint="llvm-objcopy does not know what it means",
                chain=self.elf.view.chain,
            )
        if not 0 < index <= len(parts):
            raise HostError(
                f"symbol '{self.title(number)}' has invalid section index {index}",
                hint="make it again",
                chain=self.elf.view.chain,
            )
        return parts[index - 1]

    def title(self, number: int) -> str:
        """Return a symbol's name as errors print it."""
        return self.names[number].decode("utf-8", "backslashreplace")

    def sort(self) -> None:
        """Move local symbols before all others."""
        order = [number for number in self.order if self.is_local[number]]
        if len(order) < len(self.order):
            first_global = next((place for place, number in enumerate(self.order) if not self.is_local[number]), 0)
            if first_global < len(order):
                self.order = order + [number for number in self.order if not self.is_local[number]]
                self.has_changed = True

    def remove_in(self, removed: Collection[MutableElfSection]) -> None:
        """Remove the symbols in removed sections; the first symbol stays."""
        first, *others = self.order
        order = [number for number in others if self.homes[number] not in removed]
        if len(order) < len(others):
            self.order = [first, *order]
            self.has_changed = True

    def defined_in(self, removed: Collection[MutableElfSection]) -> set[int]:
        """Return the old numbers of the symbols in some sections."""
        return {number for number, home in enumerate(self.homes) if home is not None and home in removed}

    def renumbering(self) -> list[int] | None:
        """Return the new number by old number (-1 for removed symbols); None if none has changed."""
        if not self.has_changed:
            return None
        new = [-1] * len(self.rows)
        for place, number in enumerate(self.order):
            new[number] = place
        return new

    @property
    def last_local(self) -> int:
        """The index of the last local symbol in the new table; 0 if there is none."""
        return max((place for place, number in enumerate(self.order) if self.is_local[number]), default=0)

    def used_names(self) -> list[bytes]:
        """Return the names of the symbols of the new table."""
        return [self.names[number] for number in self.order]

    def packed(self, name_offsets: Mapping[bytes, int]) -> bytes:
        """Return the new table, with new section numbers."""
        layout = self.elf.layouts.symbol
        name_at, section_at = self._name_at, self._section_at
        rows = []
        for number in self.order:
            row = list(self.rows[number])
            name = self.names[number]
            row[name_at] = name_offsets[name] if name else 0
            home = self.homes[number]
            if home is not None:
                row[section_at] = home.index if home.index < FIRST_RESERVED else ESCAPED
            rows.append(layout.pack(*row))
        return b"".join(rows)

    def packed_indices(self) -> bytes:
        """Return the table of the section numbers that do not fit into symbols."""
        layout = self.elf.layouts.index
        homes = (self.homes[number] for number in self.order)
        numbers = (home.index if home is not None else 0 for home in homes)
        return b"".join(layout.pack(number if number >= FIRST_RESERVED else 0) for number in numbers)
