"""The containers of a SYCL program: its sections of images, divided by the table ``.tgtimg``.

A section of LLVM's may hold images without a container, of SYCL or OpenMP, in objects too: the linker wrapper's records
point to them.
"""

from __future__ import annotations

from fatpack import binary, limits
from fatpack.binary import CodeSection
from fatpack.binary.pointers import HOSTS, INSIDE, NULL, open_pointers
from fatpack.binary.section_names import BUNDLE_PREFIX, SYCL_IMAGE_TABLE, SYCL_SYMBOLS
from fatpack.errors import FormatError
from fatpack.findings import finding
from fatpack.formats.clang_bundle import sycl_linked
from fatpack.formats.clang_bundle.fat_object import TargetSymbols
from fatpack.formats.syclbin.properties import BYTES, NUMBER, to_plain_value
from fatpack.model import CombinedContainer
from fatpack.record import Record
from fatpack.registration import sycl_images

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from fatpack.binary.pointers import Pointer, PointerReader
    from fatpack.formats.described import EntryFacts, PlainPropertySets, PropertyValue
    from fatpack.io.source import View
    from fatpack.model import Finding
    from fatpack.registration.sycl_images import ImageRecord, ImageTableRow


# The property sets of images in a program's records: information on device code for SYCL's runtime.
#
# ::
#
#     set       0x00  pointers: name, begin and end of the properties
#     property  0x00  pointers: name, value   0x10  type u32: 1 a number, 2 bytes, 3 text; then padding
#               0x18  size of the value u64, or the number itself
#
# Eight bytes before an array have its size in bits. (``_pi_device_binary_property_set_struct`` of DPC++'s
# ``clang-offload-wrapper`` and of its runtime's ``compiler.hpp``.) LLVM's own wrapper writes none. SYCLBIN files have
# the same sets as text, and both are listed alike: :mod:`fatpack.formats.syclbin.properties`.

#: SYCL has 64-bit hosts only.
_WORD = 8

_SET_SIZE, _PROPERTY_SIZE = 24, 32

#: Bytes before an array with its size in bits.
_BITS = 8

#: The type of a property that is text.
_TEXT = 3

#: LIMIT: bytes of a name. Names of kernels are mangled C++.
_NAME = 1 << 16


class PropertySets(Record):
    """The property sets of the images in a section of a host, read on request.

    ``start`` is the offset of the container in the section.
    """

    view: View
    host: str
    section: int
    data: View
    start: int

    def __call__(self) -> dict[int, EntryFacts]:
        """Return the sets of each image by its offset in the container: ``properties``, name → property → plain value.

        ``properties_unread`` has the reason if some are missing. Raises ``OSError`` when reading fails.
        """
        reader = open_pointers(self.view, self.host)
        if reader.word != _WORD:
            return {}
        found, _ = sycl_images.find_image_pointers(reader, self.section, self.data)
        found = [place for place in found if sycl_images.target_pointer_address(reader, place.address) is not None]
        # After begin and end of the image come those of its entries, then those of its sets.
        bounds = reader.values_at([place.address + step * _WORD for place in found for step in (4, 5)])
        reading = _PropertySetReader(reader)
        sets = reading.sets(bounds)
        return {
            place.offset - self.start: facts
            for place, facts in zip(found, sets, strict=True)
            if facts and place.offset >= self.start
        }


