"""Records of SYCL's images in a program, found by their pointers to the images.

::

    0x00  version u16   0x02  kind of offloading u8   0x03  format of the bytes u8, then padding
          pointers: target, compile options, link options
          versions 1 and 2: pointers: begin and end of a manifest
          pointers: begin and end of the image, begin and end of the entries, begin and end of the properties

DPC++'s ``__tgt_device_image`` and LLVM's ``__sycl.tgt_device_image`` (version 3, also of newer DPC++) may be anywhere
in a program's data, and nothing in a stripped file points to them. But a record holds begin and end of an image, one
after the other, which nothing else does for its section. Records have facts that ``.tgtimg`` lacks: the target if a
linker has cut the section's name, and the stored size. LLVM 22 writes no such table at all.
"""

from __future__ import annotations

from fatpack import binary, limits
from fatpack.binary import TABLE, CodeSection
from fatpack.binary.pointers import INSIDE, NULL, UNDEFINED, UNKNOWN, open_pointers
from fatpack.binary.section_names import SYCL_IMAGE_TABLE
from fatpack.findings import FindingTally, finding
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from fatpack.binary.pointers import Pointer, PointerReader
    from fatpack.io.source import Span, View
    from fatpack.model import Finding


# ``.tgtimg``: the locations of a program's device images, as (address, size) pairs of pointers and sizes.
#
# clang-offload-wrapper (DPC++) and LLVM's SYCL wrapper write a pair per image (``IntPtrTy`` each); linkers concatenate
# them, with zeros between. The table is made for clang-offload-extract.


#: LIMIT: tables of one host. Linkers make one, and the relocations are read for each.
_MOST_TABLES = 64


class ImageTableRow(Record):
    """An image in the table: its ``position`` in the host's view, the section's number there, and its size."""

    position: int
    section: int
    size: int


class ImageTable(Record):
    """The rows that point to bytes of the file, in the order of the table, and findings about the others."""

    rows: tuple[ImageTableRow, ...]
    findings: tuple[Finding, ...]


def read_image_table(reader: PointerReader, tables: Sequence[CodeSection]) -> ImageTable:
    """Return the rows of all tables of a host. Never raises for damaged tables."""
    rows: list[ImageTableRow] = []
    findings: list[Finding] = []
    tally = FindingTally(limits.FINDINGS)
    if len(tables) > _MOST_TABLES:
        text = f"{len(tables)} tables of images; only the first {_MOST_TABLES} are read"
        findings.append(finding("FP1005", tables[_MOST_TABLES].data.span(), text))
    for site in tables[:_MOST_TABLES]:
        data, word = site.data, reader.word
        count, rest = divmod(len(data), 2 * word)
        if rest:
            text = f"{site.section} has {len(data)} bytes, which is no whole number of pairs of {word} bytes each"
            findings.append(finding("FP3011", data.span(count * 2 * word, rest), text))
        if count > limits.IMAGES:
            text = f"{site.section} has {count} rows; only the first {limits.IMAGES} are read"
            findings.append(finding("FP1005", data.span(), text, limits.advice("IMAGES")))
            count = limits.IMAGES
        offsets = range(0, count * 2 * word, 2 * word)
        for number, (offset, pointer) in enumerate(zip(offsets, reader.pointers(site, offsets), strict=True)):
            size = int.from_bytes(data.read(offset + word, word), reader.order)
            if pointer.kind == INSIDE and pointer.section is not None:
                rows.append(ImageTableRow(pointer.position, pointer.section, size))
            elif problem := _problem(pointer, number):
                wrong = finding("FP3011", data.span(offset, 2 * word), problem)
                if tally.keeps(wrong):
                    findings.append(wrong)
    return ImageTable(tuple(rows), (*findings, *tally.rest()))


def image_row_finding(place: Span, text: str) -> Finding:
    """Return the finding about a row without its image."""
    return finding("FP3011", place, text)


