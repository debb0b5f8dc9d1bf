"""ELF as far as images and tables of symbols need it: the header, the extent of the file, and its symbols.

::

    0x00  header         64 bytes (ELF32: 52), names the two tables
          sections       anywhere, in any order; NOBITS sections take no bytes, nor do those of CUDA's memory
          section table  64 bytes (40) each
          program table  56 bytes (32) each; nvcc writes it last, LLVM first

The end of the image is the end of the last of these: CUDA fat binaries store cubins padded, and the padding is
found this way (cuobjdump trims the same). System V gABI, chapters 4 and 5, for the fields and the escape of large
section counts (``e_shnum`` 0: the count is ``sh_size`` of section 0).
"""

from __future__ import annotations

import struct

from fatpack import magics
from fatpack.errors import BadValue, LimitExceeded, Truncated
from fatpack.io import limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from fatpack.io.source import View

#: e_machine of the device ELFs
CUDA, AMDGPU = 190, 224

#: e_type → words
TYPES = {1: "relocatable", 2: "executable", 3: "shared object", 4: "core dump"}

#: sh_type
SYMTAB, NOTE, NOBITS, DYNSYM = 2, 7, 8, 11

#: sh_type of what takes no bytes; relocatable cubins (``ptxas -c``) have global, local, shared and reserved shared
#: memory in types of their own
_WITHOUT_BYTES = {0, NOBITS}
_WITHOUT_BYTES_CUDA = {*_WITHOUT_BYTES, 0x70000007, 0x70000009, 0x7000000A, 0x70000015}

#: Section headers and symbols are read this many at a time.
_ROWS = 8192


class Shape:
    """The struct readers for one word size and byte order; both are chosen once, per file."""

    def __init__(self, bits: int, order: str) -> None:
        wide = bits == 64
        self.bits = bits
        #: type, machine, version, phoff, shoff, flags, phentsize, phnum, shentsize, shnum
        self.header = struct.Struct(order + ("16xHHI8xQQI2xHHHH2x" if wide else "16xHHI4xIII2xHHHH2x"))
        #: type, offset, size
        self.extent = struct.Struct(order + ("4xI16xQQ24x" if wide else "4xI8xII16x"))
        #: type, offset, size, link, entsize
        self.section = struct.Struct(order + ("4xI16xQQI12xQ" if wide else "4xI8xIII8xI"))
        #: offset, filesz
        self.segment = struct.Struct(order + ("8xQ16xQ16x" if wide else "4xI8xI12x"))
        #: name, info, other, section
        self.symbol = struct.Struct(order + ("IBBH16x" if wide else "I8xBBH"))
        #: value, size of a symbol
        self.place = struct.Struct(order + ("8xQQ" if wide else "4xII4x"))
        #: name, type, flags, address, offset, size, link, info of a section
        self.row = struct.Struct(order + ("IIQQQQII16x" if wide else "IIIIIIII8x"))


#: EI_CLASS and EI_DATA behind the magic → shape
_SHAPES = {
    magics.ELF + bytes((kind, data)): Shape(32 * kind, order) for kind in (1, 2) for data, order in ((1, "<"), (2, ">"))
}


