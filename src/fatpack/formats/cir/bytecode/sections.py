"""The sections of a bytecode file: strings, names of operations, attributes and properties, decoded on demand."""

from __future__ import annotations

from array import array

from fatpack.errors import BadValue, Unsupported
from fatpack.formats.cir.vocabulary import CIR_FORMAT
from fatpack.magic_numbers import MLIR_BYTECODE
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View


# The primitives of bytecode: varints, and errors that name the offset.


def is_bytecode(view: View) -> bool:
    """Return whether these bytes start as MLIR bytecode does."""
    return view.head(0, 4) == MLIR_BYTECODE


def bytecode_error(view: View, at: int, field: str, problem: str, *, expected: str = "", found: str = "") -> BadValue:
    """Return the error for damaged bytecode at a position of a view."""
    return BadValue(
        problem,
        format=CIR_FORMAT,
        offset=view.offset(at),
        field=f"bytecode {field}",
        expected=expected,
        found=found,
        hint="the file looks damaged",
        chain=view.chain,
    )


class BytecodeStream:
    """Bytes of a view that are read from front to back; ``field`` is what errors call them."""

    def __init__(self, view: View, field: str, start: int = 0, end: int | None = None) -> None:
        self.view = view
        self.field = field
        self.at = 0
        self.base = start
        self.data = view.read(start, (len(view) if end is None else end) - start)
        self.end = len(self.data)

    def error(self, problem: str, *, expected: str = "", found: str = "") -> BadValue:
        """Return the error for a problem at the stream's position."""
        return bytecode_error(self.view, self.base + self.at, self.field, problem, expected=expected, found=found)

    def varint(self) -> int:
        """Return the next number: as many bytes as the first has zeros at its low end, and one more."""
        at = self.at
        if at >= self.end:
            raise self.error("cut short", expected="a number", found="the end of the section")
        first = self.data[at]
        if first & 1:
            self.at = at + 1
            return first >> 1
        size = (first & -first).bit_length() if first else 9
        if at + size > self.end:
            raise self.error("cut short", expected=f"a number of {size} bytes", found=f"{self.end - at} bytes")
        self.at = at + size
        if size == 9:
            return int.from_bytes(self.data[at + 1 : at + 9], "little")
        return int.from_bytes(self.data[at : at + size], "little") >> size

    def flagged(self) -> tuple[int, bool]:
        """Return the next number and the flag in its lowest bit."""
        value = self.varint()
        return value >> 1, bool(value & 1)

    def byte(self) -> int:
        """Return the next byte."""
        if self.at >= self.end:
            raise self.error("cut short", expected="a byte", found="the end of the section")
        self.at += 1
        return self.data[self.at - 1]

    def count(self, what: str) -> int:
        """Return the next number, a count of things of at least a byte each."""
        number = self.varint()
        if number > self.end - self.at:
            raise self.error(f"{number} {what}", expected=f"at most {self.end - self.at}, the bytes that are left")
        return number

    def skip(self, count: int) -> None:
        """Step over ``count`` numbers."""
        for _ in range(count):
            self.varint()


