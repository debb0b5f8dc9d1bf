"""Where device code may lie in a COFF object: by section name, for lack of section types."""

from __future__ import annotations

from fatpack.binary import CONTAINER, IMAGE, IMAGES, TABLE, CodeSection, without_overlaps
from fatpack.binary.coff.coff_layout import (
    BUNDLE_PREFIX,
    DEVICE_SECTION_NAMES,
    HEADER,
    PREFIXES,
    SECTION,
    SIZES_PREFIX,
    TABLES,
    is_device_name,
    is_table_name,
)
from fatpack.binary.coff.layout import UNINITIALIZED, CoffSection, name_offset
from fatpack.binary.coff.reader import CoffObject, coff_kind
from fatpack.errors import FormatError
from fatpack.findings import finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View
    from fatpack.model import Finding

_NEEDLES = (*PREFIXES, *DEVICE_SECTION_NAMES, *TABLES, SIZES_PREFIX)
_LONGEST_NEEDLE = max(map(len, _NEEDLES)) + 1

#: What of it fits into the 8 bytes of a section header; all other names are in the string table.
_SHORT = tuple(name.ljust(8, b"\0") for name in _NEEDLES if len(name) <= 8)


def locate(view: View) -> Iterator[CodeSection | Finding]:
    """Yield the sections that hold containers, in the order of the section table; ``index`` counts them from 1.

    The sites do not overlap: of sections that claim the same bytes the first is listed, the others are findings.
    A section outside the file, a name that cannot be read and a table that is cut are findings too.
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
    if ".tgtimg" in names and not any(name.startswith(f"{BUNDLE_PREFIX.decode()}host-") for name in names):
        # The wrapper's object, which a linker puts into a program: its sections hold several images, as in there.
        places = [
            place.replace(expects=IMAGES) if isinstance(place, CodeSection) and place.expects == IMAGE else place
            for place in places
        ]
    yield from without_overlaps(places)


def sections(view: View) -> list[tuple[int, int, str, int]]:
    """Return (start, end, name, number) of every section that has bytes, as far as the tables can be read."""
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
        pass  # what the rest is called is not known
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
        # Without content it is what removing leaves behind, but for an image of a fat object, which may be empty.
        expects = IMAGE if name.startswith(BUNDLE_PREFIX.decode()) else CONTAINER
        if is_table_name(name.encode("utf-8", "backslashreplace")):
            expects = TABLE
        yield CodeSection(view.slice(section.raw_offset, section.raw_size, name), name, section.number, expects=expects)
