"""Globals of bitcode modules in sections of device code, and the location of their bytes in the stream.

Only the necessary records are read: names of sections, global variables, and constants, which have to be counted, and
only in modules with such globals. All other blocks are skipped.

Values are numbered (``llvm/lib/Bitcode/Writer/ValueEnumerator.cpp``) in this order: global variables, functions,
aliases and ifuncs in the order of their records, then the constants of the module, one per record, except records that
set the type. A global variable refers to its initialiser by that number plus one. Equal initialisers are one constant,
so several globals may share one.
"""

from __future__ import annotations

from fatpack import limits
from fatpack.binary.bitcode.bitstream import (
    DEFINE_ABBREVIATION,
    END_BLOCK,
    ENTER_BLOCK,
    FORMAT,
    UNABBREVIATED,
    BitReader,
)
from fatpack.binary.section_names import (
    CUDA_FATBIN,
    CUDA_RELOCATABLE,
    HIP_FATBIN,
    MACHO_CUDA_FATBIN,
    MACHO_HIP_FATBIN,
    OFFLOADING,
)
from fatpack.errors import BadValue
from fatpack.io.inflated import InflatedSource, PicklableCall
from fatpack.io.source import Source, View, VirtualName
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.binary.bitcode.bitstream import Abbreviation, ArrayRun


# Constants, whose bytes start at any bit of the stream and may be packed, as sources


