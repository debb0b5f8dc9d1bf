"""Relocations of ELF files by symbol number: checked, searched and renumbered without holding them in memory."""

from __future__ import annotations

from fatpack.binary.elf.layout import CREL, MACHINE_MIPS, REL
from fatpack.binary.elf.relocations import RelocationBlock, relocation_blocks, relocation_shape
from fatpack.errors import HostError
from fatpack.io.source import Source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fatpack.binary.elf.file import ElfFile
    from fatpack.binary.elf.objcopy.sections import MutableElfSection
    from fatpack.binary.elf.relocations import RelocationShape
    from fatpack.io.source import View
    from fatpack.layout import Layout

    CrelEntry = tuple[int, int, int, int]
    """offset, symbol number, type, addend"""


# CREL encoding: a count, then the differences of each relocation from the one before, as LEB128 numbers. llvm-objcopy
# decodes them and encodes them again, always with addends (``llvm/include/llvm/MC/MCELFExtras.h``, LLVM 22.1).

_HAS_ADDENDS = 4
_SHIFT_MASK = 3


class _Leb128Reader:
    """A reader of LEB128 numbers in bytes. Raises ValueError after their end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def byte(self) -> int:
        if self._at >= len(self._data):
            raise ValueError("the relocations end in the middle of a number")
        self._at += 1
        return self._data[self._at - 1]

    def unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
            if shift > 70:
                raise ValueError("a number of the relocations has more than 64 bits")

    def signed(self) -> int:
        start = self._at
        value = self.unsigned()
        bits = 7 * (self._at - start)
        return value - (1 << bits) if value >> bits - 1 else value


def has_addends(data: bytes) -> bool:
    """Return whether relocations have addends; true if there are none. Raises ValueError if they are damaged."""
    header = _Leb128Reader(data).unsigned()
    return bool(header & _HAS_ADDENDS) or not header >> 3


def decode_crel(data: bytes, bits: int) -> list[CrelEntry]:
    """Return the relocations of a section, for a word size in bits. Raises ValueError if they are damaged."""
    reader = _Leb128Reader(data)
    header = reader.unsigned()
    count, shift = header >> 3, header & _SHIFT_MASK
    flag_bits = 3 if header & _HAS_ADDENDS else 2
    if count > len(data):
        raise ValueError(f"{count} relocations do not fit into {len(data)} bytes")
    mask, type_mask = (1 << bits) - 1, 0xFFFFFFFF if bits == 64 else 0xFF
    offset = symbol = kind = addend = 0
    entries = []
    for _ in range(count):
        byte = reader.byte()
        offset += byte >> flag_bits
        if byte >= 0x80:
            offset += (reader.unsigned() << 7 - flag_bits) - (0x80 >> flag_bits)
        symbol += reader.signed() if byte & 1 else 0
        kind += reader.signed() if byte & 2 else 0
        addend += reader.signed() if byte & header & _HAS_ADDENDS else 0
        entries.append((offset << shift & mask, symbol & 0xFFFFFFFF, kind & type_mask, addend & mask))
    return entries


def encode_crel(entries: Iterable[CrelEntry], bits: int) -> bytes:
    """Return relocations as the contents of a section."""
    entries = list(entries)
    mask = (1 << bits) - 1
    union = 8
    for offset, *_ in entries:
        union |= offset
    shift = (union & -union).bit_length() - 1
    result = bytearray(_unsigned(len(entries) << 3 | _HAS_ADDENDS | shift))
    old_offset = old_symbol = old_kind = old_addend = 0
    for offset, symbol, kind, addend in entries:
        delta = (offset - old_offset & mask) >> shift
        byte = (delta << 3 & 0xFF) + (symbol != old_symbol) + 2 * (kind != old_kind) + 4 * (addend != old_addend)
        if delta < 0x10:
            result.append(byte)
        else:
            result.append(byte & 0xFF | 0x80)
            result += _unsigned(delta >> 4)
        if symbol != old_symbol:
            result += _signed(symbol - old_symbol, 32)
        if kind != old_kind:
            result += _signed(kind - old_kind, 32)
        if addend != old_addend:
            result += _signed(addend - old_addend, bits)
        old_offset, old_symbol, old_kind, old_addend = offset, symbol, kind, addend
    return bytes(result)


def _unsigned(value: int) -> bytes:
    result = bytearray()
    while value >= 0x80:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)


def _signed(value: int, bits: int) -> bytes:
    """Return a number of the given width as SLEB128."""
    value = (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
    result = bytearray()
    while True:
        byte = value & 0x7F
        value >>= 7
        if value == (-1 if byte & 0x40 else 0):
            result.append(byte)
            return bytes(result)
        result.append(byte | 0x80)


def _renumbered(shape: RelocationShape, block: bytes, type: int, new: Sequence[int]) -> bytes:
    """Return whole relocations with new symbol numbers; ``new`` is indexed by old number."""
    column = RelocationBlock(shape, 0, block, type).symbols
    from array import array  # imports all of collections

    words, step = array("I", block), shape.row_size(type) // 4
    if not shape.is_native:
        words.byteswap()
    if shape.bits == 64:
        words[2 + shape.symbol_half :: step] = array("I", [new[number] for number in column])
    else:
        infos = zip(words[1::step], column, strict=True)
        words[1::step] = array("I", [new[number] << 8 | info & 0xFF for info, number in infos])
    if not shape.is_native:
        words.byteswap()
    return words.tobytes()


class RenumberedElfRelocations(Source):
    """Relocations of a view with new symbol numbers, computed when they are read."""

    def __init__(self, view: View, shape: RelocationShape, type: int, new: Sequence[int]) -> None:
        self.name = ""
        self.size = self.present = len(view)
        self._view = view
        self._shape, self._type = shape, type
        self._new = new

    def read(self, offset: int, size: int) -> bytes:
        """Return a copy of ``size`` bytes at ``offset``."""
        record = self._shape.row_size(self._type)
        start = offset - offset % record
        end = min(-(-(offset + size) // record) * record, self.size)
        block = _renumbered(self._shape, self._view.read(start, end - start), self._type, self._new)
        return block[offset - start : offset - start + size]


def _layout(elf: ElfFile, part: MutableElfSection) -> Layout:
    return elf.layouts.rel if part.type == REL else elf.layouts.rela


def read_crel_entries(elf: ElfFile, part: MutableElfSection) -> list[CrelEntry]:
    """Return the relocations of a section in CREL encoding."""

    data = elf.view.read(part.old_offset, part.size)
    is_known = elf.layouts.bits == 32 or elf.layouts.order == "big" or elf.header.machine != MACHINE_MIPS
    try:
        if is_known and has_addends(data):
            return decode_crel(data, elf.layouts.bits)
    except ValueError as error:
        raise elf.error(str(error), part.old_offset, f"section {part.old_index}") from error
    raise HostError(
        f"the relocations of {part.title} are in CREL encoding without addends, or of MIPS, which llvm-objcopy damages",
        hint="compile without --crel",
        chain=elf.view.chain,
    )


def check_all_relocations(elf: ElfFile, parts: Sequence[MutableElfSection], symbol_count: int) -> None:
    """Raise the errors of :func:`check` for several sections; adjacent ones are read at once."""
    run: list[MutableElfSection] = []
    for part in sorted(parts, key=lambda part: part.old_offset):
        last = run[-1] if run else part
        is_alike = part.type == last.type != CREL and part.entry_size == last.entry_size
        if run and not (is_alike and part.old_offset == last.old_offset + last.size):
            _check_run(elf, run, symbol_count)
            run = []
        run.append(part)
    if run:
        _check_run(elf, run, symbol_count)


def _check_run(elf: ElfFile, run: Sequence[MutableElfSection], symbol_count: int) -> None:
    start, end = run[0].old_offset, run[-1].old_offset + run[-1].size
    layout = _layout(elf, run[0])
    is_whole = all(part.entry_size == layout.size and not part.size % layout.size for part in run)
    if len(run) > 1 and is_whole and _largest(elf, run[0].type, start, end) < max(symbol_count, 1):
        return
    for part in run:
        check_relocations(elf, part, symbol_count)


def _largest(elf: ElfFile, type: int, start: int, end: int) -> int:
    """Return the largest symbol number in a range of relocations."""
    found = relocation_blocks(elf.view, relocation_shape(elf), type, start, end - start)
    return max((max(block.symbols) for block in found), default=0)


def check_relocations(elf: ElfFile, part: MutableElfSection, symbol_count: int) -> None:
    """Raise FormatError or HostError unless a section has whole relocations against symbols that exist.

    ``symbol_count`` is 0 for a file without a symbol table.
    """
    largest = 0
    if part.type == CREL:
        largest = max((entry[1] for entry in read_crel_entries(elf, part)), default=0)
    else:
        layout = _layout(elf, part)
        if part.entry_size != layout.size or part.size % layout.size:
            raise elf.error(
                f"section {part.old_index} does not hold whole relocations",
                elf.section_field(part.old_index, "size"),
                "size",
                f"a multiple of {layout.size}",
                f"{part.size}, entries of {part.entry_size}",
            )
        largest = _largest(elf, part.type, part.old_offset, part.old_offset + part.size)
    if largest and not symbol_count:
        raise HostError(
            f"'{part.title}': relocation references symbol with index {largest}, but there is no symbol table",
            hint="make it again",
            chain=elf.view.chain,
        )
    if largest and largest >= symbol_count:
        raise HostError(f"invalid symbol index: {largest}", hint="make it again", chain=elf.view.chain)


def first_use(elf: ElfFile, part: MutableElfSection, symbols: set[int]) -> tuple[int, int] | None:
    """Return offset and symbol number of the first relocation with one of the symbols; None if there is none."""
    if part.type == CREL:
        return next(
            ((offset, number) for offset, number, *_ in read_crel_entries(elf, part) if number in symbols), None
        )
    for block in relocation_blocks(elf.view, relocation_shape(elf), part.type, part.old_offset, part.size):
        if not symbols.isdisjoint(block.symbols):
            number = next(number for number, symbol in enumerate(block.symbols) if symbol in symbols)
            return block.places[number], block.symbols[number]
    return None


def renumber_relocations(elf: ElfFile, part: MutableElfSection, new: Sequence[int]) -> View:
    """Return the relocations of a section with new symbol numbers."""
    content = elf.view.slice(part.old_offset, part.size)
    return RenumberedElfRelocations(content, relocation_shape(elf), part.type, new).view()
