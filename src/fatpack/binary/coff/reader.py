"""Reader of COFF objects: header, section table, names, and sections of device code; damaged objects too.

Of a damaged object the intact parts are read; ``editable`` has the stricter checks for edits.

QUIRK(several assemblers): a string table whose size field is below 4 is an empty one.
QUIRK(llvm-objcopy): sections it adds have VirtualSize and VirtualAddress set although the file is an object.
"""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.binary import CONTAINER, IMAGE, IMAGES, TABLE, CodeSection, section_names, without_overlaps
from fatpack.binary.coff.layout import (
    BIG_HEADER,
    BIG_SYMBOL,
    BUNDLE_PREFIX,
    DEVICE_SECTION_NAMES,
    FORMAT,
    HEADER,
    MACHINES,
    MAX_SECTIONS,
    OVERFLOWED_RELOCATIONS,
    PREFIXES,
    RELOCATION,
    SECTION,
    SIZES_PREFIX,
    SYMBOL,
    TABLES,
    UNINITIALIZED,
    CoffSection,
    is_device_name,
    is_table_name,
    name_offset,
)
from fatpack.binary.coff.tables import symbol_name_offset
from fatpack.errors import BadMagic, BadValue, FormatError, Truncated
from fatpack.findings import finding
from fatpack.model import Label, fill_gaps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.binary.coff.layout import SectionRow
    from fatpack.io.source import View
    from fatpack.model import Finding


#: Headers per read: 160 KiB.
_ROWS = 4096

#: LIMIT: section headers that detection reads; any other file fails at the first.
_DETECTED_ROWS = 64

#: LIMIT: bytes of a section name. Bundle IDs reach 150; without a limit, thousands of headers that refer to one long
#: string would make thousands of copies of it.
LONGEST_NAME = 1024


