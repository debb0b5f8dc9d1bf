"""The listing of a file: one record of plain data, from which text and JSON are made.

The record's shape is ``fatpack.inspect/1``; ``schemas/inspect.schema.json`` describes it. Names may be added
within a version, never renamed or removed.
"""

from __future__ import annotations

from fatpack import formats, limits
from fatpack.commands.inspect.kernel_records import KernelRecords, kernel_form, unread_finding
from fatpack.commands.inspect.text import (
    GCC,
    METAL,
    ListingRows,
    add_container_record,
    gcc_words,
    is_folded,
    kernel_summary,
    metal_words,
)
from fatpack.errors import FatpackError, FormatError, Unsupported
from fatpack.findings import code_for_error, finding
from fatpack.images import EMPTY, NOT_INFLATED, UNKNOWN
from fatpack.io.source import Span
from fatpack.model import Finding, arch_name, is_not_inflated
from fatpack.record import Record, gc_paused
from fatpack.scanner import (
    FoundImage,
    LazyImages,
    detect_host,
    inflate_image,
    scan,
)
from fatpack.text.findings import FindingList, finding_record, unlisted_records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from fatpack.commands.inspect.listing import (
        ContainerRecord,
        Containers,
        FileRecord,
        ImageRecord,
        InflatedFlag,
        KernelNames,
        LeftOutImages,
        ListedFile,
        ManifestRecord,
        MarkerRecord,
        MemberImageRecord,
        MemberNumbers,
        OptionalFacts,
        RegistrationCountsRecord,
        StandaloneImageRecord,
        UnsearchedSections,
    )
    from fatpack.images.identification import ImageInfo
    from fatpack.io.source import View
    from fatpack.model import Image
    from fatpack.scanner import ContainerScan, FoundContainer
    from fatpack.scanner.standalone_images import CirModules


#: Flavours of bundles beside which a bundler notes the symbols that device code defines.
_WITH_SYMBOLS = ("object", "linked")

#: Forms whose bytes name no kernels: most images of a library that is only listed.
_WITHOUT_KERNELS = ("", "empty", "object")

#: Images whose kernels are remembered beyond the container that they are in.
_MOST_KERNELS = 1000


class InspectOptions(Record):
    """Options of a listing: the parts of a file that are read.

    ``deep`` looks outside the usual sections too. ``kernels`` adds what each kernel needs and what made the images;
    without it, no more is read of an image than names its kernels. Without ``inflate`` the images of large compressed
    containers are listed as their tables have them: their containers have ``is_inflated`` false then, and the images no
    form, claims, kernels or containers. ``verify`` checks the content of such bundles against their hashes.
    ``tables_only`` lists small compressed images like that too: nothing is inflated that its container names.
    ``code_sizes`` is less than ``kernels``: ``kernel_facts`` is then the size of the code of each kernel by its name,
    for which no tables of an image are read except its symbols. ``arch`` are the patterns of a
    :class:`~fatpack.selectors.select.Selector`: images of other architectures are left out, and counted. ``position``
    is the number of a container and of an image in it, which is the only one that is shown; no other is inflated.
    """

    deep: bool = False
    kernels: bool = False
    inflate: bool = True
    verify: bool = False
    tables_only: bool = False
    code_sizes: bool = False
    arch: tuple[str, ...] = ()
    position: tuple[int, int] | None = None

    @property
    def reads_kernels(self) -> bool:
        """True if all images are read for facts about their kernels, large files by several processes."""
        return self.kernels or self.code_sizes

    @property
    def asked(self) -> str:
        """The option that leaves images out, as it was typed; "" without one."""
        if self.position is not None:
            return "--image {}.{}".format(*self.position)
        return f"--arch {','.join(self.arch)}" if self.arch else ""


#: LIMIT: architectures of left-out images that are named.
_MOST_ARCHS = 12


