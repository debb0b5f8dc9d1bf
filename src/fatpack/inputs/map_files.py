"""Map a function over all input files, in parallel processes, with the results in the order of the files.

::

    files, folders, patterns, packages, URLs, addresses ──► input files ──► processes ──► results, in their order
"""

from __future__ import annotations

import os
from contextlib import closing

from fatpack.concurrency.processes import MIN_BYTES_FOR_WORKERS, map_in_processes
from fatpack.concurrency.progress import ReadProgress
from fatpack.concurrency.threads import core_count
from fatpack.errors import FatpackError
from fatpack.inputs.files import (
    TOGETHER,
    InputFile,
    PackageFindings,
    PendingFile,
    SkipCounts,
    split_name,
    walk_open_file,
    walk_tree,
)
from fatpack.io.open import is_tree, open_source, resolve_url
from fatpack.limits import current_budget
from fatpack.record import Record
from fatpack.scanner.context import detect_package

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
    from typing import Any, TypeVar

    from fatpack.inputs.files import Filter
    from fatpack.inputs.nested import NestedFile
    from fatpack.io.source import Source, View
    from fatpack.limits import Budget
    from fatpack.model import Finding

    T = TypeVar("T")

    Mapped = TypeVar("Mapped")

    #: opens an address, such as ``x.whl!lib/libx.so``; without one it is the name of a file
    Opener = Callable[[str], tuple[Source | NestedFile, View]]

    #: batches of files, and whether other processes can read them; or one file that only this process can read
    Group = tuple[Iterable[list[PendingFile]], bool] | InputFile


class _MappedBatch(Record):
    """The results for the files of a node from another process, with its counts and the decompressed bytes (``drawn``).

    ``package_findings`` are findings about the storage of the node in its package.
    """

    made: list[Any]
    counts: SkipCounts
    drawn: int
    package_findings: list[Finding]


def map_files(
    batches: Iterable[list[PendingFile]],
    make: Callable[[InputFile], T],
    rules: Filter,
    counts: SkipCounts,
    *,
    is_local: bool = True,
    budget: Budget | None = None,
    shares_inside: bool = False,
    reads_later: bool = False,
) -> Iterator[T]:
    """Yield the results of ``make`` for all files, in order; most are computed in forks of this process.

    Results must be picklable, and ``make`` must not keep state. Files that are not local are read in this process,
    because it has the connections to servers. If ``make`` ``shares_inside``, that is, distributes the containers of a
    file to processes, this process reads a file with more bytes than the share of one core: all would wait for it.
    What ``make`` returns in this process may be an iterator: with ``reads_later`` the file is read while its items are
    taken. ``budget`` is that of the nodes' sources, by default the command's.
    """
    budget = current_budget() if budget is None else budget

    def work(node: PendingFile) -> _MappedBatch | None:
        own, before, said = SkipCounts(), budget.drawn, PackageFindings()
        # The node of the package itself carries all findings so far; any other node returns its new findings.
        asked = node if node.open is None else node.replace(package_findings=said)
        made = [make(leaf) for leaf in asked.leaves(rules, own)]
        if budget.has_refused:  # what is left out depends on the files before, which other processes read
            return None
        return _MappedBatch(made, own, budget.drawn - before, said.findings())

    def cost(node: PendingFile) -> int:
        return node.size if is_local and node.is_lasting else 0

    for batch in batches:
        own = _more_than_a_share(batch, cost) if shares_inside else None
        # Of files that are read forwards nobody knows what follows, and more of the others may follow many.
        is_all = len(batch) < TOGETHER and all(node.is_lasting for node in batch)
        sizes = [node.size for node in batch]
        count = 0
        with ReadProgress(sum(sizes) if is_all else None, sizes) as progress:
            for part in _parted(batch, own):
                with closing(map_in_processes(part, work, cost)) as shared:
                    for node, there in shared:
                        count += 1
                        done: _MappedBatch | None = None if there is None else there.value
                        if done is not None and budget.inflate(done.drawn):
                            counts.add(done.counts)
                            if node.package_findings is not None:
                                node.package_findings.take(done.package_findings)
                            progress.reach(count)
                            yield from done.made
                        else:
                            for leaf in node.leaves(rules, counts):
                                one = make(leaf)
                                if not reads_later and leaf.path == node.path and not leaf.package:
                                    progress.reach(count)  # before the caller counts it: nothing of the node follows
                                yield one
                        progress.reach(count)


def _parted(batch: list[PendingFile], own: PendingFile | None) -> list[list[PendingFile]]:
    """Return the nodes before the one that this process reads, that one, and those after it; all, if there is none.

    So there are never more processes than cores: those of the other files have ended when its containers are shared.
    """
    if own is None:
        return [batch]
    at = next(number for number, node in enumerate(batch) if node is own)
    return [batch[:at], [own], batch[at + 1 :]]


