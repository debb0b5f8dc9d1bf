"""PE images as llvm-objcopy rewrites them: sections at multiples of the file alignment, and headers that say so.

::

    0x00  DOS header, whose last word is where "PE" is; a program for DOS
    ....  PE\\0\\0, file header, optional header with data directories, section table
    ....  sections, each at a multiple of the file alignment; symbols and strings, if there are any

Signatures are dropped: they lie in no section, and would not be valid any more.
"""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.binary.coff.coff_layout import HEADER, SECTION, SYMBOL
from fatpack.binary.coff.objcopy.sections import coff_error
from fatpack.binary.coff.reader import CoffObject
from fatpack.errors import HostError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.binary.coff.objcopy.sections import MutableCoffSection
    from fatpack.io.source import View

_DOS_SIZE, _NEW_HEADER_AT = 64, 60

#: Magic of the optional header → its size without data directories; their number is its last word
_OPTIONAL_SIZES = {0x10B: 96, 0x20B: 112}
#: Places in the optional header that are the same for 32 and 64 bits
_INITIALIZED_SIZE, _SECTION_ALIGN, _FILE_ALIGN, _IMAGE_SIZE, _HEADERS_SIZE, _CHECKSUM = 8, 32, 36, 56, 60, 64
_DIRECTORY_SIZE, _CERTIFICATES, _DEBUG = 8, 4, 6

#: A record of the debug directory: its size, and where the address and the file offset of what it describes are
_DEBUG_SIZE, _DEBUG_ADDRESS, _DEBUG_OFFSET = 28, 20, 24
_INITIALIZED = 0x40

#: LIMIT: data directories; the format has 16.
_MOST_DIRECTORIES = 1024


class PeImage(CoffObject):
    """A PE image, with the sections and symbols of an object. Raises FormatError if it is none."""

    def __init__(self, view: View) -> None:
        self.view = view
        self._stub = view.read(0, _DOS_SIZE)
        at = int.from_bytes(self._stub[_NEW_HEADER_AT:], "little")
        if self._stub[:2] != magic_numbers.DOS or view.head(at, len(magic_numbers.PE)) != magic_numbers.PE:
            raise coff_error(self, "not a PE image", 0, "magic")
        # A header inside the DOS header moves behind it.
        self._stub += view.read(_DOS_SIZE, max(at - _DOS_SIZE, 0))
        self.header_at = at + len(magic_numbers.PE)
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
        """Return where the first section starts in a file with so many."""
        optional = len(self._optional) + len(self._directories)
        size = (
            max(len(self._stub), _DOS_SIZE)
            + len(magic_numbers.PE)
            + HEADER.size
            + optional
            + section_count * SECTION.size
        )
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
        stub = self._stub[:_NEW_HEADER_AT] + len(self._stub).to_bytes(4, "little") + self._stub[_DOS_SIZE:]
        return b"".join((stub, magic_numbers.PE, header, optional, directories))

    def debug_directory(self, parts: Sequence[MutableCoffSection]) -> tuple[MutableCoffSection, int, bytes] | None:
        """Return the debug directory with new file offsets: the section it is in, and where; None without one."""
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
    """Return the section that has an address in memory, as far as it is in the file."""
    return next((part for part in parts if part.address <= address < part.address + part.size), None)


def align_up(position: int, align: int) -> int:
    """Return the first multiple of an alignment at or after a position."""
    return -(-position // align) * align
