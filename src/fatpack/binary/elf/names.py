"""What the names of sections say, remembered for the objects after this one; and the division of sections by that.

Every object of an archive is asked. Its members come from one compiler, and most have the same sections: the table of
their names and where in it each name starts are the same bytes. An object of a large C++ library has tens of thousands
of sections of one kind: names are built of few sections only.
"""

from __future__ import annotations

from fatpack.binary.elf import constants
from fatpack.binary.elf.file import ElfFile
from fatpack.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias, TypeVar

    from fatpack.binary.known_sections import SectionSplit
    from fatpack.io.source import View

    Key: TypeAlias = "tuple[bytes, tuple[int, ...]]"
    T = TypeVar("T")

#: LIMIT: bytes of a table of names, and tables, that are remembered: 4 MB at most with what is said of them.
_SIZE, _COUNT = 4096, 64

#: bytes of a table of names in which the quick way looks; names behind are looked up one by one
_NAMES_SIZE = 64 << 20

_WITHOUT_BYTES = (constants.NULL, constants.NOBITS)

#: The first bytes of names that objects have tens of thousands of → their stem (:mod:`fatpack.binary.known_sections`).
_MANY = {
    b".text.": ".text",
    b".data.": ".data",
    b".rodat": ".rodata",
    b".rela.": ".rela",
    b".rel.t": ".rel",
    b".group": ".group",
    b".gcc_e": ".gcc_except_table",
    b".debug": ".debug",
    b".llvm_": ".llvm",
}


def section_names_key(elf: ElfFile, names_at: Sequence[int]) -> Key | None:
    """Return what the names of all sections are known by, None for tables that are too large to be remembered.

    Raises BadValue when the file has no table of names, or one that lies outside.
    """
    names = elf.names_table()
    return (names.tobytes(), tuple(names_at)) if len(names) <= _SIZE and len(names_at) <= _SIZE // 8 else None


def remember(known: dict[Key, T], key: Key, value: T) -> None:
    """Keep what was found out for a key; too many of them are forgotten together."""
    if len(known) >= _COUNT:
        known.clear()
    known[key] = value


def split_elf_sections(view: View, elf: ElfFile | None) -> SectionSplit:
    """Return the sections that have bytes, divided into those that hosts have anyway and the others.

    Bytes behind the ELF image count as one of the others: AppImages and installers have a file system there. ``elf`` is
    the file as it was read already, if it could be. Of a damaged file it is what can be read of it.
    """
    from fatpack.binary.known_sections import SectionSplit, is_host_data_section, may_hold_anything

    unusual: list[tuple[int, int]] = []
    opened: dict[str, tuple[int, int]] = {}
    data: dict[str, list[tuple[int, int]]] = {}
    try:
        elf = elf or ElfFile(view)
        reached, present = max(elf.table_end, *(end for _, end in elf.segment_ranges()), 0), len(view)
        names_at, types, starts, sizes = elf.columns("name_offset", "type", "offset", "size")
        for kind, type, start, size in zip(_kinds(elf, names_at), types, starts, sizes, strict=True):
            end = start + size
            if not size or type in _WITHOUT_BYTES or end > present:
                continue
            reached = max(reached, end)
            if not kind:
                unusual.append((start, end))
            elif may_hold_anything(kind):
                count, total = opened.get(kind, (0, 0))
                opened[kind] = count + 1, total + size
                if is_host_data_section(kind):
                    data.setdefault(kind, []).append((start, end))
        if reached < present:
            unusual.append((reached, present))
    except FormatError:
        pass  # the host has reported it
    return SectionSplit(unusual, opened, data)


#: names of sections and where each starts → their stems
_KINDS: dict[tuple[bytes, tuple[int, ...]], list[str]] = {}


def _kinds(elf: ElfFile, names_at: Sequence[int]) -> list[str]:
    """Return the stems of the names of all sections, "" for unusual ones. Raises BadValue when there are no names."""
    key = section_names_key(elf, names_at)
    found = _KINDS.get(key) if key else None
    if found is None:
        names = elf.names_table()
        table = names.head(0, _NAMES_SIZE)
        found = [_MANY.get(table[at : at + 6]) or _kind(elf.string(names, at)) for at in names_at]
        if key:
            remember(_KINDS, key, found)
    return found


def _kind(name: str) -> str:
    from fatpack.binary.known_sections import is_known_section, section_name_stem

    return section_name_stem(name) if is_known_section(name) else ""
