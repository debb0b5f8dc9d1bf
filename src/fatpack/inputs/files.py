"""From what was named down to leaves: the files in which device code may be, in folders and in packages.

A leaf is scanned as if it was unpacked: offsets in it count from its first byte, and its path says where it lies::

    site-packages/torch/lib/libx.so
    x.whl!torch/lib/libx.so
    x.deb!data.tar.xz!usr/lib/libx.so

Work is shared out by nodes: files of a folder, or the members of a package that was named. What is in a node is walked
by whoever takes it, leaf by leaf: one is open at a time, and those that come out of a stream are read forwards only.
"""

from __future__ import annotations

from fatpack import limits
from fatpack.errors import FatpackError
from fatpack.findings import FindingTally, finding
from fatpack.inputs.walk import ExcludePatterns, TreeWalk, is_skipped
from fatpack.io.open import is_pattern, open_source
from fatpack.limits import UNCOUNTED
from fatpack.model import Finding
from fatpack.record import Record
from fatpack.scanner.context import detect_package

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Self

    from fatpack.inputs.walk import TreeFile
    from fatpack.io.source import Source, View
    from fatpack.limits import Budget
    from fatpack.packages import PackageMember

    FailureCallback = FatpackError | OSError


# What lies beside a file of a package: the metadata that a compiler writes into the folder of an image.
#
# Files that are read forwards only have nothing beside them: what lies there went by, or comes later.

#: All that is asked for ends so; other files of a package are not kept in mind.
_SUFFIX = ".json"


class PackageSidecars:
    """The metadata files of a package by their folders, looked up when the first is asked for."""

    __slots__ = ("_folders", "_kind", "_view")

    def __init__(self, view: View, kind: str) -> None:
        self._view = view
        self._kind = kind
        self._folders: dict[str, dict[str, PackageMember]] | None = None

    def of(self, folder: str) -> dict[str, PackageMember]:
        """Return the metadata files of a folder by their names; of several with one name, the first.

        Raises FormatError, Unsupported and OSError, each time it is asked, for a package that cannot be read.
        """
        if self._folders is None:
            from fatpack.packages import PackageMember, get_package

            folders: dict[str, dict[str, PackageMember]] = {}
            for item in get_package(self._kind).members(self._view):
                if isinstance(item, PackageMember) and item.is_lasting and item.name.endswith(_SUFFIX):
                    place, _, name = item.name.rpartition("/")
                    folders.setdefault(place, {}).setdefault(name, item)
            self._folders = folders  # an error on the way leaves no half of them behind
        return self._folders.get(folder, {})


class SidecarFolder:
    """The metadata files in the folder of one file; what ``Source.neighbours`` is."""

    __slots__ = ("_folder", "_package_sidecars")

    def __init__(self, package_sidecars: PackageSidecars, folder: str) -> None:
        self._package_sidecars = package_sidecars
        self._folder = folder

    def read(self, name: str, most: int) -> bytes | None:
        """Return the first bytes of the file of a name, None if there is none. Raises FormatError, Unsupported."""
        member = self._package_sidecars.of(self._folder).get(name)
        if member is None:
            return None
        with member.open() as source:
            return source.beginning(most)

    def names(self, suffix: str) -> list[str]:
        """Return the names that end so, in order."""
        return sorted(name for name in self._package_sidecars.of(self._folder) if name.endswith(suffix))


#: What stands in a path between a package and what is in it.
SEPARATOR = "!"

#: LIMIT: nodes that are handed out together: their paths are held.
_TOGETHER = 1000


class MemberPath(str):
    """The path of a file in a package; ``names`` are its parts: that of the file, and a stored name for each level."""

    __slots__ = ("names",)
    names: tuple[str, ...]

    def __new__(cls, *names: str) -> Self:
        """Return the path of some names, the file's first."""
        path = super().__new__(cls, SEPARATOR.join(names))
        path.names = names
        return path

    def __reduce__(self) -> tuple[object, ...]:
        return MemberPath, self.names


class Filter(Record):
    """Which files are looked into: none that match ``exclude``, and without ``deep`` none that say by their names that
    no device code is in them.
    """

    exclude: tuple[str, ...] = ()
    deep: bool = False


