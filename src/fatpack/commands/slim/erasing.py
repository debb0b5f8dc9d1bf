"""Images that records of OpenMP and SYCL describe one by one: where one goes, zeros take its place.

Its record stays, and what code can reach keeps its address. OpenMP's plugins look at an image's first bytes and pass
over what is neither ELF nor bitcode nor SPIR-V; SYCL's runtime chooses by what the record says, so a device that took
another image takes that one still. Only images whose bounds a record states go, and into which nothing else leads.
Compressed ones of SYCL stay: of each the runtime asks the size that it inflates to when the program starts.

How we know: ``registerLib`` in offload/libomptarget/PluginManager.cpp and ``isPluginCompatible`` of the plugins, LLVM
18 to 22; ``addImages`` and ``CompressedRTDeviceBinaryImage`` in intel/llvm's sycl/source/detail, 2025.
"""

from __future__ import annotations

from fatpack import binary
from fatpack.binary.open import open_pointers
from fatpack.binary.shrink import NewSectionContent
from fatpack.errors import FormatError
from fatpack.io.source import is_in_file
from fatpack.record import Record
from fatpack.registration import stripped_programs
from fatpack.registration.described import find_described_images
from fatpack.scanner import FoundContainer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from fatpack.io.source import Piece, View
    from fatpack.model import Finding
    from fatpack.scanner import FoundImage

_OFFLOAD, _BUNDLE = "llvm-offload-binary", "clang-offload-bundle"

_ZEROS = bytes(1 << 16)

#: What leads to images beside records: a table for tools, which no runtime reads.
_FOR_TOOLS = ".tgtimg"


class ZeroableImage(Record):
    """An image in whose place zeros may be, and where it is in the file: ``start`` and ``end``, from the view's."""

    image: FoundImage
    start: int
    end: int


def may_be_described(item: FoundContainer) -> bool:
    """Return whether a container may be one of whose images records tell: offload binaries, and SYCL's raw images."""
    return item.format == _OFFLOAD or (item.format == _BUNDLE and item.container.attrs.get("flavour") == "linked")


def is_all_zero(image: FoundImage) -> bool:
    """Return whether nothing but zeros is left of an image."""
    stored = image.as_stored
    return stored.compression is None and bool(len(stored.data)) and stored.data.is_zero()


def drop_empty(items: Sequence[FoundContainer | Finding]) -> list[FoundContainer | Finding]:
    """Return what a scan found in a linked file, without the images in whose place zeros are."""
    found: list[FoundContainer | Finding] = []
    for item in items:
        if isinstance(item, FoundContainer) and may_be_described(item) and any(map(is_all_zero, item.images)):
            found.append(item.replace(images=tuple(image for image in item.images if not is_all_zero(image))))
        else:
            found.append(item)
    return found


def zeroable_images(view: View, host: str, left: Sequence[FoundContainer]) -> dict[int, ZeroableImage]:
    """Return the images of some containers in whose place zeros may be, by the ``id()`` of the image.

    Raises FormatError for a damaged file.
    """
    by_section: dict[int, list[FoundContainer]] = {}
    for item in left:
        if may_be_described(item) and item.index is not None and item.view.source is view.source:
            by_section.setdefault(item.index, []).append(item)
    whole = {number: (start, end) for start, end, _, number in binary.sections(host, view)} if by_section else {}
    found: dict[int, ZeroableImage] = {}
    for index, inside in by_section.items():
        if index in whole:
            found |= {id(one.image): one for one in _of_section(view, host, index, whole[index], inside)}
    return found


def _of_section(
    view: View, host: str, index: int, section: tuple[int, int], inside: Sequence[FoundContainer]
) -> Iterator[ZeroableImage]:
    low = open_pointers(view, host).address(index)
    if not low:
        return
    high = low + section[1] - section[0]
    records = find_described_images(view, host, low, high)
    if records is None or not records.images:
        return
    try:
        seen = stripped_programs.symbols_between(view, host, low, high, only_visible=True)
    except FormatError:
        return
    tables = [
        (open_pointers(view, host).address(number), end - start)
        for start, end, name, number in binary.sections(host, view)
        if name == _FOR_TOOLS
    ]
    others = {
        value
        for place, value in records.others.items()
        if not any(start <= place < start + size for start, size in tables)
    }
    strange = others | set(seen)
    shift = low - section[0] - view.start
    for item in inside:
        for image in item.images:
            stored = image.as_stored
            if stored.compression is not None or not is_in_file(stored.span.source):
                continue
            bounds = stored.span.start + shift, stored.span.start + stored.span.size + shift
            if bounds not in records.images:
                # Up to LLVM 17 the record leads to the container, which holds one image.
                bounds = item.view.start + shift, item.view.start + len(item.view) + shift
                if len(item.images) != 1 or bounds not in records.images:
                    continue
            if not any(bounds[0] <= value < bounds[1] for value in strange):
                yield ZeroableImage(image, bounds[0] - low + section[0], bounds[1] - low + section[0])


def zero_patches(view: View, host: str, going: Collection[ZeroableImage]) -> list[NewSectionContent]:
    """Return the sections of some images with zeros in the place of these."""
    contents = []
    for start, end, _, index in binary.sections(host, view):
        inside = sorted((one.start, one.end) for one in going if start <= one.start and one.end <= end)
        pieces: list[Piece] = []
        at = start
        for first, last in inside:
            pieces.append(view.slice(at, first - at))
            pieces += [_ZEROS[: last - place] for place in range(first, last, len(_ZEROS))]
            at = last
        if inside:
            contents.append(NewSectionContent(index, (*pieces, view.slice(at, end - at))))
    return contents
