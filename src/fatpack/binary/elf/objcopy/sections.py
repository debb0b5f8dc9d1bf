"""ELF files as in llvm-objcopy: sections that refer to each other by object, and segments.

The kind of a section determines its treatment: tables of strings, symbols, section indices, relocations and groups are
written again, everything else is copied. Section indices in fields become references where llvm-objcopy resolves them,
and stay numbers where it does not (``llvm/lib/ObjCopy/ELF/ELFObject.cpp``, LLVM 22.1).
"""

from __future__ import annotations

from fatpack import limits
from fatpack.binary.elf import layout
from fatpack.binary.elf.editor.editable import align_up
from fatpack.binary.elf.file import ElfFile
from fatpack.binary.elf.layout import ALLOC, ESCAPED, NOBITS, SH_FLAGS, SH_NAME, SH_TYPE
from fatpack.binary.elf.objcopy import relocations
from fatpack.binary.elf.objcopy.symbols import MutableElfSymbols
from fatpack.binary.new_file import read_strings_at
from fatpack.errors import HostError, LimitExceeded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fatpack.errors import BadValue
    from fatpack.io.source import Piece


#: Kinds of sections in llvm-objcopy
DATA, COMPRESSED, STRINGS, SYMBOLS, INDICES, RELOCATIONS, LOADED_RELOCATIONS, GROUP, ADDED = range(9)

#: Old index of added sections: after all others.
NEW_SECTION_POSITION = 1 << 64

_TABLES = {layout.GROUP: GROUP, layout.SYMTAB: SYMBOLS, layout.SYMTAB_SHNDX: INDICES}
_RELOCATION_TYPES = (layout.REL, layout.RELA, layout.CREL)
#: hash, dynamic, nobits, dynsym, gnu_hash: data even with the flag of compressed sections
_NEVER_COMPRESSED = (5, 6, layout.NOBITS, layout.DYNSYM, 0x6FFFFFF6)
_GROUP_WORD = 4


class MutableSegment:
    """A program header, or the range of the ELF header or of the program headers.

    ``row`` is the program header by field name, ``old_offset`` the old position and ``offset`` the new one.
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
        """The sort key of segments: an outer one comes before those inside it."""
        return self.old_offset, -self.align, self.index

    def contains(self, other: MutableSegment) -> bool:
        """Return whether another segment starts in this one."""
        return self.old_offset <= other.old_offset < self.old_offset + self.file_size


class MutableElfSection:
    """A section that is copied from the old file to the new one.

    The first fields are those of its header; ``old_offset`` is the old position and ``offset`` the new one, likewise
    ``old_index`` and ``index``. ``is_copied``: its bytes are those at the old position, else they are ``content``.
    ``linked`` is the section to which ``link`` refers and ``target`` the one to which relocations apply, if
    llvm-objcopy updates these fields. ``links_symbols``: the section refers to the symbol table, and keeps the
    reference if no symbol changes its number. A group has ``members``, the ``group_word`` before them, and the old
    number of its ``signature`` symbol, or -1.
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
        self.is_compressed = bool(self.flags & layout.COMPRESSED)
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
    """Return the kind of a section with a type and flags."""
    if section_type in _RELOCATION_TYPES:
        return LOADED_RELOCATIONS if flags & layout.ALLOC else RELOCATIONS
    if section_type == layout.STRTAB:
        # A loaded one belongs to the program's memory and does not change.
        return DATA if flags & layout.ALLOC else STRINGS
    if section_type in _TABLES:
        return _TABLES[section_type]
    return COMPRESSED if flags & layout.COMPRESSED and section_type not in _NEVER_COMPRESSED else DATA


def read_sections(elf: ElfFile) -> list[MutableElfSection]:
    """Return the sections of a file, without section 0, with references between them.

    Raises FormatError for a damaged file, HostError if llvm-objcopy refuses it or would lose its section table.
    """
    rows = list(elf.rows())[1:]
    names = section_names(elf, [row[SH_NAME] for row in rows])
    size = len(elf.view)
    allowance = limits.COPIES * size
    parts = []
    for index, row in enumerate(rows, 1):
        part = MutableElfSection(row, names[row[SH_NAME]], section_kind(row[SH_TYPE], row[SH_FLAGS]), index)
        if part.type != layout.NOBITS and part.kind != STRINGS:
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
        raise elf.error("the table of section names does not end with a NUL", at, "size", found=f"{section.size:#x}")
    if places and max(places) >= len(table):
        index = places.index(max(places)) + 1
        at = elf.section_field(index, "name_offset")
        expected = f"less than {len(table):#x}"
        raise elf.error("the name lies outside the table of names", at, "name_offset", expected, f"{max(places):#x}")
    # A section with name offset 0 has no name, whatever the first byte is.
    return {**read_strings_at(table, places, view), 0: b""}


