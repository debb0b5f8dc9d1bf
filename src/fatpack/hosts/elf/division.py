"""The sections of an ELF file in two kinds: those that hosts have anyway, and the others.

Every object of an archive is asked, and an object of a large C++ library has tens of thousands of sections of one kind:
names are built of few sections only, and what was said of a name is remembered.
"""

from __future__ import annotations

from fatpack.elf import constants
from fatpack.elf.file import ElfFile
from fatpack.errors import FormatError
from fatpack.hosts.usual import Division, is_open, is_usual, stem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View

#: bytes of a table of names in which the quick way looks; names behind are looked up one by one
_NAMES_SIZE = 64 << 20

#: The first bytes of names that objects have tens of thousands of → their stem (:mod:`fatpack.hosts.usual`).
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


def divide(view: View, elf: ElfFile | None) -> Division:
    """Return the sections that have bytes, divided into those that hosts have anyway and the others.

    Bytes behind the ELF image count as one of the others: AppImages and installers have a file system there. ``elf`` is
    the file as it was read already, if it could be. Of a damaged file it is what can be read of it.
    """
    unusual: list[tuple[int, int]] = []
    opened: dict[str, tuple[int, int]] = {}
    try:
        elf = elf or ElfFile(view)
        reached = max(elf.table_end, *(end for _, end in elf.segment_ranges()), 0)
        table = elf.contents(elf.names_section()).head(0, _NAMES_SIZE)
        for name_at, type, start, size in zip(*elf.columns("name_offset", "type", "offset", "size"), strict=True):
            if not size or type in (constants.NULL, constants.NOBITS) or start + size > len(view):
                continue
            reached = max(reached, start + size)
            kind = _MANY.get(table[name_at : name_at + 6]) or _kind(elf, table, name_at)
            if not kind:
                unusual.append((start, start + size))
            elif is_open(kind):
                count, total = opened.get(kind, (0, 0))
                opened[kind] = count + 1, total + size
        if reached < len(view):
            unusual.append((reached, len(view)))
    except FormatError:
        pass  # the host has reported it
    return Division(unusual, opened)


#: names of sections → their stem, "" for those of unusual names, as far as they were asked for
_KINDS: dict[bytes, str] = {}

#: LIMIT: names that are kept so, and their length. The objects of an archive have the same few.
_KINDS_KEPT, _KINDS_LENGTH = 1024, 64


def _kind(elf: ElfFile, table: bytes, at: int) -> str:
    """Return the stem of the name at an offset of the table of names, "" for an unusual one."""
    end = table.find(b"\0", at, at + _KINDS_LENGTH)
    name = table[at:end] if end >= 0 else b""
    kind = _KINDS.get(name) if end >= 0 else None
    if kind is None:
        whole = elf.string(elf.contents(elf.names_section()), at)
        kind = stem(whole) if is_usual(whole) else ""
        if end >= 0:
            if len(_KINDS) >= _KINDS_KEPT:
                _KINDS.clear()
            _KINDS[name] = kind
    return kind