class _PropertySetReader:
    """The sets of all images of a section. Tables may share their bytes, so the bytes read for all are limited."""

    def __init__(self, reader: PointerReader) -> None:
        self._reader = reader
        self._rows = limits.IMAGES
        self._bytes = max(limits.STRING_FLOOR, limits.STRING_RATIO * len(reader.view))

    def sets(self, bounds: Sequence[Pointer]) -> list[EntryFacts]:
        """Return the sets of each image; ``bounds`` are the pointers to begin and end of each table, in pairs."""
        wrong: list[set[str]] = [set() for _ in bounds[::2]]
        made: list[PlainPropertySets] = [{} for _ in bounds[::2]]
        heads = [
            (number, row)
            for number, pair in enumerate(zip(bounds[::2], bounds[1::2], strict=True))
            for row in self._table(*pair, _SET_SIZE, wrong[number])
        ]
        pointers = self._reader.values_at([row + step * _WORD for _, row in heads for step in range(3)])
        properties = []
        for at, (number, _) in enumerate(heads):
            called, begin, end = pointers[3 * at : 3 * at + 3]
            name = self._text(called, wrong[number])
            if name is not None:
                content = made[number].setdefault(name, {})
                rows = self._table(begin, end, _PROPERTY_SIZE, wrong[number])
                properties += [(number, content, row) for row in rows]
        pointers = self._reader.values_at([row + step * _WORD for *_, row in properties for step in range(2)])
        for at, (number, content, row) in enumerate(properties):
            name = self._text(pointers[2 * at], wrong[number])
            if name is not None:
                value = self._value(row, pointers[2 * at + 1], wrong[number])
                if value is not None:
                    content[name] = value
        return [_facts(sets, why) for sets, why in zip(made, wrong, strict=True)]

    def _table(self, begin: Pointer, end: Pointer, size: int, wrong: set[str]) -> Iterator[int]:
        """Yield the addresses of the records in a table."""
        if begin.kind == NULL:
            return
        length = end.address - begin.address
        if begin.kind != INSIDE or not 0 <= length <= begin.room or length % size:
            wrong.add("a table of properties does not lie in the file")
            return
        for row in range(begin.address, end.address, size):
            if not self._rows:
                wrong.add(f"more than {limits.IMAGES} properties")
                return
            self._rows -= 1
            yield row

    def _text(self, pointer: Pointer, wrong: set[str]) -> str | None:
        if pointer.kind != INSIDE:
            wrong.add("a name does not lie in the file")
            return None
        size = min(_NAME, pointer.room)
        text = self._reader.view.head(pointer.position, size).partition(b"\0")[0]
        if len(text) == size:
            wrong.add("a name does not end")
            return None
        return text.decode("utf-8", "backslashreplace") if self._takes(len(text), wrong) else None

    def _takes(self, size: int, wrong: set[str]) -> bool:
        """Return whether ``size`` more bytes may be read."""
        if size > self._bytes:
            wrong.add("the properties share their bytes, and are many times the size of the file")
            return False
        self._bytes -= size
        return True

    def _value(self, row: int, pointer: Pointer, wrong: set[str]) -> PropertyValue | None:
        """Return the value of a property as plain data; None if it cannot be read."""
        view = self._reader.view
        record = view.read(self._reader.at(row).position, _PROPERTY_SIZE)
        order = self._reader.order
        kind, size = int.from_bytes(record[16:20], order), int.from_bytes(record[24:32], order)
        if kind == NUMBER:
            return size & 0xFFFFFFFF
        if kind not in (BYTES, _TEXT):
            wrong.add(f"a property of type {kind}")
            return None
        if pointer.kind != INSIDE or size > pointer.room or (kind == BYTES and size < _BITS):
            wrong.add("a value does not lie in the file")
            return None
        if not self._takes(size, wrong):
            return None
        stored = view.read(pointer.position, size)
        return to_plain_value(bytes(stored[_BITS:] if kind == BYTES else stored.rstrip(b"\0")))


#: LIMIT: sections of one host for which all its data is searched for records. Linkers make one or two that need it.
_SEARCHES = 16


def sycl_containers(
    view: View, host: str, sites: Sequence[CodeSection], tables: Sequence[CodeSection]
) -> Iterator[CombinedContainer | CodeSection | Finding]:
    """Yield the containers of linked images in a host, in the order of their bytes, and findings about them.

    ``sites`` are the sections of images, and sections that may have some; ``tables`` are all sections with information
    about device code. Sections without images are yielded unchanged. The table may point to any section: older wrappers
    put images among a program's constants.
    """
    if host not in HOSTS:  # bitcode is not linked, and has no pointers
        yield from sites
        return
    try:
        reader = open_pointers(view, host)
    except FormatError as error:
        yield finding("FP3011", view.span(), error.describe(), error.hint)
        yield from sites
        return
    searches = _SEARCHES
    table = sycl_images.read_image_table(reader, [site for site in tables if site.section == SYCL_IMAGE_TABLE])
    yield from table.findings
    rows: dict[int, list[ImageTableRow]] = {}
    for row in table.rows:
        rows.setdefault(row.section, []).append(row)
    symbols = TargetSymbols(tuple(site.data for site in tables if site.section == SYCL_SYMBOLS), tuple(map(_id, sites)))
    yield from symbols.unread()
    by_section = {site.index: site for site in sites}
    others = _others(view, host, {number for number in rows if number not in by_section})
    for site in sorted([*sites, *others], key=lambda site: site.data.start):
        id = _id(site)
        extents = _extents(view, site, rows.get(site.index or 0, []))
        if not extents or not id:
            if searches:
                searches -= 1
                records, unsearched = sycl_images.read_image_records(reader, site.index or 0, site.data)
                extents = _with_targets(extents, records)
                yield from (unsearched,) if unsearched is not None else ()
            elif reader.is_linked:
                text = f"more than {_SEARCHES} sections of images: the records of those in {site.section} are not read"
                yield finding("FP1005", site.data.span(), text)
        if not extents:
            if site.content != binary.IMAGES:
                yield from _registered(view, host, site)
                continue
            extents = sycl_linked.split_by_frames(site.data)
            text = f"no row of {SYCL_IMAGE_TABLE} points into {site.section}: the ends of images are guesses"
            yield finding("FP3013", site.data.span(), text)
        data = site.data
        if site.content != binary.IMAGES:
            data, extents = _narrowed(data, extents)
        properties = None
        if reader.is_linked:
            properties = PropertySets(view, host, site.index or 0, site.data, data.start - site.data.start)
        container = sycl_linked.linked_container(
            id, site.index or 0, data, extents, symbols.replace(only=id), properties
        )
        yield CombinedContainer(container, data, site.section, site.index)


