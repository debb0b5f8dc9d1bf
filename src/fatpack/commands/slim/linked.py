"""Linked files slimmed: containers are written smaller and moved together, and pointers to them follow.

A container that a record of the runtime registers may move, unless other files see it by a symbol. A container without
a record stays at its address and may shrink there: the program's code may load it by itself. The exception are inputs
of a device link that had nothing to link: these move if no word, relocation or symbol refers to them.
"""

from __future__ import annotations

from bisect import bisect_left

from fatpack import binary
from fatpack.binary.pointers import HOSTS, open_pointers
from fatpack.binary.shrink import ContainerMove, NewSectionContent, ReplacedBytes, ShrinkRequest
from fatpack.edit import write_containers
from fatpack.errors import FormatError, HostError, pluralize
from fatpack.io.source import is_in_file
from fatpack.model import Finding
from fatpack.record import Record
from fatpack.registration import records, stripped_programs
from fatpack.registration.sycl_images import find_described_images
from fatpack.scanner import FoundContainer
from fatpack.tabular.dead import is_linked_together, prelinked_positions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from fatpack.binary import CodeSection
    from fatpack.edit.write_containers import ImageChanges
    from fatpack.io.source import Piece, View
    from fatpack.model import Image
    from fatpack.registration.stripped_programs import ContainerPointers
    from fatpack.scanner import FoundImage


# Images that records of OpenMP and SYCL describe one by one: where one goes, zeros take its place.
#
# Its record stays, and what code can reach keeps its address. OpenMP's plugins look at an image's first bytes and pass
# over what is neither ELF nor bitcode nor SPIR-V; SYCL's runtime chooses by what the record says, so a device that took
# another image takes that one still. Only images whose bounds a record states go, and into which nothing else leads.
# Compressed ones of SYCL stay: of each the runtime asks the size that it inflates to when the program starts.
#
# Source: ``registerLib`` in offload/libomptarget/PluginManager.cpp and ``isPluginCompatible`` of the plugins, LLVM
# 18 to 22; ``addImages`` and ``CompressedRTDeviceBinaryImage`` in intel/llvm's sycl/source/detail, 2025.

_OFFLOAD, _BUNDLE = "llvm-offload-binary", "clang-offload-bundle"

_ZEROS = bytes(1 << 16)

#: A table of images for tools; no runtime reads it.
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


# Containers and images of a program are known by their ``id()`` here, as in ``ImageChanges``: sections are laid out one
# by one, in the order of their bytes, and not in that of the scan.


def zeroable_images(view: View, host: str, containers: Sequence[FoundContainer]) -> dict[int, ZeroableImage]:
    """Return the images of some containers in whose place zeros may be, by the ``id()`` of the image.

    Raises FormatError for a damaged file.
    """
    by_section: dict[int, list[FoundContainer]] = {}
    for item in containers:
        if may_be_described(item) and item.index is not None and item.view.source is view.source:
            by_section.setdefault(item.index, []).append(item)
    sections = {number: (start, end) for start, end, _, number in binary.sections(host, view)} if by_section else {}
    found: dict[int, ZeroableImage] = {}
    for index, inside in by_section.items():
        if index in sections:
            found |= {id(one.image): one for one in _of_section(view, host, index, sections[index], inside)}
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


# A section of device code laid down again: smaller containers, one after the other from its start.
#
# ::
#
#     before   │container A│ 0 │container B     │container C│
#     after    │A   │container B │C    │ freed
#
# Each lies where its alignment allows. One that must not move stays at its address, and so do bytes between containers
# that are not zero: some program may look for them.


class PlacedContainer(Record):
    """A container of a section: where it is, from the section's start, and the bytes that take its place.

    ``align`` is what its address is a multiple of; one that ``is_fixed`` keeps its address.
    """

    start: int
    end: int
    pieces: Sequence[Piece]
    align: int
    is_fixed: bool = False

    @property
    def size(self) -> int:
        """The bytes that it has now."""
        return sum(map(len, self.pieces))


class CompactedSection(Record):
    """The new bytes of a section, and the containers that moved or shrank.

    ``strays`` are the ranges between containers that are not zero and stayed, from the section's start.
    """

    pieces: Sequence[Piece]
    moves: Sequence[ContainerMove]
    strays: Sequence[tuple[int, int]]

    @property
    def size(self) -> int:
        """The bytes up to which the section is used."""
        return sum(map(len, self.pieces))


