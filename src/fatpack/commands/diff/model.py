"""Records of a comparison of two releases."""

from __future__ import annotations

from fatpack.errors import pluralize
from fatpack.record import Record
from fatpack.result import MAX_PROBLEM_LINES, Result, to_plain_data
from fatpack.tabular.skipped import Skipped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Literal

#: The version of :meth:`DiffResult.to_dict`.
SCHEMA = "fatpack.diff/1"

#: All kinds of differences, and the kinds that exit with 1 by default.
KINDS = ("lost", "added", "changed", "moved", "repacked", "rebuilt", "grown")
DIFFERENCES = ("lost", "added", "changed", "moved")

#: Fields of kernels that are compared, and reported as (field, old, new).
NEEDS = (
    "registers",
    "sgprs",
    "agprs",
    "vgpr_spills",
    "sgpr_spills",
    "shared",
    "local",
    "params",
    "max_threads",
    "code_size",
)


class CodeSizes(Record):
    """Bytes of device code: as they are stored in the files, and after decompression."""

    stored: int = 0
    size: int = 0

    def __add__(self, other: CodeSizes) -> CodeSizes:
        return CodeSizes(self.stored + other.stored, self.size + other.size)


class KernelDiff(Record):
    """A kernel that one side lacks (``lost``, ``added``), or that does something else (``changed``).

    ``needs`` are (field, old, new) of the resources that differ.
    """

    kind: Literal["lost", "added", "changed"]
    name: str
    needs: tuple[tuple[str, int | None, int | None], ...] = ()
    demangled: str | None = None


class TraceDiff(Record):
    """A difference between two builds beside the same code: the ``tool``, a ``source``, a ``temporary name``, ….

    ``old`` and ``new`` are the values that only one side has; both are empty for the bytes of no known kind.
    """

    what: str
    old: tuple[str, ...] = ()
    new: tuple[str, ...] = ()


class ArchDiff(Record):
    """The images of one library for one architecture, in one form: how many there are, and what became of them.

    ``lost`` and ``added`` are images that the other side has no counterpart for, ``changed`` have other content,
    ``repacked`` the same content stored otherwise. With kernels compared, ``rebuilt`` have other bytes and the same
    canonical digest, and ``traces`` names what differs between these; ``variables`` says that what kernels share is not
    all the same: variables, flags and ABI of the header, version and target of PTX. ``kernels`` are kernels that
    differ; None where they were not compared, or an image cannot be read. Of two files, lost and added kernels are
    named without comparing kernels, too.
    Functions of Metal libraries are told apart by their names: all that differ are in ``kernels``.
    Of SPIR-V and Tile IR, kernels are lost or added; other changes are reported for images alone.
    """

    arch: str
    form: str
    offload: str
    old_images: int = 0
    new_images: int = 0
    lost: int = 0
    added: int = 0
    changed: int = 0
    repacked: int = 0
    rebuilt: int = 0
    old: CodeSizes = CodeSizes()
    new: CodeSizes = CodeSizes()
    variables: bool = False
    kernels: tuple[KernelDiff, ...] | None = None
    traces: tuple[TraceDiff, ...] = ()

    @property
    def is_same(self) -> bool:
        """True if no image differs in any way."""
        return not (self.lost or self.added or self.changed or self.repacked or self.rebuilt)


class LibraryDiff(Record):
    """A library of both releases, or of one: ``kind`` is ``lost``, ``added``, ``both``.

    ``name`` is its path below what was named, in NEW where both have it, ``old_name`` that in OLD. File sizes are
    bytes; ``old_packed`` and ``new_packed`` are what it takes in a zip archive (a wheel), None elsewhere. ``archs`` are
    in the order of names. ``moved`` says that the same images are in other containers, or in another order in one: a
    runtime chooses from one container, the first of equals, so that a device may get something else.
    """

    kind: Literal["lost", "added", "both"]
    name: str
    old_path: str | None
    new_path: str | None
    old_file: int | None
    new_file: int | None
    old_packed: int | None = None
    new_packed: int | None = None
    archs: tuple[ArchDiff, ...] = ()
    moved: bool = False
    old_name: str | None = None

    @property
    def is_same(self) -> bool:
        """True if its device code is the same on both sides, in every stored byte."""
        return self.kind == "both" and not self.moved and all(arch.is_same for arch in self.archs)


