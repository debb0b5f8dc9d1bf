"""Where device code may lie in a PE image: in sections that linkers name after it, from the first container on."""

from __future__ import annotations

from fatpack import limits, magic_numbers
from fatpack.binary import CONTAINER, IMAGE, IMAGES, MIXED, TABLE, CodeSection, without_overlaps
from fatpack.binary.coff.layout import REMOVED_BY_LINKER
from fatpack.binary.pe.read import UNINITIALIZED, PeFile
from fatpack.errors import Truncated
from fatpack.findings import finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.binary import SectionContent
    from fatpack.binary.coff.layout import CoffSection
    from fatpack.binary.known_sections import SectionSplit
    from fatpack.io.source import View
    from fatpack.model import Finding

#: What device code may be called: cut by a linker, or whole where the image has a string table (MinGW).
_NAMES: dict[bytes, SectionContent] = {
    b".llvm": MIXED,
    b".llvm.of": CONTAINER,
    b".llvm.offloading": CONTAINER,
    b".hip_fat": CONTAINER,
    b".hip_fatbin": CONTAINER,
    b".nv_fatb": CONTAINER,
    b".nv_fatbin": CONTAINER,
    b"__nv_rel": CONTAINER,
    b"__nv_relfatbin": CONTAINER,
    b"__CLANG_": IMAGES,
    b"OFFLOAD_": IMAGES,
    b"OFFLOAD_DEVICE_CODE": IMAGES,
    b".hipFatB": TABLE,
    b".hipFatBinSegment": TABLE,
    b".kpackrf": TABLE,
    b".nvFatBi": TABLE,
    b".nvFatBinSegment": TABLE,
    b".nvFatBinSegmentAlt": TABLE,
    b"__nv_mod": TABLE,
    b"__nv_module_id": TABLE,
    b".tgtimg": TABLE,
    b".tgtsym": TABLE,
}

#: Whole names of the sections of SYCL's images end in what the images are for.
_IMAGES_PREFIX = magic_numbers.BUNDLE

#: What containers start with: all that a host may know of a format.
_MAGICS = (
    magic_numbers.OFFLOAD_BINARY,
    magic_numbers.BUNDLE,
    magic_numbers.COMPRESSED_BUNDLE,
    magic_numbers.FATBIN,
    magic_numbers.OLD_FATBIN,
)
_LONGEST_MAGIC = max(map(len, _MAGICS))
_ALIGN = 8


def locate(view: View) -> Iterator[CodeSection | Finding]:
    """Yield the sections that hold containers, each from its first container on; ``index`` counts them from 1.

    A site that expects ``mixed`` has other data behind and between its containers; sections that are images, hold
    images or are tables have no containers and are listed whole. The sites do not overlap: of sections that claim the
    same bytes the first is listed.
    """
    try:
        image = PeFile(view)
    except Truncated as error:
        yield finding("FP2303", view.span(), error.describe(), error.hint)
        return
    places: list[CodeSection | Finding] = []
    try:
        for section in image.sections():
            name = image.name(section.stored_name)
            expects = _NAMES.get(name)
            if name.startswith(_IMAGES_PREFIX):
                # No linker leaves sections that it is told to remove: llvm-objcopy made a fat object of the image.
                expects = IMAGE if section.flags & REMOVED_BY_LINKER else IMAGES
            if expects:
                places += _place(view, section, name, expects)
    except Truncated as error:
        places.append(finding("FP2303", view.span(min(image.table_offset, len(view))), error.describe(), error.hint))
    for place in without_overlaps(places):
        if not isinstance(place, CodeSection) or place.expects in (IMAGE, IMAGES, TABLE):
            yield place
        else:
            yield from _searched(place)


def sections(view: View) -> list[tuple[int, int, str, int]]:
    """Return (start, end, name, number) of every section that has bytes, as far as the table can be read."""
    rows = []
    try:
        image = PeFile(view)
        for section in image.sections():
            end = section.raw_offset + section.raw_size
            if section.raw_size and end <= len(view):
                name = image.name(section.stored_name).decode("utf-8", "backslashreplace")
                rows.append((section.raw_offset, end, name, section.number))
    except Truncated:
        pass  # what the rest is called is not known
    return rows


def divided_sections(view: View, _places: object = None) -> SectionSplit:
    """Return the sections that have bytes, divided into those that hosts have anyway and the others.

    Bytes behind the last section count as one of the others: installers have their contents there.
    """
    from fatpack.binary.known_sections import split_sections

    rows = sections(view)
    division = split_sections(rows)
    reached = max((end for _, end, _, _ in rows), default=len(view))
    return division.replace(unusual=[*division.unusual, (reached, len(view))])


def _place(view: View, section: CoffSection, stored: bytes, expects: SectionContent) -> Iterator[CodeSection | Finding]:
    """Yield where a section's bytes are; what is in them is not looked at."""
    start, number = section.raw_offset, section.number
    name = stored.decode("utf-8", "backslashreplace")
    # The file's size is rounded up to the file alignment; what is beyond the size in memory is padding.
    size = min(section.raw_size, section.virtual_size) if section.virtual_size else section.raw_size
    if section.flags & UNINITIALIZED or not (size or expects == IMAGE):
        return
    if start + size > len(view):
        text = f"section {number} ({name}) ends at {start + size:#x}, the image at {len(view):#x}"
        yield finding("FP2301", view.span(min(start, len(view))), text, "the file looks cut short")
        return
    yield CodeSection(view.slice(start, size, name), name, number, expects=expects)


def _searched(site: CodeSection) -> Iterator[CodeSection | Finding]:
    """Yield the part of a section from its first container on, or the finding that there is none."""
    data = site.data
    at = _find_container(data)
    if at >= 0:
        yield site.replace(data=data.slice(at, len(data) - at))
    elif site.expects == CONTAINER:
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