def _outside(elf: ElfFile, part: MutableElfSection) -> BadValue:
    at = elf.section_field(part.old_index, "offset")
    expected = f"an end of at most {len(elf.view):#x}"
    found = f"{part.old_offset:#x} + {part.size:#x}"
    return elf.error(f"section {part.old_index} does not lie inside the file", at, "offset", expected, found)


def _refer(elf: ElfFile, part: MutableElfSection, parts: Sequence[MutableElfSection]) -> None:
    """Replace the section numbers in a header by references where llvm-objcopy does."""

    words = _LINK_WORDS.get(part.kind, (_FIELD, _INVALID, ""))
    place = words[0].format(part.link, part.title)
    if part.kind == DATA and part.link:
        part.linked = _section(elf, part.link, parts, f"{place} {words[1]}")
        if part.linked.type == layout.SYMTAB:
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
        return linked.type == layout.DYNSYM
    return linked.kind == (STRINGS if kind == SYMBOLS else SYMBOLS)


def _section(elf: ElfFile, number: int, parts: Sequence[MutableElfSection], problem: str) -> MutableElfSection:
    if not 0 < number <= len(parts):
        raise HostError(problem, hint="make it again", chain=elf.view.chain)
    return parts[number - 1]


_FIELD, _INVALID, _NO_SYMBOLS = "Link field value {0} in section {1}", "is invalid", "is not a symbol table"

#: kind → words for errors about its link: its name, invalid number, section of another kind
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


# Segments of linked files. A segment moves as a whole with everything inside; the ELF header and the program headers
# count as segments. Only sections outside of segments are laid out one by one.

#: LIMIT: pairs of a segment and a section, or of two segments, that are compared. A program has a dozen segments and
#: a hundred sections; a hostile file could have 65,535 times a million pairs.
_PAIRS = 1 << 22

_WORD = 1 << 64

#: p_type PT_TLS and sh_flags SHF_TLS: thread-local data, which shares addresses with other data.
_TLS_SEGMENT, _TLS_SECTION = 7, 0x400


class SegmentLayout:
    """All segments of a file: those with program headers, and the two implicit ones."""

    def __init__(self, elf: ElfFile, parts: Sequence[MutableElfSection]) -> None:
        layout = elf.layouts.program
        fields = [field.name for field in layout.fields]
        self.listed: list[MutableSegment] = []
        if elf.header.program_count == ESCAPED or elf.program_count * (len(parts) + elf.program_count) > _PAIRS:
            raise HostError(
                f"the file has {elf.program_count} segments and {len(parts)} sections: too many to lay out",
                hint="add to the objects, and link them again",
                chain=elf.view.chain,
            )
        for index, row in enumerate(elf.programs()):
            values = dict(zip(fields, row, strict=True))
            end = values["offset"] + values["file_size"]
            if end > len(elf.view):
                problem = f"segment {index} does not lie inside the file"
                raise elf.error(problem, elf.header.program_offset, "program header", found=f"{end:#x}")
            segment = MutableSegment(index, values["offset"], values["file_size"], values["address"], values["align"])
            segment.row = values
            self.listed.append(segment)
            for part in parts:
                if _holds(segment, part) and (part.segment is None or part.segment.old_offset > segment.old_offset):
                    part.segment = segment
        count = len(self.listed)
        at = elf.header.program_offset
        self.header = MutableSegment(count, 0, 0)
        size = elf.header.program_entry_size * elf.header.program_count
        self.table = MutableSegment(count + 1, at, size, at, elf.layouts.word)
        for child in (*self.listed, self.header, self.table):
            parents = (each for each in self.listed if each is not child and each.contains(child))
            before = [each for each in parents if each.order < child.order]
            child.parent = min(before, key=lambda each: each.order, default=None)
        self.header.file_size = elf.layouts.header.size

    def lay_out(self) -> int:
        """Assign a new position to every segment; return the position after the last."""
        end = 0
        for segment in sorted((*self.listed, self.header, self.table), key=lambda each: each.order):
            if segment.parent is not None:
                segment.offset = segment.parent.offset + segment.old_offset - segment.parent.old_offset
            else:
                segment.offset = _aligned(end, max(segment.align, 1), segment.address)
            end = max(end, segment.offset + segment.file_size)
        return end