def _problem(pointer: Pointer, number: int) -> str:
    """Return the reason that a row has no image; "" for padding."""
    if pointer.kind == NULL:
        return ""
    if pointer.kind == UNDEFINED:
        return f"row {number} points to {pointer.symbol or 'a symbol'}, which another file defines"
    if pointer.kind == UNKNOWN:
        return f"row {number} has an unknown relocation"
    return f"row {number} points to {pointer.address:#x}, where the file has no bytes"


# The images of ``.tgtimg``: the stored bytes of each row, in the order of the table.


def read_stored_images(view: View, host: str) -> tuple[tuple[View, ...], tuple[Finding, ...]] | None:
    """Return the images of the table, and findings about other rows; None if there is no table.

    Nothing is copied or decompressed. If a row exceeds its section, its view ends with the section, and a finding says
    so. Raises FormatError for a damaged host.
    """
    places = binary.get_host(host).locate(view)
    tables = [
        site
        for site in places
        if isinstance(site, CodeSection) and site.content == TABLE and site.section == SYCL_IMAGE_TABLE
    ]
    if not tables:
        return None
    table = read_image_table(open_pointers(view, host), tables)
    ends = {number: end for _, end, _, number in binary.sections(host, view)}
    images: list[View] = []
    findings = list(table.findings)
    for number, row in enumerate(table.rows):
        left = ends.get(row.section, len(view)) - row.position
        if row.size > left:
            text = f"row {number} has {row.size} bytes, and {left} are left in its section"
            findings.append(image_row_finding(view.span(row.position, max(left, 0)), text))
        images.append(view.slice(row.position, max(min(row.size, left), 0)))
    return tuple(images), tuple(findings)


#: The kinds of offloading for SYCL: DPC++ counts them, LLVM has a bit for each.
_KINDS = (4, 8)

#: version → pointers between the first fields and the image's: three strings, and the manifest
_POINTERS_BEFORE = {1: 5, 2: 5, 3: 3}

#: LIMIT: bytes of a target's name that are read.
_NAME = 128


class ImageRecord(Record):
    """An image in a program's records: its ``offset`` in the section, its stored size, and its target."""

    offset: int
    size: int
    target: str


class ImagePointer(Record):
    """A possible pointer to an image: its address, the image's offset in its section, and its stored size."""

    address: int
    offset: int
    size: int


def find_image_pointers(program: PointerReader, section: int, data: View) -> tuple[list[ImagePointer], Finding | None]:
    """Return the pairs of words that may be begin and end of an image in a section, by address; none for objects.

    ``data`` are the section's bytes. A finding reports that a limit was reached, and some are missing.
    """
    low = program.address(section) if program.is_linked else 0
    if not low or not len(data):
        return [], None
    high = low + len(data)
    search = program.values_in(low, high)
    into, unsearched = search.values, None
    if search.unsearched:
        unsearched = finding("FP1005", data.span(), search.unsearched, search.hint)
    word = program.word
    begins = [place for place in into if place + word in into and into[place] <= into[place + word]]
    if len(begins) > limits.IMAGES:
        text = f"{len(begins)} records of images; only the first {limits.IMAGES} are read"
        unsearched = finding("FP1005", data.span(), text, limits.advice("IMAGES"))
        del begins[limits.IMAGES :]
    return [ImagePointer(place, into[place] - low, into[place + word] - into[place]) for place in begins], unsearched


def read_image_records(program: PointerReader, section: int, data: View) -> tuple[list[ImageRecord], Finding | None]:
    """Return the records of the images in a section, in the order of the images' bytes; none for objects.

    ``data`` are the section's bytes. A finding reports that a limit was reached, and some are missing.
    """
    found, unsearched = find_image_pointers(program, section, data)
    records = []
    for place, target in zip(found, _targets(program, [place.address for place in found]), strict=True):
        if target is not None:
            records.append(ImageRecord(place.offset, place.size, target))
    return sorted(set(records), key=lambda record: (record.offset, record.size)), unsearched


