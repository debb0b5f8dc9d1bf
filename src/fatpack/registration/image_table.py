"""``.tgtimg``: where the device images of a program are, as (address, size) pairs of pointers and sizes.

clang-offload-wrapper (DPC++) and LLVM's SYCL wrapper write a pair per image (``IntPtrTy`` each); linkers join them, and
fill with zeros between. clang-offload-extract is the reader that the table is made for.
"""

from __future__ import annotations

from fatpack import limits
from fatpack.binary.pointers import INSIDE, NULL, UNDEFINED, UNKNOWN
from fatpack.findings import FindingTally, finding
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.binary import CodeSection
    from fatpack.binary.pointers import Pointer, PointerReader
    from fatpack.io.source import Span
    from fatpack.model import Finding

IMAGE_TABLE_NAME = ".tgtimg"

#: LIMIT: tables of one host. Linkers make one, and the relocations are read for each.
_MOST_TABLES = 64


class ImageTableRow(Record):
    """An image in the table: its ``position`` in the host's view, the section's number there, and its size."""

    position: int
    section: int
    size: int


class ImageTable(Record):
    """All rows that lead to bytes of the file, in the order of the table, and what is wrong with the others."""

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
    """Return the finding about a row whose image is not where it says."""
    return finding("FP3011", place, text)


def _problem(pointer: Pointer, number: int) -> str:
    """Return why a row gives no image; "" for padding."""
    if pointer.kind == NULL:
        return ""
    if pointer.kind == UNDEFINED:
        return f"row {number} points to {pointer.symbol or 'a symbol'}, which another file defines"
    if pointer.kind == UNKNOWN:
        return f"row {number} has a relocation that is not understood"
    return f"row {number} points to {pointer.address:#x}, where the file has no bytes"
