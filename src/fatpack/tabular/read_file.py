"""A file to rows, one by one as its containers are found: no more is held than one container.

By default nothing is inflated, and of images that are not compressed only their heads are read: containers state what
their images are for and how large they are. ``heads`` reads those of compressed images too, to compare them with that.
Digests, kernels and ``inflate`` read the images.
"""

from __future__ import annotations

from fatpack.errors import FatpackError
from fatpack.exit_codes import error_message, exit_code, exit_code_for_findings, worst_exit_code
from fatpack.findings import finding
from fatpack.images import EMPTY, NOT_INFLATED, UNKNOWN
from fatpack.io.source import is_in_file
from fatpack.model import Finding, Target
from fatpack.scanner import FoundImage, LazyImages, detect_host, scan
from fatpack.tabular.columns import TABLES, KernelRow, Row
from fatpack.tabular.contents import NO_CONTENT, ImageReader
from fatpack.tabular.noted import FindingSummary
from fatpack.tabular.of_kernels import KERNEL_COLUMNS, kernel_columns
from fatpack.tabular.stated import container_columns, cuda_runtime, image_columns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from fatpack.images import ImageInfo
    from fatpack.io.source import Source, View
    from fatpack.model import Container
    from fatpack.scanner import FoundContainer
    from fatpack.tabular.columns import AnyRow
    from fatpack.tabular.contents import ImageBytes
    from fatpack.tabular.options import RowOptions


def read_rows(view: View, options: RowOptions) -> Iterator[AnyRow]:
    """Yield the rows of a file, the row of the file itself as the last.

    Damage stands in ``findings``. What ends the reading (an error of the system, a file that shrinks) stands in the
    ``error`` of the last row; nothing is raised for it.
    """
    reader = _RowReader(view, options)
    try:
        yield from reader.rows()
    except (FatpackError, OSError) as error:
        yield reader.last(error)


def error_row(path: str, error: FatpackError | OSError, of: str = "images") -> AnyRow:
    """Return the row of a file that could not be opened."""
    return unreadable_row(path, error_message(error), exit_code(error), of)


def unreadable_row(path: str, problem: str, code: int, of: str = "images") -> AnyRow:
    """Return the row of a file that was not read, with the reason in words and the exit code it stands for."""
    return TABLES[of][0](row="file", path=path, error=problem, exit_code=code, count=0)


