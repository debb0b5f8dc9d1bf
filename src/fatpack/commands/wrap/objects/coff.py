"""Parts as a COFF object for x86-64.

::

    header │ section table │ each section's bytes and relocations │ symbols │ names

The addend of an address is stored in the place that the linker fills in. Bounds of all offload entries are in COMDAT
sections, of which a linker keeps one of each; LLVM's wrappers have them as weak symbols, which refer to these then.
"""

from __future__ import annotations

from fatpack.binary.coff.layout import HEADER, OVERFLOWED_RELOCATIONS, RELOCATION, SECTION, SECTION_DEFINITION, SYMBOL
from fatpack.errors import UsageError
from fatpack.io.source import PiecesSource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fatpack.commands.wrap.code.template import LinkerFixup
    from fatpack.commands.wrap.objects.contents import ObjectParts, ObjectSection, ObjectSymbol
    from fatpack.io.source import Piece

_X86_64 = 0x8664

_CODE, _DATA, _ZEROS, _COMDAT = 0x20, 0x40, 0x80, 0x1000
_EXECUTE, _READ, _WRITE = 0x20000000, 0x40000000, 0x80000000
_ALIGN_SHIFT = 20

#: role → characteristics, without the alignment
_FLAGS = {
    "code": _CODE | _EXECUTE | _READ,
    "tables": _DATA | _READ,
    "image": _DATA | _READ,
    "offloading": _DATA | _READ,
    "wrapper": _DATA | _READ,
    "zeros": _ZEROS | _READ | _WRITE,
    "run": _DATA | _READ,
    "frames": _DATA | _READ,
    "group": _DATA | _READ | _COMDAT,
}

#: IMAGE_REL_AMD64_ADDR64, _ADDR32NB, _REL32
_RELOCATIONS = {"address": (1, 8), "image32": (3, 4), "pc32": (4, 4), "call32": (4, 4)}

_EXTERNAL, _STATIC, _FILE = 2, 3, 103
_FUNCTION = 0x20
_DEBUG = -2
#: IMAGE_COMDAT_SELECT_ANY
_ANY = 2

#: The name that LLVM gives to the module that its tools make of images.
_FILE_NAME = b"offload.wrapper.module"

#: The number of relocations in a section header if 16 bits do not hold it.
_MANY = 0xFFFF

#: Sizes and offsets have 32 bits.
_LARGEST = 0xFFFFFFFF


