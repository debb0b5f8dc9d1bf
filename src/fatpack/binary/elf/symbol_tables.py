"""The symbol tables of ELF files: each with the strings that it names, none more often than its bytes are there.

Headers are free to share bytes: tens of thousands may say that the same megabyte is their table, or holds their names.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.binary.elf.file import ElfFile, ElfSection
    from fatpack.io.source import View

#: LIMIT: bytes of symbols' names that are searched in one table. The largest library known to us has 70 MB of them.
STRINGS = 1 << 28


def section_budget(view: View) -> int:
    """Return how many bytes sections may take together: those of hostile files alone are more than the file's."""
    return 2 * len(view)


def read_symbol_tables(elf: ElfFile, *kinds: int) -> Iterator[tuple[ElfSection, ElfSection]]:
    """Yield the tables of some types, each with the section of its strings.

    Tables that lead to no section, and those that are another one once more, are left out. Raises BadValue for those
    that take more bytes together than :func:`budget` says.
    """
    (types,) = elf.columns("type")
    seen: set[tuple[int, int, int]] = set()
    left = section_budget(elf.view)
    for index, type in enumerate(types):
        if type not in kinds:
            continue
        table = elf.section(index)
        key = table.offset, table.size, table.link
        if 0 < table.link < elf.section_count and key not in seen:
            seen.add(key)
            left = _taken(elf, table, left)
            yield table, elf.section(table.link)


def symbol_table_strings(elf: ElfFile, *kinds: int) -> Iterator[bytes]:
    """Yield the strings of the tables of some types once each, up to the limit. Raises FormatError as those do."""
    seen: set[tuple[int, int]] = set()
    left = section_budget(elf.view)
    for _, strings in read_symbol_tables(elf, *kinds):
        key = strings.offset, strings.size
        if key not in seen:
            seen.add(key)
            left = _taken(elf, strings, left)
            yield elf.contents(strings).head(0, STRINGS)


def _taken(elf: ElfFile, section: ElfSection, left: int) -> int:
    """Return how many bytes are left with those of one more section gone. Raises BadValue."""
    if section.stored_size <= left:
        return left - section.stored_size
    at, found = elf.section_field(section.index, "size"), f"{section.stored_size:#x}"
    raise elf.bad("symbol tables take more bytes than there are", at, "size", f"at most {left:#x}", found)
