"""Rows to an overview: everything is summed while rows come, and no more is held than is told."""

from __future__ import annotations

import heapq

from fatpack.answers.overview.bytes import FileBytes, merged, total
from fatpack.answers.overview.coverage import FileCoverage
from fatpack.answers.overview.devices import Outcomes
from fatpack.answers.overview.names import family, label
from fatpack.answers.overview.records import FileOverview, FindingCount, ImageLine, KernelCoverage, Overview
from fatpack.answers.overview.twice import Twice
from fatpack.errors import counted
from fatpack.facts.columns import ImageRow, KernelRow
from fatpack.findings import CODES
from fatpack.outcomes import FINDINGS, FINE, worst

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from fatpack.facts.columns import AnyRow

#: LIMIT: lines of the table of images: what a browser shows at once. The largest are listed.
MOST_IMAGES = 4000

#: LIMIT: files that are listed one by one; the others are summed.
MOST_FILES = 500

#: LIMIT: duplicates of each kind that are listed, the dearest first.
MOST_DUPLICATES = 40

#: Files that are named of each finding.
_MOST_PLACES = 5

_RANKS = ("error", "warning", "note")


def overview_of(rows: Iterable[AnyRow]) -> Overview:
    """Return the overview of the rows that ``gather`` makes with digests and each kernel."""
    collecting = _Collecting()
    for row in rows:
        collecting.take(row)
    return collecting.overview()


class _Collecting:
    def __init__(self) -> None:
        self._files: list[FileOverview] = []
        self._coverage: list[KernelCoverage] = []
        self._twice = Twice()
        self._lines: list[tuple[int, int, ImageLine]] = []
        self._codes: dict[str, tuple[int, dict[str, str]]] = {}
        self._read = self._images = self._kernels = self._unlisted_files = self._not_compared = 0
        self._exit_code = self._empty_hosts = 0
        self._more: dict[str, int] = {}
        self._outcomes = Outcomes()
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
        elif isinstance(row, ImageRow):
            self._image(row)

    def _image(self, row: ImageRow) -> None:
        self._images += 1
        self._bytes.image(row)
        self._cover.image(row)
        self._twice.image(row)
        self._note(row)
        weight = row.stored_size if row.stored_size is not None else row.size or 0
        item = (weight, -self._images, _line(row))
        if len(self._lines) < MOST_IMAGES:
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
        # The row of a package, behind the files in it, says of nothing where it was searched.
        self._read += row.searched is not None or row.error is not None
        code = row.exit_code or 0
        self._exit_code = worst((self._exit_code, code))
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
        if len(self._files) >= MOST_FILES:
            self._unlisted_files += 1
            file = file.replace(archs=tuple(arch.replace(parts=()) for arch in file.archs))
        self._files.append(file)

    def overview(self) -> Overview:
        """Return what was collected."""
        duplicates, count, cost = self._twice.records(MOST_DUPLICATES)
        archs = merged(file.archs for file in self._files)
        lines = [line for _, _, line in sorted(self._lines, key=lambda item: -item[1])]
        return Overview(
            files=tuple(self._files[:MOST_FILES]),
            archs=archs,
            coverage=tuple(self._coverage),
            duplicates=duplicates,
            duplicate_count=count,
            duplicate_cost=cost,
            findings=self._findings(),
            images=tuple(lines),
            bytes=total(file.bytes for file in self._files),
            image_count=self._images,
            kernel_count=self._kernels,
            kernel_names=sum(item.kernels for item in self._coverage),
            files_read=self._read,
            compares_code=self._twice.compares_code,
            notes=tuple(self._notes(len(lines))),
            exit_code=worst((self._exit_code, FINE if self._images else FINDINGS)),
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
            yield f"{counted(self._empty_hosts, 'image')} without bytes: the entries of bundles for their host."
        if self._unlisted_files:
            yield f"{counted(self._unlisted_files, 'file')} more are in the sums, and not listed."
        if self._not_compared:
            yield f"{counted(self._not_compared, 'kernel')} not compared: their names are too many."
        if self._twice.not_compared:
            yield f"{self._twice.not_compared:,} digests were not compared: there are too many."


def _line(row: ImageRow) -> ImageLine:
    arguments = (row.arch, row.form, row.triple, row.offload)
    return ImageLine(
        row.path,
        row.position or "",
        label(*arguments),
        family(*arguments),
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
