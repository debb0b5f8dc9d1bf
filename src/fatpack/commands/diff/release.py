"""The two sides of a comparison: their libraries, with no more of each image than tells it from others.

Stored bytes are digested, nothing is inflated for that. Only images that differ there are read, later and by name
(:meth:`Release.contents`), and of their kernels no more is held than digests and what they need.
"""

from __future__ import annotations

import os

from fatpack.commands.diff.model import NEEDS
from fatpack.errors import FatpackError, UsageError
from fatpack.exit_codes import UNSUPPORTED, error_message, exit_code
from fatpack.images.kernel import strip_unit_suffix
from fatpack.inputs.files import Filter, SkipCounts
from fatpack.inputs.map_files import map_paths
from fatpack.io.open import is_tree, open_source, resolve_url
from fatpack.limits import Budget, current_budget
from fatpack.record import Record
from fatpack.tabular.columns import ImageRow, KernelRow, RowOptions
from fatpack.tabular.image_sets import UNDECIDED, is_undecided
from fatpack.tabular.read_many import read_file_rows
from fatpack.tabular.skipped import CompletenessCheck, make_skipped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import TypeVar

    from fatpack.inputs.files import InputFile
    from fatpack.inputs.map_files import Opener
    from fatpack.io.source import View
    from fatpack.tabular.skipped import Skipped

    T = TypeVar("T")

    #: field → value of a kernel, in the order of :data:`NEEDS`
    KernelNeeds = tuple[int | None, ...]

    #: position, member of an archive, offset in the file or -1
    ImageKey = tuple[str, str, int]


class ImageFacts(Record):
    """One image: where it is, what it is for, and the digest of its stored bytes (None inside something compressed).

    Images in no container have no position: of those ``place`` tells one member of an archive from another.
    ``function`` is the name of a function of a Metal library, whose list has it: the bitcode may name another.
    """

    position: str
    place: ImageKey
    arch: str
    form: str
    offload: str
    stored: int
    size: int
    digest: bytes | None
    function: str | None = None


class LibraryFacts(Record):
    """A file with device code, or one that could not be read. ``whole`` is its digest, where images have none."""

    path: str
    parts: tuple[str, ...]
    size: int
    images: tuple[ImageFacts, ...] = ()
    whole: bytes | None = None
    problem: str = ""
    exit_code: int = 0


class KernelFacts(Record):
    """A kernel: its name without what compilers make of units, the digest of what it does, and what it needs."""

    name: str
    plain: str
    digest: bytes | None
    needs: KernelNeeds


class ImageContent(Record):
    """Contents of an image: digests of its bytes and of its variables, and its kernels if they were requested.

    With kernels also its canonical digest (``code``), and what its build left beside the code.
    """

    digest: str | None
    variables: str | None
    kernels: tuple[KernelFacts, ...]
    code: str | None = None
    traces: tuple[str, ...] = ()


class Release:
    """One side of the comparison: a file, folder, wheel, other package, or URL. It is opened anew for each reading.

    ``opener`` opens addresses too, such as ``x.whl!lib/libx.so``, which otherwise are names of files.
    """

    def __init__(
        self,
        name: str | os.PathLike[str],
        exclude: Sequence[str] = (),
        deep: bool = False,
        budget: Budget | None = None,
        opener: Opener | None = None,
        *,
        raises: bool = True,
    ) -> None:
        # Without what is secret in a URL.
        self.name = resolve_url(os.fspath(name))
        self._rules = Filter(tuple(exclude), deep)
        self._deep = deep
        self._budget = current_budget() if budget is None else budget
        self._opener = opener
        self._raises = raises
        self._counts = SkipCounts()

    @property
    def unlooked(self) -> Skipped:
        """Inputs that were skipped when the libraries were listed."""
        return make_skipped(self._counts)

    def libraries(self) -> list[LibraryFacts]:
        """Return the files with device code, and the unreadable files.

        Raises what opening the name raises; without ``raises`` the name is a file that cannot be read.
        """
        found: list[LibraryFacts] = []
        try:
            self._counts = SkipCounts()
            for item in self._made(_LibraryReader(RowOptions(deep=self._deep)), lambda _: True, self._counts):
                if item is not None:
                    found.append(item)  # what was listed before an error stays
        except UsageError:
            raise
        except (FatpackError, OSError) as error:
            if self._raises:
                raise
            found.append(
                LibraryFacts(self.name, (self.name,), 0, problem=error_message(error), exit_code=exit_code(error))
            )
        return found

    def contents(
        self, wanted: Mapping[str, frozenset[str]], *, kernels: bool
    ) -> dict[tuple[str, ImageKey], ImageContent]:
        """Return the contents of images, by path and place; unreadable images have none."""
        if not wanted:
            return {}
        folders = tuple(path + "!" for path in wanted)

        def is_wanted(path: str) -> bool:
            return path in wanted or any(name.startswith(path + "!") for name in folders)

        making = _ImageContentReader(
            dict(wanted), RowOptions(digests=True, each_kernel=kernels, deep=self._deep, identity=kernels)
        )
        found: dict[tuple[str, ImageKey], ImageContent] = {}
        for item in self._made(making, is_wanted):
            found |= item
        return found

    def packed_sizes(self) -> dict[str, int]:
        """Return what each file takes in a zip archive that was named, by its path; {} for anything else."""
        if is_tree(self.name) or not os.path.isfile(self.name):
            return {}
        from fatpack.packages import get_package
        from fatpack.packages.zip.directory import ZipDirectory

        try:
            with open_source(self.name, budget=self._budget) as source:
                if not get_package("zip").detect(source.view()):
                    return {}
                return {
                    f"{self.name}!{entry.name}": entry.stored_size for entry in ZipDirectory(source.view()).entries()
                }
        except (FatpackError, OSError):
            return {}

    def _made(
        self, make: Callable[[InputFile], T], is_wanted: Callable[[str], bool], counts: SkipCounts | None = None
    ) -> Iterator[T]:
        unmatched: list[str] = []
        yield from map_paths(
            [self.name],
            make,
            self._rules,
            SkipCounts() if counts is None else counts,
            unmatched,
            budget=self._budget,
            opener=self._opener,
            chosen=is_wanted,
            raises=True,
            shares_inside=True,
        )
        if unmatched and not self._raises:
            raise UsageError(f"no file matches {self.name}")
        if unmatched:
            raise FileNotFoundError(2, "no file matches", self.name)


