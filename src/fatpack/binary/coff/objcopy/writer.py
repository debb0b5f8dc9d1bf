"""Writing COFF objects and PE images as llvm-objcopy does, after sections were added or removed.

::

    0x00  DOS header, whose last word is where "PE" is; a program for DOS
    ....  PE\0\0, file header, optional header with data directories, section table
    ....  sections, each at a multiple of the file alignment; symbols and strings, if there are any

Signatures are dropped: they are in no section, and would no longer be valid.
"""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.binary.coff.layout import (
    BIG_HEADER,
    BIG_SYMBOL,
    DOS_HEADER_SIZE,
    HEADER,
    MAX_SECTIONS,
    OVERFLOWED_RELOCATIONS,
    RELOCATION,
    REMOVED_BY_LINKER,
    SECTION,
    SYMBOL,
    name_reference,
    pe_header_offset,
)
from fatpack.binary.coff.objcopy import sections
from fatpack.binary.coff.objcopy.sections import (
    ESCAPED_COUNT,
    MutableCoffSection,
    coff_error,
    read_sections,
    read_strings,
    renumber_symbol_sections,
)
from fatpack.binary.coff.objcopy.symbols import (
    MutableCoffSymbol,
    finish_auxiliary_records,
    pack_symbols,
    read_symbols,
    renumber_symbols,
)
from fatpack.binary.coff.reader import CoffObject
from fatpack.binary.new_file import PieceList, merge_strings
from fatpack.errors import HostError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fatpack.io.source import Piece, View


#: Magic of the optional header → its size without data directories, whose number is its last word
_OPTIONAL_SIZES = {0x10B: 96, 0x20B: 112}
#: Offsets in the optional header that are the same for 32 and 64 bits
_INITIALIZED_SIZE, _SECTION_ALIGN, _FILE_ALIGN, _IMAGE_SIZE, _HEADERS_SIZE, _CHECKSUM = 8, 32, 36, 56, 60, 64
_DIRECTORY_SIZE, _CERTIFICATES, _DEBUG = 8, 4, 6

#: A record of the debug directory: its size, and offsets of the address and file offset of its data
_DEBUG_SIZE, _DEBUG_ADDRESS, _DEBUG_OFFSET = 28, 20, 24
_INITIALIZED = 0x40

#: LIMIT: data directories; the format has 16.
_MOST_DIRECTORIES = 1024


