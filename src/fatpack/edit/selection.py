"""The selection of images to change, and rewriting the file with replacements; all edits of images share it.

::

    host, selector ──► select_for_edit ──► EditSelection ──► changes ──► rewrite ──► pieces
                              │                              (image → the images in its place; none: it is removed)
                              └─► refused: nothing is selected, or damage that could not be kept safely
"""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.binary.section_names import SIZES_PREFIX, SYCL_SYMBOLS
from fatpack.edit.editor import editor_for
from fatpack.errors import FormatError, HostError, LimitExceeded, Unsupported, UsageError, cli_or_api
from fatpack.io.source import PiecesSource
from fatpack.model import Finding
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Literal

    from fatpack.binary import CodeSection
    from fatpack.edit.write_containers import ImageChanges
    from fatpack.io.source import Piece, View
    from fatpack.model import Image
    from fatpack.scanner import FoundContainer, FoundImage
    from fatpack.selectors.select import Selector

    #: number of a section → its new content; None if it is removed
    SectionContents = dict[int, Sequence[Piece] | None]


# Edits of images in an object: its sections, and the sections with facts about the images.

#: formats that a program registers, so that its code points to every container of a section
_REGISTERED = ("clang-offload-bundle", "cuda-fatbin")


def rewrite_object(
    view: View, found: Sequence[FoundContainer], changes: ImageChanges, *, allow_empty: bool = False
) -> Iterable[Piece]:
    """Return an object with other images in place of some of its own.

    In a fat object the recorded sizes and symbols of removed images are removed too, and an image for a new ID gets a
    section of its own. With ``allow_empty`` containers that code refers to stay as empty ones if they lose all images.
    Raises HostError, with advice.
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
        pieces = room.embed(whole, [image.data], name=magic_numbers.BUNDLE.decode() + image.attrs["id"])
    return pieces


def _refuse_others(
    view: View, found: Sequence[FoundContainer], editable: Collection[int | None], changes: ImageChanges
) -> None:
    """Raise HostError if an image is in a program's own data, and only a registration record points to it."""
    for item in found:
        if item.container.is_fat_object or item.index in editable:
            continue
        if any(id(image) in changes for image in item.images):
            place = f"{item.container.format} at {item.container.span.start:#x} in {item.section or 'no section'}"
            raise HostError(
                f"the {place} is in the object's own data, which is not edited",
                hint="code refers to it when the program starts; build the object without it",
                chain=view.chain,
            )


def _section(
    site: CodeSection, inside: Sequence[FoundContainer], changes: ImageChanges, *, allow_empty: bool
) -> list[Piece] | None:
    """Return the new content of a section, None if only padding is left."""
    from fatpack.edit import write_containers

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
    """Return the changes to the sections of a fat object, each with one image, or several after ``ld -r``."""
    from fatpack.formats.clang_bundle.fat_object import FatObjectEntry

    images: dict[int, list[tuple[Image, Sequence[Image]]]] = {}
    for item in found.images:
        stored = item.as_stored
        if isinstance(stored.record, FatObjectEntry):
            here = [new for new in changes.get(id(item), (stored,)) if _id(new) == _id(stored)]
            images.setdefault(stored.record.section, []).append((stored, here))
    contents: SectionContents = {}
    #: bundle ID → for each of its images the sizes of its replacements, if any image is changed
    sizes: dict[str, list[Sequence[int]]] = {}
    for number, inside in images.items():
        if any(list(here) != [stored] for stored, here in inside):
            contents[number] = [image.data for _, here in inside for image in here] or None
            sizes.setdefault(_id(inside[0][0]), []).extend([image.size for image in here] for _, here in inside)
    return contents | dict(_notes(view, sites, sizes))


def _for_new_sections(found: FoundContainer, changes: ImageChanges) -> Iterator[Image]:
    """Yield the new images of a fat object whose ID differs from that of the image they replace."""
    for item in found.images:
        yield from (new for new in changes.get(id(item), ()) if _id(new) != _id(item.as_stored))


def _id(image: Image) -> str:
    return image.attrs["id"]


def _notes(
    view: View, sites: Iterable[CodeSection], sizes: Mapping[str, Sequence[Sequence[int]]]
) -> Iterator[tuple[int, Sequence[Piece] | None]]:
    """Yield the changes to sections with the sizes and symbols of the images."""
    from fatpack import magic_numbers
    from fatpack.formats.clang_bundle import fat_object

    gone = frozenset(id for id, rows in sizes.items() if not any(rows))
    order: Literal["big", "little"] = "big" if view.head(0, 6)[5:] == b"\2" else "little"
    for site in sites:
        name, data = site.section or "", site.data
        if name.startswith(SIZES_PREFIX) and (rows := sizes.get(name.removeprefix(SIZES_PREFIX))):
            # One size for each image; otherwise the sizes are unreliable, and stay as long as an image does.
            if not any(rows):
                yield site.number, None
            elif len(data) == 8 * len(rows):
                yield site.number, [size.to_bytes(8, order) for row in rows for size in row]
        elif name == SYCL_SYMBOLS and gone:
            left = fat_object.without_ids(data, gone)
            if left is not None:
                # QUIRK(DPC++): linkers keep the section in COFF objects; there it is emptied instead of removed.
                empty = None if view.head(0, 4) == magic_numbers.ELF else [b"\0"]
                yield site.number, [left] if left.strip(b"\0") else empty