def _aligned(position: int, align: int, address: int) -> int:
    """Return the first position from ``position`` on that is congruent to an address, modulo an alignment.

    In 64 bits, as in llvm-objcopy: if the alignment is not a power of two, that makes a difference.
    """
    skew = address % align
    return (align_up((position - skew) % _WORD, align) + skew) % _WORD


def _holds(segment: MutableSegment, part: MutableElfSection) -> bool:
    """Return whether a section is in a segment; an empty one is in the segment that starts there."""
    size = part.size or 1
    if part.old_offset == NEW_SECTION_POSITION:
        return False
    if part.type != NOBITS:
        return segment.old_offset <= part.old_offset and (
            segment.old_offset + segment.file_size >= part.old_offset + size
        )
    if not part.flags & ALLOC or bool(part.flags & _TLS_SECTION) != (segment.row["type"] == _TLS_SEGMENT):
        return False
    return segment.address <= part.address and segment.address + segment.row["memory_size"] >= part.address + size


# Adding and removing sections

#: Section flags that llvm-objcopy keeps when others are set: properties of the contents (compressed, grouped, ordered,
#: thread-local, info is a section), and flags of systems (0x0ff00000) and processors (0xf0000000).
_KEPT_FLAGS = 0x0FF00000 | 0xF0000000 | 0x800 | 0x200 | 0x80 | 0x400 | 0x40
#: SHF_X86_64_LARGE, which can be set for its own machine
_LARGE, _X86_64 = 0x10000000, 62


