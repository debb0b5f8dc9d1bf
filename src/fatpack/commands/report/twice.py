"""Images and kernel code that are there several times, by their digests, and the bytes that costs."""

from __future__ import annotations

from fatpack.commands.report.model import Duplicate
from fatpack.commands.report.names import arch_label, kernel_namespace
from fatpack.tabular.columns import ImageRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from fatpack.tabular.columns import AnyRow, KernelRow

#: LIMIT: digests of one kind that are compared; an image or kernel beyond is not, and a note says so.
_MOST_DIGESTS = 500_000

#: Places that are named of each; the others are counted.
_MOST_PLACES = 6


#: the containers whose images hold no others, so that their heads name all images that there are
_FLAT = "cuda-fatbin"


def repeated_sizes(rows: Iterable[AnyRow]) -> frozenset[int] | None:
    """Return the sizes that several images have, from the rows of their heads: only such images may be the same.

    None where heads do not say which images there are: what is in a compressed image is seen when it is inflated.
    """
    once: set[int] = set()
    several: set[int] = set()
    for row in rows:
        if row.row == "file":
            continue
        if not isinstance(row, ImageRow) or row.container_format != _FLAT or row.size is None:
            return None
        (several if row.size in once else once).add(row.size)
    return frozenset(several)


class _Copies:
    """The copies of one image or kernel."""

    __slots__ = ("count", "file", "files", "is_stored", "labels", "name", "places", "size", "stored")

    def __init__(self, name: str, size: int) -> None:
        self.name, self.size = name, size
        self.labels: tuple[str, ...] = ()
        self.is_stored = True
        self.count = self.files = self.stored = 0
        self.file = ""
        self.places: list[str] = []

    def add(self, path: str, place: str, stored: int, label: str) -> None:
        self.count += 1
        self.stored += stored
        if label not in self.labels and len(self.labels) < _MOST_PLACES:
            self.labels += (label,)
        if path != self.file:  # files come one after the other
            self.files += 1
            self.file = path
        if len(self.places) < _MOST_PLACES and place not in self.places:
            self.places.append(place)


class DuplicateFinder:
    """The digests of all files."""

    def __init__(self) -> None:
        self._images: dict[str, _Copies] = {}
        self._kernels: dict[str, _Copies] = {}
        self._label = ""
        self.not_compared = 0
        #: whether rows have digests of the code of kernels
        self.compares_code = False

    def image(self, row: ImageRow) -> None:
        """Take an image; its kernels come next."""
        self._label = arch_label(row.arch, row.form, row.triple, row.offload)
        if not row.sha256 or not row.size or row.containers:
            return
        stored = row.size if row.stored_size is None else row.stored_size
        copies = self._add(self._images, row, row.sha256, row.form or "image", row.size, stored)
        if copies is not None and row.stored_size is None:
            copies.is_stored = False

    def kernel(self, row: KernelRow) -> None:
        """Take a kernel of that image."""
        digest = getattr(row, "code_sha256", None)
        if digest and row.code_size:
            self.compares_code = True
            self._add(self._kernels, row, digest, row.kernel or "", row.code_size, row.code_size)

    def _add(
        self, known: dict[str, _Copies], row: AnyRow, digest: str, name: str, size: int, stored: int
    ) -> _Copies | None:
        copies = known.get(digest)
        if copies is None:
            if len(known) >= _MOST_DIGESTS:
                self.not_compared += 1
                return None
            copies = known[digest] = _Copies(name, size)
        copies.add(row.path, f"{row.path} {row.position or ''}".rstrip(), stored, self._label)
        return copies

    def records(self, most: int) -> tuple[tuple[Duplicate, ...], int, int]:
        """Return the dearest duplicates, how many there are, and the bytes that those of images cost together."""
        images = [_record("image", digest, copies) for digest, copies in self._images.items() if copies.count > 1]
        kernels = [_record("kernel", digest, copies) for digest, copies in self._kernels.items() if copies.count > 1]
        cost = sum(item.cost for item in images)
        count = len(images) + len(kernels)
        return (*_dearest(images, most), *_dearest(kernels, most)), count, cost


def _record(kind: str, digest: str, copies: _Copies) -> Duplicate:
    name = kernel_namespace(copies.name) if kind == "kernel" else copies.name
    cost = copies.stored - round(copies.stored / copies.count)
    return Duplicate(
        kind,
        digest,
        name,
        copies.labels,
        copies.count,
        copies.files,
        copies.size,
        cost,
        tuple(copies.places),
        copies.is_stored,
    )


def _dearest(found: Iterable[Duplicate], most: int) -> list[Duplicate]:
    return sorted(found, key=lambda item: (-item.cost, item.digest))[:most]