class Elf:
    """The header of an ELF image; see :func:`header`. Numbers are as stored, unchecked."""

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
        "type",
        "version",
        "view",
    )

    def __init__(self, view: View, shape: Shape, head: bytes) -> None:
        self.view = view
        self.shape = shape
        self.osabi, self.abi_version = head[7], head[8]
        fields: tuple[int, ...] = shape.header.unpack_from(head)
        self.type, self.machine, self.version, self.phoff, self.shoff, self.flags = fields[:6]
        self.phentsize, self.phnum, self.shentsize, self.shnum = fields[6:]

    def describe(self) -> str:
        """Return word size and file type in words: ``ELF64 relocatable``."""
        return f"ELF{self.shape.bits} {TYPES.get(self.type, f'of type {self.type}')}"

    def section_count(self) -> int:
        """Return the number of section headers; 0 when there is no table or it cannot be read."""
        if self.shnum or not self.shoff:
            return self.shnum
        first = self.view.head(self.shoff, self.shape.extent.size)
        if len(first) < self.shape.extent.size:
            return 0
        _, _, count = self.shape.extent.unpack(first)
        return int(count)

    def extent(self, wanted: Collection[int] = ()) -> tuple[int | None, list[tuple[int, int, int]]]:
        """Return where the image ends by its own headers, and the sections of the ``wanted`` types.

        The sections are (type, offset, size), unchecked. The end is None when the tables cannot be read as such.
        Never raises on the bytes.
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
        empty = _WITHOUT_BYTES_CUDA if self.machine == CUDA else _WITHOUT_BYTES
        at = self.shoff
        # No more rows than there are bytes: the count is 64 bits wide and comes from the file.
        left = min(count, max(len(view) - at, 0) // size)
        while left > 0:
            block = view.head(at, min(left, _ROWS) * size)
            for row in shape.extent.iter_unpack(block):
                kind, offset, extent = row
                # Section 0 describes nothing; its size may be the count.
                if offset + extent > end and kind not in empty:
                    end = offset + extent
                if kind in wanted:
                    found.append(row)
            at += len(block)
            left -= _ROWS
        return end, found

    def _segment_end(self, end: int) -> int | None:
        """Return the end of an image without sections: that of the last segment."""
        shape = self.shape
        if not self.phnum:
            return end
        if self.phentsize != shape.segment.size:
            return None
        table = self.view.head(self.phoff, self.phnum * shape.segment.size)
        table = table[: len(table) // shape.segment.size * shape.segment.size]
        for offset, size in shape.segment.iter_unpack(table):
            end = max(end, offset + size)
        return end


def header(view: View, head: bytes) -> Elf | None:
    """Return the header from the first 64 bytes of an image; None when it is cut short or of an unknown class."""
    shape = _SHAPES.get(head[:6])
    return None if shape is None or len(head) < shape.header.size else Elf(view, shape, head)


class Symbols:
    """The symbol table of an ELF image, checked before anything is read.

    ``kinds`` are the section types to look for, the preferred one first; only one table is read, as the gABI allows
    one of each type. ``is_present`` is false when the image has none.
    """

    def __init__(self, view: View, kinds: tuple[int, ...]) -> None:
        """Find the table and load its names. Raises FormatError when headers, table or names are damaged."""
        self.view = view
        self.is_present = False
        self._names, self._budget = b"", 0
        elf = header(view, view.head(0, 64))
        if elf is None:
            raise self._bad("header", "is no ELF header, or cut short", 0)
        self._shape = elf.shape
        sections = self._sections(elf)
        for kind in kinds:
            if kind in sections:
                row = sections[kind]
                break
        else:
            return
        _, self._at, self._size, link, entsize = row
        size = self._shape.symbol.size
        if entsize not in (0, size):
            raise self._bad("symbol table", f"has entries of {entsize} bytes, not of {size}", self._at)
        if self._size % size:
            raise self._bad("symbol table", f"its {self._size} bytes are no whole number of entries", self._at)
        self._inside("symbol table", self._at, self._size)
        names = self._header(elf, link)
        self._inside("symbol names", names[1], names[2])
        if names[2] > limits.STRING_TABLE:
            raise LimitExceeded(
                f"{names[2]} bytes of symbol names",
                format="elf",
                offset=view.offset(names[1]),
                field="symbol names",
                expected=f"at most {limits.STRING_TABLE}",
                hint=limits.advice("STRING_TABLE"),
                chain=view.chain,
            )
        self._names = view.read(names[1], names[2])
        # Symbols may share one long name; without this bound n symbols would give n copies of it.
        self._budget = max(limits.STRING_FLOOR, limits.STRING_RATIO * len(view))
        self.is_present = True

    def __iter__(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield (name, st_info, st_other, st_shndx) of each symbol; the name for :meth:`name`."""
        if not self.is_present:
            return iter(())
        step = _ROWS * self._shape.symbol.size
        if self._size <= step:  # the usual case, without a generator in between
            return self._shape.symbol.iter_unpack(self.view.read(self._at, self._size))
        return self._blocks(step)

    def _blocks(self, step: int) -> Iterator[tuple[int, int, int, int]]:
        for at in range(self._at, self._at + self._size, step):
            block = self.view.read(at, min(step, self._at + self._size - at))
            yield from self._shape.symbol.iter_unpack(block)

    def place(self, index: int) -> tuple[int, int]:
        """Return st_value and st_size of a symbol by its number in the table."""
        size = self._shape.symbol.size
        value, extent = self._shape.place.unpack(self.view.read(self._at + index * size, size))
        return value, extent

    def name(self, at: int) -> bytes:
        """Return the name at an offset of the string table. Raises BadValue, LimitExceeded."""
        return self.names((at,))[0]

    def names(self, places: Iterable[int]) -> list[bytes]:
        """Return the names at offsets of the string table. Raises BadValue, LimitExceeded."""
        names, budget, found = self._names, self._budget, []
        for at in places:
            end = names.find(b"\0", at)
            if end < 0:
                raise self._bad("symbol name", f"at {at:#x} is outside the {len(names)} bytes of names", self._at)
            budget -= end - at
            if budget < 0:
                raise LimitExceeded(
                    "the names of the symbols are far longer than the image",
                    format="elf",
                    offset=self.view.offset(self._at),
                    field="symbol names",
                    hint=limits.advice("STRING_RATIO"),
                    chain=self.view.chain,
                )
            found.append(names[at:end])
        self._budget = budget
        return found

    def _sections(self, elf: Elf) -> dict[int, tuple[int, int, int, int, int]]:
        """Return the section headers that may be wanted: the first of each symbol table's type."""
        count = elf.section_count()
        if not count:
            return {}
        size = self._shape.section.size
        if elf.shentsize != size:
            raise self._bad("section table", f"has entries of {elf.shentsize} bytes, not of {size}", elf.shoff)
        self._inside("section table", elf.shoff, count * size)
        first: dict[int, tuple[int, int, int, int, int]] = {}
        for at in range(elf.shoff, elf.shoff + count * size, _ROWS * size):
            block = self.view.read(at, min(_ROWS * size, elf.shoff + count * size - at))
            for row in self._shape.section.iter_unpack(block):
                if row[0] in (SYMTAB, DYNSYM) and row[0] not in first:
                    first[row[0]] = row
        return first

    def _header(self, elf: Elf, index: int) -> tuple[int, int, int, int, int]:
        if index >= elf.section_count():
            raise self._bad("symbol table", f"names section {index} of {elf.section_count()}", self._at)
        return self._shape.section.unpack(
            self.view.read(elf.shoff + index * self._shape.section.size, self._shape.section.size)
        )

    def _inside(self, field: str, at: int, size: int) -> None:
        if at + size > len(self.view):
            raise Truncated(
                needed=size,
                left=len(self.view) - at,
                format="elf",
                offset=self.view.offset(at),
                field=field,
                chain=self.view.chain,
            )

    def _bad(self, field: str, problem: str, at: int) -> BadValue:
        return BadValue(problem, format="elf", offset=self.view.offset(at), field=field, chain=self.view.chain)


def text(name: bytes) -> str:
    """Return a stored name as text; bytes that are no UTF-8 become escapes, so that nothing is lost."""
    return name.decode("utf-8", "backslashreplace")


def texts(names: Sequence[bytes]) -> list[str]:
    """Return stored names, none of which holds a zero, as :func:`text` does, all at once."""
    return text(b"\0".join(names)).split("\0") if names else []
