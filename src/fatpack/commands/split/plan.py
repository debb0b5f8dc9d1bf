"""Libraries planned for all labels at once: slimmed, verified, packed, and what devices get of the result.

A library is one piece of work for one process: it is read once, and its new contents go to one temporary file that all
processes share, each to a place of its own.
"""

from __future__ import annotations

import gc
import hashlib
import os
import tempfile
from contextlib import closing

from fatpack.commands.slim.keep_for_device import is_host
from fatpack.commands.slim.outcome import count_by_arch, try_to_slim
from fatpack.commands.slim.result import SlimmedFile, plan_with_digests
from fatpack.commands.split.serving import LibraryCode, read_library
from fatpack.concurrency import system
from fatpack.concurrency.processes import is_worker, map_in_processes
from fatpack.errors import FatpackError
from fatpack.io.open import open_source
from fatpack.io.source import PiecesSource, View
from fatpack.packages.zip.packing import StoredBlocks
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import ExitStack
    from typing import Protocol

    from fatpack.commands.slim.options import SlimOptions
    from fatpack.commands.split.labels import LabelMap
    from fatpack.commands.split.request import SplitRequest
    from fatpack.commands.split.serving import ServingJudge
    from fatpack.io.source import Piece
    from fatpack.packages.zip.packing import PackedFile, Packing, StoredContent

    class Verify(Protocol):
        """Raises HostError unless a file is the package."""

        def __call__(self, after: View) -> None: ...  # noqa: D102

    class SplitPackage(Protocol):
        """A fat package. ``release`` is what packages with the same labels share, ``libraries`` have device code.

        ``name`` is its file name, ``index`` the name of the file with the labels of the release, "" for none.
        """

        kind: str
        path: str
        name: str
        release: str
        index: str
        view: View

        @property
        def libraries(self) -> Sequence[PackageFile]:
            """The files with device code, open as long as the package is."""
            ...

        def pack(self, library: PackageFile, pieces: Sequence[Piece], known: StoredBlocks) -> Packing:
            """Return the new content of a library as it is to be stored; ``known`` are blocks of other contents."""
            ...

        def variants(
            self, labels: LabelMap, contents: Mapping[str, Mapping[int, PackedFile]], schema: str, stack: ExitStack
        ) -> dict[str, PackageVariant]:
            """Return the packages of labels, with new contents of libraries by their numbers; the others stay.

            What they are made of is open until ``stack`` closes it.
            """
            ...

        def map_labels(
            self, packages: Sequence[Sequence[LibraryCode]], request: SplitRequest, judge: ServingJudge
        ) -> LabelMap:
            """Return the labels of a release with this package; ``packages`` are the libraries of each of it."""
            ...

        def shares_release(self, name: str) -> bool:
            """Return whether installers take a file of this name for a package of the same project and version."""
            ...

        def find_written(self, folder: str) -> WrittenPackages:
            """Return the packages of labels of this one in a folder."""
            ...

    class WrittenPackages(Protocol):
        """The packages of labels of a fat one in a folder."""

        @property
        def files(self) -> Sequence[tuple[str, str]]:
            """The labels and paths."""
            ...

        @property
        def problems(self) -> Sequence[str]:
            """The problems of all packages together, in words."""
            ...

        def read(
            self, view: View, label: str, names: Sequence[str], problems: list[str]
        ) -> tuple[list[LibraryCode], bytes]:
            """Return the libraries of a package by their names, and how it describes itself; note what is wrong."""
            ...

        def labels(self, codes: Sequence[LibraryCode], described: Mapping[str, bytes]) -> LabelMap:
            """Return the labels by which installers choose among the packages, which ``described`` has by label."""
            ...


class PackageFile(Record):
    """A library of a package: its number and path in it, the open file, and the bytes that it takes in the package.

    ``code`` is what devices get of it.
    """

    number: int
    name: str
    view: View
    stored_size: int
    code: LibraryCode


class PackageVariant(Record):
    """A package that can be written: its file name and bytes; ``verify`` raises HostError for another file."""

    name: str
    pieces: Sequence[Piece]
    verify: Verify

    @property
    def size(self) -> int:
        """The bytes of the package."""
        return sum(map(len, self.pieces))


#: Freed blocks of this size go back to the system: the 31 labels of bitsandbytes 0.50.2 take 104 MiB instead of 175, in
#: 30 s of processor time instead of 25.
_RETURNED = 1 << 20

#: LIMIT: what deflating may add to a library at most, beside a thousandth of it
_SLACK = 1 << 16


class PlannedLibrary(Record):
    """A library in the package of one label.

    ``before`` and ``after`` are its sizes in bytes, ``kept`` and ``dropped`` the images by architecture. ``code`` is
    what devices get of it, ``notes`` why it stays, or what to know. ``stored`` is its new content in the temporary
    file; None for a library that stays as it is.
    """

    name: str
    before: int
    after: int
    kept: Mapping[str, int]
    dropped: Mapping[str, int]
    code: LibraryCode
    notes: tuple[str, ...] = ()
    stored: StoredContent | None = None

    @property
    def is_empty(self) -> bool:
        """True if nothing is left of its device code."""
        return bool(self.dropped) and not self.kept


