"""A whole ELF file as llvm-objcopy takes it apart: sections that know each other by reference, and segments.

Which kind a section is decides what happens to it: tables of strings, symbols, section indices, relocations and groups
are written anew, everything else is copied. Fields that hold a section index become references where llvm-objcopy
makes them so, and stay numbers where it does not (``llvm/lib/ObjCopy/ELF/ELFObject.cpp``, LLVM 22.1).
"""

from __future__ import annotations

from fatpack import limits
from fatpack.binary.elf import constants
from fatpack.binary.elf.file import ElfFile
from fatpack.binary.elf.layout import SH_FLAGS, SH_NAME, SH_TYPE
from fatpack.binary.merged_strings import read_strings_at
from fatpack.errors import HostError, LimitExceeded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.errors import BadValue
    from fatpack.io.source import Piece

#: What a section is to llvm-objcopy
DATA, COMPRESSED, STRINGS, SYMBOLS, INDICES, RELOCATIONS, LOADED_RELOCATIONS, GROUP, ADDED = range(9)

#: Where a section that was not in the old file counts as having been: behind all others.
NEW_SECTION_POSITION = 1 << 64

_TABLES = {constants.GROUP: GROUP, constants.SYMTAB: SYMBOLS, constants.SYMTAB_SHNDX: INDICES}
_RELOCATION_TYPES = (constants.REL, constants.RELA, constants.CREL)
#: hash, dynamic, nobits, dynsym, gnu_hash: data, also with the flag of compressed sections
_NEVER_COMPRESSED = (5, 6, constants.NOBITS, constants.DYNSYM, 0x6FFFFFF6)
_GROUP_WORD = 4


class MutableSegment:
    """A program header, or the place of the ELF header or of the program headers.

    ``row`` is the program header by field name, ``old_offset`` where it was and ``offset`` where it goes.
    """

    __slots__ = ("address", "align", "file_size", "index", "offset", "old_offset", "parent", "row")

    def __init__(self, index: int, old_offset: int, file_size: int, address: int = 0, align: int = 0) -> None:
        self.index = index
        self.offset = self.old_offset = old_offset
        self.file_size = file_size
        self.address = address
        self.align = align
        self.parent: MutableSegment | None = None
        self.row: dict[str, int] = {}

    @property
    def order(self) -> tuple[int, int, int]:
        """What segments are sorted by, so that one comes before those inside it."""
        return self.old_offset, -self.align, self.index

    def contains(self, other: MutableSegment) -> bool:
        """Return whether another segment starts in this one."""
        return self.old_offset <= other.old_offset < self.old_offset + self.file_size


class MutableElfSection:
    """A section on its way from the old file into the new one.

    The first fields are those of its header; ``old_offset`` is where it was and ``offset`` where it goes, likewise
    ``old_index`` and ``index``. ``is_copied`` says that its bytes are those at the old place, else they are
    ``content``. ``linked`` is the section that ``link`` names and ``target`` the one that relocations apply to, where
    those are kept up to date.
    ``links_symbols`` says that the section named the symbol table, and may do so again if no symbol changes its
    number. A group has ``members``, the ``group_word`` before them, and the old number of its ``signature`` symbol, or
    -1.
    """

    __slots__ = (
        "address",
        "align",
        "content",
        "entry_size",
        "flags",
        "group_word",
        "has_symbol",
        "index",
        "info",
        "is_compressed",
        "is_copied",
        "kind",
        "link",
        "linked",
        "links_symbols",
        "members",
        "name",
        "offset",
        "old_index",
        "old_offset",
        "segment",
        "signature",
        "size",
        "target",
        "type",
    )

    def __init__(self, row: Sequence[int], name: bytes, kind: int, index: int) -> None:
        _, self.type, self.flags, self.address, self.old_offset, self.size, *rest = row
        self.link, self.info, self.align, self.entry_size = rest
        self.name = name
        self.kind = kind
        self.old_index = self.index = index
        self.offset = 0
        self.is_compressed = bool(self.flags & constants.COMPRESSED)
        self.is_copied = False
        self.content: Sequence[Piece] = ()
        self.linked: MutableElfSection | None = None
        self.target: MutableElfSection | None = None
        self.segment: MutableSegment | None = None
        self.links_symbols = self.has_symbol = False
        self.members: Sequence[MutableElfSection] = ()
        self.group_word = 0
        self.signature = -1

    @property
    def title(self) -> str:
        """The name as errors print it."""
        return self.name.decode("utf-8", "backslashreplace")


def section_kind(section_type: int, flags: int) -> int:
    """Return what a section of some type and flags is to llvm-objcopy."""
    if section_type in _RELOCATION_TYPES:
        return LOADED_RELOCATIONS if flags & constants.ALLOC else RELOCATIONS
    if section_type == constants.STRTAB:
        # One that is loaded belongs to the program's memory and is left alone.
        return DATA if flags & constants.ALLOC else STRINGS
    if section_type in _TABLES:
        return _TABLES[section_type]
    return COMPRESSED if flags & constants.COMPRESSED and section_type not in _NEVER_COMPRESSED else DATA


