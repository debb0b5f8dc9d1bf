"""Input files that may have device code, in folders and in packages.

A file in a package is scanned as if it were unpacked: offsets count from its first byte, and its path has the package::

    site-packages/torch/lib/libx.so
    x.whl!torch/lib/libx.so
    x.deb!data.tar.xz!usr/lib/libx.so

The unit of parallel work is a node (:class:`PendingFile`): a file in a folder, or a member of a package. Each worker
walks its node leaf by leaf (:class:`InputFile`) and keeps one file open at a time; files in a compressed stream are
read forwards only.
"""

from __future__ import annotations

import os

from fatpack import limits
from fatpack.errors import FatpackError, UsageError
from fatpack.findings import FindingTally, finding
from fatpack.inputs.walk import ExcludePatterns, TreeWalk, is_skipped
from fatpack.io.open import is_pattern, open_source
from fatpack.limits import UNCOUNTED
from fatpack.model import Finding
from fatpack.record import Record
from fatpack.scanner.context import detect_package

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Self

    from fatpack.inputs.walk import TreeFile
    from fatpack.io.source import Source, View
    from fatpack.limits import Budget
    from fatpack.packages import PackageMember

    FailureCallback = FatpackError | OSError


# Metadata files that a compiler writes into the folder of an image. A file in a compressed stream has none: it is read
# forwards only.

#: the suffix of metadata files; other files of a package are not recorded
_SUFFIX = ".json"


class PackageSidecars:
    """The metadata files of a package by folder, listed when the first is requested."""

    __slots__ = ("_folders", "_kind", "_view")

    def __init__(self, view: View, kind: str) -> None:
        self._view = view
        self._kind = kind
        self._folders: dict[str, dict[str, PackageMember]] | None = None

    def of(self, folder: str) -> dict[str, PackageMember]:
        """Return the metadata files of a folder by name; of several with one name, the first.

        Raises FormatError, Unsupported and OSError at each call for a package that cannot be read.
        """
        if self._folders is None:
            from fatpack.packages import PackageMember, get_package

            folders: dict[str, dict[str, PackageMember]] = {}
            for item in get_package(self._kind).members(self._view):
                if isinstance(item, PackageMember) and item.is_lasting and item.name.endswith(_SUFFIX):
                    place, _, name = item.name.rpartition("/")
                    folders.setdefault(place, {}).setdefault(name, item)
            self._folders = folders  # assigned at the end, so that an error leaves no partial list
        return self._folders.get(folder, {})


class SidecarFolder:
    """The metadata files in the folder of one file: the value of ``Source.siblings``."""

    __slots__ = ("_folder", "_package_sidecars")

    def __init__(self, package_sidecars: PackageSidecars, folder: str) -> None:
        self._package_sidecars = package_sidecars
        self._folder = folder

    def read(self, name: str, most: int) -> bytes | None:
        """Return the first bytes of a file by name, None if there is none. Raises FormatError, Unsupported."""
        member = self._package_sidecars.of(self._folder).get(name)
        if member is None:
            return None
        with member.open() as source:
            return source.beginning(most)

    def names(self, suffix: str) -> list[str]:
        """Return the names with a suffix, in order."""
        return sorted(name for name in self._package_sidecars.of(self._folder) if name.endswith(suffix))


#: Separator in a path between a package and a file in it.
SEPARATOR = "!"

#: LIMIT: files in one batch for the processes, because their paths are kept in memory
TOGETHER = 1000


class MemberPath(str):
    """The path of a file in a package; ``names`` are its parts: the path of the package, and a name for each level."""

    __slots__ = ("names",)
    names: tuple[str, ...]

    def __new__(cls, *names: str) -> Self:
        """Return the path made of some names: the path of the outermost package first."""
        path = super().__new__(cls, SEPARATOR.join(names))
        path.names = names
        return path

    def __reduce__(self) -> tuple[object, ...]:
        return MemberPath, self.names


