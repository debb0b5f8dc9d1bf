"""A file taken apart, and what can be done with it: sections taken out and put in."""

from __future__ import annotations

from fatpack.binary.elf import constants
from fatpack.binary.elf.editor.editing_editable import align_up
from fatpack.binary.elf.objcopy import relocations
from fatpack.binary.elf.objcopy import sections as kinds
from fatpack.binary.elf.objcopy.sections import MutableElfSection, read_sections
from fatpack.binary.elf.objcopy.segments import SegmentLayout
from fatpack.binary.elf.objcopy.symbols import MutableElfSymbols
from fatpack.errors import HostError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fatpack.binary.elf.file import ElfFile
    from fatpack.io.source import Piece

#: Section flags that llvm-objcopy keeps when it is told others: what the contents are (compressed, grouped, ordered,
#: thread-local, info is a section), and what belongs to systems (0x0ff00000) and processors (0xf0000000).
_KEPT_FLAGS = 0x0FF00000 | 0xF0000000 | 0x800 | 0x200 | 0x80 | 0x400 | 0x40
#: SHF_X86_64_LARGE, which on its own machine can be told
_LARGE, _X86_64 = 0x10000000, 62


class ElfModel:
    """An ELF file that can be written anew.

    Raises FormatError for a damaged file, HostError for one that llvm-objcopy refuses or would lose parts of.
    """

    def __init__(self, elf: ElfFile) -> None:
        self.elf = elf
        self.parts = read_sections(elf)
        self.removed: list[MutableElfSection] = []
        self.names: MutableElfSection | None = self.parts[elf.names_index - 1]
        if self.names.kind != kinds.STRINGS:
            self._refuse(
                f"e_shstrndx field value {elf.names_index} in elf header does not reference a string table",
                "the table of section names is loaded at run time; link again without that",
            )
        self.symbol_table = self._only(kinds.SYMBOLS)
        self.indices = self._only(kinds.INDICES)
        self.symbols: MutableElfSymbols | None = None
        if self.symbol_table is not None:
            self.symbols = MutableElfSymbols(elf, self.parts, self.symbol_table, self.indices)
        symbol_count = len(self.symbols.rows) if self.symbols else 0
        relocations.check_all_relocations(
            elf, [part for part in self.parts if part.kind == kinds.RELOCATIONS], symbol_count
        )
        for part in self.parts:
            if part.kind == kinds.GROUP and part.signature >= symbol_count:
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
        """Whether the file may be linked again: then even an empty symbol table stays."""
        return not self.elf.is_linked or any(part.kind == kinds.RELOCATIONS for part in (*self.parts, *self.removed))

    def add(self, name: bytes, content: Sequence[Piece]) -> None:
        """Append a section of data."""
        size = sum(map(len, content))
        part = MutableElfSection(
            (0, constants.PROGBITS, 0, 0, kinds.NEW_SECTION_POSITION, size, 0, 0, 1, 0), name, kinds.ADDED, 0
        )
        if name.startswith(b".note") and name != b".note.GNU-stack":
            part.type = _NOTE
            self._check_note(part.title, content, size)
        part.content = tuple(content)
        self.parts.append(part)

    def _check_note(self, title: str, content: Sequence[Piece], size: int) -> None:
        """Refuse what llvm-objcopy would not take for a note: two sizes, a type, and padded bytes of those sizes."""
        if not size:
            return
        hint = "give the section another name"
        if size < _NOTE_HEADER:
            self._refuse(f"{title} data must be either empty or at least 12 bytes long", hint)
        if size % 4:
            self._refuse(f"{title} data size must be a  multiple of 4 bytes", hint)
        from fatpack.io.pieces import PiecesSource

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
        """Give all sections of some names the flags of sections that linkers drop."""
        kept = _KEPT_FLAGS & ~constants.EXCLUDE
        if self.elf.header.machine == _X86_64:
            kept &= ~_LARGE
        for part in self.parts:
            if part.name in names:
                part.flags = part.flags & kept | constants.EXCLUDE
                if part.type == constants.NOBITS:
                    part.type = constants.PROGBITS  # QUIRK(llvm-objcopy): its bytes are then zeros in the file

    def remove(self, is_unwanted: Callable[[MutableElfSection], bool]) -> None:
        """Take out sections, relocations that apply to them, groups that held nothing else, and their symbols.

        Raises HostError when a section that stays needs one that goes.
        """
        stay: list[MutableElfSection] = []
        gone: list[MutableElfSection] = []
        for part in self.parts:
            (gone if self._goes(part, is_unwanted) else stay).append(part)
        if self.symbol_table is not None and is_unwanted(self.symbol_table):
            self.symbol_table = None
        if self.names is not None and is_unwanted(self.names):
            self.names = None
        if self.indices is not None and is_unwanted(self.indices):
            self.indices = None
        if not gone:
            return
        for part in gone:
            for member in part.members:
                member.flags &= ~constants.GROUPED
        self._drop_references(stay, frozenset(gone))
        self.parts = stay
        self.removed += gone

    def _goes(self, part: MutableElfSection, is_unwanted: Callable[[MutableElfSection], bool]) -> bool:
        if is_unwanted(part):
            return True
        if part.kind in (kinds.RELOCATIONS, kinds.LOADED_RELOCATIONS) and not part.is_compressed:
            return part.target is not None and is_unwanted(part.target)
        # An empty group goes with any edit.
        return part.kind == kinds.GROUP and not part.is_compressed and all(map(is_unwanted, part.members))

    def _drop_references(self, stay: Sequence[MutableElfSection], gone: frozenset[MutableElfSection]) -> None:
        symbols = self.symbols.defined_in(gone) if self.symbols else set()
        for part in stay:
            linked = part.linked if part.linked in gone else None
            if part.kind == kinds.DATA and linked is not None:
                self._refuse(
                    f"section '{linked.title}' cannot be removed because it is referenced by the section "
                    f"'{part.title}'",
                    "remove that section as well, or neither",
                )
            elif part.kind == kinds.SYMBOLS and linked is not None:
                self._refuse(
                    f"string table '{linked.title}' cannot be removed because it is referenced by the symbol table "
                    f"'{part.title}'",
                    "remove neither",
                )
            elif part.kind in (kinds.RELOCATIONS, kinds.LOADED_RELOCATIONS) and linked is not None:
                self._refuse(
                    f"symbol table '{linked.title}' cannot be removed because it is referenced by the relocation "
                    f"section '{part.title}'",
                    "remove neither",
                )
            elif part.kind == kinds.GROUP and linked is not None:
                self._refuse(
                    f"section '.symtab' cannot be removed because it is referenced by the group section '{part.title}'",
                    "remove neither",
                )
            if part.kind == kinds.SYMBOLS and self.symbols is not None:
                self.symbols.remove_of(gone)
            elif part.kind == kinds.RELOCATIONS and symbols:
                self._check_uses(part, symbols)
            elif part.kind == kinds.GROUP:
                part.members = [member for member in part.members if member not in gone]
        for part in stay:
            if part.kind == kinds.GROUP and part.signature in symbols:
                # llvm-objcopy goes on with a symbol that is not there any more.
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