class CoffObject:
    """The header of a classic or big object, and its sections. Raises FormatError if it is neither."""

    def __init__(self, view: View) -> None:
        self.view = view
        what = coff_kind(view)
        if what not in ("classic", "big"):
            raise BadMagic("not a COFF object", format=FORMAT, offset=view.offset(0), chain=view.chain)
        self.is_big = what == "big"
        if self.is_big:
            header = BIG_HEADER.named(view, 0)
            self.table_offset = BIG_HEADER.size
            self.symbol_layout = BIG_SYMBOL
        else:
            header = HEADER.named(view, 0)
            self.table_offset = HEADER.size + header["optional_size"]
            self.symbol_layout = SYMBOL
        self.machine: int = header["machine"]
        self.section_count: int = header["section_count"]
        self.symbol_offset: int = header["symbol_offset"]
        self.symbol_count: int = header["symbol_count"]
        self.table_end = self.table_offset + self.section_count * SECTION.size

    @property
    def symbol_end(self) -> int:
        """The end of the symbols and start of the string table; the start of the symbols if there are none."""
        return self.symbol_offset + self.symbol_count * self.symbol_layout.size

    def strings(self) -> View | None:
        """Return the string table with its size field; None if the object has none or it is truncated."""
        if not self.symbol_offset:
            return None
        field = self.view.head(self.symbol_end, 4)
        size = max(int.from_bytes(field, "little"), 4)
        if len(field) < 4 or self.symbol_end + size > len(self.view):
            return None
        return self.view.slice(self.symbol_end, size)

    def rows(self) -> Iterator[SectionRow]:
        """Yield the section headers as tuples. Raises Truncated after the last complete one."""
        present = min(self.section_count, max(len(self.view) - self.table_offset, 0) // SECTION.size)
        for first in range(0, present, _ROWS):
            count = min(_ROWS, present - first)
            block = self.view.read(self.table_offset + first * SECTION.size, count * SECTION.size)
            yield from SECTION.struct.iter_unpack(block)
        if present < self.section_count:
            at = self.table_offset + present * SECTION.size
            raise Truncated(
                needed=(self.section_count - present) * SECTION.size,
                left=len(self.view) - at,
                format=FORMAT,
                offset=self.view.offset(at),
                field="section table",
                chain=self.view.chain,
            )

    def sections(self) -> Iterator[CoffSection]:
        """Yield the section headers in order. Raises Truncated after the last complete one."""
        for number, row in enumerate(self.rows(), 1):
            yield CoffSection(number, *row)

    def name(self, stored: bytes, strings: View | None) -> bytes:
        """Return the name for 8 stored bytes. Raises BadValue if it cannot be read."""
        place = name_offset(stored)
        if place is None:
            return stored.rstrip(b"\0")
        text = strings.head(place, LONGEST_NAME) if strings is not None and place >= 4 else b""
        end = text.find(b"\0")
        if end < 0:
            raise BadValue(
                "the name is not in the string table",
                format=FORMAT,
                offset=self.view.offset(self.table_offset),
                field="section name",
                found=repr(stored.rstrip(b"\0"))[2:-1],
                hint="the file looks cut short" if strings is None else "",
                chain=self.view.chain,
            )
        return text[:end]

    def relocation_count(self, section: CoffSection) -> int:
        """Return the number of a section's relocations. Raises Truncated if the record with the count is missing."""
        if _has_overflowed(section):
            return int(RELOCATION.read(self.view, section.relocation_offset)[0])
        return section.relocation_count

    def relocation_table(self, section: CoffSection) -> View:
        """Return the relocations of a section, without a record with their count. Raises Truncated if they are cut."""
        if not section.relocation_offset:
            return self.view.slice(0, 0)
        # If the count overflowed, the first record has it and is no relocation.
        count, skipped = self.relocation_count(section), int(_has_overflowed(section))
        at = section.relocation_offset + skipped * RELOCATION.size
        return self.view.slice(at, max(count - skipped, 0) * RELOCATION.size)

    def symbol_table(self) -> View:
        """Return the records of symbols up to the end of the file; each has the layout ``symbol_layout``."""
        at = min(self.symbol_offset or len(self.view), len(self.view))
        return self.view.slice(at, min(self.symbol_count * self.symbol_layout.size, len(self.view) - at))

    def symbol_name(self, stored: bytes) -> str:
        """Return the name for the 8 stored bytes of a symbol, cut at 256 bytes; "" if it cannot be read."""
        place = symbol_name_offset(stored)
        if place is not None:
            strings = self.strings()
            stored = (b"" if strings is None else strings.head(place, 256)).partition(b"\0")[0]
        return stored.rstrip(b"\0").decode("utf-8", "backslashreplace")


def _has_overflowed(section: CoffSection) -> bool:
    """Return whether a section has too many relocations for its header, so that the first record has their number."""
    return section.relocation_count == 0xFFFF and bool(section.flags & OVERFLOWED_RELOCATIONS)


def coff_kind(view: View) -> str | None:
    """Return ``classic``, ``big``, ``import`` or ``anonymous``, or None if the bytes are not a COFF object.

    COFF has no magic: in a classic object, the header and the first section headers are plausible.
    """
    head = view.head(0, BIG_HEADER.size)
    if head.startswith(magic_numbers.ANONYMOUS_COFF):
        return _anonymous_kind(head)
    if len(head) < HEADER.size:
        return None
    machine, count, _, symbol_offset, symbol_count, optional_size, flags = HEADER.struct.unpack(head[: HEADER.size])
    table_end = HEADER.size + count * SECTION.size
    # Flag 2 is set only in linked images. No producer gives objects an optional header.
    if machine not in MACHINES or not 0 < count <= MAX_SECTIONS or optional_size or flags & 2:
        return None
    if (symbol_offset or symbol_count) and symbol_offset < table_end:
        return None
    block = view.head(HEADER.size, min(count, _DETECTED_ROWS) * SECTION.size)
    block = block[: len(block) - len(block) % SECTION.size]
    sections = [CoffSection(number, *row) for number, row in enumerate(SECTION.struct.iter_unpack(block), 1)]
    return "classic" if sections and all(_is_plausible(section, table_end) for section in sections) else None


def _anonymous_kind(head: bytes) -> str | None:
    """Return the kind of an anonymous object: import objects have version 0, big ones a known class ID."""
    version, machine = int.from_bytes(head[4:6], "little"), int.from_bytes(head[6:8], "little")
    if len(head) < HEADER.size or machine not in MACHINES:
        return None
    if version >= 2 and head[12:28] == magic_numbers.BIG_COFF_CLASS and len(head) == BIG_HEADER.size:
        return "big"
    return "anonymous" if version else "import"


def _is_plausible(section: CoffSection, table_end: int) -> bool:
    text = section.stored_name.rstrip(b"\0")
    offsets = (section.raw_offset, section.relocation_offset, section.line_offset)
    return (
        bool(text)
        and all(char > 0x20 and char != 0x7F for char in text)
        and all(offset == 0 or offset >= table_end for offset in offsets)
        and (section.flags >> 20 & 0xF) != 0xF
    )


# Byte map


def label_coff(view: View) -> Iterator[Label]:
    """Yield a label for every byte: headers field by field, contents, relocations, symbols and strings whole."""
    what = coff_kind(view)
    if what not in ("classic", "big"):
        size = min(HEADER.size, len(view)) if what else 0
        whole = Label(view.span(0, size), "header", f"{what} object", "not a COFF object with sections", "data")
        yield from fill_gaps(view, [whole])
        return
    coff = CoffObject(view)
    layout = BIG_HEADER if coff.is_big else HEADER
    yield from layout.labels(view, 0, FORMAT)
    present = min(coff.section_count, (len(view) - coff.table_offset) // SECTION.size)
    for index in range(present):
        yield from SECTION.labels(view, coff.table_offset + index * SECTION.size, f"section[{index + 1}]")
    yield from fill_gaps(view, _parts(coff), coff.table_offset + present * SECTION.size)


def _parts(coff: CoffObject) -> Iterator[Label]:
    strings = coff.strings()
    try:
        for section in coff.sections():
            yield from _section_parts(coff, section, strings)
    except FormatError:
        pass  # the table is truncated: the intact headers are labelled
    if coff.symbol_offset and coff.symbol_count:
        size = coff.symbol_end - coff.symbol_offset
        span = coff.view.span(coff.symbol_offset, size)
        yield Label(span, "symbols", f"{coff.symbol_count} records", "the symbol table", "data")
    if strings is not None:
        span, doc = coff.view.span(coff.symbol_end, len(strings)), "long names, after their total size"
        yield Label(span, "strings", f"{len(strings)} bytes", doc, "data")


def _section_parts(coff: CoffObject, section: CoffSection, strings: View | None) -> Iterator[Label]:
    prefix = f"section[{section.number}]"
    try:
        name = coff.name(section.stored_name, strings).decode("utf-8", "backslashreplace")
    except FormatError:
        name = "unreadable name"
    if section.raw_size and not section.flags & UNINITIALIZED:
        span, text = coff.view.span(section.raw_offset, section.raw_size), f"{name}, {section.raw_size} bytes"
        yield Label(span, f"{prefix}.data", text, "contents of the section", "data")
    try:
        count = coff.relocation_count(section)
    except FormatError:
        count = 0
    if count:
        span = coff.view.span(section.relocation_offset, count * RELOCATION.size)
        yield Label(span, f"{prefix}.relocations", f"{name}, {count} relocations", "places to patch", "data")


# Sections of device code, by name, because COFF has no section types

_NEEDLES = (*PREFIXES, *DEVICE_SECTION_NAMES, *TABLES, SIZES_PREFIX)
_LONGEST_NEEDLE = max(map(len, _NEEDLES)) + 1

#: The names that fit into the 8 bytes of a section header; all others are in the string table.
_SHORT = tuple(name.ljust(8, b"\0") for name in _NEEDLES if len(name) <= 8)


def locate(view: View) -> Iterator[CodeSection | Finding]:
    """Yield the sections with device code, in the order of the section table; ``index`` counts them from 1.

    Sections do not overlap: of several with the same bytes the first is yielded, the others become findings.
    A section outside the file, an unreadable name and a truncated table are findings too.
    """
    what = coff_kind(view)
    if what == "import":
        return
    if what == "anonymous":
        yield finding(
            "FP1006",
            view.span(0, HEADER.size),
            "an object with the compiler's intermediate code (/GL): this version does not read these",
            "compile without whole-program optimisation to have its device code listed",
        )
        return
    places = list(_places(CoffObject(view)))
    names = {place.section or "" for place in places if isinstance(place, CodeSection)}
    if section_names.SYCL_IMAGE_TABLE in names and not any(
        name.startswith(f"{BUNDLE_PREFIX.decode()}host-") for name in names
    ):
        # The wrapper's object, which a linker adds to a program: its sections have several images, as in programs.
        places = [
            place.replace(content=IMAGES) if isinstance(place, CodeSection) and place.content == IMAGE else place
            for place in places
        ]
    yield from without_overlaps(places)


def sections(view: View) -> list[tuple[int, int, str, int]]:
    """Return (start, end, name, number) of every section with bytes; if tables are damaged, of the readable ones."""
    rows: list[tuple[int, int, str, int]] = []
    if coff_kind(view) not in ("classic", "big"):
        return rows
    coff = CoffObject(view)
    strings = coff.strings()
    try:
        for section in coff.sections():
            end = section.raw_offset + section.raw_size
            if section.raw_size and not section.flags & UNINITIALIZED and end <= len(view):
                name = coff.name(section.stored_name, strings).decode("utf-8", "backslashreplace")
                rows.append((section.raw_offset, end, name, section.number))
    except FormatError:
        pass  # names of other sections are unknown
    return rows


def _places(coff: CoffObject) -> Iterator[CodeSection | Finding]:
    strings = coff.strings()
    is_reported = False
    number = 0
    try:
        for number, row in enumerate(coff.rows(), 1):
            place = name_offset(row[0])
            if place is None:
                if row[0] not in _SHORT:
                    continue
            elif strings is not None and 4 <= place < len(strings):
                head = strings.head(place, _LONGEST_NEEDLE)
                if not head.startswith(_NEEDLES):
                    continue
            try:
                name = coff.name(row[0], strings)
            except FormatError as error:
                if not is_reported:
                    is_reported = True
                    span = coff.view.span(coff.table_offset + (number - 1) * SECTION.size, SECTION.size)
                    yield finding("FP2202", span, f"section {number}: {error.describe()}", error.hint)
                continue
            if is_device_name(name) or is_table_name(name):
                yield from _site(coff.view, CoffSection(number, *row), name.decode("utf-8", "backslashreplace"))
    except FormatError as error:
        yield finding("FP2203", coff.view.span(min(coff.table_offset, len(coff.view))), error.describe(), error.hint)


def _site(view: View, section: CoffSection, name: str) -> Iterator[CodeSection | Finding]:
    title = f"section {section.number} ({name})"
    end = section.raw_offset + section.raw_size
    if section.flags & UNINITIALIZED and section.raw_size:
        yield finding("FP2003", view.span(0, HEADER.size), f"{title} has a size but no bytes in the file")
    elif section.raw_size and end > len(view):
        span = view.span(min(section.raw_offset, len(view)))
        text = f"{title} ends at {end:#x}, the object at {len(view):#x}"
        yield finding("FP2201", span, text, "the file looks cut short")
    elif section.raw_size or name.startswith(BUNDLE_PREFIX.decode()):
        # Removing leaves an empty section. An image of a fat object may really be empty.
        expects = IMAGE if name.startswith(BUNDLE_PREFIX.decode()) else CONTAINER
        if is_table_name(name.encode("utf-8", "backslashreplace")):
            expects = TABLE
        yield CodeSection(view.slice(section.raw_offset, section.raw_size, name), name, section.number, content=expects)