class Filter(Record):
    """Selects the files that are read.

    A file that matches ``exclude`` is left out. Unless ``deep``, a file whose name shows that it has no device code is
    left out too (:func:`fatpack.inputs.walk.is_skipped`).
    """

    exclude: tuple[str, ...] = ()
    deep: bool = False


class SkipCounts:
    """Counts of skipped inputs; the counts of several walks are added.

    ``passed``: files skipped by name. ``excluded``: excluded files and folders. ``links``, ``special``: links, pipes,
    sockets and devices in folders. ``denied``: files without read permission. ``vanished``: files deleted during the
    walk. These two are input files with an error. ``packages``: packages that were read. ``used``: the patterns of
    ``exclude`` that matched. ``not_read``: files of kinds that are not read, and their bytes, by the name of the kind
    (:mod:`fatpack.scanner.unread_kinds`).
    """

    __slots__ = ("denied", "excluded", "links", "not_read", "packages", "passed", "special", "used", "vanished")

    def __init__(self) -> None:
        self.passed = self.excluded = self.links = self.special = self.packages = self.denied = self.vanished = 0
        self.used: set[str] = set()
        self.not_read: dict[str, tuple[int, int]] = {}

    def see(self, view: View, *, is_deep: bool) -> None:
        """Count a file if it is of a kind that is not read. What cannot be read is an error of who reads it next."""
        from fatpack.scanner.unread_kinds import unread_kind

        try:
            kind = unread_kind(view, is_deep=is_deep)
        except (FatpackError, OSError):
            return
        if kind is not None:
            self._count(kind.name, 1, len(view))

    def _count(self, kind: str, files: int, size: int) -> None:
        before = self.not_read.get(kind, (0, 0))
        self.not_read[kind] = before[0] + files, before[1] + size

    def fail(self, error: FailureCallback | None) -> None:
        """Count a file that cannot be opened if the reason is a missing permission, or that it was deleted."""
        self.denied += isinstance(error, PermissionError)
        self.vanished += isinstance(error, FileNotFoundError)

    def add(self, other: SkipCounts) -> None:
        """Add the counts of another walk."""
        self.used |= other.used
        for name in ("denied", "excluded", "links", "packages", "passed", "special", "vanished"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for kind, (files, size) in other.not_read.items():
            self._count(kind, files, size)


class PackageFindings:
    """Findings about the storage of files in a package. LIMIT: ``limits.FINDINGS`` of each code, others are counted."""

    __slots__ = ("_kept", "_tally")

    def __init__(self) -> None:
        self._kept: list[Finding] = []
        self._tally = FindingTally(limits.FINDINGS)

    def take(self, items: Iterable[Finding]) -> None:
        """Add findings, or only their number after the limit of their code."""
        self._kept += filter(self._tally.keeps, items)

    def findings(self) -> list[Finding]:
        """Return the findings, then one for each code with more of them, with their number."""
        return [*self._kept, *self._tally.rest()]


class InputFile(Record):
    """A file that may have device code, open until the next is taken; or the error for a file that cannot be read.

    ``parts`` are the parts of its path below the name that the user typed. If ``package`` is set, it is the last item
    of a package of that kind, after the files in it: without a view, and with ``findings`` about the package itself.
    """

    path: str
    parts: tuple[str, ...]
    view: View | None = None
    error: FailureCallback | None = None
    package: str = ""
    size: int | None = None
    findings: tuple[Finding, ...] = ()


class PendingFile(Record):
    """A file in a folder or a package, which may be a package itself; :meth:`leaves` opens it.

    ``size`` is the approximate cost of reading it, in bytes. If it is not lasting, it is read before the next is taken.
    ``package_findings`` collects what is wrong with how it is stored in the package around it; they are reported after
    the last file of the package.
    """

    path: str
    parts: tuple[str, ...]
    open: Callable[[], Source] | None
    size: int = 0
    is_lasting: bool = True
    depth: int = 0
    leaf: InputFile | None = None
    package_findings: PackageFindings | None = None

    def leaves(self, rules: Filter, counts: SkipCounts) -> Iterator[InputFile]:
        """Yield the file, or the files in it. A file that cannot be read has an error; nothing is raised for it."""
        if self.open is None:
            if self.leaf is not None:
                counts.fail(self.leaf.error)
                yield (
                    self.leaf
                    if self.package_findings is None
                    else self.leaf.replace(findings=tuple(self.package_findings.findings()))
                )
            return
        try:
            source = self.open()
        except (FatpackError, OSError) as error:
            counts.fail(error)
            yield InputFile(self.path, self.parts, error=error)
            return
        with source:
            try:
                view = source.view()
            except (FatpackError, OSError) as error:  # the size of a compressed file is known after decompressing it
                yield InputFile(self.path, self.parts, error=error)
                return
            yield from _of(view, self, rules, counts)
            # Findings about its storage in the package are complete after it was read.
            if self.package_findings is not None:
                self.package_findings.take(getattr(source, "findings", ()))


def _of(view: View, node: PendingFile, rules: Filter, counts: SkipCounts) -> Iterator[InputFile]:
    try:
        kind = detect_package(view)
    except (FatpackError, OSError) as error:
        yield InputFile(node.path, node.parts, error=error)
        return
    if not kind:
        counts.see(view, is_deep=rules.deep)
        yield InputFile(node.path, node.parts, view, size=len(view))
        return
    for member in walk_package(view, kind, node, rules, counts):
        yield from member.leaves(rules, counts)


def walk_package(
    view: View, kind: str, package: PendingFile, rules: Filter, counts: SkipCounts
) -> Iterator[PendingFile]:
    """Yield a node for each selected file in a package, then one for the package itself."""
    from fatpack.packages import get_package

    counts.packages += 1
    said = PackageFindings()
    error: FailureCallback | None = None
    if package.depth >= limits.NESTING:
        text = "packages nested deeper than the limit"
        said.take([finding("FP1004", view.span(), text, limits.advice("NESTING"))])
    else:
        excluded, package_sidecars = ExcludePatterns(rules.exclude, counts.used), PackageSidecars(view, kind)
        try:
            for item in get_package(kind).members(view):
                if isinstance(item, Finding):
                    said.take([item])
                    continue
                said.take(item.findings)
                parts = (*package.parts, *split_name(item.name))
                if excluded.has_any(parts[len(package.parts) :]):
                    counts.excluded += 1
                elif not rules.deep and is_skipped(item.name):
                    counts.passed += 1
                else:
                    yield _node(item, view, package, parts, package_sidecars).replace(package_findings=said)
        except (FatpackError, OSError) as problem:
            error = problem
    end = InputFile(package.path, package.parts, package=kind, size=len(view), error=error)
    yield PendingFile(package.path, package.parts, None, leaf=end, package_findings=said)


def _node(
    member: PackageMember, view: View, package: PendingFile, parts: tuple[str, ...], package_sidecars: PackageSidecars
) -> PendingFile:
    names = package.path.names if isinstance(package.path, MemberPath) else (package.path,)
    path = MemberPath(*names, member.name)

    def opened() -> Source:
        source = member.open()
        source.name = path
        if source.budget is UNCOUNTED:
            source.budget = view.source.budget
        if member.is_lasting:
            source.siblings = SidecarFolder(package_sidecars, member.name.rpartition("/")[0])
        return source

    size = len(view) if member.size is None else member.size
    return PendingFile(path, parts, opened, size, member.is_lasting, package.depth + 1)


def split_name(name: str) -> tuple[str, ...]:
    """Return the folders of a stored name and its last part, without empty parts and ``.``."""
    return tuple(part for part in name.split("/") if part not in ("", "."))


def walk_tree(
    name: str, rules: Filter, counts: SkipCounts, unmatched: list[str], *, budget: Budget | None = None
) -> Iterator[list[PendingFile]]:
    """Yield the files of a folder, or the matches of a pattern, as nodes that may be read in any order.

    ``unmatched`` receives a pattern that matches no file.
    """
    walk = TreeWalk([name], as_named=True, passes=not rules.deep, exclude=rules.exclude)
    yield from group_batches(_of_place(place, budget) for place in walk)
    counts.passed += walk.passed
    counts.excluded += walk.excluded
    counts.used |= walk.used
    counts.links += walk.links
    counts.special += walk.special
    unmatched += walk.unmatched


def _of_place(place: TreeFile, budget: Budget | None) -> PendingFile:
    if place.problem:
        error: FailureCallback = place.error or OSError(0, place.problem, place.path)
        return PendingFile(place.path, place.parts, None, leaf=InputFile(place.path, place.parts, error=error))
    return PendingFile(place.path, place.parts, lambda: open_source(place.path, budget=budget), place.size)


def walk_open_file(view: View, path: str, rules: Filter, counts: SkipCounts) -> Iterator[list[PendingFile]]:
    """Yield the nodes of an open file: the files in a package, or the file itself."""
    try:
        kind = detect_package(view)
    except (FatpackError, OSError) as error:
        yield [PendingFile(path, (), None, leaf=InputFile(path, (), error=error))]
        return
    if not kind:
        counts.see(view, is_deep=rules.deep)
        yield [PendingFile(path, (), None, leaf=InputFile(path, split_name(path)[-1:], view, size=len(view)))]
        return
    package = PendingFile(path, (), None)
    yield from group_batches(walk_package(view, kind, package, rules, counts))


def group_batches(nodes: Iterable[PendingFile]) -> Iterator[list[PendingFile]]:
    """Yield nodes in lists: lasting ones together, any other one alone, before the next is taken."""
    waiting: list[PendingFile] = []
    for node in nodes:
        if not node.is_lasting:
            if waiting:
                yield waiting
                waiting = []
            yield [node]
            continue
        waiting.append(node)
        if len(waiting) >= TOGETHER:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def input_kind(name: str, view: View | None) -> str:
    """Return the kind of an input: ``folder``, ``pattern``, or the JSON name of the open package."""
    return detect_package(view) if view is not None else "pattern" if is_pattern(name) else "folder"


def walk_input(
    name: str,
    view: View | None,
    rules: Filter,
    counts: SkipCounts,
    unmatched: list[str],
    *,
    budget: Budget | None = None,
) -> Iterator[list[PendingFile]]:
    """Yield the nodes of an input: of an open file, or without a view, of a folder or a pattern."""
    if view is None:
        return walk_tree(name, rules, counts, unmatched, budget=budget)
    return walk_open_file(view, name, rules, counts)


def find_indexed_wheels(path: str) -> list[str] | None:
    """Return the wheels beside an index file of variants, of its release; None for a path that has another name.

    Raises UsageError if there is none, ``OSError`` for a folder that cannot be listed.
    """
    from fatpack.packages.wheel_names import indexed_release, split_wheel_name

    release, folder = indexed_release(path), os.path.dirname(path)
    if release is None or not os.path.isfile(path):
        return None
    found = []
    for name in sorted(os.listdir(folder or ".")):
        wheel, full = split_wheel_name(name), os.path.join(folder, name)
        if wheel is not None and wheel.release == release and os.path.isfile(full):
            found.append(full)
    if not found:
        text = f"{path} is the index file of {' '.join(release)}, and no wheel of that release is beside it"
        raise UsageError(text, hint="put its wheels beside it, or give the folder that has them")
    return found


def with_indexed_wheels(paths: Sequence[str]) -> list[str]:
    """Return paths with the wheels of a release in the place of its index file: their descriptions are in both."""
    found: dict[str, None] = {}
    for path in paths:
        wheels = find_indexed_wheels(path)
        found |= dict.fromkeys([path] if wheels is None else wheels)
    return list(found)