def _advice(view: View, by_section: Mapping[int | None, Sequence[FoundContainer]], contents: SectionContents) -> str:
    """Return what to do instead of an edit that the host refused; "" if the host's error says it all."""
    from fatpack.binary.elf.quick_header import read_quick_header
    from fatpack.scanner import detect_host

    elf = read_quick_header(view, view.head(0, 64))
    if (elf is not None and elf.type != 1) or detect_host(view) == "pe":
        return ""  # a linked file is not edited, whatever its images
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


#: formats whose compressed containers store a hash of their content
_HASHED = ("clang-offload-bundle",)


class FilePart(Record):
    """A file and its contents: members with their numbers for an archive, the results of the scan for any other file.

    ``title`` is the name of the member, "" for the whole file.
    """

    view: View
    title: str
    items: tuple[FoundContainer | Finding, ...]
    members: tuple[tuple[int, FilePart], ...] = ()


class EditSelection(Record):
    """The images that a selector matches, each with its position and its container, and all other contents of the file.

    ``titles`` are the names of members with a colon, one for each container, "" outside of members. ``damaged`` is the
    damage of members in which nothing is selected: they stay unchanged.
    """

    whole: FilePart
    items: tuple[FoundContainer | Finding, ...]
    images: tuple[tuple[str, FoundContainer, FoundImage], ...]
    titles: tuple[str, ...]
    damaged: tuple[Finding, ...] = ()

    def words(self, position: str, image: FoundImage) -> str:
        """Return an image in a few words, with the member that it is in."""
        from fatpack.selectors.select import describe_image

        return self.title(position) + describe_image(position, image)

    def title(self, position: str) -> str:
        """Return the name of the member that a position is in, with a colon; "" outside of members."""
        return self.titles[int(position.partition(".")[0])]


def select_for_edit(host: View, selector: Selector, verb: str, whole: FilePart | None = None) -> EditSelection:
    """Return the images of a file, or of all members of an archive, that a selector matches; at least one.

    ``verb`` names the edit in messages; ``whole`` is the result of :func:`scan_tree`, if there is one already. A
    damaged container refuses the whole edit: unreadable images cannot be kept safely. Raises NothingSelected, with the
    values that the file has, FormatError, and HostError for a host that is not edited.
    """
    from fatpack.edit import verify
    from fatpack.scanner import FoundContainer, detect_host
    from fatpack.selectors.no_match import nothing_selected
    from fatpack.selectors.select import select_images

    name = detect_host(host)
    if name not in ("archive", "raw"):
        editor_for(host)
    whole = whole or scan_tree(host)
    items = all_items(whole)
    parts = list(_parts(whole))
    chosen = list(select_images(items, selector))
    images = tuple(row for row in chosen if "/" not in row[0])
    ids = {id(image) for _, _, image in images}  # as in ImageChanges: parts have no positions
    damaged = tuple(_damaged(parts, ids, host, verb))
    if name == "raw" and not any(isinstance(item, FoundContainer) for item in items):
        from fatpack.scanner.unsupported_files import unsupported_kind

        kind = unsupported_kind(host)
        raise HostError(
            f"this is {kind}, which this version does not edit"
            if kind
            else f"this is no container, no object file and no archive, so there is nothing to {_INFINITIVES[verb]}",
            hint="fatpack inspect FILE shows its contents",
            chain=host.chain,
        )
    if not images:
        raise nothing_selected(host, items, selector, verb, [position for position, _, _ in chosen])
    if name == "archive":
        from fatpack.binary import archive

        # Reasons that the archive cannot be written come first: members of a thin archive are separate files to edit.
        archive.rewrite(host, {})
    # A container that keeps images is written again with a new hash, which would hide the damage of its code.
    containers = {position.rpartition(".")[0]: found for position, found, _ in chosen}
    kept = [found for found in containers.values() if found.container.format in _HASHED]
    for wrong in verify.content_findings(kept):
        raise _refusal(wrong, host, verb)
    titles = [
        f"{part.title}: " if part.title else ""
        for part in parts
        for item in part.items
        if isinstance(item, FoundContainer)
    ]
    return EditSelection(whole, tuple(items), images, tuple(titles), damaged)


#: verb of an edit → its infinitive in messages, and the sentence that it was not done
_INFINITIVES = {"remove": "take out", "replace": "replace", "map": "map", "slim": "slim"}
_NOT_DONE = {
    "remove": "nothing was removed",
    "replace": "nothing was replaced",
    "map": "nothing was run",
    "slim": "nothing was slimmed",
}