class _ImageFilter:
    """The images that a position or patterns of architectures leave out: their number, and their architectures."""

    def __init__(self, patterns: tuple[str, ...], position: tuple[int, int] | None) -> None:
        from fatpack.selectors.select import Selector

        self._position = position
        self.has_position = position is not None
        self._selector = Selector(arch=patterns)
        self._known: dict[tuple[str, str, str], bool] = {}
        self.images = 0
        self.architectures: dict[str, None] = {}

    def shows(self, triple: str, arch: str, form: str) -> bool:
        """Return whether an image is shown; one that is not is counted."""
        key = triple, arch, form
        if key not in self._known:
            if len(self._known) >= _MOST_KERNELS:
                self._known.clear()
            self._known[key] = self._selector.has_arch(*key)
        if self._known[key]:
            return True
        self.images += 1
        if len(self.architectures) < _MOST_ARCHS:
            self.architectures[arch_name(arch, form) or "(no arch)"] = None
        return False

    def shows_alone(self, recognised: ImageInfo) -> bool:
        """Return whether an image outside containers is shown: it has no position."""
        if self._position is not None:
            self.images += 1
            return False
        return self.shows(recognised.triple, recognised.arch, recognised.form)

    def indices(self, container: int, count: int) -> range:
        """Return the places of those images of a container that have the position; the others are counted."""
        if self._position is None:
            return range(count)
        number, index = self._position
        shown = range(index, index + 1) if container == number and index < count else range(0)
        self.images += count - len(shown)
        return shown

    def shows_stored(self, image: FoundImage) -> bool:
        """Return whether an image of a container is shown, or one inside it is."""
        if any(self.shows_stored(inner) for item in image.containers for inner in item.images):
            return True
        target = image.target
        return self.shows(target.triple, target.arch, image.form)

    def record(self) -> LeftOutImages:
        """Return the numbers of the images that were left out as plain data."""
        return {"images": self.images, "architectures": list(self.architectures)}


def _is_to_inflate(image: FoundImage) -> bool:
    """Return whether an image was only listed, and more would be known of it if it was inflated."""
    stored = image.as_stored
    return image.info is NOT_INFLATED and stored.size > 0 and (is_not_inflated(stored) or not _is_refused(stored))


def _is_refused(image: Image) -> bool:
    return image.data.source.is_refused


def make_file_record(
    view: View, options: InspectOptions | None = None, *, keep: Callable[[ContainerRecord], Any] | None = None
) -> FileRecord:
    """Return the record of one file; ``keep`` makes of the record of a container what is kept of it.

    Facts about the kernels of large files are read in several processes, which call ``keep`` too: what it returns can
    be pickled.
    """
    return FileInspection(view, options or InspectOptions(), keep).record([])


