"""The containers of a SYCL program: its sections of images, cut up by its table.

A section of LLVM's may hold images without a container, of SYCL or OpenMP, in objects too: the records with which the
linker wrapper registers them lead there.
"""

from __future__ import annotations

from fatpack import binary
from fatpack.assembled import CombinedContainer
from fatpack.binary import CodeSection
from fatpack.binary.open import HOSTS, open_pointers
from fatpack.errors import FormatError
from fatpack.findings import finding
from fatpack.formats.clang_bundle import sycl_linked
from fatpack.formats.clang_bundle.fat_object import TargetSymbols
from fatpack.registration import image_table, sycl_images
from fatpack.registration.property_sets import PropertySets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from fatpack.io.source import View
    from fatpack.model import Finding
    from fatpack.registration.image_table import ImageTableRow
    from fatpack.registration.sycl_images import ImageRecord

#: What precedes the kind and the target in the name of a section.
_PREFIX = "__CLANG_OFFLOAD_BUNDLE__"

#: LIMIT: sections of one host for which all its data is searched for records. Linkers make one or two that need it.
_SEARCHES = 16


def sycl_containers(
    view: View, host: str, sites: Sequence[CodeSection], tables: Sequence[CodeSection]
) -> Iterator[CombinedContainer | CodeSection | Finding]:
    """Yield the containers of linked images in a host, in the order of their bytes, and what is wrong with them.

    ``sites`` are the sections that hold nothing else, and such as may; ``tables`` all those that say something about
    device code. Of the former the ones without images are yielded as they are. The table is believed wherever it leads:
    older wrappers put images among a program's constants.
    """
    if host not in HOSTS:  # bitcode: nothing of it is linked, and nothing in it points
        yield from sites
        return
    try:
        reader = open_pointers(view, host)
    except FormatError as error:
        yield finding("FP3011", view.span(), error.describe(), error.hint)
        yield from sites
        return
    searches = _SEARCHES
    table = image_table.read_image_table(
        reader, [site for site in tables if site.section == image_table.IMAGE_TABLE_NAME]
    )
    yield from table.findings
    rows: dict[int, list[ImageTableRow]] = {}
    for row in table.rows:
        rows.setdefault(row.section, []).append(row)
    symbols = TargetSymbols(tuple(site.data for site in tables if site.section == ".tgtsym"), tuple(map(_id, sites)))
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
            if site.expects != binary.IMAGES:
                yield from _registered(view, host, site)
                continue
            extents = sycl_linked.split_by_frames(site.data)
            text = (
                f"no row of {image_table.IMAGE_TABLE_NAME} leads into {site.section}: where one image ends is a guess"
            )
            yield finding("FP3013", site.data.span(), text)
        data = site.data
        if site.expects != binary.IMAGES:
            data, extents = _narrowed(data, extents)
        properties = None
        if reader.is_linked:
            properties = PropertySets(view, host, site.index or 0, site.data, data.start - site.data.start)
        container = sycl_linked.linked_container(
            id, site.index or 0, data, extents, symbols.replace(only=id), properties
        )
        yield CombinedContainer(container, data, site.section, site.index)


def _registered(view: View, host: str, site: CodeSection) -> Iterator[CombinedContainer | CodeSection]:
    """Yield the images in a section that records lead to; the section as it is if they lead to none."""
    from fatpack.registration.analysis import analyze, descriptors

    try:
        file = analyze.open_host_memory(view, host)
    except FormatError:
        file = None  # the host has reported it
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
            yield CodeSection(site.data.slice(at, size), site.section, site.index, expects=binary.IMAGE)
    if of_sycl:
        data, extents = _narrowed(site.data, of_sycl)
        yield CombinedContainer(
            sycl_linked.linked_container(_id(site), site.index or 0, data, extents), data, site.section, site.index
        )


def _extents(view: View, site: CodeSection, rows: Sequence[ImageTableRow]) -> list[sycl_linked.LinkedImageRange]:
    """Return where the images of a section are by the table."""
    start = site.data.start - view.start
    extents = [sycl_linked.LinkedImageRange(row.position - start, row.size) for row in rows if start <= row.position]
    return [extent for extent in extents if extent.at < len(site.data) or not extent.size]


def _with_targets(
    extents: Sequence[sycl_linked.LinkedImageRange], records: Sequence[ImageRecord]
) -> list[sycl_linked.LinkedImageRange]:
    """Return the extents with the targets that the program's records have; those of the records if there are none."""
    if not extents:
        return [sycl_linked.LinkedImageRange(record.offset, record.size, record.target) for record in records]
    targets = {record.offset: record.target for record in records}
    return [extent.replace(target=targets.get(extent.at, "")) for extent in extents]


def _id(site: CodeSection) -> str:
    name = site.section or ""
    return name.removeprefix(_PREFIX) if name.startswith(_PREFIX) else ""


def _others(view: View, host: str, numbers: Collection[int]) -> list[CodeSection]:
    """Return the sections of those numbers, whatever they are called."""
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