def _refusal(wrong: Finding, host: View, verb: str) -> FormatError:
    hint = "; ".join(filter(None, (wrong.hint, _NOT_DONE[verb])))
    return FormatError(wrong.message, offset=wrong.span.start, hint=hint, chain=wrong.span.source or host.chain)


def _damaged(parts: Sequence[FilePart], selection: Collection[int], host: View, verb: str) -> Iterator[Finding]:
    """Yield the damage of members that stay unchanged, because nothing in them is selected.

    Raises FormatError for any other damage: unreadable images cannot be kept safely.
    """
    from fatpack.scanner import FoundContainer, detect_host

    for part in parts:
        wrong = [
            item
            for item in part.items
            if isinstance(item, Finding) and item.severity == "error" and item.code != "FP1008"
        ]
        if not wrong:
            continue
        found = [item for item in part.items if isinstance(item, FoundContainer)]
        is_untouched = bool(selection and part.title) and detect_host(part.view) != "archive"
        if not is_untouched or any(id(image) in selection for item in found for image in item.images):
            raise _refusal(wrong[0], host, verb)
        yield from wrong


def scan_tree(host: View) -> FilePart:
    """Return a file with its contents. Registrations are not compared: no edit changes names."""
    from fatpack import limits
    from fatpack.scanner import FoundContainer, detect_host

    if detect_host(host) != "archive":
        return _part(host, "", limits.NESTING, is_member=False)
    whole = _part(host, "", limits.NESTING, is_member=True)
    is_found = any(isinstance(item, FoundContainer) for item in all_items(whole))
    return whole if is_found else _part(host, "", limits.NESTING, is_member=False)


def is_linked_program(view: View) -> bool:
    """Return whether a file is a linked program or library, whose device code is loaded at addresses."""
    from fatpack.binary.elf import quick_header
    from fatpack.scanner import detect_host

    name = detect_host(view)
    return name == "pe" or (name == "elf" and quick_header.is_linked(view))


def _part(view: View, title: str, depth: int, *, is_member: bool) -> FilePart:
    """Return a file with its contents, archives in archives too."""
    from fatpack import limits
    from fatpack.scanner import detect_host, scan

    if detect_host(view) != "archive":
        return FilePart(view, title, tuple(scan(view, is_member=is_member, checks_registration=False)))
    from fatpack.binary import archive

    if depth <= 0:
        hint = limits.advice("NESTING")
        raise LimitExceeded("archives are nested too deeply", offset=view.offset(0), hint=hint, chain=view.chain)
    findings, members = [], []
    for site in archive.locate(view):
        if isinstance(site, Finding):
            findings.append(site)
            continue
        inner = f"{title}({site.member})" if title else site.member or ""
        members.append((site.number, _part(site.data, inner, depth - 1, is_member=is_member)))
    return FilePart(view, title, tuple(findings), tuple(members))


def all_items(whole: FilePart) -> list[FoundContainer | Finding]:
    """Return the contents of a file and all its members, in file order: containers are numbered as in ``inspect``."""
    return [item for part in _parts(whole) for item in part.items]


def _parts(part: FilePart) -> Iterator[FilePart]:
    yield part
    for _, member in part.members:
        yield from _parts(member)


def rewrite(selection: EditSelection, changes: ImageChanges, *, allow_empty: bool = False) -> list[Piece]:
    """Return the file with other images in place of some of the selected ones.

    A section without content left is removed. In any other changed section, containers with changed images are
    rewritten, and all other bytes stay the same. A bare container file is rewritten in the same way, and must keep an
    image; with ``allow_empty`` an empty container stays, there and in the sections that code refers to. Raises
    HostError, UsageError and Unsupported for content that cannot be written.
    """
    return list(_written(selection.whole, changes, allow_empty=allow_empty) or ())


def _written(part: FilePart, changes: ImageChanges, *, allow_empty: bool) -> Iterable[Piece] | None:
    """Return a file with its changes; None if it has none."""
    from fatpack.scanner import FoundContainer, detect_host

    if part.members:
        from fatpack.binary import archive

        edited = {number: _written(member, changes, allow_empty=allow_empty) for number, member in part.members}
        pieces = {number: list(pieces) for number, pieces in edited.items() if pieces is not None}
        return archive.rewrite(part.view, pieces) if pieces else None
    found = [item for item in part.items if isinstance(item, FoundContainer)]
    if not any(id(image) in changes for item in found for image in item.images):
        return None
    if detect_host(part.view) == "raw":
        from fatpack.edit import container_file, write_containers

        try:
            kept = write_containers.changed_containers(found, changes)
            if allow_empty and all(content is None for content in kept):
                kept[0] = write_containers.empty_container(found[0])
        except (UsageError, Unsupported) as error:
            problem = f"the remaining images cannot be written: {error.problem}"
            raise type(error)(problem, hint=error.hint, chain=error.chain or part.view.chain) from error
        return container_file.rewrite_containers(part.view, found, kept)
    return rewrite_object(part.view, found, changes, allow_empty=allow_empty)