class PeImage(CoffObject):
    """A PE image, with the sections and symbols of an object. Raises FormatError if the view is none."""

    def __init__(self, view: View) -> None:
        self.view = view
        at = pe_header_offset(view)
        if at is None:
            raise coff_error(self, "not a PE image", 0, "magic")
        # A header inside the DOS header moves after it.
        self._stub = view.read(0, max(at - len(magic_numbers.PE), DOS_HEADER_SIZE))
        self.header_at = at
        header = HEADER.named(view, self.header_at)
        self.is_big = False
        self.machine, self.section_count = header["machine"], header["section_count"]
        self.symbol_offset, self.symbol_count = header["symbol_offset"], header["symbol_count"]
        self.symbol_layout = SYMBOL
        optional_at = self.header_at + HEADER.size
        self.table_offset: int = optional_at + header["optional_size"]
        self.table_end: int = self.table_offset + self.section_count * SECTION.size
        size = _OPTIONAL_SIZES.get(int.from_bytes(view.read(optional_at, 2), "little"))
        if size is None:
            raise coff_error(self, "the optional header is neither of 32 nor of 64 bits", optional_at, "Magic")
        self._optional = view.read(optional_at, size)
        count = int.from_bytes(self._optional[-4:], "little")
        if count > _MOST_DIRECTORIES:
            raise coff_error(self, f"{count} data directories", optional_at + size - 4, "NumberOfRvaAndSizes")
        self._directories = view.read(optional_at + size, count * _DIRECTORY_SIZE)
        self.file_align, self.section_align = self._word(_FILE_ALIGN), self._word(_SECTION_ALIGN)
        if not self.file_align or not self.section_align:
            raise coff_error(self, "sections without alignment", optional_at + _SECTION_ALIGN, "SectionAlignment")

    def _word(self, at: int) -> int:
        return int.from_bytes(self._optional[at : at + 4], "little")

    def headers_size(self, section_count: int) -> int:
        """Return the position of the first section in a file with that many sections."""
        optional = len(self._optional) + len(self._directories)
        size = len(self._stub) + len(magic_numbers.PE) + HEADER.size + optional + section_count * SECTION.size
        return align_up(size, self.file_align)

    def headers(self, parts: Sequence[MutableCoffSection], symbol_offset: int, symbol_count: int) -> bytes:
        """Return everything before the section table."""
        old = HEADER.named(self.view, self.header_at)
        optional, directories = bytearray(self._optional), bytearray(self._directories)
        numbers = {
            _INITIALIZED_SIZE: sum(part.size for part in parts if part.flags & _INITIALIZED),
            _HEADERS_SIZE: self.headers_size(len(parts)),
            _CHECKSUM: 0,
        }
        if parts:
            numbers[_IMAGE_SIZE] = align_up(parts[-1].address + parts[-1].virtual_size, self.section_align)
        for at, number in numbers.items():
            optional[at : at + 4] = (number & 0xFFFFFFFF).to_bytes(4, "little")
        at = _CERTIFICATES * _DIRECTORY_SIZE
        directories[at : at + _DIRECTORY_SIZE] = bytes(len(directories[at : at + _DIRECTORY_SIZE]))
        header = HEADER.pack(
            old["machine"],
            len(parts),
            old["time"],
            symbol_offset,
            symbol_count,
            len(optional) + len(directories),
            old["flags"],
        )
        stub = self._stub[: DOS_HEADER_SIZE - 4] + len(self._stub).to_bytes(4, "little") + self._stub[DOS_HEADER_SIZE:]
        return b"".join((stub, magic_numbers.PE, header, optional, directories))

    def debug_directory(self, parts: Sequence[MutableCoffSection]) -> tuple[MutableCoffSection, int, bytes] | None:
        """Return section, offset and content of the debug directory with new file offsets; None without one."""
        at = _DEBUG * _DIRECTORY_SIZE
        address, size = (int.from_bytes(self._directories[place : place + 4], "little") for place in (at, at + 4))
        if not size:
            return None
        part = _holder(parts, address)
        if part is None:
            raise HostError("debug directory not found", hint="link again", chain=self.view.chain)
        start = address - part.address
        if start + size > part.size:
            raise HostError("debug directory extends past end of section", hint="link again", chain=self.view.chain)
        if size % _DEBUG_SIZE or start + size > part.stored_size:
            raise HostError("the debug directory does not hold whole records", hint="link again", chain=self.view.chain)
        records = bytearray(self.view.read(part.offset + start, size))
        for place in range(0, size, _DEBUG_SIZE):
            offset_at, address_at = place + _DEBUG_OFFSET, place + _DEBUG_ADDRESS
            if not any(records[offset_at : offset_at + 4]):
                continue
            target = int.from_bytes(records[address_at : address_at + 4], "little")
            holder = _holder(parts, target)
            if holder is None:
                raise HostError("debug directory payload not found", hint="link again", chain=self.view.chain)
            offset = holder.new_offset + target - holder.address
            records[offset_at : offset_at + 4] = (offset & 0xFFFFFFFF).to_bytes(4, "little")
        return part, start, bytes(records)


def _holder(parts: Sequence[MutableCoffSection], address: int) -> MutableCoffSection | None:
    """Return the section with an address in memory, if the file contains it."""
    return next((part for part in parts if part.address <= address < part.address + part.size), None)


