"""Rows of one file, yielded as its containers are found: one container is held at a time.

By default nothing is decompressed, and only the first bytes of uncompressed images are read: targets and sizes are the
container's metadata. ``compares_heads`` reads the first bytes of compressed images too, and compares them with the
metadata. Digests, kernels and ``inflate`` read the images.
"""

from __future__ import annotations

from contextlib import closing

from fatpack import images, limits
from fatpack.errors import FatpackError, FormatError, Unsupported
from fatpack.exit_codes import error_message, exit_code, exit_code_for_findings, worst_exit_code
from fatpack.findings import code_for_error as code_for
from fatpack.findings import finding
from fatpack.images import EMPTY, NOT_INFLATED, UNKNOWN
from fatpack.io.source import is_in_file
from fatpack.model import Finding, Target, arch_name
from fatpack.record import Record
from fatpack.scanner import (
    FoundImage,
    LazyImages,
    detect_host,
    inflate_image,
    scan,
)
from fatpack.scanner.results import checked_against_container
from fatpack.scanner.share import ImageRoom, share_containers
from fatpack.scanner.unread_kinds import unread_kind
from fatpack.tabular.columns import (
    KERNEL_COLUMNS,
    TABLES,
    FindingSummary,
    KernelRow,
    Row,
    container_columns,
    cuda_runtime,
    has_kernel,
    image_columns,
    kernel_columns,
    read_image_kernels,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, TypeAlias

    from fatpack.images import ImageInfo
    from fatpack.images.kernel import KernelNeeds
    from fatpack.io.source import Source, Span, View
    from fatpack.model import Container
    from fatpack.scanner import FoundContainer
    from fatpack.tabular.columns import AnyRow, RowOptions
    from fatpack.tabular.dead import DeadFinder
    from fatpack.targets.selection.dead import DeadImage

    #: kernels of an image, and the digests of their code by their names
    _Kernels: TypeAlias = tuple[tuple[KernelNeeds, ...], dict[str, str]]
    #: columns that need the bytes of an image, and its kernels
    ImageBytes: TypeAlias = tuple[dict[str, Any], _Kernels]

    #: a row, or those of the kernels of an image
    _Made: TypeAlias = "AnyRow | _KernelRows"


#: the columns of an image that is not read
NO_CONTENT: ImageBytes = {}, ((), {})


#: LIMIT: things noted of one container that another process sends; one with more is read by this process.
_MOST_NOTED = 1000


class _KernelRows(Record):
    """The rows of the kernels of an image: the columns that they share, and those of each.

    A library has 150,000 kernels: what they share is made, and sent from one process to another, once for an image.
    """

    shared: tuple[Any, ...]
    own: list[tuple[Any, ...]]


class _ReadContainer(Record):
    """The rows of a container that another process read, with what it noted."""

    made: list[_Made]
    noted: list[Finding | FindingSummary]
    exit_code: int
    count: int


class ImageReader:
    """Reads the images of one file: decompression, digests, kernels. ``note`` receives the findings."""

    def __init__(self, options: RowOptions, room: ImageRoom, note: Callable[[Finding], None]) -> None:
        self._options = options
        self._note = note
        self._room = room
        self._read_of: dict[tuple[Source, int, int, str], ImageBytes] = {}
        #: the sources of the images for whose bytes room was taken before they were inflated
        self._inflated: set[Source] = set()

    def forget(self) -> None:
        """Forget the images of the last container: only images of one container share bytes."""
        self._read_of.clear()
        self._inflated.clear()

    def inflate(self, found: FoundImage, around: FoundContainer) -> FoundImage:
        """Return an image, decompressed and identified if the options ask for it and the limits allow it."""
        if not self._options.reads_images:
            # First: the data of an image that is only listed is not even created.
            return _compared(found, around) if self._options.compares_heads else found
        if found.info is not NOT_INFLATED or not found.size:
            return found
        if found.data.source.is_refused or not self._take_room(found.size, found.span):
            return found
        self._inflated.add(found.data.source)
        try:
            return inflate_image(found, around.container.images)
        except Unsupported:  # its container has the finding
            return found
        except FormatError as error:
            self._note(finding(code_for("FP1104", error), found.span, error.describe(), error.hint))
            return found

    def read(self, view: View, form: str, record: object, findings: list[Finding], arch: str) -> ImageBytes:
        """Return the columns that need the bytes of an image, and its kernels with digests; shared bytes once.

        ``arch`` is the container's word for the architecture.
        """
        options = self._options
        wants_kernels = options.reads_kernels
        place = (view.source, view.start, view.end, arch)
        if place in self._read_of:
            return self._read_of[place]
        columns: dict[str, Any] = {}
        kernels: tuple[KernelNeeds, ...] = ()
        codes: dict[str, str] = {}
        try:
            is_digested = options.digests or options.identity
            has_room = is_digested and (view.source in self._inflated or self._take_room(len(view), view.span()))
            is_hashed = options.digest_sizes is None or len(view) in options.digest_sizes
            if has_room and options.digests and is_hashed and self._options.of != "kernels":
                columns["sha256"] = images.content_digest(view)
            if wants_kernels:
                kernels, contradictions = read_image_kernels(view, form, record)
                findings += (finding("FP1106", view.span(), text) for text in contradictions)
                columns["kernel_count"] = len(kernels) if kernels or form != UNKNOWN.form else None
                if options.kernel:
                    columns["has_kernel"] = has_kernel(kernels, form, options.kernel)
                columns["registers_max"] = max((item.registers for item in kernels if item.registers), default=None)
            data: str | None = None
            if has_room and (
                options.identity or (options.digests and (options.of == "kernels" or options.each_kernel))
            ):
                known = kernels if wants_kernels else images.kernel_facts(view, form) if images.has_codes(form) else ()
                codes, data = images.code_digests(view, form, known)
            if has_room and options.each_kernel:
                columns["data_sha256"] = data
            if has_room and options.identity:
                from fatpack.images.build_traces import build_traces
                from fatpack.images.identity import image_digest

                columns["digest"] = image_digest(view, form, codes, data, arch)
                columns["build"] = build_traces(view, form)
        except Unsupported:  # its container has the finding
            pass
        except FormatError as error:
            findings.append(finding(code_for("FP1104", error), view.span(), error.describe(), error.hint))
        self._read_of[place] = columns, (kernels, codes)
        return columns, (kernels, codes)

    def _take_room(self, size: int, span: Span) -> bool:
        """Take the room for an image; if there is none for the first time, that is a finding."""
        if self._room.left < 0 or self._room.take(size):
            return self._room.left >= 0
        self._note(_too_much(span))
        return False


def _compared(found: FoundImage, around: FoundContainer) -> FoundImage:
    """Return an image that was only listed with findings about its first bytes: contradictions and damage."""
    if found.info is not NOT_INFLATED or not found.size:
        return found
    try:
        return checked_against_container(found, around.view.source, around.container.images)
    except Unsupported:  # its container has the finding
        return found
    except FormatError as error:
        problem = finding(code_for("FP1104", error), found.span, error.describe(), error.hint)
        return found.replace(items=(problem, *found.items))


def _too_much(span: Span) -> Finding:
    """Return the finding that from here on images are only listed."""
    text = "the images add up to more than is inflated of one file; from here on they are only listed"
    return finding("FP1005", span, text, limits.inflated_hint())


def read_rows(view: View, options: RowOptions) -> Iterator[AnyRow]:
    """Return the rows of a file, read when they are taken; the last is that of the file itself.

    Damage is in ``findings``. An error that ends the reading (of the system, or of a file that shrinks) is the
    ``error`` of the last row, and is not raised.
    """
    return _RowReader(view, options).rows()


def error_row(path: str, error: FatpackError | OSError, of: str = "images") -> AnyRow:
    """Return the row of a file that could not be opened."""
    return unreadable_row(path, error_message(error), exit_code(error), of)


def unreadable_row(path: str, problem: str, code: int, of: str = "images") -> AnyRow:
    """Return the row of a file that was not read, with the reason and its exit code."""
    return TABLES[of][0](row="file", path=path, error=problem, exit_code=code, count=0)


class _RowReader:
    """Makes the rows of one file."""

    def __init__(self, view: View, options: RowOptions) -> None:
        self._view = view
        self._options = options
        self._kind, self._word = TABLES[options.of]
        self._file: dict[str, Any] = {
            "path": view.chain[0] if view.chain else "",
            "file_size": len(view),
            "host": detect_host(view),
        }
        self._count = 0
        self._has_cuda = False
        self._skipped = 0
        self._searched = "everything" if options.deep else "places"
        #: positions of the images that get rows, and of the images around them
        self._around = None if options.positions is None else _around(options.positions)
        self._noted = FindingSummary(self._file["path"])
        #: in another process: what was noted of a container, in order
        self._told: list[Finding | FindingSummary] | None = None
        self._exit_code = 0
        self._room = ImageRoom(view.source.budget.inflatable)
        self._contents = ImageReader(options, self._room, self._note)
        self._dead: DeadFinder | None = None

    def rows(self) -> Iterator[AnyRow]:
        """Yield all rows; the last is that of the file."""
        for made in self._all():
            if isinstance(made, _KernelRows):
                shared = made.shared
                for own in made.own:
                    yield KernelRow(*shared, *own)
            else:
                yield made

    def _all(self) -> Iterator[_Made]:
        try:
            if self._options.digests:
                self._view.source.check()
            found = scan(self._view, deep=self._options.deep, is_thorough=self._options.thorough)
            members: set[tuple[int, ...]] = set()
            number = 0
            is_read, size = self._options.reads_images, len(self._view)
            with closing(share_containers(found, self._elsewhere, self._room, is_read=is_read, size=size)) as shared:
                for item, read in shared:
                    if isinstance(item, Finding):
                        self._note(item)
                        continue
                    if read is None:
                        yield from self._container(item, number, "")
                    else:
                        self._take(item, read)
                        yield from read.made
                    members.add(item.member_numbers)
                    number += 1
            if not number:
                yield from self._alone()
            if self._file["host"] == "archive":
                yield from self._members(members)
            self._skipped = sum(row.size for row in found.not_searched)
            if not number and not self._skipped:
                self._searched = "everything"
            yield self.last()
        except (FatpackError, OSError) as error:
            yield self.last(error)

    def _elsewhere(self, found: FoundContainer, number: int) -> _ReadContainer | None:
        """Return what is read of a container in another process; None if this process has to read it."""
        self._told, self._exit_code, self._count = [], 0, 0
        made = list(self._container(found, number, ""))
        if len(self._told) > _MOST_NOTED:
            return None
        return _ReadContainer(made, self._told, self._exit_code, self._count)

    def _take(self, found: FoundContainer, read: _ReadContainer) -> None:
        """Take into account what another process has read of a container."""
        self._contents.forget()
        self._has_cuda |= found.container.format == "cuda-fatbin"
        for item in read.noted:
            if isinstance(item, Finding):
                self._noted.add(item)
            else:
                self._noted.update(item)
        self._exit_code = worst_exit_code((self._exit_code, read.exit_code))
        self._count += read.count

    def last(self, error: FatpackError | OSError | None = None) -> AnyRow:
        """Return the row of the file itself."""
        facts: dict[str, Any] = {}
        if self._has_cuda and error is None and self._file["host"] == "elf" and self._kind is not KernelRow:
            facts["cuda_runtime"] = cuda_runtime(self._view)
        host, is_read = self._file["host"], error is None and self._kind is not KernelRow
        if is_read and (host == "universal" or (host == "raw" and not self._count)):
            kind = unread_kind(self._view, is_deep=self._options.deep)
            facts["unread_kind"] = None if kind is None else kind.name
        return self._kind(
            row="file",
            **self._file,
            **facts,
            findings=self._noted.codes,
            messages=self._noted.messages,
            error=None if error is None else error_message(error),
            exit_code=self._exit_code if error is None else worst_exit_code((self._exit_code, exit_code(error))),
            count=self._count,
            searched=self._searched,
            not_searched=self._skipped,
        )

    def _note(self, item: Finding) -> None:
        """Add a finding to the row of the file."""
        if self._told is None:
            self._noted.add(item)
        else:
            self._told.append(item)
        self._exit_code = worst_exit_code((self._exit_code, exit_code_for_findings([(item.severity, item.code)])))

    def _container(self, found: FoundContainer, number: int, prefix: str) -> Iterator[_Made]:
        container = found.container
        self._has_cuda |= container.format == "cuda-fatbin"
        if not prefix:
            self._contents.forget()
        place = {
            "container": number,
            "container_format": container.format,
            "container_version": container.version,
            "section": found.section,
            "section_index": found.index,
            "member": found.member,
            "container_size": container.span.size if is_in_file(container.span.source) else None,
        }
        dead = {} if prefix or not self._options.dead else self._dead_of(found)
        stored: Iterable[FoundImage] = found.images
        if isinstance(found.images, LazyImages) and not (self._options.reads_images or self._options.compares_heads):
            stored = (FoundImage(image, UNKNOWN if image.size else EMPTY) for image in container.images)
        for index, image in enumerate(stored):
            position = f"{prefix}{number}.{index}"
            if self._around is not None and position not in self._around:
                continue
            read = self._contents.inflate(image, found)
            if self._is_wanted(position):
                own = {**place, "position": position, "image": index}
                if index in dead:
                    own["dead"] = dead[index].reason
                yield from self._image(read, found.view.source, own)
            for inner_number, item in enumerate(read.containers):
                yield from self._container(item, inner_number, f"{position}/")
        if container.format == "cir-offload-container":
            self._note_launches(container)

    def _dead_of(self, found: FoundContainer) -> Mapping[int, DeadImage]:
        if self._dead is None:
            from fatpack.tabular.dead import DeadFinder

            self._dead = DeadFinder(self._view)
        return self._dead.find(found)

    def _note_launches(self, container: Container) -> None:
        from fatpack.tabular.cir_launches import as_listed, launch_findings

        for item in launch_findings(container, as_listed(container)):
            self._note(item)

    def _image(self, found: FoundImage, holder: Source, place: dict[str, Any]) -> Iterator[_Made]:
        image, span = found.as_stored, found.as_stored.span
        inside = found.items
        facts = {
            **place,
            "chain": span.source[1:],
            "offset": span.start if is_in_file(span.source) else None,
            "stored_form": image.form,
            "stored_size": image.stored_size,
            "size": image.size,
            "compression": image.compression,
            "containers": sum(not isinstance(item, Finding) for item in inside),
            **image_columns(found, holder),
            **container_columns(image, place["container_format"]),
        }
        findings = [item for item in inside if isinstance(item, Finding)]
        read = NO_CONTENT
        if found.info is not NOT_INFLATED and self._options.reads_content:
            form = found.info.form
            if not form and self._options.reads_kernels:
                from fatpack.tabular.image_sets import unknown_form_findings

                findings += unknown_form_findings(found)
                form = found.form  # as ``inspect --kernels`` and ``doctor`` read it
            read = self._contents.read(image.data, form, image.record, findings, image.target.arch)
        yield from self._rows(facts, image.target, found.form, read, findings)

    def _alone(self) -> Iterator[_Made]:
        """Yield the row of a file that is a device image itself."""
        from fatpack.scanner.standalone_images import sidecar_record, standalone_image

        recognised = standalone_image(self._view)
        if recognised is not None:
            yield from self._bare(self._view, recognised, {}, sidecar_record(self._view, recognised)[1])

    def _members(self, searched: set[tuple[int, ...]]) -> Iterator[_Made]:
        """Yield the rows of archive members that are device images themselves."""
        from fatpack.scanner.standalone_images import member_images

        for item in member_images(self._view, searched):
            if isinstance(item, Finding):
                self._note(item)
            else:
                yield from self._bare(item.view, item.info, {"member": item.title})

    def _bare(
        self, view: View, recognised: ImageInfo, place: dict[str, Any], findings: Sequence[Finding] = ()
    ) -> Iterator[_Made]:
        if not self._is_wanted(""):
            return
        facts = {
            **place,
            "chain": view.chain[1:],
            "offset": view.start if is_in_file(view.chain) else None,
            "stored_size": len(view),
            "size": len(view),
            "containers": 0,
        }
        target = Target(recognised.triple, recognised.arch)
        found = [*findings]
        read = NO_CONTENT
        if self._options.reads_content:
            read = self._contents.read(view, recognised.form, None, found, recognised.arch)
        yield from self._rows(facts, target, recognised.form, read, found)

    def _rows(
        self, facts: dict[str, Any], target: Target, form: str, read: ImageBytes, findings: list[Finding]
    ) -> Iterator[_Made]:
        """Yield the row of an image, or the rows of its kernels, or both."""
        content, (kernels, codes) = read
        noted = FindingSummary(self._file["path"], findings)
        common: dict[str, Any] = {
            "offload": target.offload,
            "triple": target.triple,
            "arch": target.arch,
            "label": arch_name(target.arch, form),
            "processor": target.processor,
            "features": target.features,
            "form": form,
            "findings": noted.codes,
            "messages": noted.messages,
        }
        for item in findings:
            self._exit_code = worst_exit_code((self._exit_code, exit_code_for_findings([(item.severity, item.code)])))
        if self._kind is not KernelRow:
            self._count += 1
            yield self._kind(row=self._word, **self._file, **facts, **common, **content)
            if not self._options.each_kernel:
                return
        elif not kernels:
            if self._told is None:
                self._noted.update(noted)
            else:
                self._told.append(noted)
        if not kernels:
            return
        here = {name: facts[name] for name in facts if name in KernelRow._fields}
        first = KernelRow(row=TABLES["kernels"][1], **self._file, **here, **common).values()[: len(Row._fields)]
        self._count += len(kernels) if self._kind is KernelRow else 0
        rows = []
        for index, kernel in enumerate(kernels):
            own = {**kernel_columns(kernel), "kernel_index": index, "code_sha256": codes.get(kernel.name)}
            rows.append(tuple(map(own.get, KERNEL_COLUMNS)))
        yield _KernelRows(first, rows)

    def _is_wanted(self, position: str) -> bool:
        return self._options.positions is None or position in self._options.positions


def _around(positions: frozenset[str]) -> frozenset[str]:
    """Return positions, and those of the images around them."""
    parts = (position.split("/") for position in positions)
    return frozenset("/".join(names[:count]) for names in parts for count in range(1, len(names) + 1))