class ElfModel:
    """An ELF file that can be written again.

    Raises FormatError for a damaged file, HostError for one that llvm-objcopy refuses or would lose parts of.
    """

    def __init__(self, elf: ElfFile) -> None:
        self.elf = elf
        self.parts = read_sections(elf)
        self.removed: list[MutableElfSection] = []
        self.names: MutableElfSection | None = self.parts[elf.names_index - 1]
        if self.names.kind != STRINGS:
            self._refuse(
                f"e_shstrndx field value {elf.names_index} in elf header does not reference a string table",
                "the table of section names is loaded at run time; link again without that",
            )
        self.symbol_table = self._only(SYMBOLS)
        self.indices = self._only(INDICES)
        self.symbols: MutableElfSymbols | None = None
        if self.symbol_table is not None:
            self.symbols = MutableElfSymbols(elf, self.parts, self.symbol_table, self.indices)
        symbol_count = len(self.symbols.rows) if self.symbols else 0
        relocations.check_all_relocations(elf, [part for part in self.parts if part.kind == RELOCATIONS], symbol_count)
        for part in self.parts:
            if part.kind == GROUP and part.signature >= symbol_count:
                self._refuse(
                    f"info field value '{part.info}' in section '{part.title}' is not a valid symbol index",
                    "make it again",
                )
        self.segments = SegmentLayout(elf, self.parts)

    def _only(self, kind: int) -> MutableElfSection | None:
        return next((part for part in self.parts if part.kind == kind), None)

    def _refuse(self, problem: str, hint: str) -> None:
        raise HostError(problem, hint=hint, chain=self.elf.view.chain)

    @property
    def is_relocatable(self) -> bool:
        """True if the file can be linked again: then even an empty symbol table is kept."""
        return not self.elf.is_linked or any(part.kind == RELOCATIONS for part in (*self.parts, *self.removed))

    def add(self, name: bytes, content: Sequence[Piece]) -> None:
        """Append a section of data."""
        size = sum(map(len, content))
        part = MutableElfSection((0, layout.PROGBITS, 0, 0, NEW_SECTION_POSITION, size, 0, 0, 1, 0), name, ADDED, 0)
        if name.startswith(b".note") and name != b".note.GNU-stack":
            part.type = _NOTE
            self._check_note(part.title, content, size)
        part.content = tuple(content)
        self.parts.append(part)

    def _check_note(self, title: str, content: Sequence[Piece], size: int) -> None:
        """Refuse content that llvm-objcopy rejects as a note: two sizes, a type, and padded bytes of those sizes."""
        if not size:
            return
        hint = "give the section another name"
        if size < _NOTE_HEADER:
            self._refuse(f"{title} data must be either empty or at least 12 bytes long", hint)
        if size % 4:
            self._refuse(f"{title} data size must be a  multiple of 4 bytes", hint)
        from fatpack.io.source import PiecesSource

        head = PiecesSource(content).read(0, 8)
        sizes = self.elf.layouts.index.struct.iter_unpack(head)
        expected = _NOTE_HEADER + sum(align_up(each, 4) for (each,) in sizes)
        if size != expected:
            self._refuse(
                f"{title} data size is incompatible with the content of the name and description size fields: "
                f"expecting {expected}, found {size}",
                hint,
            )

    def exclude(self, names: set[bytes]) -> None:
        """Set the flags of sections with given names to those of sections that linkers drop."""
        kept = _KEPT_FLAGS & ~layout.EXCLUDE
        if self.elf.header.machine == _X86_64:
            kept &= ~_LARGE
        for part in self.parts:
            if part.name in names:
                part.flags = part.flags & kept | layout.EXCLUDE
                if part.type == layout.NOBITS:
                    part.type = layout.PROGBITS  # QUIRK(llvm-objcopy): its bytes are then zeros in the file

    def remove(self, is_unwanted: Callable[[MutableElfSection], bool]) -> None:
        """Remove sections, relocations that apply to them, groups with no other members, and their symbols.

        Raises HostError if another section needs a removed one.
        """
        stay: list[MutableElfSection] = []
        removed: list[MutableElfSection] = []
        for part in self.parts:
            (removed if self._goes(part, is_unwanted) else stay).append(part)
        if self.symbol_table is not None and is_unwanted(self.symbol_table):
            self.symbol_table = None
        if self.names is not None and is_unwanted(self.names):
            self.names = None
        if self.indices is not None and is_unwanted(self.indices):
            self.indices = None
        if not removed:
            return
        for part in removed:
            for member in part.members:
                member.flags &= ~layout.GROUPED
        self._drop_references(stay, frozenset(removed))
        self.parts = stay
        self.removed += removed

    def _goes(self, part: MutableElfSection, is_unwanted: Callable[[MutableElfSection], bool]) -> bool:
        if is_unwanted(part):
            return True
        if part.kind in (RELOCATIONS, LOADED_RELOCATIONS) and not part.is_compressed:
            return part.target is not None and is_unwanted(part.target)
        # Every edit removes empty groups.
        return part.kind == GROUP and not part.is_compressed and all(map(is_unwanted, part.members))

    def _drop_references(self, stay: Sequence[MutableElfSection], removed: frozenset[MutableElfSection]) -> None:
        symbols = self.symbols.defined_in(removed) if self.symbols else set()
        for part in stay:
            linked = part.linked if part.linked in removed else None
            if part.kind == DATA and linked is not None:
                self._refuse(
                    f"section '{linked.title}' cannot be removed because it is referenced by the section "
                    f"'{part.title}'",
                    "remove that section as well, or neither",
                )
            elif part.kind == SYMBOLS and linked is not None:
                self._refuse(
                    f"string table '{linked.title}' cannot be removed because it is referenced by the symbol table "
                    f"'{part.title}'",
                    "remove neither",
                )
            elif part.kind in (RELOCATIONS, LOADED_RELOCATIONS) and linked is not None:
                self._refuse(
                    f"symbol table '{linked.title}' cannot be removed because it is referenced by the relocation "
                    f"section '{part.title}'",
                    "remove neither",
                )
            elif part.kind == GROUP and linked is not None:
                self._refuse(
                    f"section '.symtab' cannot be removed because it is referenced by the group section '{part.title}'",
                    "remove neither",
                )
            if part.kind == SYMBOLS and self.symbols is not None:
                self.symbols.remove_in(removed)
            elif part.kind == RELOCATIONS and symbols:
                self._check_uses(part, symbols)
            elif part.kind == GROUP:
                part.members = [member for member in part.members if member not in removed]
        for part in stay:
            if part.kind == GROUP and part.signature in symbols:
                # llvm-objcopy would continue with a symbol that no longer exists.
                self._refuse(
                    f"the group '{part.title}' is named by a symbol in a section that would be removed",
                    "remove the group's sections as well, or neither",
                )

    def _check_uses(self, part: MutableElfSection, symbols: set[int]) -> None:
        use = relocations.first_use(self.elf, part, symbols)
        if use is None or self.symbols is None:
            return
        home = self.symbols.homes[use[1]]
        self._refuse(
            f"section '{home.title if home else ''}' cannot be removed: ({part.target.title if part.target else ''}"
            f"+{use[0]:#x}) has relocation against symbol '{self.symbols.title(use[1])}'",
            "code refers to it; compile the host without it instead",
        )


#: sh_type SHT_NOTE, and the bytes before a note's name
_NOTE, _NOTE_HEADER = 7, 12
