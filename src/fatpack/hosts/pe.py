"""PE images (``.exe``, ``.dll``): linked programs for Windows and UEFI, read but never edited.

::

    0x00       "MZ", …, at 0x3c the position P of the PE signature u32; then usually a DOS program
    P          "PE\\0\\0", then the file header of COFF objects, 20 bytes
    P + 0x18   optional header: magic u16 (0x10b: 32 bits, 0x20b: 64 bits), sizes and addresses, data directories
    ....       section headers, 40 bytes each; sizes in memory are exact, sizes in the file are rounded up
    ....       contents of the sections, each at a multiple of the file alignment; certificates of signed files last

Linkers cut section names to 8 bytes or less, so a name says little, and what is in the section decides: LLVM's linker
puts ``.llvm.offloading`` and the names of offload entries together into ``.llvm``. A container starts with its magic at
a multiple of 8.

==================  ===========  ===============
section in objects  by lld-link  by GNU ld
==================  ===========  ===============
.llvm.offloading    .llvm        .llvm.of
.hip_fatbin         .hip_fat     .hip_fat
.nv_fatbin          .nv_fatb     .nv_fatb
==================  ===========  ===============

How we know: Microsoft's PE/COFF specification; the names were seen in what lld-link 22 and GNU ld 2.40 wrote. What
Microsoft's linker does with long names was not checked, nor was ``__nv_rel`` (for ``__nv_relfatbin``) ever seen.
"""

from __future__ import annotations

from fatpack.doc import Doc
from fatpack.errors import FormatError, HostError, Truncated
from fatpack.findings import finding
from fatpack.hosts import Site
from fatpack.hosts.coff_records import file_header, name_offset, section_header
from fatpack.hosts.cover import cover
from fatpack.io import limits
from fatpack.layout import Field, Layout
from fatpack.model import Label

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fatpack.io.source import View
    from fatpack.model import Finding, Piece

    Row = tuple[bytes, int, int, int, int, int, int, int, int, int]
    """The fields of a section header."""

__all__ = ["DOC", "LAYOUTS", "detect", "embed", "labels", "locate", "remove", "replace"]

FORMAT = "pe"

DOC = Doc(
    name=FORMAT,
    title="PE image",
    description="Programs and libraries for Windows and UEFI. Written by link, lld-link, GNU ld and rustc.",
    references=(
        "Microsoft PE and COFF specification",
        "lld/COFF/Writer.cpp, LLVM 22.1 (names of sections)",
    ),
    reads="32- and 64-bit images of any machine",
    writes="nothing",
    limitations=(
        "Images are never edited: no tool reads device code that was added to one, and addresses, checksums and "
        "signatures depend on what is there.",
        "Device code is looked for in sections that linkers name after it, and only from the first container's magic "
        "on; the raw SPIR-V images of SYCL programs, which have no container, are not listed.",
        "LLVM's own tools find nothing in linked images.",
    ),
)

DOS_HEADER = Layout(
    FORMAT,
    "DOS header",
    (
        Field("magic", "bytes[2]", "e_magic: MZ"),
        Field("dos", "bytes[58]", "what DOS needs to start the program behind this header"),
        Field("pe_offset", "u32", "e_lfanew: where the PE signature is"),
    ),
)
HEADER = file_header(FORMAT)
SECTION = section_header(FORMAT)
LAYOUTS = (DOS_HEADER, HEADER, SECTION)

SIGNATURE = b"PE\0\0"

#: What device code may be called: cut by a linker, or whole where the image has a string table (MinGW).
_NAMES = {
    b".llvm": "mixed",
    b".llvm.of": "container",
    b".llvm.offloading": "container",
    b".hip_fat": "container",
    b".hip_fatbin": "container",
    b".nv_fatb": "container",
    b".nv_fatbin": "container",
    b"__nv_rel": "container",
    b"__nv_relfatbin": "container",
}
_LONGEST_NAME = max(map(len, _NAMES))

