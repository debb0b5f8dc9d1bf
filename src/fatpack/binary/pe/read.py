"""Reading PE images: headers, the section table, and where the directories of the optional header are."""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.binary.coff.layout import CoffSection, file_header_layout, name_offset, section_header_layout
from fatpack.layout import Field, Layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View

FORMAT = "pe"

DOS_HEADER = Layout(
    FORMAT,
    "DOS header",
    (
        Field("magic", "bytes[2]", "e_magic: MZ"),
        Field("dos", "bytes[58]", "what DOS needs to start the program behind this header"),
        Field("pe_offset", "u32", "e_lfanew: where the PE signature is"),
    ),
)
HEADER = file_header_layout(FORMAT)
SECTION = section_header_layout(FORMAT)
LAYOUTS = (DOS_HEADER, HEADER, SECTION)

SIGNATURE = magic_numbers.PE

#: bytes of a section name that are read; real ones have a few dozen
_LONGEST_NAME = 256

SYMBOL_SIZE = 18
UNINITIALIZED = 0x80

#: optional header's magic → where its data directories start
_DIRECTORIES = {b"\x0b\x01": 96, b"\x0b\x02": 112}
_CERTIFICATES, _BASE_RELOCATIONS = 4, 5

#: optional header's magic → bytes of an address, and where ImageBase is
_ADDRESSES = {b"\x0b\x01": (4, 28), b"\x0b\x02": (8, 24)}


class PeFile:
    """The headers of a PE image. Raises Truncated where they end early."""

    def __init__(self, view: View) -> None:
        self.view = view
        *_, self.pe_offset = DOS_HEADER.read(view, 0)
        self.header_offset = self.pe_offset + len(SIGNATURE)
        row = HEADER.read(view, self.header_offset)
        _, self.section_count, _, self.symbol_offset, self.symbol_count, self.optional_size, _ = row
        self.optional_offset = self.header_offset + HEADER.size
        self.table_offset = self.optional_offset + self.optional_size

    def sections(self) -> Iterator[CoffSection]:
        """Yield the section headers, numbered from 1 on. Raises Truncated behind the last whole one."""
        for number in range(self.section_count):
            row = SECTION.read(self.view, self.table_offset + number * SECTION.size)
            yield CoffSection(number + 1, *row)

    def name(self, stored: bytes) -> bytes:
        """Return a section's name, or the start of a long one; the stored bytes where nothing can be looked up."""
        place = name_offset(stored)
        if place is None or place < 4 or not self.symbol_offset:
            return stored.rstrip(b"\0")
        strings = self.symbol_offset + self.symbol_count * SYMBOL_SIZE
        return self.view.head(strings + place, _LONGEST_NAME).partition(b"\0")[0]

    @property
    def word(self) -> int:
        """The number of bytes in an address."""
        return self._address()[0]

    @property
    def base(self) -> int:
        """ImageBase: the address at which the image expects to be loaded, and which pointers in it include."""
        word, at = self._address()
        return int.from_bytes(self.view.head(self.optional_offset + at, word), "little")

    def _address(self) -> tuple[int, int]:
        return _ADDRESSES.get(self.view.head(self.optional_offset, 2), (8, 24))

    def certificates(self) -> tuple[int, int]:
        """Return position and size of the certificate table: zeros in an image that is not signed."""
        return self._directory(_CERTIFICATES)

    def base_relocations(self) -> tuple[int, int]:
        """Return address, without ImageBase, and size of the table of base relocations: zeros if there is none."""
        return self._directory(_BASE_RELOCATIONS)

    def _directory(self, number: int) -> tuple[int, int]:
        start = _DIRECTORIES.get(self.view.head(self.optional_offset, 2))
        if start is None or start + 8 * (number + 1) > self.optional_size:
            return 0, 0
        entry = self.view.head(self.optional_offset + start + 8 * number, 8)
        return int.from_bytes(entry[:4], "little"), int.from_bytes(entry[4:], "little")