def _targets(program: PointerReader, places: list[int]) -> list[str | None]:
    """Return the targets of the records whose pointers to an image are at ``places``; None if there is no record."""
    heads = [target_pointer_address(program, place) for place in places]
    wanted = [head for head in heads if head is not None]
    pointers = dict(zip(wanted, program.values_at(wanted), strict=True))
    return [None if head is None else _text(program.view, pointers[head]) for head in heads]


def _text(view: View, pointer: Pointer) -> str:
    if pointer.kind != INSIDE:
        return ""
    text = view.head(pointer.position, min(_NAME, pointer.room)).partition(b"\0")[0]
    return text.decode("utf-8", "backslashreplace")


def target_pointer_address(program: PointerReader, place: int) -> int | None:
    """Return the address of the target pointer in a record; ``place`` is the address of its pointer to the image.

    None if there is no record.
    """
    word = program.word
    for version, count in _POINTERS_BEFORE.items():
        start = place - (count + 1) * word
        memory = program.at(start)
        if memory.kind != INSIDE or memory.room < word:
            continue
        head = program.view.read(memory.position, word)
        stored = int.from_bytes(head[:2], program.order)
        if stored == version and head[2] in _KINDS and not any(head[4:]):
            return start + word
    return None


# Images that records of OpenMP and SYCL describe one by one, and other words that point to these images.
#
# ::
#
#     OpenMP   0x00  number of images i32, then padding   0x08  records   0x10, 0x18  begin and end of the entries
#              each record: begin and end of the image, begin and end of the entries
#     SYCL     each record: see :mod:`fatpack.registration.sycl_images`
#
# (``__tgt_bin_desc`` and ``__tgt_device_image``: llvm/lib/Frontend/Offloading/OffloadWrapper.cpp, LLVM 14 to 23.
# Offsets are those of 64-bit hosts.) LLVM 23 passes SYCL's images to the runtime as one offload binary: its address and
# size are in code, and in no record.

#: LIMIT: images of one descriptor. Programs have one for each target.
_MOST = 1 << 12


class DescribedImages(Record):
    """The images of a section that records describe.

    ``images`` are their bounds: begin and end, as addresses. ``others`` are the addresses of all other words with an
    address in the section, and these addresses; if any word may be a number, only words with the begin of an image.
    """

    images: frozenset[tuple[int, int]]
    others: Mapping[int, int]


def find_described_images(view: View, host: str, low: int, high: int) -> DescribedImages | None:
    """Return the images between two addresses, both included, that records of a linked program describe.

    None if not all of its data could be searched. Raises FormatError for a damaged header.
    """
    reader = open_pointers(view, host)
    search = reader.values_in(low, high)
    if search.unsearched:
        return None
    into, word = search.values, reader.word
    begins = {place for place in into if place + word in into and into[place] <= into[place + word]}
    found = {place for place in begins if target_pointer_address(reader, place) is not None}
    found |= set(_openmp(reader, begins - found))
    words = found | {place + word for place in found}
    images = frozenset((into[place], into[place + word]) for place in found)
    starts = {begin for begin, _ in images}
    others = {place: value for place, value in into.items() if place not in words}
    return DescribedImages(images, {place: to for place, to in others.items() if search.is_exact or to in starts})


def _openmp(reader: PointerReader, begins: Collection[int]) -> Iterator[int]:
    """Yield the places in ``begins`` at which image records of an OpenMP descriptor begin."""
    if not begins:
        return
    word = reader.word
    for place, first in sorted(reader.values_in(min(begins), max(begins), everywhere=True).values.items()):
        head = reader.at(place - word)
        if first not in begins or head.kind != INSIDE or head.room < word:
            continue
        stored = reader.view.read(head.position, word)
        count = int.from_bytes(stored[:4], reader.order)
        rows = [first + 4 * word * number for number in range(count)] if count <= _MOST else []
        if any(stored[4:]) or not rows or not all(row in begins for row in rows):
            continue
        bounds = [pointer.address for pointer in reader.values_at([place + word, place + 2 * word])]
        entries = reader.values_at([row + step * word for row in rows for step in (2, 3)])
        if [pointer.address for pointer in entries] == bounds * count:
            yield from rows