def align_up(position: int, align: int) -> int:
    """Return the first multiple of an alignment at or after a position."""
    return -(-position // align) * align


# Adding and removing sections

#: Flags that a section keeps when others are set, and flags that every section gets
_ALIGN_FLAGS, _READ = 0x00F00000, 0x40000000

_WORD = 0xFFFFFFFF


class CoffModel:
    """A COFF object, or an ``image``, that can be written again. Raises FormatError if it is damaged.

    ``by_old_index`` are the symbols by the numbers of their records, None for auxiliary ones.
    """

    def __init__(self, coff: CoffObject) -> None:
        self.coff = coff
        strings = read_strings(coff)
        self.image = coff if isinstance(coff, PeImage) else None
        self.parts = read_sections(coff, strings, is_image=self.image is not None)
        self.symbols = read_symbols(coff, self.parts, strings, is_image=self.image is not None)
        self.by_old_index: list[MutableCoffSymbol | None] = [None] * (coff.symbol_count if self.symbols else 0)
        for symbol in self.symbols:
            self.by_old_index[symbol.old_index] = symbol
        for symbol in self.symbols:
            if symbol.target >= len(self.by_old_index):
                raise coff_error(coff, "weak external reference out of range", coff.symbol_offset, "symbol table")
            if symbol.target >= 0 and self.by_old_index[symbol.target] is None:
                raise coff_error(coff, "invalid SymbolTableIndex", coff.symbol_offset, "symbol table")
        for part in self.parts:
            sections.check_relocations(coff, part, self.by_old_index)

    def add(self, name: bytes, content: Sequence[Piece]) -> None:
        """Append a section that linkers remove."""
        size = sum(map(len, content))
        if size > _WORD:
            raise HostError(f"{size} bytes do not fit into a COFF object", chain=self.coff.view.chain)
        last = self.parts[-1] if self.parts else None
        # QUIRK(llvm-objcopy): sections that it adds to objects have addresses, too.
        address = last.address + last.virtual_size & _WORD if last else 0
        stored_size = size
        if self.image is not None:
            address = align_up(address, self.image.section_align)
            stored_size = align_up(size, self.image.file_align)
        row = (b"", size, address & _WORD, stored_size, 0, 0, 0, 0, 0, _READ | REMOVED_BY_LINKER)
        self.parts.append(MutableCoffSection(row, name, len(self.parts) + 1, tuple(content)))

    def exclude(self, names: set[bytes]) -> None:
        """Set the flags of sections with given names to those of sections that linkers remove."""
        for part in self.parts:
            if part.name in names:
                part.flags = part.flags & _ALIGN_FLAGS | _READ | REMOVED_BY_LINKER

    def remove(self, is_unwanted: Callable[[MutableCoffSection], bool]) -> None:
        """Remove sections, associated ones, and all their symbols; references to them are checked later."""
        removed = {part for part in self.parts if is_unwanted(part)}
        while removed:
            for part in removed:
                part.number = 0
            associated = {
                symbol.section
                for symbol in self.symbols
                if symbol.associated in removed and symbol.section is not None and symbol.section.number
            }
            for symbol in self.symbols:
                if symbol.section in removed:
                    symbol.index = -1
            self.symbols = [symbol for symbol in self.symbols if symbol.index >= 0]
            removed = associated
        self.parts = [part for part in self.parts if part.number]
        for number, part in enumerate(self.parts, 1):
            part.number = number


# Writing: sections one after the other, then symbols and strings

_SHORT_NAME = 8
_CODE = 0x20
_LARGEST = 0xFFFFFFFF


def write_model(model: CoffModel) -> list[Piece]:
    """Return the new object; it is a big one only if it has too many sections for a classic one."""
    coff = model.coff
    is_big = len(model.parts) > MAX_SECTIONS
    width = (BIG_SYMBOL if is_big else SYMBOL).size
    has_changed = renumber_symbols(model.symbols, width)
    has_gone = len(model.by_old_index) > 0 and any(symbol and symbol.index < 0 for symbol in model.by_old_index)
    if has_gone:
        for part in model.parts:
            sections.check_kept_relocations(coff, part, model.by_old_index)
    finish_auxiliary_records(model.symbols, model.by_old_index, coff.view.chain)
    if model.image is None:
        renumber_symbol_sections(model)
    names = merge_strings(
        (
            (part.name for part in model.parts if len(part.name) > _SHORT_NAME),
            (symbol.name for symbol in model.symbols if len(symbol.name) > _SHORT_NAME),
        ),
        4,
    )
    start, align = (BIG_HEADER if is_big else HEADER).size + len(model.parts) * SECTION.size, 1
    if model.image is not None:
        start, align = model.image.headers_size(len(model.parts)), model.image.file_align
    end = start
    rows: list[bytes] = []
    for part in model.parts:
        if part.relocation_count and not part.size:
            raise HostError(
                f"section '{part.title}' is empty and has relocations, which llvm-objcopy writes over the header",
                hint="compile the object again",
                chain=coff.view.chain,
            )
        row, end = _row(part, names.offsets, end)
        end = align_up(end, align)
        rows.append(row)
    if end + sum(symbol.record_count(width) for symbol in model.symbols) * width + 4 + len(names.stored) > _LARGEST:
        raise HostError("the object would outgrow 32-bit offsets", chain=coff.view.chain)
    tail = [pack_symbols(model.symbols, names.offsets, is_big=is_big)]
    symbol_count = len(tail[0]) // width
    if names.stored or symbol_count or model.image is None:
        # QUIRK(llvm-objcopy): in images, an empty string table does not count its own size.
        size = 4 + len(names.stored) if names.stored or model.image is None else 0
        tail += [size.to_bytes(4, "little"), names.stored]
        first = _header(model, end, symbol_count, is_big=is_big)
    else:
        first = _header(model, 0, 0, is_big=is_big)
    body = PieceList(coff.view, [b"".join((first, *rows))])
    body.fill(start)
    _add_body(model, body, has_changed=has_changed)
    body.fill(end)
    body.put(tail)
    body.fill(align_up(body.at, align))
    return body.finished()


def _row(part: MutableCoffSection, names: Mapping[bytes, int], at: int) -> tuple[bytes, int]:
    """Return a section header for contents at a position, and the position after contents and relocations."""
    flags, count = part.flags, part.relocation_count
    part.new_offset = at if part.size else 0
    at += part.size
    pointer = at if count else 0
    if count >= ESCAPED_COUNT:
        flags |= OVERFLOWED_RELOCATIONS
        at += RELOCATION.size
    at += count * RELOCATION.size
    name = part.name if len(part.name) <= _SHORT_NAME else name_reference(names[part.name])
    row = SECTION.pack(
        name,
        part.virtual_size,
        part.address,
        part.size,
        part.new_offset & _LARGEST,
        pointer & _LARGEST,
        part.line_offset,
        min(count, ESCAPED_COUNT),
        part.line_count,
        flags,
    )
    return row, at


def _add_body(model: CoffModel, body: PieceList, *, has_changed: bool) -> None:
    """Add contents and relocations of all sections."""
    debug = model.image.debug_directory(model.parts) if model.image is not None else None
    for part in model.parts:
        if part.size:
            body.fill(part.new_offset)
            stored_size = part.stored_size
            if debug is not None and part is debug[0]:
                _, start, records = debug
                body.copy(part.offset, start)
                body.put([records])
                stored_size -= start + len(records)
                body.copy(part.offset + start + len(records), stored_size)
            else:
                body.copy(part.offset, stored_size)
            body.put(part.content)
            # QUIRK(llvm-objcopy): filler of code is breakpoints of x86, that of uninitialised data is real zeros.
            body.fill(part.new_offset + part.size, b"\xcc" if part.flags & _CODE else b"\0")
        if part.relocation_count >= ESCAPED_COUNT:
            body.put([RELOCATION.pack(part.relocation_count + 1, 0, 0)])
        if part.relocation_count and has_changed:
            body.put([sections.renumber_relocations(model.coff, part, model.by_old_index)])
        else:
            body.copy(part.relocations, part.relocation_count * RELOCATION.size)


def _header(model: CoffModel, symbol_offset: int, symbol_count: int, *, is_big: bool) -> bytes:
    coff = model.coff
    if model.image is not None:
        return model.image.headers(model.parts, symbol_offset, symbol_count)
    layout = BIG_HEADER if coff.is_big else HEADER
    old = layout.named(coff.view, 0)
    count = len(model.parts)
    if is_big:
        return BIG_HEADER.pack(
            magic_numbers.ANONYMOUS_COFF,
            2,
            old["machine"],
            old["time"],
            magic_numbers.BIG_COFF_CLASS,
            0,
            0,
            0,
            0,
            count,
            symbol_offset,
            symbol_count,
        )
    flags = 0 if coff.is_big else old["flags"]
    return HEADER.pack(old["machine"], count, old["time"], symbol_offset, symbol_count, 0, flags)