class SkipCounts:
    """What was met on the way to the leaves, and not looked into; counts of several walks add up.

    ``passed`` and ``excluded`` are files that were left out by their names, and excluded folders; ``links`` and
    ``special`` stand in folders. ``denied`` must not be read, and ``vanished`` were gone when their turn came: both are
    leaves with an error. ``packages`` are those that were looked into, ``used`` the patterns that excluded something.
    """

    __slots__ = ("denied", "excluded", "links", "packages", "passed", "special", "used", "vanished")

    def __init__(self) -> None:
        self.passed = self.excluded = self.links = self.special = self.packages = self.denied = self.vanished = 0
        self.used: set[str] = set()

    def fail(self, error: FailureCallback | None) -> None:
        """Count a file that cannot be opened, if that is for lack of permission, or because it is gone."""
        self.denied += isinstance(error, PermissionError)
        self.vanished += isinstance(error, FileNotFoundError)

    def add(self, other: SkipCounts) -> None:
        """Add the counts of another walk."""
        self.used |= other.used
        for name in ("denied", "excluded", "links", "packages", "passed", "special", "vanished"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


class PackageFindings:
    """What is wrong with how files are stored in a package. LIMIT: ``limits.FINDINGS`` of each code, others counted."""

    __slots__ = ("_kept", "_tally")

    def __init__(self) -> None:
        self._kept: list[Finding] = []
        self._tally = FindingTally(limits.FINDINGS)

    def take(self, items: Iterable[Finding]) -> None:
        """Take up findings, or the number of them where there are many."""
        self._kept += filter(self._tally.keeps, items)

    def findings(self) -> list[Finding]:
        """Return the findings, and behind them one for each code of which more were counted."""
        return [*self._kept, *self._tally.rest()]


class InputFile(Record):
    """A file in which device code may be, open until the next is asked for; or why there is none to be read.

    ``parts`` lead to it from what was named. With ``package`` it stands for a package of that kind, behind the files in
    it, and ``findings`` are what is wrong with that; there is no view then.
    """

    path: str
    parts: tuple[str, ...]
    view: View | None = None
    error: FailureCallback | None = None
    package: str = ""
    size: int | None = None
    findings: tuple[Finding, ...] = ()


class PendingFile(Record):
    """A file that was met in a folder or a package, which may be a package itself; :meth:`leaves` walks it.

    ``size`` is about what reading it costs, in bytes. One that is not lasting is walked before the next is asked for.
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
        """Yield the leaves: the file, or those in it. Raises nothing for a file: what cannot be read is a leaf."""
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
            except (FatpackError, OSError) as error:  # what is inflated has a size when all of it is
                yield InputFile(self.path, self.parts, error=error)
                return
            yield from _of(view, self, rules, counts)
            # How it is stored in its package is known when it was read.
            if self.package_findings is not None:
                self.package_findings.take(getattr(source, "findings", ()))


def _of(view: View, node: PendingFile, rules: Filter, counts: SkipCounts) -> Iterator[InputFile]:
    try:
        kind = detect_package(view)
    except (FatpackError, OSError) as error:
        yield InputFile(node.path, node.parts, error=error)
        return
    if not kind:
        yield InputFile(node.path, node.parts, view, size=len(view))
        return
    for member in walk_package(view, kind, node, rules, counts):
        yield from member.leaves(rules, counts)


def walk_package(
    view: View, kind: str, package: PendingFile, rules: Filter, counts: SkipCounts
) -> Iterator[PendingFile]:
    """Yield a node for each file in a package that is looked into, and one for the package itself behind them."""
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
            source.neighbours = SidecarFolder(package_sidecars, member.name.rpartition("/")[0])
        return source

    size = len(view) if member.size is None else member.size
    return PendingFile(path, parts, opened, size, member.is_lasting, package.depth + 1)


def split_name(name: str) -> tuple[str, ...]:
    """Return the folders of a stored name and its last part, without those that mean nothing."""
    return tuple(part for part in name.split("/") if part not in ("", "."))


def walk_tree(
    name: str, rules: Filter, counts: SkipCounts, unmatched: list[str], *, budget: Budget | None = None
) -> Iterator[list[PendingFile]]:
    """Yield the files of a folder, or those that a pattern means, as nodes that may be walked in any order.

    ``unmatched`` gets a pattern that no file has.
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
    """Yield the nodes of a file that is open: of a package, those in it; else the file alone."""
    try:
        kind = detect_package(view)
    except (FatpackError, OSError) as error:
        yield [PendingFile(path, (), None, leaf=InputFile(path, (), error=error))]
        return
    if not kind:
        yield [PendingFile(path, (), None, leaf=InputFile(path, split_name(path)[-1:], view, size=len(view)))]
        return
    package = PendingFile(path, (), None)
    yield from group_batches(walk_package(view, kind, package, rules, counts))


def group_batches(nodes: Iterable[PendingFile]) -> Iterator[list[PendingFile]]:
    """Yield nodes in lists: lasting ones together, any other alone, before the next is asked for."""
    waiting: list[PendingFile] = []
    for node in nodes:
        if not node.is_lasting:
            if waiting:
                yield waiting
                waiting = []
            yield [node]
            continue
        waiting.append(node)
        if len(waiting) >= _TOGETHER:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def input_kind(name: str, view: View | None) -> str:
    """Return what a name means: ``folder``, ``pattern``, or the JSON name of the package that is open."""
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
    """Yield the nodes of a name: of a file that is open, or without a view, of a folder or a pattern."""
    if view is None:
        return walk_tree(name, rules, counts, unmatched, budget=budget)
    return walk_open_file(view, name, rules, counts)
