"""The header of an ELF image and its extent: one of the readers of ELF (see :mod:`fatpack.binary.elf`).

It identifies the thousands of images of a library, so it reads as little as possible and checks nothing else::

    0x00  header         64 bytes (ELF32: 52), locates the two tables
          sections       anywhere, in any order; NOBITS sections take no bytes, nor do those of CUDA's memory
          section table  64 bytes (40) each
          program table  56 bytes (32) each; nvcc writes it last, LLVM first

The end of the image is the end of the last of these: CUDA fat binaries store cubins with padding, which is found this
way (cuobjdump trims the same). System V gABI, chapters 4 and 5, for the fields and the escape of large section counts
(``e_shnum`` 0: the count is ``sh_size`` of section 0).
"""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.binary.elf import table
from fatpack.binary.elf.layout import CLASSES, CUDA, EXECUTABLE, NOBITS, NULL, ORDERS, SHARED, elf_layouts

TYPE_CHECKING = False
if TYPE_CHECKING:
    import struct
    from collections.abc import Collection, Iterator, Sequence
    from typing import Any

    from fatpack.binary.elf.layout import ElfLayouts
    from fatpack.io.source import View

#: e_type → text
FILE_TYPE_WORDS = {1: "relocatable", 2: "executable", 3: "shared object", 4: "core dump"}

#: sh_type of sections without bytes; relocatable cubins (``ptxas -c``) have types of their own for global, local,
#: shared and reserved shared memory
_WITHOUT_BYTES = {NULL, NOBITS}
_WITHOUT_BYTES_CUDA = {*_WITHOUT_BYTES, 0x70000007, 0x70000009, 0x7000000A, 0x70000015}


class HeaderStructs:
    """The structs of one word size and byte order: a part of the fields in ``fatpack.binary.elf.layout``."""

    def __init__(self, layouts: ElfLayouts) -> None:
        self.bits = layouts.bits
        self.order = layouts.order
        #: type, machine, version, phoff, shoff, flags, phentsize, phnum, shentsize, shnum, shstrndx
        self.header = layouts.header.partial(
            *("type", "machine", "version", "program_offset", "section_offset", "flags"),
            *("program_entry_size", "program_count", "section_entry_size", "section_count", "names_index"),
        )
        section, symbol = layouts.section, layouts.symbol
        #: type, offset, size
        self.extent = section.partial("type", "offset", "size")
        #: type, offset, size, link, entsize
        self.section = section.partial("type", "offset", "size", "link", "entry_size")
        #: offset, filesz
        self.segment = layouts.program.partial("offset", "file_size")
        #: type, offset, filesz, memsz of a segment
        self.loaded = layouts.program.partial("type", "offset", "file_size", "memory_size")
        #: name, info, other, section
        self.symbol = symbol.partial("name_offset", "info", "other", "section_index")
        #: offset of st_info in a symbol; st_other and st_shndx follow
        self.info_at = symbol.field_offset("info")
        #: value, size of a symbol
        self.place = symbol.partial("value", "size")
        #: name, type, flags, address, offset, size, link, info of a section
        self.row = section.partial("name_offset", "type", "flags", "address", "offset", "size", "link", "info")


#: magic with EI_CLASS and EI_DATA → structs, made for the first file of a kind
_SHAPES: dict[bytes, HeaderStructs] = {}


def _shape(ident: bytes) -> HeaderStructs | None:
    """Return the structs for the first six bytes of a file; None if it is no ELF file or its class is unknown."""
    if ident not in _SHAPES:
        bits, order = (CLASSES.get(ident[4]), ORDERS.get(ident[5])) if len(ident) == 6 else (None, None)
        if ident[:4] != magic_numbers.ELF or bits is None or order is None:
            return None
        _SHAPES[ident] = HeaderStructs(elf_layouts(bits, order))
    return _SHAPES[ident]