def compact_section(section: View, address: int, blocks: Sequence[PlacedContainer]) -> CompactedSection:
    """Return a section with its containers laid down again. ``address`` is the section's at run time.

    Blocks are in order and do not overlap, and none has more bytes than its place has. Nothing comes to a higher
    address than it had.
    """
    pieces: list[Piece] = []
    moves: list[ContainerMove] = []
    strays: list[tuple[int, int]] = []
    used = at = 0

    def put(start: int, new: Sequence[Piece]) -> None:
        nonlocal used
        if start > used:
            pieces.append(bytes(start - used))
        pieces.extend(new)
        used = start + sum(map(len, new))

    for block in blocks:
        for start, end in _strays(section, at, block.start):
            put(start, [section.slice(start, end - start)])
            strays.append((start, end))
        place = block.start
        if not block.is_fixed:
            place = min(place, -(-(address + used) // block.align) * block.align - address)
        put(place, block.pieces)
        if place != block.start or block.size != block.end - block.start:
            old_size, new_size = block.end - block.start, block.size
            moves.append(ContainerMove(address + block.start, old_size, address + place, new_size))
        at = block.end
    for start, end in _strays(section, at, len(section)):
        put(start, [section.slice(start, end - start)])
        strays.append((start, end))
    return CompactedSection(pieces, moves, strays)


def _strays(section: View, start: int, end: int) -> list[tuple[int, int]]:
    """Return what stays of the bytes between two containers: from the first that is not zero to the last."""
    if section.is_zero(start, end - start):
        return []
    first = section.skip_zeros(start)
    # Zeros at its end are padding of whatever it is.
    last = end
    while last > first and section.is_zero(last - 1, 1):
        step = 1
        while last - 2 * step > first and section.is_zero(last - 2 * step, 2 * step):
            step *= 2
        last -= step
    return [(first, last)]


#: format → what the addresses of its containers are multiples of: HIP's runtime maps bundles by page
_ALIGN = {"cuda-fatbin": 8, "clang-offload-bundle": 4096}

_UNCHANGED = "not changed"


class LinkedProgramFile(Record):
    """A linked file and what leads to its containers.

    ``sites`` are its sections of device code by number, ``found`` the containers in each, in order; ``elsewhere`` are
    containers elsewhere, which stay as they are.
    """

    view: View
    host: str
    sites: Mapping[int, CodeSection]
    found: Mapping[int, Sequence[FoundContainer]]
    elsewhere: Sequence[FoundContainer]
    pointings: ContainerPointers

    @property
    def same_arch_ids(self) -> frozenset[int]:
        """The ``id()`` of containers whose code is linked at run time: the same architectures must stay in all."""
        linked = prelinked_positions(self.pointings)
        return frozenset(
            id(found)
            for inside in self.found.values()
            for found in inside
            if is_linked_together(found, self.view, linked)
        )


def take_apart(view: View, host: str, items: Sequence[FoundContainer | Finding]) -> LinkedProgramFile:
    """Return a linked file with what a scan found in it, taken apart by sections. Raises HostError, FormatError."""
    if host not in HOSTS:
        raise HostError(f"a linked file of kind {host} is not slimmed", hint="slim the objects, and link them again")
    places = list(binary.get_host(host).locate(view))
    # A site may start at its first container, and what is in front of it stays in the section.
    sections = {number: view.slice(start, end - start) for start, end, _, number in binary.sections(host, view)}
    sites = {
        site.index: site.replace(data=sections.get(site.index, site.data))
        for site in places
        if not isinstance(site, Finding) and site.index is not None and site.content == binary.CONTAINER
    }
    found: dict[int, list[FoundContainer]] = {}
    elsewhere: list[FoundContainer] = []
    for item in items:
        if isinstance(item, FoundContainer):
            is_inside = item.index in sites and item.format in _ALIGN and item.view.source is view.source
            is_inside = is_inside and item.container.attrs.get("flavour") != "linked"  # images, and no container
            (found.setdefault(item.index or 0, []) if is_inside else elsewhere).append(item)
    ordered = {index: sorted(inside, key=lambda one: one.view.start) for index, inside in found.items()}
    return LinkedProgramFile(
        view, host, sites, ordered, elsewhere, stripped_programs.find_container_pointers(view, host, places)
    )


class LinkedChange(Record):
    """The new content of the sections that lose an image; ``notes`` are remarks for the user.

    ``unchanged`` are the ``id()`` of containers that stay as they are although an image of them was to go.
    """

    relay: ShrinkRequest
    notes: tuple[str, ...]
    unchanged: frozenset[int]


def plan_shrink(
    file: LinkedProgramFile, changes: ImageChanges, reshaped: Callable[[FoundContainer], FoundContainer]
) -> LinkedChange:
    """Return what becomes of the sections in which an image goes. ``reshaped`` returns a container as it is written.

    Raises what writing the containers raises.
    """
    reader = open_pointers(file.view, file.host)
    contents: list[NewSectionContent] = []
    moves: list[ContainerMove] = []
    notes: list[str] = []
    unchanged: set[int] = set()
    for index, inside in file.found.items():
        if any(id(image) in changes for found in inside for image in found.images):
            part = _part(file, index, reader.address(index))
            notes += part.notes
            blocks = _blocks(part, write_containers.changed_containers(list(map(reshaped, inside)), changes))
            for found, block in zip(inside, blocks, strict=True):
                if block.is_old and any(id(image) in changes for image in found.images):
                    unchanged.add(id(found))
                    if id(found) not in part.whole:
                        notes.append(
                            f"the {found.format} at {found.container.span.start:#x} would become larger: {_UNCHANGED}"
                        )
            compacted = compact_section(part.site.data, part.address, [block.block for block in blocks])
            if not compacted.moves:
                continue
            contents.append(NewSectionContent(index, tuple(compacted.pieces)))
            moves += compacted.moves
            for start, end in compacted.strays:
                place = f"{part.site.data.offset(start):#x} in {part.site.section}"
                notes.append(f"{end - start} bytes at {place} belong to no container, and stay")
    relay = ShrinkRequest(tuple(contents), tuple(moves), dict(_pointers(file, moves)))
    return LinkedChange(relay, tuple(notes), frozenset(unchanged))


# Containers in a program's own data, which its code loads by itself: cuBLASLt has 299 in a section of its own, with the
# addresses of start and end of each in a table; cuFFT has 24,000 among its variables, and its code computes their
# addresses. Nothing says which of them the code takes for a device. So one keeps its place, its header, and each image
# that a device of the list could load by any rule; what no driver loads there is zeros then. A driver refuses such a
# container before and after: it has no image for the device.

#: flag of sections of ELF with code (gABI, "Sections")
_EXECUTABLE = 4


def containers_in_data(file: LinkedProgramFile) -> list[FoundContainer]:
    """Return the containers outside the sections of device code that can lose images at their places.

    These are plain fat binaries of ELF programs and PE images, in which nothing but their first byte is referred to by
    a relocation, a word or a visible symbol.
    """
    if file.host not in ("elf", "pe"):
        return []
    by_section: dict[int, list[FoundContainer]] = {}
    for found in file.elsewhere:
        is_plain = found.format == "cuda-fatbin" and "compression" not in found.container.attrs
        if is_plain and found.index is not None and found.view.source is file.view.source and len(found.images):
            by_section.setdefault(found.index, []).append(found)
    return [found for index, inside in by_section.items() for found in _unreferenced_inside(file, index, inside)]


def _unreferenced_inside(
    file: LinkedProgramFile, index: int, inside: Sequence[FoundContainer]
) -> Iterator[FoundContainer]:
    """Yield the containers of a section into whose middle nothing leads."""
    if _is_executable(file, index):
        return
    address = open_pointers(file.view, file.host).address(index)
    ranges = {number: (start, end) for start, end, _, number in binary.sections(file.host, file.view)}
    if not address or index not in ranges:
        return
    shift = address - file.view.start - ranges[index][0]
    low, high = min(found.view.start for found in inside) + shift, max(found.view.end for found in inside) + shift
    references = stripped_programs.unrelated_words(file.view, file.host, low, high, ())
    if references is None:
        return
    reached = sorted(references.words | references.symbols)
    for found in inside:
        if not _is_any_within(reached, found.view.start + shift + 1, found.view.end + shift):
            yield found


def _is_executable(file: LinkedProgramFile, index: int) -> bool:
    """Return whether a section of an ELF program or PE image has code."""
    if file.host == "pe":
        from fatpack.binary.pe.reader import EXECUTED, PeFile

        return any(each.number == index and each.flags & EXECUTED for each in PeFile(file.view).sections())
    from fatpack.binary.elf.file import ElfFile

    return bool(ElfFile(file.view).section(index).flags & _EXECUTABLE)


def replaced_in_data(inside: Sequence[FoundContainer], file_start: int, changes: ImageChanges) -> list[ReplacedBytes]:
    """Return the new bytes of containers in data that lose an image: each is as long as before, with zeros at its end.

    ``file_start`` is where the file's view begins.
    """
    changed = [found for found in inside if any(id(image) in changes for image in found.images)]
    replaced = []
    for found, content in zip(changed, write_containers.changed_containers(changed, changes), strict=True):
        pieces: Sequence[Piece] = write_containers.empty_container(found) if content is None else content
        replaced.append(ReplacedBytes(found.view.start - file_start, found.view.end - file_start, pieces))
    return replaced


def _pointers(file: LinkedProgramFile, moves: Sequence[ContainerMove]) -> Iterator[tuple[int, int]]:
    """Yield the words that hold other addresses then, with these."""
    now = {move.old: move.new for move in moves if move.old != move.new}
    for item in file.pointings.items:
        if item.target in now:
            yield item.word, now[item.target]


class _ContainerSection(Record):
    """A section of containers: its ``address``; containers that keep their address (``fixed``) or bytes (``whole``)."""

    site: CodeSection
    address: int
    inside: Sequence[FoundContainer]
    fixed: frozenset[int]
    whole: frozenset[int]

    @property
    def notes(self) -> list[str]:
        """Remarks about containers that do not move."""
        notes = []
        if self.whole:
            number = pluralize(len(self.whole), "container")
            notes.append(f"pointers without a record lead into {number} of {self.site.section}: {_UNCHANGED}")
        if self.fixed - self.whole:
            number = pluralize(len(self.fixed - self.whole), "container")
            notes.append(f"{number} of {self.site.section} may be reached without a record: not moved")
        return notes


class _NewBlock(Record):
    """A container with its new bytes, or with its old ones (``is_old``)."""

    block: PlacedContainer
    is_old: bool


def _part(file: LinkedProgramFile, index: int, address: int) -> _ContainerSection:
    site, inside = file.sites[index], file.found[index]
    return _ContainerSection(site, address, inside, *_fixed(file, site, address, inside))


def _blocks(part: _ContainerSection, contents: Iterable[Sequence[Piece] | None]) -> list[_NewBlock]:
    """Return the containers of a section with their new contents; None is what is left of one without images."""
    blocks = []
    for found, content in zip(part.inside, contents, strict=True):
        start, end = found.view.start - part.site.data.start, found.view.end - part.site.data.start
        pieces: Sequence[Piece] = write_containers.empty_container(found) if content is None else content
        is_old = id(found) in part.whole or sum(map(len, pieces)) > end - start
        align = _ALIGN[found.format]
        align = min(align, (part.address + start) & -(part.address + start) or align)
        new = [found.view] if is_old else pieces
        blocks.append(_NewBlock(PlacedContainer(start, end, new, align, is_fixed=id(found) in part.fixed), is_old))
    return blocks


def _fixed(
    file: LinkedProgramFile, site: CodeSection, address: int, inside: Sequence[FoundContainer]
) -> tuple[frozenset[int], frozenset[int]]:
    """Return the ``id()`` of the containers of a section that must keep their addresses, and of the unchangeable ones.

    Bytes stay where something else than a record leads after the first of them: it must find there what was there.
    """
    starts = {id(found): address + found.view.start - site.data.start for found in inside}
    ends = {id(found): starts[id(found)] + len(found.view) for found in inside}
    high = address + len(site.data)
    registered = {item.target for item in file.pointings.items}
    words = {item.word for item in file.pointings.items}
    references = stripped_programs.unrelated_words(file.view, file.host, address, high, words)
    if references is None:
        return frozenset(starts), frozenset(starts)
    strangers = references.words
    if not references.is_exact:  # what is no address of a container, or of an image in one, is taken for a number
        shift = address - site.data.start
        begins = {image.span.start + shift for found in inside for image in _in_place(found)}
        strangers &= begins | set(starts.values())
    reached = sorted(strangers | references.symbols | registered - set(starts.values()))
    fixed = {one for one, start in starts.items() if _is_any_within(reached, start, ends[one])}
    whole = {one for one, start in starts.items() if _is_any_within(reached, start + 1, ends[one])}
    # A device link with nothing to link leaves a container without a record; program code may load the others itself.
    unregistered = [found for found in inside if starts[id(found)] not in registered]
    loose = [found for found in unregistered if file.pointings.is_whole and registered and _has_nothing(file, found)]
    addresses = stripped_programs.other_references(file.view, file.host, address, high) if loose else []
    free = {
        id(found)
        for found in loose
        if addresses is not None and not _is_any_within(addresses, starts[id(found)], ends[id(found)])
    }
    return frozenset(fixed | {id(found) for found in unregistered} - free), frozenset(whole)


def _in_place(found: FoundContainer) -> Sequence[Image]:
    """Return the images of a container that lie in it as they are."""
    return [] if "compression" in found.container.attrs else [image.as_stored for image in found.images]


def _has_nothing(file: LinkedProgramFile, found: FoundContainer) -> bool:
    return found.format == "cuda-fatbin" and records.registers_nothing(file.view, found.view.start)


def _is_any_within(addresses: Sequence[int], start: int, end: int) -> bool:
    """Return whether one of some addresses, which are in order, lies in a range."""
    number = bisect_left(addresses, start)
    return number < len(addresses) and addresses[number] < end