class _LibraryReader(Record):
    """Makes the facts of a library from a file; None for a file without device code."""

    options: RowOptions

    def __call__(self, leaf: InputFile) -> LibraryFacts | None:
        images: list[ImageFacts] = []
        problem, code = "", 0
        end = CompletenessCheck()
        for row in read_file_rows(leaf, self.options):
            missed = end.missed(row)
            if missed is not None:
                problem, code = row.error or missed.problem, missed.exit_code
            elif row.row == "file":
                if is_undecided(row):
                    problem, code = f"it has {UNDECIDED}, which is not compared", UNSUPPORTED
            elif isinstance(row, ImageRow) and not row.containers and row.size != 0:
                try:
                    images.append(_facts(row, leaf.view))
                except (FatpackError, OSError) as error:
                    problem, code = error_message(error), exit_code(error)
        if not images and not problem:
            return None
        whole = _digest(leaf.view) if leaf.view is not None and any(not image.digest for image in images) else None
        path = leaf.path if leaf.parts else leaf.path.rpartition("/")[2]
        return LibraryFacts(leaf.path, leaf.parts or (path,), leaf.size or 0, tuple(images), whole, problem, code)


def _facts(row: ImageRow, view: View | None) -> ImageFacts:
    digest = None
    if row.offset is not None and row.stored_size is not None and view is not None:
        digest = _digest(view.slice(row.offset, row.stored_size))
    arch = row.arch or row.triple or ""
    stored = row.stored_size or 0
    form, offload = _form(row), row.offload or ""
    return ImageFacts(row.position or "", _place(row), arch, form, offload, stored, row.size or 0, digest, row.function)


def _form(row: ImageRow) -> str:
    """Return the form of an image: the one that a CUDA fat binary states, by which drivers and linkers take it."""
    if row.container_format == "cuda-fatbin":
        return row.stored_kind or row.stored_form or row.form or ""
    return row.form or ""


def _place(row: ImageRow) -> ImageKey:
    return row.position or "", row.member or "", -1 if row.offset is None else row.offset


def _digest(view: View) -> bytes:
    from hashlib import sha256

    made = sha256()
    for part in view.read_once():
        made.update(part)
    return made.digest()


class _ImageContentReader(Record):
    """Reads the contents of some images of a file, by path and place."""

    wanted: dict[str, frozenset[str]]
    options: RowOptions

    def __call__(self, leaf: InputFile) -> dict[tuple[str, ImageKey], ImageContent]:
        found: dict[tuple[str, ImageKey], ImageContent] = {}
        if leaf.view is None or leaf.path not in self.wanted:
            return found
        options = self.options.replace(positions=self.wanted[leaf.path])
        kernels: list[KernelFacts] = []
        key: tuple[str, ImageKey] = ("", ("", "", -1))
        image: ImageContent | None = None
        # Libraries have the same kernels for many architectures: names and needs are held once.
        known: dict[object, object] = {}
        for row in read_file_rows(leaf, options):
            if isinstance(row, KernelRow):
                kernels.append(_kernel(row, known))
                continue
            if image is not None:
                found[key] = image.replace(kernels=tuple(kernels))
                kernels, image = [], None
            if row.row == "image" and not row.containers and row.sha256 is not None:
                key, image = (
                    (leaf.path, _place(row)),
                    ImageContent(row.sha256, row.data_sha256, (), row.digest, row.build),
                )
        return found


def _kernel(row: KernelRow, known: dict[object, object]) -> KernelFacts:
    name = row.kernel or ""
    facts = (name, strip_unit_suffix(name), tuple(getattr(row, field) for field in NEEDS))
    name, plain, needs = (known.setdefault(item, item) for item in facts)  # type: ignore[assignment]
    return KernelFacts(name, plain, bytes.fromhex(row.code_sha256) if row.code_sha256 else None, needs)  # type: ignore[arg-type]
