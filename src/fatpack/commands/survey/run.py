"""A survey from its sources to its folder: plan, run, write."""

from __future__ import annotations

import os
import time

from fatpack.commands.survey.manifest import SurveyManifest
from fatpack.commands.survey.worker import failed_task_row, part_name, rewrite_part, write_part
from fatpack.concurrency.signals import DeferSignals
from fatpack.exit_codes import worst_exit_code
from fatpack.inputs.walk import TreeWalk
from fatpack.record import Record
from fatpack.tabular import SCHEMA
from fatpack.tabular.columns import TABLES
from fatpack.tabular.text import to_utf8

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from fatpack.commands.survey.engines import Engine
    from fatpack.commands.survey.manifest import PlanTotals
    from fatpack.commands.survey.worker import SurveyTask, TaskOptions, TaskResult

    #: told how many files are done, and the totals of the plan
    Progress = Callable[[int, PlanTotals], None]

#: A part is written when it has rows of so many files, so many bytes, or after so many seconds: what a run that is
#: killed has to do again.
PART_FILES, PART_BYTES, PART_SECONDS = 10_000, 32 << 20, 60.0


class SurveySummary(Record):
    """Result of a survey.

    ``files`` are all that were named, ``done_before`` those of them that were read in an earlier run; ``rows``,
    ``errors`` and ``exit_code`` are of all. ``codes`` counts the files without an error, by exit code. ``same`` counts
    URLs that differ only in what is not shown. ``links``, ``special``, ``unmatched``, ``passed`` and ``excluded`` are
    as in :class:`fatpack.inputs.walk.TreeWalk`.
    """

    files: int
    done_before: int
    rows: int
    errors: int
    codes: Mapping[int, int]
    exit_code: int
    links: int
    special: int
    unmatched: tuple[str, ...]
    same: int
    passed: int = 0
    excluded: int = 0


def run_survey(
    names: Iterable[str],
    folder: str,
    options: TaskOptions,
    engine: Engine,
    *,
    progress: Progress | None = None,
    part_files: int = PART_FILES,
    exclude: Sequence[str] = (),
) -> SurveySummary:
    """Write the rows of all files that some names mean into a folder, and return what it came to.

    Finished files of the folder are not read again; new rows replace the rows of a file that changed since.
    Files in folders whose names say that no device code is in them are passed over, unless everything is searched.
    ``exclude`` are patterns of files and folders that are left out.
    Raises UsageError, FormatError and ``OSError`` for the folder, never for a file in the survey.
    """
    with SurveyManifest(folder, _words(options)) as manifest:
        passes = not (options.rows.deep or options.rows.thorough)
        walk = TreeWalk(names, folder, passes=passes, exclude=exclude)
        totals = manifest.plan(walk)
        writer = _Writer(manifest, folder, options, part_files)
        done = unchanged = 0

        def tasks() -> Iterator[SurveyTask]:
            nonlocal done
            for task, problem in manifest.tasks():
                if problem:
                    writer.add(failed_task_row(task, options, problem))
                    done += 1
                else:
                    yield task

        try:
            for result in engine.results(tasks()) if totals.waiting else ():
                writer.add(result)
                done += 1
                unchanged += not result.payload
                if progress:
                    progress(done, totals)
        finally:
            # Also if the user stops it, or the engine fails: the next run does not read these files again.
            with DeferSignals():
                writer.flush()
        files, rows, errors = manifest.sums()
        codes, failed = manifest.codes(), manifest.codes(has_error=True)
    before = files - totals.waiting + unchanged
    exit_code = worst_exit_code((0, *codes, *failed, *((1,) if walk.unmatched or totals.same else ())))
    unmatched = tuple(walk.unmatched)
    left_out = (walk.links, walk.special, unmatched, totals.same, walk.passed, walk.excluded)
    return SurveySummary(files, before, rows, errors, codes, exit_code, *left_out)


def _words(options: TaskOptions) -> str:
    """Return the options that decide what the rows are, as words for the user."""
    rows = options.rows
    names = ("digests", "kernels", "inflate", "deep", "thorough")
    switches = [f"--{name}" for name in names if getattr(rows, name)]
    return " ".join((f"{SCHEMA} --rows-of {rows.of} --format {options.format}", *switches))


class _Writer:
    """Results on their way into parts."""

    def __init__(self, manifest: SurveyManifest, folder: str, options: TaskOptions, most: int) -> None:
        self._manifest = manifest
        self._folder = folder
        self._format = options.format
        self._kind = TABLES[options.rows.of][0]
        self._most = most
        self._results: list[TaskResult] = []
        #: paths as rows have them: of two that are one there, each has a part of its own, from which it can be taken
        self._names: set[str] = set()
        self._size = 0
        self._since = time.monotonic()

    def add(self, result: TaskResult) -> None:
        """Take a result; write a part if there are enough."""
        name = to_utf8(result.path)
        if name in self._names:
            self.flush()
        self._names.add(name)
        self._results.append(result)
        self._size += len(result.payload)
        is_late = time.monotonic() - self._since >= PART_SECONDS
        if len(self._results) >= self._most or self._size >= PART_BYTES or is_late:
            self.flush()

    def flush(self) -> None:
        """Write what is there, and take the old rows of files that changed out of their parts."""
        results, self._results, self._size, self._since = self._results, [], 0, time.monotonic()
        self._names.clear()
        # A worker that only looked finds that nothing changed: the rows that are there stay.
        results = [item for item in results if item.payload]
        if not results:
            return
        name = part_name((f"{item.path}\0{item.identity}" for item in results), self._format)
        write_part(self._folder, name, [item.payload for item in results], self._kind, self._format)
        renamed = {}
        for old, paths in self._manifest.stale(item.path for item in results).items():
            if old != name:
                renamed[old] = part_name((old, *paths), self._format)
                rewrite_part(self._folder, old, renamed[old], paths, self._kind, self._format)
        self._manifest.commit(name, results, renamed)
        for old in renamed:
            os.unlink(os.path.join(self._folder, old))