class UnreadFile(Record):
    """A file that could not be read, or not to its end, and why; ``exit_code`` is that of ``fatpack inspect``."""

    side: Literal["old", "new"]
    path: str
    problem: str
    exit_code: int


class DiffResult(Result):
    """The differences of two releases; ``old`` and ``new`` are the paths as given, libraries are in the order of names.

    ``old_unlooked`` and ``new_unlooked`` count the files in them that were skipped. It has no truth value: ``if diff:``
    could mean "they differ" or "all is well". Write ``diff.differs``, or ``diff.exit_code == 0``.
    """

    old: str
    new: str
    libraries: tuple[LibraryDiff, ...]
    unread: tuple[UnreadFile, ...] = ()
    with_kernels: bool = False
    old_unlooked: Skipped = Skipped()
    new_unlooked: Skipped = Skipped()

    def __bool__(self) -> bool:
        """Raise TypeError: a difference is not true or false."""
        raise TypeError("a DiffResult has no truth value: write diff(…).differs, or .exit_code == 0")

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of differences that there are, of :data:`KINDS`; ``grown`` means more bytes of files."""
        archs = [arch for library in self.libraries for arch in library.archs]
        found = {kind for kind in KINDS[:-1] for arch in archs if getattr(arch, kind, False)}
        if any(library.moved for library in self.libraries):
            found.add("moved")
        for arch in archs:
            found.update(kernel.kind for kernel in arch.kernels or ())
        found.update(library.kind for library in self.libraries if library.kind != "both")
        if self.growth > 0:
            found.add("grown")
        return tuple(kind for kind in KINDS if kind in found)

    @property
    def growth(self) -> int:
        """By how many bytes the files with device code grew together; negative where they shrank."""
        return sum((item.new_file or 0) - (item.old_file or 0) for item in self.libraries)

    @property
    def packed_growth(self) -> int | None:
        """The same as wheels, or other zip archives, pack the files; None unless both sides are in such archives."""
        pairs = [
            pair
            for item in self.libraries
            for pair in ((item.old_path, item.old_packed), (item.new_path, item.new_packed))
        ]
        if any(path is not None and packed is None for path, packed in pairs):
            return None
        return sum((item.new_packed or 0) - (item.old_packed or 0) for item in self.libraries)

    @property
    def differs(self) -> bool:
        """True if device code was lost, added, changed or moved."""
        return not set(DIFFERENCES).isdisjoint(self.kinds)

    @property
    def exit_code(self) -> int:
        """1 for a difference, that of the worst file where one could not be read, else 0."""
        from fatpack.exit_codes import FINDINGS, FINE, worst_exit_code

        return worst_exit_code((FINDINGS if self.differs else FINE, *(item.exit_code for item in self.unread)))

    @property
    def verdict(self) -> str:
        """``same``, ``differs``, or ``unreadable`` where some file could not be read."""
        return "unreadable" if self.unread else "differs" if self.differs else "same"

    def lines(self) -> Sequence[str]:
        """Return the verdict with the kinds of differences, then the libraries that differ, the first few."""
        differing = [item for item in self.libraries if not item.is_same]
        kinds = ", ".join(self.kinds) or "no difference"
        first = f"{self.verdict}: {kinds}; {len(differing)} of {pluralize(len(self.libraries), 'library')}"
        named = [
            f"{'differs' if item.kind == 'both' else item.kind}: {item.name}" for item in differing[:MAX_PROBLEM_LINES]
        ]
        if len(differing) > MAX_PROBLEM_LINES:
            named.append(f"{len(differing) - MAX_PROBLEM_LINES} more in libraries")
        return (first, *named, *(f"not read: {item.path}: {item.problem}" for item in self.unread[:MAX_PROBLEM_LINES]))

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain data, with the schema's version: what ``fatpack diff --json`` prints."""
        document = {"schema": SCHEMA, **to_plain_data(self), "kinds": list(self.kinds), "differs": self.differs}
        return {**document, "exit_code": self.exit_code}