class _RowReader:
    """The rows of one file in the making."""

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
        #: positions that are gone to: those that get rows, and of the images around them
        self._around = None if options.positions is None else _around(options.positions)
        self._noted = FindingSummary(self._file["path"])
        self._exit_code = 0
        self._contents = ImageReader(options, view.source.budget.inflatable, self._note)

    def rows(self) -> Iterator[AnyRow]:
        """Yield all rows; the last is that of the file."""
        if self._options.digests:
            self._view.source.check()
        found = scan(self._view, deep=self._options.deep, is_thorough=self._options.thorough)
        members: set[tuple[int, ...]] = set()
        number = 0
        for item in found:
            if isinstance(item, Finding):
                self._note(item)
                continue
            yield from self._container(item, number, "")
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

    def last(self, error: FatpackError | OSError | None = None) -> AnyRow:
        """Return the row of the file itself."""
        facts: dict[str, Any] = {}
        if self._has_cuda and error is None and self._file["host"] == "elf" and self._kind is not KernelRow:
            facts["cuda_runtime"] = cuda_runtime(self._view)
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
        """Keep a finding that no other row has."""
        self._noted.add(item)
        self._exit_code = worst_exit_code((self._exit_code, exit_code_for_findings([(item.severity, item.code)])))

    def _container(self, found: FoundContainer, number: int, prefix: str) -> Iterator[AnyRow]:
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
        stored: Iterable[FoundImage] = found.images
        if isinstance(found.images, LazyImages) and not (self._options.reads_images or self._options.heads):
            stored = (FoundImage(image, UNKNOWN if image.size else EMPTY) for image in container.images)
        for index, image in enumerate(stored):
            position = f"{prefix}{number}.{index}"
            if self._around is not None and position not in self._around:
                continue
            read = self._contents.inflated(image, found)
            if self._is_wanted(position):
                yield from self._image(read, found.view.source, {**place, "position": position, "image": index})
            inner = (item for item in read.inside if not isinstance(item, Finding))
            for inner_number, item in enumerate(inner):
                yield from self._container(item, inner_number, f"{position}/")
        if container.format == "cir-offload-container":
            self._note_launches(container)

    def _note_launches(self, container: Container) -> None:
        from fatpack import formats
        from fatpack.tabular.cir_launches import launch_problems

        described = dict(formats.get_format(container.format).describe(container))
        numbered = [{"index": index, "arch": image.target.arch} for index, image in enumerate(container.images)]
        for code, at, text in launch_problems({"stored": described, "images": numbered}):
            self._note(finding(code, container.images[at].span, text))

    def _image(self, found: FoundImage, holder: Source, place: dict[str, Any]) -> Iterator[AnyRow]:
        image, span = found.as_stored, found.as_stored.span
        inside = found.inside
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
        if found.recognised is not NOT_INFLATED and self._options.reads_content:
            read = self._contents.read(image.data, found.recognised.form, image.record, findings)
        yield from self._rows(facts, image.target, found.form, read, findings)

    def _alone(self) -> Iterator[AnyRow]:
        """Yield the row of a file that is a device image itself."""
        from fatpack.scanner.standalone_images import sidecar_record, standalone_image

        recognised = standalone_image(self._view)
        if recognised is not None:
            yield from self._bare(self._view, recognised, {}, sidecar_record(self._view, recognised)[1])

    def _members(self, searched: set[tuple[int, ...]]) -> Iterator[AnyRow]:
        """Yield the rows of an archive's members that are device images themselves."""
        from fatpack.scanner.standalone_images import member_images

        for item in member_images(self._view, searched):
            if isinstance(item, Finding):
                self._note(item)
            else:
                yield from self._bare(item.view, item.recognised, {"member": item.title})

    def _bare(
        self, view: View, recognised: ImageInfo, place: dict[str, Any], findings: Sequence[Finding] = ()
    ) -> Iterator[AnyRow]:
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
        read = self._contents.read(view, recognised.form, None, found) if self._options.reads_content else NO_CONTENT
        yield from self._rows(facts, target, recognised.form, read, found)

    def _rows(
        self, facts: dict[str, Any], target: Target, form: str, read: ImageBytes, findings: list[Finding]
    ) -> Iterator[AnyRow]:
        """Yield the row of an image, or the rows of its kernels, or both."""
        content, (kernels, codes) = read
        noted = FindingSummary(self._file["path"], findings)
        common: dict[str, Any] = {
            "offload": target.offload,
            "triple": target.triple,
            "arch": target.arch,
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
            self._noted.update(noted)
        if not kernels:
            return
        here = {name: facts[name] for name in facts if name in KernelRow._fields}
        first = KernelRow(row=TABLES["kernels"][1], **self._file, **here, **common).values()[: len(Row._fields)]
        for index, kernel in enumerate(kernels):
            self._count += self._kind is KernelRow
            own = {**kernel_columns(kernel), "kernel_index": index, "code_sha256": codes.get(kernel.name)}
            # A library has 150,000 of them: what they share is in its place already.
            yield KernelRow(*first, *map(own.get, KERNEL_COLUMNS))

    def _is_wanted(self, position: str) -> bool:
        return self._options.positions is None or position in self._options.positions


def _around(positions: frozenset[str]) -> frozenset[str]:
    """Return positions with those of the images that they lie in."""
    parts = (position.split("/") for position in positions)
    return frozenset("/".join(names[:count]) for names in parts for count in range(1, len(names) + 1))