def _registered(view: View, host: str, site: CodeSection) -> Iterator[CombinedContainer | CodeSection]:
    """Yield the images in a section to which records point; the section unchanged if there are none."""
    from fatpack.registration.analysis import analyze, descriptors

    try:
        file = analyze.open_host_memory(view, host)
    except FormatError:
        file = None  # the scan of the host has reported it
    found = [] if file is None else descriptors.device_images_at(file, site.data.start - view.start)
    if file is None or not found:
        yield site
        return
    of_sycl: list[sycl_linked.LinkedImageRange] = []
    for image in found:
        at, size = file.place(image.begin) - (site.data.start - view.start), image.end - image.begin
        if image.version:
            of_sycl.append(sycl_linked.LinkedImageRange(at, size, image.target))
        else:
            yield CodeSection(site.data.slice(at, size), site.section, site.index, content=binary.IMAGE)
    if of_sycl:
        data, extents = _narrowed(site.data, of_sycl)
        yield CombinedContainer(
            sycl_linked.linked_container(_id(site), site.index or 0, data, extents), data, site.section, site.index
        )


def _extents(view: View, site: CodeSection, rows: Sequence[ImageTableRow]) -> list[sycl_linked.LinkedImageRange]:
    """Return the ranges of the images in a section, from the rows of the table."""
    start = site.data.start - view.start
    extents = [sycl_linked.LinkedImageRange(row.position - start, row.size) for row in rows if start <= row.position]
    return [extent for extent in extents if extent.at < len(site.data) or not extent.size]


def _with_targets(
    extents: Sequence[sycl_linked.LinkedImageRange], records: Sequence[ImageRecord]
) -> list[sycl_linked.LinkedImageRange]:
    """Return the ranges with the targets in the program's records; the ranges of the records if there are none."""
    if not extents:
        return [sycl_linked.LinkedImageRange(record.offset, record.size, record.target) for record in records]
    targets = {record.offset: record.target for record in records}
    return [extent.replace(target=targets.get(extent.at, "")) for extent in extents]


def _id(site: CodeSection) -> str:
    name = site.section or ""
    return name.removeprefix(BUNDLE_PREFIX) if name.startswith(BUNDLE_PREFIX) else ""


def _others(view: View, host: str, numbers: Collection[int]) -> list[CodeSection]:
    """Return the sections with these numbers, of any name."""
    if not numbers:
        return []
    return [
        CodeSection(view.slice(start, end - start, name), name, number)
        for start, end, name, number in binary.sections(host, view)
        if number in numbers
    ]


def _narrowed(
    data: View, extents: Sequence[sycl_linked.LinkedImageRange]
) -> tuple[View, list[sycl_linked.LinkedImageRange]]:
    """Return the part of a section from its first image to the end of its last, and the images in it.

    The rest of the section is the program's own.
    """
    start = min(extent.at for extent in extents)
    end = max(min(extent.at + (extent.size or 0), len(data)) for extent in extents)
    inside = data.slice(start, max(end - start, 0))
    return inside, [extent.replace(at=extent.at - start) for extent in extents]


def _facts(sets: PlainPropertySets, wrong: Collection[str]) -> EntryFacts:
    facts: EntryFacts = {}
    if sets:
        facts["properties"] = sets
    if wrong:
        facts["properties_unread"] = "; ".join(sorted(wrong))
    return facts