class QuickHeader:
    """The header of an ELF image; see :func:`read_quick_header`. Numbers are as stored, unchecked."""

    __slots__ = (
        "abi_version",
        "flags",
        "machine",
        "osabi",
        "phentsize",
        "phnum",
        "phoff",
        "shape",
        "shentsize",
        "shnum",
        "shoff",
        "shstrndx",
        "type",
        "version",
        "view",
    )

    def __init__(self, view: View, shape: HeaderStructs, head: bytes) -> None:
        self.view = view
        self.shape = shape
        self.osabi, self.abi_version = head[7], head[8]
        fields: tuple[int, ...] = shape.header.unpack_from(head)
        self.type, self.machine, self.version, self.phoff, self.shoff, self.flags = fields[:6]
        self.phentsize, self.phnum, self.shentsize, self.shnum, self.shstrndx = fields[6:]

    def describe(self) -> str:
        """Return word size and file type as text: ``ELF64 relocatable``."""
        return f"ELF{self.shape.bits} {FILE_TYPE_WORDS.get(self.type, f'of type {self.type}')}"

    def section_count(self) -> int:
        """Return the number of section headers; 0 if there is no table or it cannot be read."""
        if self.shnum or not self.shoff:
            return self.shnum
        first = self.view.head(self.shoff, self.shape.extent.size)
        if len(first) < self.shape.extent.size:
            return 0
        _, _, count = self.shape.extent.unpack(first)
        return int(count)

    def sections(self, row: struct.Struct) -> Iterator[tuple[Any, ...]]:
        """Yield fields of all section headers: ``row`` is a struct of the shape. Raises BadValue, Truncated."""
        count = self.section_count()
        if count:
            table.check_table(self.view, "section table", self.shoff, count, row.size, self.shentsize)
        return table.read_table_rows(self.view, self.shoff, count, row)

    @property
    def types_without_bytes(self) -> Collection[int]:
        """The types of sections that have a size, and no bytes in the file."""
        return _WITHOUT_BYTES_CUDA if self.machine == CUDA else _WITHOUT_BYTES

    def extent(self, wanted: Collection[int] = ()) -> tuple[int | None, list[tuple[int, int, int]]]:
        """Return the end of the image according to its headers, and the sections of the ``wanted`` types.

        The sections are (type, offset, size), unchecked. The end is None if the tables have another entry size. Never
        raises for damaged bytes.
        """
        shape, view = self.shape, self.view
        found: list[tuple[int, int, int]] = []
        count = self.section_count()
        end = max(shape.header.size, self.phoff + self.phnum * self.phentsize if self.phnum else 0)
        if not count:
            return self._segment_end(end), found
        size = shape.extent.size
        if self.shentsize != size:
            return None, found
        end = max(end, self.shoff + count * size)
        empty = self.types_without_bytes
        for row in table.read_table_rows(view, self.shoff, count, shape.extent):
            kind, offset, extent = row
            # Section 0 has no bytes; its size may be the section count.
            if offset + extent > end and kind not in empty:
                end = offset + extent
            if kind in wanted:
                found.append(row)
        return end, found

    def _segment_end(self, end: int) -> int | None:
        """Return the end of an image without sections, which is that of the last segment."""
        shape = self.shape
        if not self.phnum:
            return end
        if self.phentsize != shape.segment.size:
            return None
        for offset, size in table.read_table_rows(self.view, self.phoff, self.phnum, shape.segment):
            end = max(end, offset + size)
        return end


def read_quick_header(view: View, head: bytes) -> QuickHeader | None:
    """Return the header from the first 64 bytes of an image; None if it is truncated or its class is unknown."""
    shape = _SHAPES.get(head[:6]) or _shape(head[:6])
    return None if shape is None or len(head) < shape.header.size else QuickHeader(view, shape, head)


def read_file_type(view: View) -> int | None:
    """Return ``e_type``; None if the file is not an ELF file or its header is truncated."""
    found = read_quick_header(view, view.head(0, 64))
    return None if found is None else found.type


def is_linked(view: View) -> bool:
    """Return whether a file is a linked ELF program or library, whose sections have addresses."""
    return read_file_type(view) in (EXECUTABLE, SHARED)


def decode_name(name: bytes) -> str:
    """Return a stored name as text; bytes that are not UTF-8 become escapes, so that nothing is lost."""
    return name.decode("utf-8", "backslashreplace")


def decode_names(names: Sequence[bytes]) -> list[str]:
    """Return :func:`decode_name` of several names without NULs at once."""
    return decode_name(b"\0".join(names)).split("\0") if names else []
