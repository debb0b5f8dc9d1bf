"""Parts as an ELF object of 64 bits, little-endian, for x86-64 and AArch64.

::

    header │ sections, each after zeros up to its alignment │ relocations │ notes │ symbols │ names │ section table

The object says that it needs no executable stack (``.note.GNU-stack``), and that its code is made for processors that
check where branches go (``.note.gnu.property``). The relocations are valid in programs and libraries of any kind.
"""

from __future__ import annotations

from fatpack.binary.elf.layout import MAGIC, elf_layouts
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fatpack.commands.wrap.code.template import LinkerFixup
    from fatpack.commands.wrap.objects.contents import ObjectParts, ObjectSection, ObjectSymbol
    from fatpack.io.source import Piece

_RECORDS = elf_layouts(64, "little")

_NOTHING, _PROGBITS, _SYMBOLS, _STRINGS, _RELOCATIONS, _NOTE, _NOBITS = 0, 1, 2, 3, 4, 7, 8
_STARTS, _ENDS = 14, 15
_LLVM_OFFLOADING = 0x6FFF4C0B
_WRITE, _LOADED, _EXECUTE, _INFO_LINK = 1, 2, 4, 0x40

#: role → type and flags. LLVM has the wrapper of a fat binary among what is written to, and so CUDA's tools do.
_KINDS = {
    "code": (_PROGBITS, _LOADED | _EXECUTE),
    "tables": (_PROGBITS, _LOADED | _WRITE),
    "image": (_PROGBITS, _LOADED),
    "offloading": (_LLVM_OFFLOADING, _LOADED),
    "wrapper": (_PROGBITS, _LOADED | _WRITE),
    "zeros": (_NOBITS, _LOADED | _WRITE),
    "frames": (_PROGBITS, _LOADED),
}

_UNDEFINED, _ABSOLUTE = 0, 0xFFF1
_BINDINGS = {"local": 0, "global": 1, "hidden": 1, "weak": 2}
_OBJECT, _FUNCTION, _SECTION, _FILE, _HIDDEN = 1, 2, 3, 4, 2

#: The name that LLVM gives to the module that its tools make of images.
_FILE_NAME = "offload.wrapper.module"


class ElfMachine(Record):
    """A processor: its number, kind of relocation → its number, and the property note of its code.

    ``property`` is the number of the property, ``features`` its bits.
    """

    number: int
    relocations: Mapping[str, int]
    property: int
    features: int


MACHINES = {
    # R_X86_64_64, _PC32, _PLT32; GNU_PROPERTY_X86_FEATURE_1_AND: IBT, SHSTK
    "x86_64": ElfMachine(62, {"address": 1, "pc32": 2, "relative32": 2, "call32": 4}, 0xC0000002, 3),
    # R_AARCH64_ABS64, _PREL32, _ADR_PREL_PG_HI21, _ADD_ABS_LO12_NC, _CALL26, _LDST64_ABS_LO12_NC;
    # GNU_PROPERTY_AARCH64_FEATURE_1_AND: BTI, PAC
    "aarch64": ElfMachine(
        183,
        {"address": 257, "relative32": 261, "page21": 275, "low12": 277, "call26": 283, "low12x8": 286},
        0xC0000000,
        3,
    ),
}

#: x86 counts from the end of an instruction, whose last four bytes the linker fills in.
_BEFORE_END = {"pc32": -4, "call32": -4}


def elf_object(parts: ObjectParts, processor: str) -> tuple[Piece, ...]:
    """Return the bytes of an object, in order; the bytes of images are not copied."""
    machine = MACHINES[processor]
    file = _ElfWriter()
    for section in parts.sections:
        file.add(section.name, *_kind(section), align=section.align, pieces=section.pieces, reserved=section.reserved)
    numbers = {section.name: number for number, section in enumerate(parts.sections, 1)}
    names, symbols, indexes, local_count = _symbol_table(parts, numbers, processor)
    # References to the symbols come before them, with their later positions.
    related = [section for section in parts.sections if section.fixups]
    symbols_number = len(parts.sections) + len(related) + 3
    for section in related:
        data = b"".join(_relocation(fixup, machine, indexes) for fixup in section.fixups)
        file.add(
            f".rela{section.name}", _RELOCATIONS, _INFO_LINK, align=8, pieces=(data,), link=symbols_number,
            info=numbers[section.name], entry_size=_RECORDS.rela.size,
        )  # fmt: skip
    file.add(".note.GNU-stack", _PROGBITS, 0)
    file.add(".note.gnu.property", _NOTE, _LOADED, align=8, pieces=(_property(machine),))
    file.add(
        ".symtab", _SYMBOLS, 0, align=8, pieces=(symbols,), link=symbols_number + 1, info=local_count,
        entry_size=_RECORDS.symbol.size,
    )  # fmt: skip
    file.add(".strtab", _STRINGS, 0, pieces=(names,))
    return file.finished(machine.number)