def read_sections(elf: ElfFile) -> list[MutableElfSection]:
    """Return the sections of a file, section 0 not among them, with references between them.

    Raises FormatError for a damaged file, HostError where llvm-objcopy refuses one or would lose its section table.
    """
    rows = list(elf.rows())[1:]
    names = section_names(elf, [row[SH_NAME] for row in rows])
    size = len(elf.view)
    allowance = limits.COPIES * size
    parts = []
    for index, row in enumerate(rows, 1):
        part = MutableElfSection(row, names[row[SH_NAME]], section_kind(row[SH_TYPE], row[SH_FLAGS]), index)
        if part.type != constants.NOBITS and part.kind != STRINGS:
            if part.old_offset + part.size > size:
                raise _outside(elf, part)
            part.is_copied = True
            allowance -= part.size
        parts.append(part)
    if allowance < 0:
        raise LimitExceeded(
            "the sections overlap, and written separately they would take many times the bytes of the file",
            format="elf",
            field="section table",
            expected=f"at most {limits.COPIES} times as many",
            hint=limits.advice("COPIES"),
            chain=elf.view.chain,
        )
    for kind, word in ((SYMBOLS, "SHT_SYMTAB"), (INDICES, "SHT_SYMTAB_SHNDX")):
        if sum(part.kind == kind for part in parts) > 1:
            raise HostError(f"found multiple {word} sections", hint="no tool makes such files", chain=elf.view.chain)
    for part in parts:
        if part.kind != DATA or part.link:
            _refer(elf, part, parts)
    return parts


def section_names(elf: ElfFile, places: Sequence[int]) -> dict[int, bytes]:
    """Return the names at some places of the table of section names."""
    if not elf.names_index:
        raise HostError(
            "the file has no table of section names, and llvm-objcopy would write it without its section table",
            hint="edit the object or the unstripped program it was made from",
            chain=elf.view.chain,
        )
    section = elf.names_section()
    view = elf.contents(section)
    table = view.tobytes()
    if not table.endswith(b"\0"):
        at = elf.section_field(section.index, "size")
        raise elf.bad("the table of section names does not end with a NUL", at, "size", found=f"{section.size:#x}")
    if places and max(places) >= len(table):
        index = places.index(max(places)) + 1
        at = elf.section_field(index, "name_offset")
        expected = f"less than {len(table):#x}"
        raise elf.bad("the name lies outside the table of names", at, "name_offset", expected, f"{max(places):#x}")
    # A section at place 0 has no name, whatever the first byte is.
    return {**read_strings_at(table, places, view), 0: b""}


def _outside(elf: ElfFile, part: MutableElfSection) -> BadValue:
    at = elf.section_field(part.old_index, "offset")
    expected = f"an end of at most {len(elf.view):#x}"
    found = f"{part.old_offset:#x} + {part.size:#x}"
    return elf.bad(f"section {part.old_index} does not lie inside the file", at, "offset", expected, found)


def _refer(elf: ElfFile, part: MutableElfSection, parts: Sequence[MutableElfSection]) -> None:
    """Turn the section numbers in a header into references, as far as llvm-objcopy does."""

    words = _LINK_WORDS.get(part.kind, (_FIELD, _INVALID, ""))
    place = words[0].format(part.link, part.title)
    if part.kind == DATA and part.link:
        part.linked = _section(elf, part.link, parts, f"{place} {words[1]}")
        if part.linked.type == constants.SYMTAB:
            part.linked, part.links_symbols = None, True
    elif part.kind in (SYMBOLS, INDICES) or (part.kind in _LINK_WORDS and part.link):
        part.linked = _section(elf, part.link, parts, f"{place} {words[1]}")
        if not _is_linked_right(part.kind, part.linked):
            raise HostError(f"{place} {words[2]}", hint="make it again", chain=elf.view.chain)
    if part.kind in (RELOCATIONS, LOADED_RELOCATIONS) and part.info:
        problem = f"Info field value {part.info} in section {part.title} is invalid"
        part.target = _section(elf, part.info, parts, problem)
    if part.kind == GROUP:
        _read_group(elf, part, parts)


def _is_linked_right(kind: int, linked: MutableElfSection) -> bool:
    """Return whether a section that is not data links to one of the right kind."""
    if kind == LOADED_RELOCATIONS:
        return linked.type == constants.DYNSYM
    return linked.kind == (STRINGS if kind == SYMBOLS else SYMBOLS)


def _section(elf: ElfFile, number: int, parts: Sequence[MutableElfSection], problem: str) -> MutableElfSection:
    if not 0 < number <= len(parts):
        raise HostError(problem, hint="make it again", chain=elf.view.chain)
    return parts[number - 1]


_FIELD, _INVALID, _NO_SYMBOLS = "Link field value {0} in section {1}", "is invalid", "is not a symbol table"

#: kind → what errors say about its link: how they name it, that it is no section, and that it is one of another kind
_LINK_WORDS = {
    SYMBOLS: ("Symbol table has link index of {0}", "which is not a valid index", "which is not a string table"),
    INDICES: (_FIELD, _INVALID, _NO_SYMBOLS),
    RELOCATIONS: (_FIELD, _INVALID, _NO_SYMBOLS),
    LOADED_RELOCATIONS: (_FIELD, _INVALID, _NO_SYMBOLS),
    GROUP: ("link field value '{0}' in section '{1}'", _INVALID, _NO_SYMBOLS),
}


def _read_group(elf: ElfFile, part: MutableElfSection, parts: Sequence[MutableElfSection]) -> None:
    if part.align % _GROUP_WORD:
        problem = f"invalid alignment {part.align} of group section '{part.title}'"
        raise HostError(problem, hint="make it again", chain=elf.view.chain)
    if part.size % _GROUP_WORD or not part.size:
        problem = f"the content of the section {part.title} is malformed"
        raise HostError(problem, hint="make it again", chain=elf.view.chain)
    part.signature = part.info if part.link else -1
    (part.group_word,), *members = elf.records(elf.layouts.index, part.old_offset, part.size // _GROUP_WORD)
    for (number,) in members:
        if not 0 < number <= len(parts):
            problem = f"group member index {number} in section '{part.title}' is invalid"
            raise HostError(problem, hint="make it again", chain=elf.view.chain)
    part.members = [parts[number - 1] for (number,) in members]