def encode_varint(value: int) -> bytes:
    """Return a number as the writer of bytecode encodes it."""
    size = max(1, -(-value.bit_length() // 7))
    if size > 8:
        return b"\0" + value.to_bytes(8, "little")
    return ((value << 1 | 1) << (size - 1)).to_bytes(size, "little")


STRINGS, DIALECTS, ATTRIBUTES, OFFSETS, IR, RESOURCES, RESOURCE_KEYS, VERSIONS, PROPERTIES = range(9)
SECTION_NAMES = (
    "strings",
    "dialects",
    "attributes and types",
    "attribute offsets",
    "IR",
    "resources",
    "resource keys",
    "dialect version",
    "properties",
)
NEWEST = 6

#: LIMIT: bytes of the producer's name that are read; LLVM writes about a dozen.
_LONGEST_PRODUCER = 1024


class BytecodeSection(Record):
    """A section: its header from ``start``, its data between ``data`` and ``end``; ``align`` is 0 for none."""

    id: int
    start: int
    data: int
    end: int
    align: int

    @property
    def name(self) -> str:
        """The name of the section's contents."""
        return SECTION_NAMES[self.id] if self.id < len(SECTION_NAMES) else f"section {self.id}"


class BytecodeHeader(Record):
    """The bytes before the sections, which start at ``end``."""

    version: int
    producer: str
    end: int


def read_header(view: View) -> BytecodeHeader:
    """Return the version and the producer of a bytecode file."""
    stream = BytecodeStream(view, "header", 0, min(len(view), _LONGEST_PRODUCER))
    if stream.data[:4] != MLIR_BYTECODE:
        raise bytecode_error(
            view, 0, "header", "not MLIR bytecode", expected="4d 4c ef 52", found=stream.data[:4].hex(" ")
        )
    stream.at = 4
    version = stream.varint()
    nul = stream.data.find(b"\0", stream.at)
    if nul < 0:
        raise stream.error("the producer's name is not terminated", expected="a NUL")
    return BytecodeHeader(version, stream.data[stream.at : nul].decode("utf-8", "backslashreplace"), nul + 1)


def read_sections(view: View, at: int) -> list[BytecodeSection]:
    """Return the sections from a position to the end of the file."""
    found: list[BytecodeSection] = []
    while at < len(view):
        section = read_section(view, at)
        if any(section.id == other.id for other in found):
            raise bytecode_error(view, at, "section table", f"a second section of {section.name}")
        found.append(section)
        at = section.end
    return found


def read_section(view: View, at: int) -> BytecodeSection:
    """Return the section whose header is at a position."""
    stream = BytecodeStream(view, "section header", at, min(len(view), at + 32))
    code = stream.byte()
    size = stream.varint()
    align = 0
    data = at + stream.at
    if code & 0x80:
        align = stream.varint()
        if not align or align & (align - 1) or align > 1 << 40:
            raise stream.error(f"alignment {align}", expected="a power of two")
        data = -(-(at + stream.at) // align) * align
    if data + size > len(view):
        name = SECTION_NAMES[code & 0x7F] if code & 0x7F < len(SECTION_NAMES) else str(code & 0x7F)
        problem = f"the section of {name} reaches to {data + size:#x}"
        raise bytecode_error(
            view, at, "section header", problem, expected=f"at most {len(view):#x}, the end of the file"
        )
    return BytecodeSection(code & 0x7F, at, data, data + size, align)


class BytecodeFile:
    """A bytecode file with its tables. Raises BadValue if they are damaged."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.header = read_header(view)
        self.version = self.header.version
        self.sections = read_sections(view, self.header.end)
        self._by_id = {section.id: section for section in self.sections}
        for needed in (STRINGS, DIALECTS, ATTRIBUTES, OFFSETS, IR):
            if needed not in self._by_id:
                problem = f"there is no section of {SECTION_NAMES[needed]}"
                raise bytecode_error(view, len(view), "section table", problem)
        self._read_strings()
        self._read_names()
        self._read_offsets()
        self._properties: tuple[array[int], array[int]] | None = None

    def section(self, number: int) -> BytecodeSection:
        """Return a section that every file has."""
        return self._by_id[number]

    def _stream(self, number: int) -> BytecodeStream:
        section = self._by_id[number]
        return BytecodeStream(self.view, f"section of {section.name}", section.data, section.end)

    def _read_strings(self) -> None:
        stream = self._stream(STRINGS)
        count = stream.count("strings")
        sizes = array("Q", (stream.varint() for _ in range(count)))
        sizes.reverse()  # QUIRK(LLVM): the sizes are in reverse order
        self._strings = stream.data
        self._string_starts = array("Q", bytes(8 * (count + 1)))
        at = stream.at
        for number, size in enumerate(sizes):
            self._string_starts[number] = at
            at += size
            if not size or at > stream.end:
                raise stream.error(f"string {number} has {size} bytes", expected=f"1 to {stream.end - at + size}")
        self._string_starts[count] = at
        self._string_count = count

    def string(self, number: int) -> bytes:
        """Return a string of the table, without its NUL."""
        if number >= self._string_count:
            section = self._by_id[STRINGS]
            problem = f"string {number} is used"
            raise bytecode_error(
                self.view, section.data, "strings", problem, expected=f"less than {self._string_count}"
            )
        return self._strings[self._string_starts[number] : self._string_starts[number + 1] - 1]

    def string_span(self, number: int) -> tuple[int, int]:
        """Return the position of a string of the table in the file, and its size without its NUL."""
        size = len(self.string(number))
        return self._by_id[STRINGS].data + self._string_starts[number], size

    def mentions(self, word: bytes) -> bool:
        """Return whether any of the strings, each of which ends in a NUL, contains the word."""
        return word in self._strings

    def _read_names(self) -> None:
        stream = self._stream(DIALECTS)
        dialects = []
        for _ in range(stream.count("dialects")):
            if self.version >= 1:
                number, has_version = stream.flagged()
                if has_version:
                    nested = read_section(self.view, stream.base + stream.at)
                    stream.at = nested.end - stream.base
            else:
                number = stream.varint()
            dialects.append(self.string(number))
        if self.version >= 4:
            stream.varint()
        self.dialects = dialects
        self.names: list[bytes] = []
        self.registered: list[bool] = []
        while stream.at < stream.end:
            dialect = self._dialect(stream)
            for _ in range(stream.count("names of operations")):
                number, is_registered = stream.flagged() if self.version >= 5 else (stream.varint(), True)
                self.names.append(dialect + b"." + self.string(number) if dialect else self.string(number))
                self.registered.append(is_registered)

    def _dialect(self, stream: BytecodeStream) -> bytes:
        number = stream.varint()
        if number >= len(self.dialects):
            raise stream.error(f"dialect {number} is used", expected=f"less than {len(self.dialects)}")
        return self.dialects[number]

    def _read_offsets(self) -> None:
        stream = self._stream(OFFSETS)
        attributes, types = stream.varint(), stream.varint()
        self._starts, self._sizes, self._flags = array("Q"), array("Q"), bytearray()
        self._is_builtin = bytearray()
        at, limit = 0, self._by_id[ATTRIBUTES].end - self._by_id[ATTRIBUTES].data
        while stream.at < stream.end:
            is_builtin = self._dialect(stream) == b"builtin"
            for _ in range(stream.count("attributes")):
                size, flag = stream.flagged()
                if len(self._starts) < attributes:
                    self._starts.append(at)
                    self._sizes.append(size)
                    self._flags.append(flag)
                    self._is_builtin.append(is_builtin)
                at += size
                if at > limit:
                    raise stream.error("attributes reach past their section", expected=f"at most {limit} bytes")
        if len(self._starts) < attributes or types < 0:
            raise stream.error(f"{len(self._starts)} attributes", expected=f"{attributes}")

    def attribute(self, number: int) -> BytecodeAttribute:
        """Return an attribute by number."""
        if number >= len(self._starts):
            section = self._by_id[OFFSETS]
            problem = f"attribute {number} is used"
            raise bytecode_error(
                self.view, section.data, "attributes", problem, expected=f"less than {len(self._starts)}"
            )
        start = self._by_id[ATTRIBUTES].data + self._starts[number]
        return BytecodeAttribute(
            self, start, start + self._sizes[number], bool(self._flags[number]), bool(self._is_builtin[number])
        )

    def properties(self, number: int) -> BytecodeStream:
        """Return the properties of an operation by number."""
        if self._properties is None:
            self._properties = self._read_properties()
        starts, ends = self._properties
        if number >= len(starts):
            raise bytecode_error(
                self.view, 0, "properties", f"properties {number} are used", expected=f"less than {len(starts)}"
            )
        return BytecodeStream(self.view, "properties", starts[number], ends[number])

    def _read_properties(self) -> tuple[array[int], array[int]]:
        starts, ends = array("Q"), array("Q")
        if PROPERTIES in self._by_id:
            stream = self._stream(PROPERTIES)
            for _ in range(stream.count("properties")):
                size = stream.varint()
                if size > stream.end - stream.at:
                    raise stream.error(f"properties of {size} bytes", expected=f"at most {stream.end - stream.at}")
                starts.append(stream.base + stream.at)
                stream.at += size
                ends.append(stream.base + stream.at)
        return starts, ends

    def check_supported(self) -> None:
        """Raise Unsupported for a version that can only be listed."""
        if self.version > NEWEST:
            raise Unsupported(
                f"MLIR bytecode version {self.version} of {self.header.producer}",
                hint=f"{NEWEST} is the newest that is known; it can only be listed",
                chain=self.view.chain,
            )


class BytecodeAttribute(Record):
    """An attribute: its position, whether it has its dialect's own encoding, and whether that dialect is the builtin
    one."""

    file: BytecodeFile
    start: int
    end: int
    is_encoded: bool
    is_builtin: bool

    def text(self) -> bytes | None:
        """Return the attribute as MLIR text; None for one in an encoding of its dialect."""
        if self.is_encoded:
            return None
        return self.file.view.read(self.start, self.end - self.start).partition(b"\0")[0]

    def starts_with(self, text: bytes) -> bool:
        """Return whether the attribute is MLIR text with this start; the text may be as long as a GPU binary."""
        return not self.is_encoded and self.file.view.head(self.start, len(text)) == text and self.end > self.start

    def string(self) -> bytes | None:
        """Return the value of a string, with or without a type; None for anything else."""
        stream = self._builtin()
        if stream is None or stream.varint() not in (2, 3):
            return None
        return self.file.string(stream.varint())

    def string_span(self) -> tuple[int, int] | None:
        """Return the position in the file and the size of a string's value; None for anything else."""
        stream = self._builtin()
        if stream is None or stream.varint() not in (2, 3):
            return None
        return self.file.string_span(stream.varint())

    def is_unit(self) -> bool:
        """Return whether this is the unit attribute."""
        stream = self._builtin()
        return stream is not None and stream.varint() == 7

    def dictionary(self) -> dict[bytes, int]:
        """Return name → number of the attribute for a dictionary, nothing for anything else."""
        stream = self._builtin()
        if stream is None or stream.varint() != 1:
            return {}
        found = {}
        for _ in range(stream.count("attributes of a dictionary")):
            name = self.file.attribute(stream.varint()).string()
            found[name or b""] = stream.varint()
        return found

    def _builtin(self) -> BytecodeStream | None:
        if not (self.is_encoded and self.is_builtin):
            return None
        return BytecodeStream(self.file.view, "attribute", self.start, self.end)