#: What containers start with; formats and hosts do not know each other, so the magics are written here again.
_MAGICS = (b"\x10\xff\x10\xad", b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB", b"\x50\xed\x55\xba")
_LONGEST_MAGIC = max(map(len, _MAGICS))
_ALIGN = 8

_SYMBOL_SIZE = 18
_UNINITIALIZED = 0x80

#: optional header's magic → where its data directories start
_DIRECTORIES = {b"\x0b\x01": 96, b"\x0b\x02": 112}
_CERTIFICATES = 4


def detect(view: View) -> bool:
    """Say whether the bytes start as DOS programs do and lead to a PE signature."""
    head = view.head(0, DOS_HEADER.size)
    if not head.startswith(b"MZ") or len(head) < DOS_HEADER.size:
        return False
    return view.head(int.from_bytes(head[60:64], "little"), len(SIGNATURE)) == SIGNATURE


class _Image:
    """The headers of an image. Raises Truncated where they end early."""

    def __init__(self, view: View) -> None:
        self.view = view
        *_, self.pe_offset = DOS_HEADER.read(view, 0)
        self.header_offset = self.pe_offset + len(SIGNATURE)
        row = HEADER.read(view, self.header_offset)
        _, self.section_count, _, self.symbol_offset, self.symbol_count, self.optional_size, _ = row
        self.optional_offset = self.header_offset + HEADER.size
        self.table_offset = self.optional_offset + self.optional_size

    def rows(self) -> Iterator[tuple[int, Row]]:
        """Yield section numbers, from 1 on, and headers. Raises Truncated behind the last whole one."""
        for number in range(self.section_count):
            row = SECTION.read(self.view, self.table_offset + number * SECTION.size)
            yield number + 1, row

    def name(self, stored: bytes) -> bytes:
        """Return a section's name, or the start of a long one; the stored bytes where nothing can be looked up."""
        place = name_offset(stored)
        if place is None or place < 4 or not self.symbol_offset:
            return stored.rstrip(b"\0")
        strings = self.symbol_offset + self.symbol_count * _SYMBOL_SIZE
        return self.view.head(strings + place, _LONGEST_NAME + 1).partition(b"\0")[0]

    def certificates(self) -> tuple[int, int]:
        """Return position and size of the certificate table: zeros in an image that is not signed."""
        start = _DIRECTORIES.get(self.view.head(self.optional_offset, 2))
        if start is None or start + 8 * (_CERTIFICATES + 1) > self.optional_size:
            return 0, 0
        entry = self.view.head(self.optional_offset + start + 8 * _CERTIFICATES, 8)
        return int.from_bytes(entry[:4], "little"), int.from_bytes(entry[4:], "little")


def locate(view: View) -> Iterator[Site | Finding]:
    """Yield the sections that hold containers, each from its first container on; ``index`` counts them from 1.

    A site that expects ``mixed`` has other data behind and between its containers. The sites do not overlap: of
    sections that claim the same bytes the first is listed.
    """
    try:
        image = _Image(view)
    except Truncated as error:
        yield finding("FP2303", view.span(), error.describe(), error.hint)
        return
    places: list[Site | Finding] = []
    try:
        for number, row in image.rows():
            name = image.name(row[0])
            if name in _NAMES:
                places += _place(view, number, row, name)
    except Truncated as error:
        places.append(finding("FP2303", view.span(min(image.table_offset, len(view))), error.describe(), error.hint))
    reached = 0
    hidden = set()
    for site in sorted((place for place in places if isinstance(place, Site)), key=lambda site: site.data.start):
        if site.data.start < reached:
            hidden.add(site.index)
        reached = max(reached, site.data.end)
    for place in places:
        if not isinstance(place, Site):
            yield place
        elif place.index in hidden:
            # Only hostile files do this: thousands of sections over the same bytes would be searched as often.
            text = f"section {place.index} ({place.section}) overlaps another: not read again"
            yield finding("FP1203", place.data.span(), text)
        else:
            yield from _searched(place)


def _place(view: View, number: int, row: Row, stored: bytes) -> Iterator[Site | Finding]:
    """Yield where a section's bytes are; what is in them is not looked at."""
    _, virtual_size, _, raw_size, raw_offset, _, _, _, _, flags = row
    name = stored.decode()
    # The file's size is rounded up to the file alignment; what is beyond the size in memory is padding.
    size = min(raw_size, virtual_size) if virtual_size else raw_size
    if not size or flags & _UNINITIALIZED:
        return
    if raw_offset + size > len(view):
        text = f"section {number} ({name}) ends at {raw_offset + size:#x}, the image at {len(view):#x}"
        yield finding("FP2301", view.span(min(raw_offset, len(view))), text, "the file looks cut short")
        return
    yield Site(view.slice(raw_offset, size, name), name, number, expects=_NAMES[stored])


def _searched(site: Site) -> Iterator[Site | Finding]:
    """Yield the part of a section from its first container on, or the finding that there is none."""
    data = site.data
    at = _find_container(data)
    if at >= 0:
        yield site.replace(data=data.slice(at, len(data) - at))
    elif site.expects == "container":
        text = f"section {site.index} ({site.section}) holds no container that we know"
        yield finding("FP2302", data.span(), text)


def _find_container(data: View) -> int:
    """Return the first position of any magic at a multiple of 8, or -1; reads up to there, in bounded pieces."""
    for start in range(0, len(data), limits.CHUNK):
        block = data.head(start, limits.CHUNK + _LONGEST_MAGIC - 1)
        hits = [hit for hit in (_find_aligned(block, magic) for magic in _MAGICS) if hit >= 0]
        if hits:
            return start + min(hits)
    return -1


def _find_aligned(block: bytes, magic: bytes) -> int:
    at = block.find(magic)
    while at >= 0 and at % _ALIGN:
        at = block.find(magic, at + 1)
    return at


def labels(view: View) -> Iterator[Label]:
    """Yield a label for every byte: file and section headers field by field, everything else whole."""
    try:
        image = _Image(view)
    except Truncated:
        yield from cover(view, 0, [])
        return
    start, at = min(DOS_HEADER.size, image.pe_offset), image.header_offset
    if start == DOS_HEADER.size:
        yield from DOS_HEADER.labels(view, 0, "dos")
    elif start:
        yield Label(view.span(0, start), "dos", "cut by the PE header", "DOS header", "data")
    if image.pe_offset > start:
        size = image.pe_offset - start
        yield Label(view.span(start, size), "stub", f"{size} bytes", "the program that DOS runs instead", "data")
    yield Label(view.span(image.pe_offset, len(SIGNATURE)), "signature", "PE")
    yield from HEADER.labels(view, at, "header")
    at = image.optional_offset
    size = min(image.optional_size, len(view) - at)
    if size:
        yield Label(view.span(at, size), "optional header", f"{size} bytes", "sizes, addresses, directories", "data")
    parts = [_part(image, number, row) for number, row in _whole_rows(image)]
    at = min(image.table_offset, len(view))
    for number in range(len(parts)):
        yield from SECTION.labels(view, at, f"section[{number + 1}]")
        at += SECTION.size
    if image.symbol_offset:
        size = image.symbol_count * _SYMBOL_SIZE
        strings = view.head(image.symbol_offset + size, 4)
        size += int.from_bytes(strings, "little")
        parts.append((image.symbol_offset, size, "symbols", f"{image.symbol_count} records", "symbols and strings"))
    signed_at, size = image.certificates()
    parts.append((signed_at, size, "certificates", f"{size} bytes", "the signature of the file"))
    yield from cover(view, at, [part for part in parts if part[1]])


def _whole_rows(image: _Image) -> list[tuple[int, Row]]:
    rows = []
    try:
        for row in image.rows():
            rows.append(row)
    except Truncated:
        pass  # what the whole headers describe is labelled
    return rows


def _part(image: _Image, number: int, row: Row) -> tuple[int, int, str, str, str]:
    name = image.name(row[0]).decode("utf-8", "backslashreplace")
    size = 0 if row[9] & _UNINITIALIZED else row[3]
    return row[4], size, f"section[{number}].data", f"{name}, {size} bytes", "contents, padded to the file alignment"


def embed(view: View, content: Sequence[Piece]) -> Iterable[Piece]:
    """Refuse. Raises HostError with what would work."""
    raise _refusal(view, "no program and no tool looks for device code that was added to a linked image")


def replace(view: View, index: int, content: Sequence[Piece]) -> Iterable[Piece]:
    """Refuse. Raises HostError with what would work."""
    raise _refusal(view, "the sizes and addresses of its device code are part of the linked program")


def remove(view: View, indices: Sequence[int]) -> Iterable[Piece]:
    """Refuse. Raises HostError with what would work."""
    raise _refusal(view, "the program's start-up code registers the device code where the linker put it")


def _refusal(view: View, reason: str) -> HostError:
    try:
        is_signed = any(_Image(view).certificates())
    except FormatError:
        is_signed = False
    signed = ", and the image is signed" if is_signed else ""
    return HostError(
        f"PE images are not edited: {reason}{signed}",
        hint="edit the objects (.obj) or libraries and link again",
        chain=view.chain,
    )