def _more_than_a_share(batch: Sequence[PendingFile], cost: Callable[[PendingFile], int]) -> PendingFile | None:
    """Return the node with more bytes than one core would read if all had the same number, None if there is none."""
    total = sum(map(cost, batch))
    largest = max(batch, key=cost, default=None)
    is_more = largest is not None and cost(largest) * core_count() > total > MIN_BYTES_FOR_WORKERS
    return largest if is_more else None


def map_paths(
    paths: Iterable[str | os.PathLike[str]],
    make: Callable[[InputFile], Mapped],
    rules: Filter,
    counts: SkipCounts,
    unmatched: list[str],
    *,
    budget: Budget | None = None,
    opener: Opener | None = None,
    chosen: Callable[[str], bool] | None = None,
    raises: bool = False,
    shares_inside: bool = False,
    reads_later: bool = False,
) -> Iterator[Mapped]:
    """Yield the results of ``make`` for all files of some paths, in their order; plain files are shared out together.

    A path that cannot be opened is an input file with an error; with ``raises`` the error is raised. ``counts`` adds up
    what was skipped, ``unmatched`` receives the patterns that match no file. ``chosen`` decides by its path whether a
    file or package is read at all. ``make``, ``shares_inside`` and ``reads_later`` are as for :func:`map_files`.
    """
    budget = current_budget() if budget is None else budget
    inputs = _Inputs(rules, counts, unmatched, budget, opener, raises)
    groups = inputs.groups(paths)
    try:
        for group in groups:
            if isinstance(group, InputFile):
                if chosen is None or chosen(group.path):
                    yield make(group)
                continue
            batches, is_local = group
            if chosen is not None:
                batches = ([node for node in batch if chosen(node.path)] for batch in batches)
            yield from map_files(
                batches,
                make,
                rules,
                counts,
                is_local=is_local,
                budget=budget,
                shares_inside=shares_inside,
                reads_later=reads_later,
            )
    finally:
        groups.close()


class _Inputs:
    """The paths that users name, as groups of files for :func:`map_files`, and files that only this process can read.

    Plain files wait for others that follow them, so that processes share them.
    """

    def __init__(
        self,
        rules: Filter,
        counts: SkipCounts,
        unmatched: list[str],
        budget: Budget,
        opener: Opener | None,
        raises: bool,
    ) -> None:
        self._rules, self._counts, self._unmatched, self._budget = rules, counts, unmatched, budget
        self._opener, self._raises = opener, raises
        self._waiting: list[PendingFile] = []

    def groups(self, paths: Iterable[str | os.PathLike[str]]) -> Generator[Group, None, None]:
        """Yield the groups; a source that is open for one group is closed when the next is taken."""
        for given in paths:
            path = os.fspath(given)
            if is_tree(path):
                yield from self._plain_files()
                yield walk_tree(path, self._rules, self._counts, self._unmatched, budget=self._budget), True
                continue
            is_file = os.path.isfile(path)
            try:
                source, view = _opened(path, None if is_file else self._opener, self._budget)
            except (FatpackError, OSError) as error:
                if self._raises:
                    raise
                if is_file:
                    self._counts.fail(error)
                yield from self._plain_files()
                yield InputFile(_shown(path), split_name(path)[-1:], error=error)
                continue
            with source:
                yield from self._opened_file(path, view, is_file=is_file)
        yield from self._plain_files()

    def _opened_file(self, path: str, view: View, *, is_file: bool) -> Iterator[Group]:
        """Yield the group of a file that is open; a plain file waits for others."""
        title, name = view.chain[0] if view.chain else path, split_name(path)[-1:]
        try:
            kind = detect_package(view)
        except (FatpackError, OSError) as error:
            if self._raises:
                raise
            yield from self._plain_files()
            yield InputFile(str(title), name, error=error)
            return
        if is_file and not kind:
            again = lambda: open_source(path, budget=self._budget)  # noqa: E731  # closed by the caller, opened when read
            self._waiting.append(PendingFile(path, name, again, len(view)))
            return
        yield from self._plain_files()
        if kind:
            yield walk_open_file(view, title, self._rules, self._counts), view.source.fileno() is not None
        else:
            self._counts.see(view, is_deep=self._rules.deep)
            yield InputFile(str(title), name, view, size=len(view))

    def _plain_files(self) -> Iterator[Group]:
        """Yield the files that waited."""
        nodes, self._waiting = self._waiting, []
        if nodes:
            yield [nodes], True


def _opened(path: str, opener: Opener | None, budget: Budget) -> tuple[Source | NestedFile, View]:
    """Open a path, by ``opener`` if there is one. Raises ``OSError`` and FatpackError."""
    if opener is not None:
        return opener(path)
    source = open_source(resolve_url(path), budget=budget)
    return source, source.view()


def _shown(path: str) -> str:
    """Return a path as reports show it: a URL without its secrets."""
    from fatpack.io.url import redact_url

    return redact_url(path) if "://" in path else path