def _kind(section: ObjectSection) -> tuple[int, int]:
    if section.role == "run":
        return (_STARTS if section.name.startswith(".init") else _ENDS), _LOADED | _WRITE
    return _KINDS[section.role]


def _relocation(fixup: LinkerFixup, machine: ElfMachine, indexes: Mapping[str, int]) -> bytes:
    info = indexes[fixup.symbol] << _RECORDS.symbol_shift | machine.relocations[fixup.kind]
    return _RECORDS.rela.pack(fixup.offset, info, fixup.addend + _BEFORE_END.get(fixup.kind, 0))


def _property(machine: ElfMachine) -> bytes:
    """Return the note of one property: sizes of name and content, type 5, name; its number, size and bits."""
    content = b"".join(number.to_bytes(4, "little") for number in (machine.property, 4, machine.features, 0))
    return b"".join(number.to_bytes(4, "little") for number in (4, len(content), 5)) + b"GNU\0" + content


def _symbol_table(
    parts: ObjectParts, numbers: Mapping[str, int], processor: str
) -> tuple[bytes, bytes, dict[str, int], int]:
    """Return names, symbols, the index of each by its name or that of its section, and how many are local."""
    names = _ElfNames()
    rows = [bytes(_RECORDS.symbol.size), _RECORDS.symbol.pack(names.add(_FILE_NAME), _FILE, 0, _ABSOLUTE, 0, 0)]
    indexes: dict[str, int] = {}
    for section in parts.sections:
        if any(fixup.symbol == section.name for other in parts.sections for fixup in other.fixups):
            indexes[section.name] = len(rows)
            rows.append(_RECORDS.symbol.pack(0, _SECTION, 0, numbers[section.name], 0, 0))
    if processor == "aarch64":
        # Instructions start here (ELF for the Arm 64-bit architecture, "mapping symbols").
        code = next(section.name for section in parts.sections if section.role == "code")
        rows.append(_RECORDS.symbol.pack(names.add("$x"), 0, 0, numbers[code], 0, 0))
    local = [symbol for symbol in parts.symbols if symbol.scope == "local"]
    local_count = len(rows) + len(local)
    for symbol in (*local, *(symbol for symbol in parts.symbols if symbol.scope != "local")):
        indexes[symbol.name] = len(rows)
        rows.append(_row(symbol, names.add(symbol.name), numbers))
    return bytes(names.data), b"".join(rows), indexes, local_count


def _row(symbol: ObjectSymbol, name: int, numbers: Mapping[str, int]) -> bytes:
    kind = 0 if not symbol.section else _FUNCTION if symbol.is_function else _OBJECT
    other = _HIDDEN if symbol.scope == "hidden" else 0
    section = numbers[symbol.section] if symbol.section else _UNDEFINED
    return _RECORDS.symbol.pack(name, _BINDINGS[symbol.scope] << 4 | kind, other, section, symbol.offset, symbol.size)


class _ElfNames:
    """A table of names, each ended by a zero byte; the first is empty."""

    def __init__(self) -> None:
        self.data = bytearray(1)

    def add(self, name: str) -> int:
        at = len(self.data)
        self.data += name.encode("utf-8", "surrogateescape") + b"\0"
        return at


class _ElfWriter:
    """A file under way: its bytes so far, and the headers of its sections."""

    def __init__(self) -> None:
        self._pieces: list[Piece] = []
        self._size = _RECORDS.header.size
        self._names = _ElfNames()
        self._headers = [bytes(_RECORDS.section.size)]

    def add(
        self,
        name: str,
        kind: int,
        flags: int,
        *,
        align: int = 1,
        pieces: Sequence[Piece] = (),
        reserved: int = 0,
        link: int = 0,
        info: int = 0,
        entry_size: int = 0,
    ) -> None:
        """Add a section after what is there."""
        self._align(align)
        size = sum(map(len, pieces))
        row = (self._names.add(name), kind, flags, 0, self._size, size + reserved, link, info, align, entry_size)
        self._headers.append(_RECORDS.section.pack(*row))
        self._pieces += pieces
        self._size += size

    def _align(self, align: int) -> None:
        padding = -self._size % align
        if padding:
            self._pieces.append(bytes(padding))
            self._size += padding

    def finished(self, machine: int) -> tuple[Piece, ...]:
        """Return the file, with the names of its sections, their table, and the header in front."""
        name = self._names.add(".shstrtab")
        row = (name, _STRINGS, 0, 0, self._size, len(self._names.data), 0, 0, 1, 0)
        self._headers.append(_RECORDS.section.pack(*row))
        self._pieces.append(bytes(self._names.data))
        self._size += len(self._names.data)
        self._align(8)
        # 64 bits, little-endian, version 1, System V
        ident = MAGIC + bytes((2, 1, 1)) + bytes(9)
        count = len(self._headers)
        header = _RECORDS.header.pack(
            ident, 1, machine, 1, 0, 0, self._size, 0, _RECORDS.header.size, 0, 0, _RECORDS.section.size, count,
            count - 1,
        )  # fmt: skip
        return (header, *self._pieces, b"".join(self._headers))
