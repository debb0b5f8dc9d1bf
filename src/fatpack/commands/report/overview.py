"""Builds an overview from rows. Sums are updated with every row, and no row is kept.

Memory grows with the digests that are compared, up to a limit, and with the files that have kernels: what each covers
is kept (``coverage``), of however many files.
"""

from __future__ import annotations

import heapq

from fatpack.commands.report.coverage import DeviceOutcomes, FileCoverage
from fatpack.commands.report.model import (
    ArchBytes,
    ByteCounts,
    FileOverview,
    FindingCount,
    ImageLine,
    KernelCoverage,
    ReportResult,
    arch_family,
    arch_label,
)
from fatpack.commands.report.sizes import DuplicateFinder, FileBytes, merge_architectures, total_bytes
from fatpack.commands.report.worth import WorthBuilder
from fatpack.demangling import demangle
from fatpack.errors import pluralize
from fatpack.exit_codes import FINDINGS, FINE, exit_code_for_findings, worst_exit_code
from fatpack.findings import CODES, format_finding
from fatpack.tabular.columns import ImageRow, KernelRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from fatpack.tabular.columns import AnyRow
    from fatpack.tensile.library import TensileFinder, TensileLibrary


# An overview with the names of kernels as people write them.


def with_demangled_names(overview: ReportResult) -> ReportResult:
    """Return an overview that names kernels as people do. Raises Unsupported where nothing demangles.

    Bytes and copies are those of all kernels whose qualified name is the same: their names are such as they are.
    """
    names = demangle(name for item in overview.coverage for row in item.patterns for name in row.names)
    return overview.replace(coverage=tuple(_renamed(item, names) for item in overview.coverage))


def _renamed(item: KernelCoverage, names: Mapping[str, str]) -> KernelCoverage:
    patterns = (row.replace(names=tuple(sorted(names.get(name, name) for name in row.names))) for row in item.patterns)
    return item.replace(patterns=tuple(patterns))


#: LIMIT: lines of the table of images: what a browser shows at once. The largest are listed.
MAX_IMAGES = 4000

#: LIMIT: files that are listed one by one; the others are summed.
MAX_FILES = 500

#: LIMIT: duplicates of each kind that are listed, the dearest first.
MAX_DUPLICATES = 40

#: Files that are named of each finding.
_MOST_PLACES = 5

_RANKS = ("error", "warning", "note")


def build_overview(
    rows: Iterable[AnyRow],
    tensile: TensileFinder | None = None,
    on_overview: Callable[[FileOverview], None] | None = None,
) -> ReportResult:
    """Return the overview of rows that have digests, with a row for each kernel (``fatpack.rows``).

    ``tensile`` takes the files, and compares those of Tensile's libraries with their tables. ``on_overview`` is called
    with each file that has device code or a finding, after its last row.
    """
    collecting = _OverviewBuilder(on_overview)
    archs: list[str] = []
    for row in rows:
        collecting.take(row)
        if row.row == "file" and tensile is not None:
            tensile.take(row.path, archs)
            archs = []
        elif isinstance(row, ImageRow):
            archs.append(row.arch or "")
    if tensile:
        for library in tensile.libraries():
            collecting.take_library(library)
    return collecting.overview()