class _Work(Record):
    """A library, what stays of it for each label, and where its new contents go."""

    library: PackageFile
    options: Mapping[str, SlimOptions]
    start: int

    @property
    def room(self) -> int:
        """Bytes that the content for one label takes at most."""
        size = len(self.library.view)
        return size + (size >> 9) + _SLACK


class PlannedPackage:
    """The libraries of a package for all labels: ``libraries[label]`` are in the order of the package."""

    def __init__(
        self,
        package: SplitPackage,
        options: Mapping[str, SlimOptions],
        stack: ExitStack,
        planned_so_far: Callable[[int, int], None] | None = None,
    ) -> None:
        """Plan them, and say how many are planned; the temporary file is open until ``stack`` closes it."""
        scratch = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        works, start = [], 0
        for library in package.libraries:
            works.append(_Work(library, options, start))
            start += len(options) * works[-1].room
        os.ftruncate(scratch.fileno(), start)
        self.libraries: dict[str, list[PlannedLibrary]] = {label: [] for label in options}
        self._numbers = [work.library.number for work in works]

        def planned(work: _Work) -> dict[str, PlannedLibrary]:
            return _plan(package, work, scratch.fileno())

        tell = planned_so_far or (lambda _done, _total: None)
        tell(0, len(works))
        with closing(map_in_processes(works, planned, lambda work: len(work.library.view))) as shared:
            for number, (work, made) in enumerate(shared, 1):
                for label, one in (planned(work) if made is None else made.value).items():
                    self.libraries[label].append(one)
                tell(number, len(works))
        source = stack.enter_context(open_source(scratch, name="contents")) if start else None
        self._scratch = None if source is None else source.view()

    def contents(self, label: str) -> dict[int, PackedFile]:
        """Return the new contents of the libraries that change, by their numbers in the package."""
        found = {}
        for number, one in zip(self._numbers, self.libraries[label], strict=True):
            if one.stored is not None:
                assert self._scratch is not None
                found[number] = one.stored.packed(self._scratch)
        return found


def _plan(package: SplitPackage, work: _Work, fd: int) -> dict[str, PlannedLibrary]:
    """Return a library for each label; its new contents are written to a file, those of equal ones once."""
    found: dict[str, PlannedLibrary] = {}
    made = _Made({}, StoredBlocks(work.library.view.source, fd, {}, work.start))
    if is_worker():
        system.return_freed_memory(_RETURNED)
    # Inflated bundles are in circles of references, which Python looks for rarely: of thirty labels they would take a
    # gigabyte. What was there before is left out of the search, which is quick then.
    gc.collect()
    gc.freeze()
    try:
        for label, options in work.options.items():
            found[label] = _planned(package, work, options, made)
            made = made.replace(blocks=made.blocks.replace(at=made.blocks.at + work.room))
            work.library.view.source.drop_cache()
            gc.collect()
    finally:
        gc.unfreeze()
    return found


class _Made(Record):
    """The contents of a library that are stored: the planned libraries by their pieces, and deflated ``blocks``."""

    libraries: dict[bytes, PlannedLibrary]
    blocks: StoredBlocks


def _planned(package: SplitPackage, work: _Work, options: SlimOptions, made: _Made) -> PlannedLibrary:
    """Return a library for a label; ``made`` are those of other labels, and where its own new content goes."""
    library = work.library
    view, name = library.view, library.name
    same = PlannedLibrary(name, len(view), len(view), {}, {}, library.code)
    slimmed = try_to_slim(lambda part: plan_with_digests(part, options), view)
    if isinstance(slimmed, FatpackError) or not isinstance(slimmed, SlimmedFile):
        return same.replace(notes=(f"stays as it is: {getattr(slimmed, 'problem', slimmed)}",))
    plan = slimmed.plan
    kept = count_by_arch(row for row in plan.kept if not is_host(row.image))
    same = same.replace(kept=kept, notes=plan.notes)
    if not slimmed.is_changed:
        return same
    dropped = count_by_arch(plan.dropped)
    twin = made.libraries.get(digest := _digest_of_places(slimmed.pieces, view))
    if twin is not None:
        return twin.replace(kept=kept, dropped=dropped, notes=plan.notes)
    after = PiecesSource(slimmed.pieces, name).view()
    slimmed.verify(view, after)
    packing = package.pack(library, slimmed.pieces, made.blocks)
    stored = packing.store(made.blocks.fd, made.blocks.at, made.blocks.at + work.room)
    made.libraries[digest] = new = same.replace(
        after=stored.size, dropped=dropped, code=read_library(after, name), stored=stored
    )
    return new


def _digest_of_places(pieces: Sequence[Piece], view: View) -> bytes:
    """Return a digest of pieces of a file, the same for the same pieces; what they take from the file is not read."""
    digest = hashlib.sha256(usedforsecurity=False)
    for piece in pieces:
        if isinstance(piece, View) and piece.source is view.source:
            digest.update(f"{piece.start}-{piece.end};".encode())
            continue
        digest.update(f"{len(piece)}:".encode())
        for part in piece.read_once() if isinstance(piece, View) else (piece,):
            digest.update(part)
    return digest.digest()