def coff_object(parts: ObjectParts) -> tuple[Piece, ...]:
    """Return the bytes of an object, in order; those of images are what was given, uncopied.

    Raises UsageError for images that no COFF object can hold.
    """
    names = _CoffNames()
    symbols, indexes = _symbol_table(parts, names)
    headers: list[bytes] = []
    pieces: list[Piece] = []
    at = HEADER.size + len(parts.sections) * SECTION.size
    for section in parts.sections:
        content = _filled(section)
        size = sum(map(len, content))
        relocations = _relocations(section, indexes)
        flags = _FLAGS[section.role] | section.align.bit_length() << _ALIGN_SHIFT
        if section.name.startswith((".ctors", ".dtors")):
            flags |= _WRITE
        count = min(len(section.fixups), _MANY)
        if count == _MANY:
            flags |= OVERFLOWED_RELOCATIONS
        start, table = (at if size else 0), (at + size if relocations else 0)
        name = names.short(section.name)
        headers.append(
            SECTION.pack(name, 0, 0, section.size, start, table, 0, count, 0, flags)
        )  # fmt: skip
        pieces += (*content, relocations)
        at += size + len(relocations)
    if at + len(symbols) + len(names.data) > _LARGEST:
        raise UsageError("the images are larger than a COFF object can be", hint="4 GB is the most; wrap some of them")
    header = HEADER.pack(_X86_64, len(parts.sections), 0, at, len(symbols) // SYMBOL.size, 0, 0)
    return (header, *headers, *pieces, symbols, names.table())


def _filled(section: ObjectSection) -> tuple[Piece, ...]:
    """Return the pieces of a section with what is added to addresses in them."""
    if not any(fixup.addend for fixup in section.fixups):
        return section.pieces
    data = bytearray(PiecesSource(section.pieces).view().tobytes())
    for fixup in section.fixups:
        size = _RELOCATIONS[fixup.kind][1]
        data[fixup.offset : fixup.offset + size] = fixup.addend.to_bytes(size, "little")
    return (bytes(data),)


def _relocations(section: ObjectSection, indexes: Mapping[str, int]) -> bytes:
    """Return the relocations of a section; of more than a header counts, the first one holds the number of all."""
    records = [_relocation(fixup, indexes) for fixup in section.fixups]
    if len(records) >= _MANY:
        records.insert(0, RELOCATION.pack(len(records) + 1, 0, 0))
    return b"".join(records)


def _relocation(fixup: LinkerFixup, indexes: Mapping[str, int]) -> bytes:
    return RELOCATION.pack(fixup.offset, indexes[fixup.symbol], _RELOCATIONS[fixup.kind][0])


def _symbol_table(parts: ObjectParts, names: _CoffNames) -> tuple[bytes, dict[str, int]]:
    """Return the symbols, and the number of each by its name or that of its section."""
    records: list[bytes] = []
    indexes: dict[str, int] = {}
    chunks = [_FILE_NAME[at : at + SYMBOL.size] for at in range(0, len(_FILE_NAME), SYMBOL.size)]
    records.append(SYMBOL.pack(b".file".ljust(8, b"\0"), 0, _DEBUG, 0, _FILE, len(chunks)))
    records += [chunk.ljust(SYMBOL.size, b"\0") for chunk in chunks]
    numbers = {section.name: number for number, section in enumerate(parts.sections, 1)}
    for section in parts.sections:
        indexes[section.name] = len(records)
        selection = _ANY if section.role == "group" else 0
        records.append(SYMBOL.pack(names.short(section.name, "symbol"), 0, numbers[section.name], 0, _STATIC, 1))
        count = min(len(section.fixups), _MANY)
        definition = SECTION_DEFINITION.pack(section.size, count, 0, 0, 0, selection)
        records.append(definition.ljust(SYMBOL.size, b"\0"))
    for symbol in parts.symbols:
        indexes[symbol.name] = len(records)
        records.append(_symbol(symbol, parts.sections, numbers, names))
    return b"".join(records), indexes


def _symbol(
    symbol: ObjectSymbol, sections: Sequence[ObjectSection], numbers: Mapping[str, int], names: _CoffNames
) -> bytes:
    number = numbers[symbol.section] if symbol.section else 0
    is_leader = bool(number) and sections[number - 1].role == "group"
    storage = _EXTERNAL if is_leader or not number else _STATIC
    kind = _FUNCTION if symbol.is_function or not number else 0
    return SYMBOL.pack(names.short(symbol.name, "symbol"), symbol.offset, number, kind, storage, 0)


class _CoffNames:
    """The string table: names of more than 8 bytes, each once."""

    def __init__(self) -> None:
        self.data = bytearray(4)
        self._places: dict[str, int] = {}

    def short(self, name: str, kind: str = "section") -> bytes:
        """Return the 8 bytes of a name in the header of a section, or in a symbol."""
        stored = name.encode("utf-8", "surrogateescape")
        if len(stored) <= 8:
            return stored.ljust(8, b"\0")
        if name not in self._places:
            self._places[name] = len(self.data)
            self.data += stored + b"\0"
        return _reference(self._places[name], kind)

    def table(self) -> bytes:
        """Return the table, with its size in front."""
        return len(self.data).to_bytes(4, "little") + bytes(self.data[4:])


def _reference(at: int, kind: str) -> bytes:
    return bytes(4) + at.to_bytes(4, "little") if kind == "symbol" else f"/{at}".encode().ljust(8, b"\0")