class _OverviewBuilder:
    def __init__(self, on_overview: Callable[[FileOverview], None] | None) -> None:
        self._on_overview = on_overview
        self._files: list[FileOverview] = []
        #: the sums of the files beyond ``MAX_FILES``
        self._other_archs: tuple[ArchBytes, ...] = ()
        self._other_bytes = ByteCounts()
        self._coverage: list[KernelCoverage] = []
        self._twice = DuplicateFinder()
        self._lines: list[tuple[int, int, ImageLine]] = []
        self._codes: dict[str, tuple[int, dict[str, str]]] = {}
        self._read = self._images = self._kernels = self._unlisted_files = self._not_compared = 0
        self._exit_code = self._empty_hosts = 0
        self._more: dict[str, int] = {}
        self._libraries: list[str] = []
        self._outcomes = DeviceOutcomes()
        self._worth = WorthBuilder()
        self._start()

    def _start(self) -> None:
        self._bytes, self._cover = FileBytes(), FileCoverage(self._outcomes)
        self._found: dict[str, None] = {}

    def take(self, row: AnyRow) -> None:
        """Take the next row."""
        if row.row == "file":
            self._file(row)
        elif isinstance(row, KernelRow):
            self._kernels += 1
            self._bytes.kernel(row)
            self._cover.kernel(row)
            self._twice.kernel(row)
            self._worth.kernel(row)
        elif isinstance(row, ImageRow):
            self._image(row)

    def _image(self, row: ImageRow) -> None:
        self._images += 1
        self._bytes.image(row)
        self._cover.image(row)
        self._twice.image(row)
        self._worth.image(row, arch_label(row.arch, row.form, row.triple, row.offload))
        self._note(row)
        weight = row.stored_size if row.stored_size is not None else row.size or 0
        item = (weight, -self._images, _line(row))
        if len(self._lines) < MAX_IMAGES:
            heapq.heappush(self._lines, item)
        else:
            heapq.heappushpop(self._lines, item)

    def _note(self, row: AnyRow) -> None:
        for code in row.findings:
            self._found[code] = None
            count, files = self._codes.setdefault(code, (0, {}))
            if len(files) < _MOST_PLACES:
                files.setdefault(row.path, next((text for text in row.messages if text.startswith(code)), ""))
            self._codes[code] = count + 1, files

    def _file(self, row: AnyRow) -> None:
        self._note(row)
        self._worth.file(row)
        # The row of a package, after the files in it, says of nothing where it was searched.
        self._read += row.searched is not None or row.error is not None
        code = row.exit_code or 0
        self._exit_code = worst_exit_code((self._exit_code, code))
        archs = self._bytes.records()
        self._empty_hosts += self._bytes.empty_hosts
        if archs or self._found or row.error:
            file = FileOverview(
                row.path,
                row.host or "",
                row.file_size,
                self._bytes.bytes(),
                self._bytes.kernels,
                archs,
                tuple(self._found),
                row.error,
                code,
                row.not_searched or 0,
                self._bytes.shared,
            )
            self._keep(file)
            coverage = self._cover.record(row.path)
            if coverage is not None:
                self._coverage.append(coverage)
            self._not_compared += self._cover.not_compared
        self._start()

    def _keep(self, file: FileOverview) -> None:
        if self._on_overview is not None:
            self._on_overview(file)
        if len(self._files) < MAX_FILES:
            self._files.append(file)
            return
        self._unlisted_files += 1
        self._other_archs = merge_architectures((self._other_archs, file.archs))
        self._other_bytes = total_bytes((self._other_bytes, file.bytes))

    def take_library(self, library: TensileLibrary) -> None:
        """Take a library of Tensile after the files in it: what its tables name, and what is wrong with it."""
        for item in library.every_finding:
            count, files = self._codes.setdefault(item.code, (0, {}))
            if len(files) < _MOST_PLACES:
                files.setdefault(library.path, format_finding(item, library.path))
            self._codes[item.code] = count + item.count, files
            code = exit_code_for_findings([(item.severity, item.code)])
            self._exit_code = worst_exit_code((self._exit_code, code))
        self._libraries.append(f"{library.path}: {library.words}.")

    def overview(self) -> ReportResult:
        """Return what was collected."""
        duplicates, count, cost = self._twice.records(MAX_DUPLICATES)
        archs = merge_architectures([*(file.archs for file in self._files), self._other_archs])
        lines = [line for _, _, line in sorted(self._lines, key=lambda item: -item[1])]
        return ReportResult(
            files=tuple(self._files),
            archs=archs,
            coverage=tuple(self._coverage),
            duplicates=duplicates,
            duplicate_count=count,
            duplicate_cost=cost,
            findings=self._findings(),
            images=tuple(lines),
            bytes=total_bytes([*(file.bytes for file in self._files), self._other_bytes]),
            image_count=self._images,
            kernel_count=self._kernels,
            kernel_names=sum(item.kernels for item in self._coverage),
            files_read=self._read,
            compares_code=self._twice.compares_code,
            notes=tuple(self._notes(len(lines))),
            exit_code=worst_exit_code((self._exit_code, FINE if self._images else FINDINGS)),
            worth=self._worth.worth(self._twice.in_other_files),
        )

    def _findings(self) -> tuple[FindingCount, ...]:
        found = [
            FindingCount(code, *CODES.get(code, ("note", "")), count, tuple(files), tuple(files.values()))
            for code, (count, files) in self._codes.items()
        ]
        return tuple(sorted(found, key=lambda item: (_RANKS.index(item.severity), item.code)))

    def _notes(self, listed: int) -> Iterable[str]:
        if listed < self._images:
            yield f"{listed:,} of {self._images:,} images are listed, the largest; `fatpack inspect --rows` has all."
        if self._empty_hosts:
            yield f"{pluralize(self._empty_hosts, 'image')} without bytes: the entries of bundles for their host."
        if self._unlisted_files:
            yield f"{pluralize(self._unlisted_files, 'file')} more are in the sums, and not listed."
        yield from self._libraries
        if self._not_compared:
            yield f"{pluralize(self._not_compared, 'kernel')} not compared: their names are too many."
        if self._twice.not_compared:
            yield f"{self._twice.not_compared:,} digests were not compared: there are too many."


def _line(row: ImageRow) -> ImageLine:
    arguments = (row.arch, row.form, row.triple, row.offload)
    return ImageLine(
        row.path,
        row.position or "",
        arch_label(*arguments),
        arch_family(*arguments),
        row.form or "",
        row.container_format or "",
        row.member or row.section or "",
        row.offset,
        row.stored_size,
        row.size,
        row.compression or "",
        row.kernel_count,
        row.registers_max,
        row.findings,
        row.container_size if row.stored_size is None else None,
    )
