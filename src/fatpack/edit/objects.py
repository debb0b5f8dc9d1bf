"""Images changed in an object: what becomes of its sections, and of those that say something about the images."""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.binary.elf.quick_header import read_quick_header
from fatpack.edit import write_containers
from fatpack.edit.editor import editor_for
from fatpack.errors import HostError, cli_or_api
from fatpack.formats.clang_bundle import fat_object
from fatpack.formats.clang_bundle.layout import MAGIC
from fatpack.formats.clang_bundle.stored import FatObjectEntry
from fatpack.io.pieces import PiecesSource
from fatpack.model import Finding
from fatpack.scanner import FoundContainer, detect_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Literal

    from fatpack.binary import CodeSection
    from fatpack.edit.write_containers import ImageChanges
    from fatpack.io.source import Piece, View
    from fatpack.model import Image

    #: number of a section → what it holds now; None for one that goes
    SectionContents = dict[int, Sequence[Piece] | None]

#: sections in which DPC++ notes the sizes of a target's images, and the symbols of all targets
_SIZES, _SYMBOLS = "__CLANG_OFFLOAD_BUNDLE_SIZE__", ".tgtsym"

#: formats that a program registers, so that its code points at every container of a section
_REGISTERED = ("clang-offload-bundle", "cuda-fatbin")


def rewrite_object(
    view: View, found: Sequence[FoundContainer], changes: ImageChanges, *, allow_empty: bool = False
) -> Iterable[Piece]:
    """Return an object with other images in the place of some of its own, as
    :func:`fatpack.edit.write_containers.changed_containers` does.

    Of a fat object the sizes and symbols that are noted about images go with those that go, and an image for a new ID
    gets a section of its own. With ``allow_empty`` containers that code refers to stay when they lose all images, as
    empty ones. Raises HostError, with advice.
    """
    room = editor_for(view)
    sites = [site for site in room.locate(view) if not isinstance(site, Finding) and site.index is not None]
    by_section: dict[int | None, list[FoundContainer]] = {}
    for item in found:
        by_section.setdefault(item.index, []).append(item)
    contents: SectionContents = {}
    _refuse_others(view, found, {site.index for site in sites}, changes)
    for site in sites:
        inside = by_section.get(site.index, [])
        if any(id(image) in changes for item in inside for image in item.images):
            contents[site.number] = _section(site, inside, changes, allow_empty=allow_empty)
    new: list[Image] = []
    for item in by_section.get(None, []):
        if item.container.is_fat_object:
            contents |= _fat_object(view, item, sites, changes)
            new += _for_new_sections(item, changes)
    try:
        pieces: Iterable[Piece] = room.edit(view, contents) if contents or not new else [view]
    except HostError as error:
        advice = _advice(view, by_section, contents)
        if not advice:
            raise
        raise HostError(error.problem, hint=advice, chain=error.chain) from error
    for image in new:
        whole = PiecesSource(list(pieces), view.chain[-1] if view.chain else "").view()
        pieces = room.embed(whole, [image.data], name=MAGIC.decode() + image.attrs["id"])
    return pieces


def _refuse_others(
    view: View, found: Sequence[FoundContainer], editable: Collection[int | None], changes: ImageChanges
) -> None:
    """Raise HostError if an image lies among a program's own data, where only a record that registers it leads."""
    for item in found:
        if item.container.is_fat_object or item.index in editable:
            continue
        if any(id(image) in changes for image in item.images):
            place = f"{item.container.format} at {item.container.span.start:#x} in {item.section or 'no section'}"
            raise HostError(
                f"the {place} lies among the object's own data, which is not edited",
                hint="code refers to it when the program starts; build the object without it",
                chain=view.chain,
            )


def _section(
    site: CodeSection, inside: Sequence[FoundContainer], changes: ImageChanges, *, allow_empty: bool
) -> list[Piece] | None:
    """Return what stays of a section as pieces, None if nothing but padding does."""
    data, at = site.data, 0
    pieces: list[Piece] = []
    has_content = False
    for found, left in zip(inside, write_containers.changed_containers(inside, changes), strict=True):
        stays_empty = left is None and allow_empty and found.container.format in _REGISTERED
        content = write_containers.empty_container(found) if stays_empty else left
        start, end = found.view.start - data.start, found.view.end - data.start
        gap = data.slice(at, start - at)
        pieces += [gap, *(content or ())]
        has_content = has_content or content is not None or not gap.is_zero()
        at = end
    tail = data.slice(at, len(data) - at)
    return [*pieces, tail] if has_content or not tail.is_zero() else None


