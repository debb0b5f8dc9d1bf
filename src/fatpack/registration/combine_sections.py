"""Combine the containers that are spread over several sections of a host: fat objects, SYCL's images, records.

A fat object has one section per target. QUIRK(every linker): ``ld -r`` joins sections of one name. They are separated
again, by sizes that DPC++ of 2019 and 2020 recorded, else by the images' own headers.
"""

from __future__ import annotations

from fatpack import binary, images, limits
from fatpack.binary.section_names import (
    BUNDLE_PREFIX,
    CUDA_RECORDS,
    HIP_RECORDS,
    SIZES_PREFIX,
    SYCL_IMAGE_TABLE,
    SYCL_SYMBOLS,
    with_cut,
)
from fatpack.findings import finding
from fatpack.model import CombinedContainer
from fatpack.registration import EMPTY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from fatpack.binary import CodeSection
    from fatpack.formats.clang_bundle import fat_object
    from fatpack.io.source import View
    from fatpack.layout import ByteOrder
    from fatpack.model import Finding


def read_fat_object(
    view: View, host: str, sites: Sequence[CodeSection], tables: Sequence[CodeSection]
) -> Iterator[CombinedContainer | Finding]:
    """Yield the one container of a fat object, and findings; ``sites`` are the sections of its images.

    ``tables`` are all sections with facts about device code.
    """
    from fatpack.formats.clang_bundle import fat_object

    named = [((site.section or ""), site.data) for site in tables]
    sizes = {name.removeprefix(SIZES_PREFIX): data for name, data in named if name.startswith(SIZES_PREFIX)}
    order: ByteOrder = "big" if host == "elf" and view.head(5, 1) == b"\2" else "little"
    sections = [
        fat_object.FatObjectImage((site.section or "").removeprefix(BUNDLE_PREFIX), site.data, site.index or 0)
        for site in sites
    ]
    merged = max([1, *(part.merged_count for part in sections)])
    parts: list[fat_object.FatObjectImage] = []
    for part in sections:
        pieces, problem = ([part.data], None) if part.merged_count else _pieces(part, merged, sizes, order)
        if len(pieces) > 1 and len(parts) + len(pieces) > limits.IMAGES:
            text = f"with the images for {part.id!r} the object has more than {limits.IMAGES}"
            hint = f"listed as one image; {limits.advice('IMAGES')}"
            pieces, problem = [part.data], finding("FP1314", part.data.span(), text, hint)
        if problem is not None:
            yield problem
        parts += [part.replace(data=piece) for piece in pieces]
    noted = tuple(data for name, data in named if name == SYCL_SYMBOLS)
    symbols = fat_object.TargetSymbols(noted, tuple(part.id for part in sections))
    yield from symbols.unread()
    yield CombinedContainer(fat_object.fat_object_container(parts, view, symbols), view)


def _pieces(
    part: fat_object.FatObjectImage, merged: int, sizes: Mapping[str, View], order: ByteOrder
) -> tuple[list[View], Finding | None]:
    """Return the images in a section, and a finding if they cannot be separated."""
    if part.id in sizes:
        from fatpack.formats.clang_bundle import fat_object

        pieces = fat_object.split_by_sizes(part.data, sizes[part.id], order)
        if pieces:
            return pieces, None
        text = f"the sizes recorded for {part.id!r} do not add up to the {len(part.data)} bytes there"
        return [part.data], finding("FP1316", sizes[part.id].span(), text, "listed as one image")
    pieces = _split_by_headers(part.data, merged) if merged > 1 else [part.data]
    if pieces:
        return pieces, None
    text = f"{merged} fat objects were merged, and the images for {part.id!r} cannot be separated"
    return [part.data], finding("FP1314", part.data.span(), text, "listed as one image; use the objects before ld -r")


def _split_by_headers(data: View, most: int) -> list[View]:
    """Split a section into images, at most ``most``, by their own headers; none if these have no sizes."""
    pieces: list[View] = []
    at = 0
    while at < len(data) or not pieces:
        rest = data.slice(at, len(data) - at)
        size = images.identify_image(rest).size if len(pieces) < most else None
        if not size or size > len(rest):
            return []
        pieces.append(data.slice(at, size))
        at += size
    return pieces


#: Names of sections with records, shortened to the 8 bytes that PE images keep.
(_, _CUDA), (_, _HIP) = with_cut(CUDA_RECORDS), with_cut(HIP_RECORDS)


def read_combined(
    view: View,
    host: str,
    sites: Sequence[CodeSection],
    starts: Mapping[str, Collection[int]],
    searched_ranges: Sequence[tuple[int, int]],
) -> Iterator[CombinedContainer | CodeSection | Finding]:
    """Yield the combined containers of several sections of a host, and findings about them.

    ``sites``: sections with images, tables or registration records. Sections without images are yielded again, and so
    are locations of containers to which only a registration record points.
    ``starts``: by format, the absolute offsets of the containers found in other sections of the host; by ``EMPTY``,
    those of the containers among them without device images.
    ``searched_ranges``: the ranges of the view that were searched already.
    """
    parts = [site for site in sites if site.content == binary.IMAGE]
    tables = [site for site in sites if site.content == binary.TABLE]
    records = [site for site in sites if site.content == binary.RECORDS]
    others = [site for site in sites if site.content not in (binary.IMAGE, binary.TABLE, binary.RECORDS)]
    if parts:
        yield from read_fat_object(view, host, parts, tables)
    if others or any(site.section == SYCL_IMAGE_TABLE for site in tables):
        from fatpack.registration import sycl_containers

        yield from sycl_containers.sycl_containers(view, host, others, tables)
    if tables:
        # Objects have records of one model: the other check is skipped.
        if any(_CUDA in (site.section or "") for site in tables):
            from fatpack.registration.records import check_cuda_records

            fatbins = starts.get("cuda-fatbin", ())
            yield from check_cuda_records(view, host, tables, fatbins, searched_ranges, starts.get(EMPTY, ()))
        if any(_HIP in (site.section or "") for site in tables):
            from fatpack.registration.records import check_hip_records

            bundles = starts.get("clang-offload-bundle", ())
            yield from check_hip_records(view, host, tables, bundles, starts.get(EMPTY, ()))
    if records:
        from fatpack.registration import stripped_programs

        yield from stripped_programs.containers_without_sections(view, records)
