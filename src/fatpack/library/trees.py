"""Many files: those in folders, patterns and packages, open one at a time (``files``)."""

from __future__ import annotations

from fatpack.inputs.files import Filter, SkipCounts
from fatpack.library.arguments import as_patterns, make_budget
from fatpack.library.file import File
from fatpack.library.leaves import expand_inputs

__all__ = ["Files", "files"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fatpack.budget import Budget
    from fatpack.errors import FatpackError
    from fatpack.io.open import Input
    from fatpack.model import Finding


class Files:
    """The files that some inputs mean: an iterator over open :class:`fatpack.File`, each closed when the next comes.

    Afterwards it knows what it did not give: ``unread`` are the errors of files that cannot be read, ``findings`` what
    is wrong with packages. ``passed`` counts files that say by their names that no device code is in them, ``excluded``
    files and folders that were left out, ``links`` and ``special`` links, pipes, sockets and devices in folders;
    ``unmatched`` are patterns that no file has.
    """

    def __init__(self, inputs: Iterable[Input], rules: Filter, budget: Budget) -> None:
        self._rules, self._counts, self._budget = rules, SkipCounts(), budget
        self.unread: list[FatpackError | OSError] = []
        self.findings: list[Finding] = []
        self.unmatched: list[str] = []
        self._leaves = self._all(inputs)

    def __iter__(self) -> Iterator[File]:
        return self

    def __next__(self) -> File:
        return next(self._leaves)

    @property
    def passed(self) -> int:
        """Files that were not looked into because of their names."""
        return self._counts.passed

    @property
    def excluded(self) -> int:
        """Files and folders that were left out."""
        return self._counts.excluded

    @property
    def links(self) -> int:
        """Links in folders, which are not followed."""
        return self._counts.links

    @property
    def special(self) -> int:
        """Pipes, sockets and devices in folders, which are not read."""
        return self._counts.special

    def __repr__(self) -> str:
        return f"<fatpack.Files, {len(self.unread)} unread, {self.passed} passed by name>"

    def _all(self, inputs: Iterable[Input]) -> Iterator[File]:
        for leaf in expand_inputs(inputs, self._rules, self._counts, self.unmatched, self._budget):
            self.findings += leaf.findings
            if leaf.error is not None:
                self.unread.append(leaf.error)
            elif leaf.view is not None:
                yield File(leaf.view.source, deep=self._rules.deep, view=leaf.view)


def files(*inputs: Input, exclude: Iterable[str] = (), deep: bool = False, max_inflated: int | None = None) -> Files:
    """Return an iterator over the files in folders, patterns (``"lib/**/*.so"``) and packages, open one at a time.

    An input is what :func:`fatpack.open` takes, or a folder or a pattern. Of a package (a wheel, a tar archive, …) the
    files in it come, also those in packages inside it, as if they were unpacked: ``path`` is ``x.whl!torch/libx.so``.
    Any other input comes as it is. What is in folders and packages is searched as if it was named alone, and passed
    over if its name says that it is source code, text or a picture, unless ``deep`` asks for more. ``exclude`` are
    patterns of names, or with ``/`` of paths. Nothing is raised for a file in a folder or a package: see
    :class:`Files`. ``max_inflated`` is as for :func:`fatpack.open`, for all of them together.

    Raises ``OSError`` and UsageError for an input that cannot be opened, when it is its turn.
    """
    return Files(inputs, Filter(as_patterns(exclude), deep), make_budget(max_inflated))