def _fat_object(
    view: View, found: FoundContainer, sites: Sequence[CodeSection], changes: ImageChanges
) -> SectionContents:
    """Return the changes to the sections of a fat object, each of which holds one image, or several after ``ld -r``."""
    images: dict[int, list[tuple[Image, Sequence[Image]]]] = {}
    for item in found.images:
        stored = item.as_stored
        if isinstance(stored.record, FatObjectEntry):
            here = [new for new in changes.get(id(item), (stored,)) if _id(new) == _id(stored)]
            images.setdefault(stored.record.section, []).append((stored, here))
    contents: SectionContents = {}
    #: bundle ID → the sizes of what is in the place of each of its images, where some are changed
    sizes: dict[str, list[Sequence[int]]] = {}
    for number, inside in images.items():
        if any(list(here) != [stored] for stored, here in inside):
            contents[number] = [image.data for _, here in inside for image in here] or None
            sizes.setdefault(_id(inside[0][0]), []).extend([image.size for image in here] for _, here in inside)
    return contents | dict(_notes(view, sites, sizes))


def _for_new_sections(found: FoundContainer, changes: ImageChanges) -> Iterator[Image]:
    """Yield the images of a fat object that are for another ID than the one in whose place they come."""
    for item in found.images:
        yield from (new for new in changes.get(id(item), ()) if _id(new) != _id(item.as_stored))


def _id(image: Image) -> str:
    return image.attrs["id"]


def _notes(
    view: View, sites: Iterable[CodeSection], sizes: Mapping[str, Sequence[Sequence[int]]]
) -> Iterator[tuple[int, Sequence[Piece] | None]]:
    """Yield the changes to sections that note sizes and symbols of the images."""
    gone = frozenset(id for id, rows in sizes.items() if not any(rows))
    order: Literal["big", "little"] = "big" if view.head(0, 6)[5:] == b"\2" else "little"
    for site in sites:
        name, data = site.section or "", site.data
        if name.startswith(_SIZES) and (rows := sizes.get(name.removeprefix(_SIZES))):
            # One size for each image, or sizes of which none can be trusted: those stay as long as an image does.
            if not any(rows):
                yield site.number, None
            elif len(data) == 8 * len(rows):
                yield site.number, [size.to_bytes(8, order) for row in rows for size in row]
        elif name == _SYMBOLS and gone:
            left = fat_object.without_ids(data, gone)
            if left is not None:
                # QUIRK(DPC++): in COFF objects linkers keep the section, which is not taken out then: it is emptied.
                empty = None if view.head(0, 4) == magic_numbers.ELF else [b"\0"]
                yield site.number, [left] if left.strip(b"\0") else empty


def _advice(view: View, by_section: Mapping[int | None, Sequence[FoundContainer]], contents: SectionContents) -> str:
    """Return what to do instead of an edit that the host refused; "" where the host's own words say all."""
    elf = read_quick_header(view, view.head(0, 64))
    if (elf is not None and elf.type != 1) or detect_host(view) == "pe":
        return ""  # a linked file is not edited, whatever stays in it
    for number, content in contents.items():
        inside = [item for item in by_section.get(number, ()) if item.container.format in _REGISTERED]
        if len(inside) > 1:
            return (
                f"code refers to each of the {len(inside)} containers there: take the images out of the objects "
                "before ld -r merges them"
            )
        if inside and content is None:
            offloads = {item.target.offload for item in inside[0].images}
            if "host" in offloads:
                kinds = sorted(offloads - {"host"})
                python = f"Selector(offload={','.join(kinds)!r})"
                words = cli_or_api(" ".join(f"--offload={offload}" for offload in kinds), python)
                return f"code refers to it when the program starts; {words} leaves the container and its host entry"
            fewer = cli_or_api("--arch or --form", "Selector(arch=…, form=…)")
            return (
                f"code refers to it when the program starts; leave an image in it: select fewer, with {fewer}, "
                f"or leave an empty container with {cli_or_api('--allow-empty', 'allow_empty=True')}"
            )
    return ""