class ShiftedSource(Source):
    """Bytes that start between two bytes of a view; they are shifted into place when they are read."""

    def __init__(self, view: View, first_bit: int, size: int, name: str) -> None:
        self.name = name
        self.size = size
        self.present = min(size, view.source.present)
        self.budget = view.source.budget
        self._view = view
        self._first = first_bit >> 3
        self._shift = first_bit & 7

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes at ``offset``; temporarily takes several times their memory."""
        if size > limits.CHUNK:
            return b"".join(bytes(piece) for piece in self.pieces(offset, size))
        stored = self._view.head(self._first + offset, size + 1)
        number = int.from_bytes(stored, "little") >> self._shift
        return (number & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def constant_view(stream: View, run: ArrayRun, has_nul: bool, name: str) -> View:
    """Return the bytes of a constant as a view; its chain states their location in the stream.

    Bytes that are stored unpacked and start at a byte are a view of the file itself.
    """
    first, shift = run.at >> 3, run.at & 7
    if run.is_bytes and not has_nul and not shift:
        return stream.slice(first, run.count, name)
    size = run.count + has_nul
    label = f"{name} (from bit {shift} of byte {stream.offset(first):#x} on)"
    source: Source
    if run.is_bytes and not has_nul:
        source = ShiftedSource(stream, run.at, size, label)
    else:
        present = min(size, stream.source.present)
        source = InflatedSource(size, PicklableCall(_decoded, stream, run, has_nul), label, present=present)
        source.budget = stream.source.budget
    return View(source, 0, size, (*stream.chain, VirtualName(label)))


def _decoded(stream: View, run: ArrayRun, has_nul: bool) -> bytearray:
    """Return the bytes of an array in another encoding. Raises BadValue for a number that does not fit into a byte."""
    data = bytearray()
    for value in BitReader(stream).elements(run):
        if value > 0xFF:
            raise BadValue(
                "a string holds a number that is no byte",
                format=FORMAT,
                offset=stream.offset(run.at >> 3),
                field="constant",
                found=str(value),
                chain=stream.chain,
            )
        data.append(value)
    return data + bytes(has_nul)


#: Block IDs
_BLOCKINFO, _MODULE, _CONSTANTS = 0, 8, 11

#: Record codes of modules; old and new aliases are equivalent
_VERSION, _SECTION_NAME, _GLOBAL = 1, 5, 7
_OTHER_VALUES = (8, 9, 14, 15)
#: Record codes of constants
_SET_TYPE, _STRING, _CSTRING, _DATA = 1, 8, 9, 22
#: Record code of block information
_SET_BLOCK = 1

#: From this module version on, records of globals start with the offset of their name.
_VERSION_WITH_NAMES = 2

#: LIMIT: characters of a section name.
_LONGEST_NAME = 256

#: Sections of device code besides ``.llvm.offloading…``; in Mach-O a segment and a comma precede the name.
_SECTIONS = (HIP_FATBIN, MACHO_HIP_FATBIN, CUDA_FATBIN, MACHO_CUDA_FATBIN, CUDA_RELOCATABLE)


class DeviceGlobal(Record):
    """A global variable in a section of device code; ``number`` counts the global variables of its module from 0.

    ``initialiser`` is the number of a constant, ``run`` the location of its bytes: None if it is not an array of bytes.
    ``has_nul``: a NUL follows the bytes, which the stream omits.
    """

    number: int
    section: str
    initialiser: int
    run: ArrayRun | None = None
    has_nul: bool = False


def read_modules(bits: BitReader) -> Iterator[ModuleReader]:
    """Yield a reader for every module of a stream, valid until the next is requested. Raises FormatError."""
    bits.at = 32  # after the magic
    stream_end = bits.end
    # Wrappers and archivers pad a stream with zeros; less than 64 bits cannot be a block (LLVM's own rule).
    while stream_end - bits.at >= 64:
        if bits.fixed(2) != ENTER_BLOCK:
            if _is_padding(bits):
                return
            raise bits.error("no block starts here")
        block, width, end = bits.enter_block()
        if block == _MODULE:
            bits.end = end
            yield ModuleReader(bits, width)
            bits.end = stream_end
        bits.at = end


def _is_padding(bits: BitReader) -> bool:
    return not bits.view.head(bits.at >> 3, 64).strip(b"\0")


def _is_device_section(name: str) -> bool:
    section = name.rpartition(",")[2]
    return section.startswith(OFFLOADING) or section in _SECTIONS


class ModuleReader:
    """A reader of one module. ``globals`` are those found; after an error, those before it."""

    def __init__(self, bits: BitReader, width: int) -> None:
        self._bits = bits
        self._width = width
        self._version = 0
        self._sections: list[str] = []
        self._value_count = 0
        self._global_count = 0
        self._information: dict[int, list[Abbreviation]] = {}
        #: initialiser → indices in ``globals`` that refer to it
        self._references: dict[int, list[int]] = {}
        self.globals: list[DeviceGlobal] = []

    def read(self) -> None:
        """Read the module. Raises FormatError if it is damaged."""
        for abbreviation in self._bits.records(self._width, enter=self._block):
            self._record(abbreviation)

    def _block(self) -> None:
        bits = self._bits
        block, width, end = bits.enter_block()
        module_end, bits.end = bits.end, end
        if block == _BLOCKINFO:
            self._block_information(width)
        elif block == _CONSTANTS and self._references:
            self._constants(width)
        bits.at, bits.end = end, module_end

    def _block_information(self, width: int) -> None:
        """Read the abbreviations that all blocks of a kind have."""
        bits = self._bits
        current: list[Abbreviation] | None = None
        while bits.at < bits.end:
            number = bits.fixed(width)
            if number == DEFINE_ABBREVIATION and current is not None:
                current.append(bits.abbreviation())
            elif number == UNABBREVIATED:
                code = bits.code(None)
                values, _ = bits.values(None)
                if code == _SET_BLOCK and values:
                    current = self._information.setdefault(values[0], [])
            elif number == END_BLOCK:
                return
            else:
                raise bits.error("block information in a form that is none")

    def _record(self, abbreviation: Abbreviation | None) -> None:
        bits = self._bits
        code = bits.code(abbreviation)
        if code == _SECTION_NAME:
            run = bits.skip(abbreviation)
            self._sections.append("" if run is None else self._text(run))
        elif code == _GLOBAL:
            self._global(bits.values(abbreviation)[0])
        elif code == _VERSION:
            self._version = (bits.values(abbreviation)[0] or [0])[0]
        else:
            self._value_count += code in _OTHER_VALUES
            bits.skip(abbreviation)

    def _text(self, run: ArrayRun) -> str:
        short = run.replace(count=min(run.count, _LONGEST_NAME))
        return "".join(map(chr, (value & 0xFF for value in BitReader(self._bits.view).elements(short))))

    def _global(self, values: list[int]) -> None:
        if self._version >= _VERSION_WITH_NAMES:
            values = values[2:]
        if len(values) > 5:
            _type, _flags, initialiser, _linkage, _align, section = values[:6]
            name = self._sections[section - 1] if 0 < section <= len(self._sections) else ""
            if initialiser and _is_device_section(name):
                self._references.setdefault(initialiser - 1, []).append(len(self.globals))
                self.globals.append(DeviceGlobal(self._global_count, name, initialiser - 1))
        self._value_count += 1
        self._global_count += 1

    def _constants(self, width: int) -> None:
        """Count constants until all requested initialisers are found."""
        bits = self._bits
        for abbreviation in bits.records(width, self._information.get(_CONSTANTS, ())):
            code = bits.code(abbreviation)
            run = bits.skip(abbreviation)
            if code == _SET_TYPE:
                continue
            if self._value_count in self._references:
                self._found(code, run, abbreviation)
            self._value_count += 1
            if not self._references:
                return

    def _found(self, code: int, run: ArrayRun | None, abbreviation: Abbreviation | None) -> None:
        is_whole = abbreviation is None or not abbreviation.values
        # An array of numbers is equivalent if they are stored as bytes.
        is_bytes = code in (_STRING, _CSTRING) or (code == _DATA and run is not None and run.is_bytes)
        for position in self._references.pop(self._value_count):
            if run is not None and is_whole and is_bytes:
                self.globals[position] = self.globals[position].replace(run=run, has_nul=code == _CSTRING)