class FileInspection:
    """The record of a file in the making: its findings so far, and the kernels of images that were read.

    ``keep`` makes of the record of a container what is kept of it.
    """

    def __init__(
        self, view: View, options: InspectOptions, keep: Callable[[ContainerRecord], Any] | None = None
    ) -> None:
        self.view = view
        self._keep = keep
        self._deep = options.deep
        self._inflates = options.inflate and not options.tables_only
        self._verifies = options.verify
        is_filtered = options.arch or options.position is not None
        self._filter = _ImageFilter(options.arch, options.position) if is_filtered else None
        self._top: list[Any] | ListingRows = []
        self._scanned = FindingList()
        self.findings = FindingList()
        self._wants_facts = options.reads_kernels
        self._known_kernels = KernelRecords(has_facts=options.kernels, has_sizes=options.code_sizes)
        #: how much more is inflated although that is not wanted: a small file is shown as if it were not compressed
        self._small = 0 if options.tables_only else limits.INFLATED_AT_ONCE

    def record(self, containers: Containers) -> ListedFile[Containers]:
        """Return the record of the file; ``containers`` takes up the records of containers.

        :class:`ListingRows` take a fifth of the memory of a list, and the text without ``-v`` shows no more of it. Each
        container is read as it is found, while its pages are at hand, and let go. The findings of the scan come first.
        """
        self._top = containers
        with gc_paused():
            found = scan(self.view, deep=self._deep)
            if self._verifies:
                return self._record(found, containers, self._verified(list(found), containers))
            if self._wants_facts and isinstance(containers, list) and self._filter is None:
                return self._record(found, containers, self._with_processes(found, containers))
            holders: set[tuple[int, ...]] = set()
            for item in found:
                if isinstance(item, Finding):
                    self._scanned.add(item)
                else:
                    self._take(item, containers)
                    holders.add(item.member_numbers)
                    self._known_kernels.forget(_MOST_KERNELS)
            return self._record(found, containers, holders)

    def _record(
        self, found: ContainerScan, containers: Containers, holders: set[tuple[int, ...]]
    ) -> ListedFile[Containers]:
        """Return the record of the file from its containers; ``holders`` are the numbers of the members with them."""
        view = self.view
        image = None if containers else self._image_alone()
        host = detect_host(view)
        format = formats.format_at(view)
        kind = ""
        if host == "raw" and not format and not image:
            from fatpack.scanner.unsupported_files import unsupported_kind

            kind = unsupported_kind(view)
        kpack = self._moved(host)
        manifest = self._manifest() if host == "raw" and not format and not image else None
        members = self._member_images(holders) if host == "archive" and found.has_plain_members else []
        registered = _registered(found)
        unlisted = unlisted_records(self._scanned, self.findings)
        # JSON has the keys in this order.
        file_kind: OptionalFacts = {"kind": kind} if kind else {}
        facts: OptionalFacts = {}
        if members:
            facts["member_images"] = members
        if kpack:
            facts["kpack"] = kpack
        if manifest:
            facts["manifest"] = manifest
        if registered:
            facts["registration"] = registered
        if self._filter:
            facts["left_out"] = self._filter.record()
        not_listed: OptionalFacts = {"unlisted_findings": unlisted} if unlisted else {}
        not_searched: OptionalFacts = _not_searched(found) if containers else {}
        return {
            "path": view.chain[0] if view.chain else "",
            "size": len(view),
            "host": host,
            "format": format,
            **file_kind,
            "image": image,
            "containers": containers,
            **facts,
            "findings": [finding_record(item) for item in (*self._scanned.kept, *self.findings.kept)],
            **not_listed,
            **not_searched,
        }

    def _moved(self, host: str) -> MarkerRecord | None:
        """Return where a program looks for device code that was moved to kpack archives, and what is there."""
        if not any(item.code == "FP3004" and len(item.span.source) <= 2 for item in self._scanned.kept):
            return None
        from fatpack.commands.inspect.kpack import marker_record

        return marker_record(self.view, host)

    def _manifest(self) -> ManifestRecord | None:
        """Return what a file says of the kpack archives beside it, if it is a manifest."""
        if not self.view.head(0, 1) >= b"\x80":
            return None
        from fatpack.commands.inspect.kpack import manifest_record

        record, found = manifest_record(self.view)
        self.findings.extend(found)
        return record

    def _with_processes(self, items: Iterable[FoundContainer | Finding], containers: list[Any]) -> set[tuple[int, ...]]:
        """Take up all containers, of large files most of them in other processes; return their members' numbers."""
        from contextlib import closing

        from fatpack.scanner.share import share_containers

        members: set[tuple[int, ...]] = set()
        with closing(share_containers(items, self._elsewhere, size=len(self.view))) as shared:
            for item, made in shared:
                if isinstance(item, Finding):
                    self._scanned.add(item)
                    continue
                kept, findings = (self._kept(item), []) if made is None else made
                containers.append(kept)
                self.findings.extend(findings)
                members.add(item.member_numbers)
                self._known_kernels.forget()
        return members

    def _kept(self, found: FoundContainer) -> Any:
        """Return what is kept of a container."""
        record = self._container(found, self._top)
        return record if self._keep is None else self._keep(record)

    def _elsewhere(self, found: FoundContainer, _number: int) -> tuple[Any, list[Finding]] | None:
        """Return what is kept of a container, and the findings about it, in another process; None if some are left out.

        Findings that are left out depend on those of the containers before.
        """
        self.findings = FindingList()
        self._known_kernels.forget()
        kept = self._kept(found)
        return None if self.findings.unlisted else (kept, self.findings.kept)

    def _verified(
        self, items: Sequence[FoundContainer | Finding], containers: list[ContainerRecord] | ListingRows
    ) -> set[tuple[int, ...]]:
        from fatpack.edit.verify import Verification

        with Verification(items) as checks:
            self._take_all(items, containers)
            self.findings.extend(checks.findings())
        try:
            self.view.source.check()
        except FormatError as error:
            self.findings.add(finding(code_for_error("FP1710", error), self.view.span(), error.describe(), error.hint))
        return {item.member_numbers for item in items if not isinstance(item, Finding)}

    def _image_alone(self) -> StandaloneImageRecord | None:
        """Return what a file without containers is, if it is a device image itself."""
        from fatpack.scanner.standalone_images import (
            image_claims,
            plain_cir_modules,
            sidecar_record,
            standalone_image,
        )

        recognised = standalone_image(self.view)
        if recognised is None or not self._shows(recognised):
            return None
        metadata, contradictions = sidecar_record(self.view, recognised)
        self.findings.extend(contradictions)
        # A damaged file has its finding already.
        is_damaged = any(item.severity == "error" for item in self._scanned.kept)
        kernels = self._known_kernels.none() if is_damaged else self._kernels(self.view, recognised.form)
        claims = image_claims(recognised)
        modules: CirModules = plain_cir_modules(self.view) if recognised.form == "cir" else {}
        return {**claims, **modules, **metadata, **kernels}

    def _member_images(self, searched: set[tuple[int, ...]]) -> list[MemberImageRecord]:
        """Return what members of an archive are that hold no container, if they are device images themselves.

        ``searched`` are the numbers of the members that hold one.
        """
        from fatpack.scanner.standalone_images import image_claims, member_images

        found = list(member_images(self.view, searched))
        self.findings.extend(item for item in found if isinstance(item, Finding))
        return [
            {
                "member": image.title,
                "member_numbers": list(image.numbers),
                "offset": self._offset(image.view.span(), image.view),
                "size": len(image.view),
                **image_claims(image.info),
                **self._kernels(image.view, image.info.form),
            }
            for image in found
            if not isinstance(image, Finding) and self._shows(image.info)
        ]

    def _shows(self, recognised: ImageInfo) -> bool:
        """Return whether an image outside containers is one that is shown."""
        return self._filter is None or self._filter.shows_alone(recognised)

    def _take_all(
        self, items: Sequence[FoundContainer | Finding], containers: list[ContainerRecord] | ListingRows
    ) -> None:
        self.findings.extend(item for item in items if isinstance(item, Finding))
        for item in items:
            if not isinstance(item, Finding):
                self._take(item, containers)

    def _take(self, found: FoundContainer, containers: list[ContainerRecord] | ListingRows) -> None:
        """Add a container: its record, or only the rows that are printed of it."""
        if isinstance(containers, list):
            containers.append(self._container(found, containers))
        elif found.format == "cir-offload-container":
            add_container_record(containers, self._container(found, containers))
        else:
            self._list(found, containers)

    def _images(self, found: FoundContainer) -> tuple[Iterable[FoundImage], bool]:
        """Return the images of a container, inflated where they are to be, and whether they are all but listed."""
        stored: Sequence[Image] = found.container.images
        if self._inflates:
            return [self._inflated(image, stored) for image in found.images], False
        if isinstance(found.images, LazyImages):
            return (FoundImage(image, UNKNOWN if image.size else EMPTY) for image in stored), True
        unread = sum(
            [image.as_stored.size for image in found.images if image.info is NOT_INFLATED and _is_to_inflate(image)]
        )
        if not unread:
            return found.images, False
        if unread > self._small:
            return found.images, True
        self._small -= unread
        return [self._inflated(image, stored) for image in found.images], False

    def _chosen(
        self, found: FoundContainer, containers: list[Any] | ListingRows
    ) -> tuple[Iterable[tuple[int, FoundImage]], bool]:
        """Return the images of a container that are shown, with their numbers, and whether they are all but listed."""
        if self._filter is None:
            images, is_late = self._images(found)
            return enumerate(images), is_late
        if self._filter.has_position and containers is self._top:
            shown = self._filter.indices(len(containers), len(found.container.images))
            return [(index, self._inflated(found.images[index], found.container.images)) for index in shown], False
        images, is_late = self._images(found)
        return [(index, image) for index, image in enumerate(images) if self._filter.shows_stored(image)], is_late

    def _list(self, found: FoundContainer, places: ListingRows) -> None:
        """Add a container to others of which no more is kept than what is printed."""
        container = found.container
        chosen, is_late = self._chosen(found, places)
        if self._filter is not None and not chosen:
            places.skip()
            return
        place, number = places.of(
            found.member_numbers, found.member, found.section, found.index, container.format, container.version
        )
        attrs, symbol_count = container.attrs, 0
        if attrs.get("flavour") in _WITH_SYMBOLS:
            symbols: Any = formats.get_format(container.format).describe(container).get("symbols")
            symbol_count = sum(map(len, symbols.values())) if symbols else 0
        span = container.span
        offset = span.start if found.view.source is self.view.source else None
        place.add(offset, span.end - span.start, attrs, is_inflated=not is_late, symbol_count=symbol_count)
        if container.format == METAL and not self._wants_facts:
            stored_facts = formats.get_format(METAL).describe(container)
            place.said.append((metal_words(attrs, stored_facts), len(container.images)))
            return
        no_form = "-" if is_late else "unknown"
        source = self.view.source
        folded: list[tuple[str, int]] = []
        is_gcc = container.format == GCC
        for index, image in chosen:
            stored, form = image.as_stored, image.info.form
            target = stored.target
            # Attributes are made on access, for each of thousands of images: they are read only where they matter.
            if is_gcc and self._filter is None and is_folded(container.format, stored.attrs):
                folded.append((arch_name(target.arch, form or stored.form), stored.size))
                continue
            offset = None
            if not is_not_inflated(stored) and stored.data.source is source:
                offset = stored.span.start
            position = place.add_image(
                number,
                index,
                target.offload,
                target.triple,
                arch_name(target.arch, form or stored.form),
                form or stored.form or no_form,
                offset,
                stored.compression,
                stored.size,
                "" if form in _WITHOUT_KERNELS else kernel_summary(self._kernels(stored.data, form, stored)["kernels"]),
            )
            if image.items:
                inside = ListingRows(f"{position}/")
                self._take_all(image.items, inside)
                if inside:
                    place.below_last().places = inside
        if is_gcc:
            place.said.append((gcc_words(attrs, formats.get_format(GCC).describe(container), folded), len(folded)))

    def _container(self, found: FoundContainer, among: list[Any] | ListingRows) -> ContainerRecord:
        container = found.container
        chosen, is_late = self._chosen(found, among)
        numbers: MemberNumbers = {"member_numbers": list(found.member_numbers)} if found.member_numbers else {}
        flag: InflatedFlag = {"is_inflated": False} if is_late else {}
        record: ContainerRecord = {
            "format": container.format,
            "version": container.version,
            "host": found.host,
            "section": found.section,
            "section_index": found.index,
            "member": found.member,
            **numbers,
            "offset": self._offset(container.span, found.view),
            "size": container.span.size,
            "attrs": {**container.attrs, **dict(found.host_attrs)},
            "stored": {**formats.get_format(container.format).describe(container)},
            **flag,
            "images": [self._image(index, image) for index, image in chosen],
        }
        if container.format == "cir-offload-container":
            from fatpack.tabular.cir_launches import launch_findings

            self.findings.extend(launch_findings(container, record))
        return record

    def _inflated(self, found: FoundImage, neighbours: Sequence[Image]) -> FoundImage:
        """Return an image that was only listed, now inflated and recognised if that is possible."""
        if not _is_to_inflate(found):
            return found
        try:
            known = inflate_image(found, neighbours)
            if self._wants_facts:
                self._known_kernels.read_ahead(known)
            return known
        except Unsupported:  # its container has the finding
            return found
        except FormatError as error:
            self.findings.add(unread_finding(found.span, error))
            return found

    def _image(self, index: int, found: FoundImage) -> ImageRecord:
        image, target = found.as_stored, found.target
        view = image.data
        inside: list[ContainerRecord] = []
        self._take_all(found.items, inside)
        form = kernel_form(found) if self._wants_facts else found.info.form
        if self._wants_facts and not found.info.form:
            from fatpack.tabular.image_sets import unknown_form_findings

            self.findings.extend(unknown_form_findings(found))
        return {
            "index": index,
            "offload": target.offload,
            "triple": target.triple,
            "arch": target.arch,
            "form": found.form,
            "stored_form": image.form,
            "offset": self._offset(image.span, view),
            "stored_size": image.stored_size,
            "size": image.size,
            "compression": image.compression,
            "attrs": dict(image.attrs),
            "claims": {"triple": found.info.triple, "arch": found.info.arch},
            "detail": found.info.detail,
            **self._kernels(view, form, image),
            "containers": inside,
        }

    def _kernels(self, view: View, form: str, image: Image | None = None) -> KernelNames:
        """Return the kernels of an image, and the facts if they are wanted; ``image`` is the image of a container."""
        record, found = self._known_kernels.of(view, form, image)
        self.findings.extend(found)
        return record

    def _offset(self, span: Span, view: View) -> int | None:
        """Return an absolute offset in the file, None for bytes that are not in it as such."""
        return span.start if view.source is self.view.source else None


def _not_searched(found: ContainerScan) -> OptionalFacts:
    """Return the parts of the record that say what was not searched, and whether more may be there."""
    rows: list[UnsearchedSections] = [
        {"section": row.section, "count": row.count, "size": row.size} for row in found.not_searched
    ]
    if not rows:
        return {}
    return {"not_searched": rows, "found_outside": found.is_outside}


def failure_record(path: str, error: FatpackError | OSError) -> FileRecord:
    """Return the record of a file that could not be read at all."""
    from fatpack.exit_codes import error_message, exit_code

    return {
        "path": path,
        "size": None,
        "host": None,
        "format": None,
        "image": None,
        "containers": [],
        "findings": [],
        "error": {"message": error_message(error), "exit_code": exit_code(error)},
    }


def _registered(found: ContainerScan) -> list[RegistrationCountsRecord]:
    """Return what objects and programs register about which nothing is wrong in that."""
    if not found.units:
        return []
    from fatpack.commands.inspect.text import unit_records

    return unit_records(found.units)
