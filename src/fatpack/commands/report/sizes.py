"""Bytes summed by file, architecture and the beginnings of kernel names, while rows come."""

from __future__ import annotations

from fatpack.commands.report.model import (
    ArchBytes,
    ByteCounts,
    Duplicate,
    KernelGroup,
    arch_family,
    arch_label,
    kernel_namespace,
)
from fatpack.tabular.columns import ImageRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from fatpack.tabular.columns import AnyRow, KernelRow


#: LIMIT: parts of one architecture of one file that are kept apart; torch has some 600. Further ones are counted.
_MOST_PARTS = 4000

#: LIMIT: parts of one architecture that an overview lists; the smallest are one part, `others`.
_MOST_LISTED = 60

#: LIMIT: names whose beginnings are kept; torch has 21,046.
_MOST_STEMS = 50_000

#: Label of the bytes of an image that belong to no kernel: symbol tables, constants, debug information.
REST_LABEL = "tables, constants, debug"


class ByteSum:
    """A sum of sizes: the number of items, their stored bytes (unknown if one is), and their inflated bytes."""

    __slots__ = ("count", "inflated", "is_known", "stored")

    def __init__(self) -> None:
        self.count, self.inflated, self.stored, self.is_known = 0, 0, 0.0, True

    def add(self, stored: float | None, inflated: float, count: int = 1) -> None:
        """Add one, or as many as ``count`` says."""
        self.count += count
        self.inflated += round(inflated)
        if stored is None:
            self.is_known = False
        else:
            self.stored += stored

    def take(self, other: ByteSum) -> None:
        """Add what another sum has."""
        self.count += other.count
        self.inflated += other.inflated
        self.stored += other.stored
        self.is_known &= other.is_known

    def bytes(self) -> ByteCounts:
        """Return the sum as a record."""
        return ByteCounts(self.count, round(self.stored) if self.is_known else None, self.inflated)


class _Arch:
    def __init__(self, label: str, family: str) -> None:
        self.label, self.family = label, family
        self.sum = ByteSum()
        self.parts: dict[tuple[str, str], ByteSum] = {}

    def add(self, kind: str, name: str, stored: float | None, inflated: float, count: int) -> None:
        key = (kind, name)
        part = self.parts.get(key)
        if part is None:
            if len(self.parts) >= _MOST_PARTS:
                key = ("others", "")
            part = self.parts.setdefault(key, ByteSum())
        part.add(stored, inflated, count)

    def record(self) -> ArchBytes:
        biggest = sorted(self.parts.items(), key=lambda item: (-item[1].inflated, item[0]))
        listed = [item for item in biggest if item[0][0] != "others"][:_MOST_LISTED]
        others, names = ByteSum(), {key for key, _ in listed}
        for key, part in biggest:
            if key not in names:
                others.take(part)
        parts = [KernelGroup(name, kind, part.bytes()) for (kind, name), part in listed]
        if others.count:
            parts.append(KernelGroup("", "others", others.bytes()))
        return ArchBytes(self.label, self.family, self.sum.bytes(), tuple(parts))


class FileBytes:
    """The bytes of the images of one file; an image that holds others is counted by those."""

    def __init__(self) -> None:
        self._archs: dict[str, _Arch] = {}
        self._waiting: tuple[_Arch, ImageRow] | None = None
        self._stems: dict[str, str] = {}
        self._kernels: dict[str, list[int]] = {}
        #: what of an image that holds others is in the file, as a share of its inflated bytes, by position
        self._shares: dict[str, float | None] = {}
        #: stored bytes of bundles that are compressed as a whole, which no image has for itself, by container
        self._bundles: dict[str, int] = {}
        self._whole = ByteSum()
        self.kernels = 0
        #: empty images for the host: bundles have one each
        self.empty_hosts = 0

    def image(self, row: ImageRow) -> None:
        """Take an image; its kernels come after it."""
        self._finish()
        stored = self._stored(row)
        is_shared = self._is_shared(row, stored)
        if row.containers and row.position:
            self._shares[row.position] = None if stored is None or not row.size else stored / row.size
            return
        self._whole.add(0 if is_shared else stored, row.size or 0)
        if row.offload == "host" and not row.size:
            self.empty_hosts += 1
            return
        name = arch_label(row.arch, row.form, row.triple, row.offload)
        arch = self._archs.get(name)
        if arch is None:
            arch = self._archs[name] = _Arch(name, arch_family(row.arch, row.form, row.triple, row.offload))
        arch.sum.add(stored, row.size or 0)
        self._waiting = arch, row

    def _stored(self, row: ImageRow) -> float | None:
        """Return the bytes that an image takes of the file: of one inside another, its part of those."""
        outer, _, inner = (row.position or "").rpartition("/")
        if not inner or not outer or outer not in self._shares:
            return row.stored_size
        share = self._shares[outer]
        return None if share is None or row.stored_size is None else share * row.stored_size

    def _is_shared(self, row: ImageRow, stored: float | None) -> bool:
        """Return whether an image lies in a bundle that is compressed as a whole, and take that into account once."""
        outer, _, _ = (row.position or "").partition("/")
        container = outer.rpartition(".")[0]
        if stored is None and container and outer == row.position and row.container_size is not None:
            self._bundles[container] = row.container_size
        return stored is None and container in self._bundles

    @property
    def shared(self) -> int:
        """The stored bytes of bundles that are compressed as a whole."""
        return sum(self._bundles.values())

    def bytes(self) -> ByteCounts:
        """Return the sum of all images, with the stored bytes of bundles that are compressed as a whole."""
        found = self._whole.bytes()
        return found if found.stored is None else found.replace(stored=found.stored + self.shared)

    def kernel(self, row: KernelRow) -> None:
        """Take a kernel of the image that came last."""
        self.kernels += 1
        found = self._kernels.setdefault(self._stem(row.kernel or ""), [0, 0])
        found[0] += 1
        found[1] += row.code_size or 0

    def _stem(self, name: str) -> str:
        """Return what a kernel's name begins with: the same kernels come for each architecture."""
        found = self._stems.get(name)
        if found is None:
            if len(self._stems) >= _MOST_STEMS:
                self._stems.clear()
            found = self._stems[name] = kernel_namespace(name)
        return found

    def _finish(self) -> None:
        """Divide the bytes of the last image among its kernels."""
        waiting, kernels = self._waiting, self._kernels
        self._waiting, self._kernels = None, {}
        if waiting is None:
            return
        arch, row = waiting
        inflated, stored = row.size or 0, self._stored(row)
        code = sum(size for _, size in kernels.values())
        if not code:
            arch.add("whole", row.form or "not read", stored, inflated, sum(count for count, _ in kernels.values()))
            return
        # Symbols may overlap, and in a hostile file state any size: then all bytes are divided as they say.
        scale = min(1.0, inflated / code)
        ratio = None if stored is None else stored / inflated if inflated else 0.0
        for name, (count, size) in kernels.items():
            part = size * scale
            arch.add("kernels", name, None if ratio is None else part * ratio, part, count)
        if (rest := inflated - code) > 0:
            arch.add("rest", REST_LABEL, None if ratio is None else rest * ratio, rest, 0)

    def records(self) -> tuple[ArchBytes, ...]:
        """Return the architectures in an order for people: older before newer."""
        self._finish()
        return tuple(arch.record() for arch in sorted(self._archs.values(), key=lambda arch: arch_sort_key(arch.label)))


def arch_sort_key(label: str) -> tuple[str, int, str]:
    """Return the key by which labels of architectures are sorted: ``sm_75`` before ``sm_100``, ``gfx90a`` early."""
    if label == "host":
        return "~", 0, label
    head = label.rstrip()
    if head.startswith("compute_"):  # PTX comes after the machine code of its number
        family, number, rest = arch_sort_key(f"sm_{head.removeprefix('compute_')}")
        return family, number, f" {rest}"
    at = next((n for n, char in enumerate(head) if char.isdecimal() and char.isascii()), len(head))
    if head.startswith("gfx"):
        digits = head[3:].split(":")[0].split("-")[0].split(" ")[0]
        generation = digits[:-2] if len(digits) > 2 else digits
        return "gfx", int(generation) if generation.isdecimal() and len(generation) < 6 else 0, head
    end = at
    while end < len(head) and head[end] in "0123456789" and end - at < 9:
        end += 1
    return head[:at], int(head[at:end] or 0), head[end:]


def total_bytes(sums: Iterable[ByteCounts]) -> ByteCounts:
    """Return the sum of sums."""
    whole = ByteSum()
    for each in sums:
        whole.add(each.stored, each.inflated, each.count)
    return whole.bytes()


def merge_architectures(files: Iterable[tuple[ArchBytes, ...]]) -> tuple[ArchBytes, ...]:
    """Return the architectures of several files together, without their parts."""
    sums: dict[str, tuple[str, ByteSum]] = {}
    for archs in files:
        for arch in archs:
            _, whole = sums.setdefault(arch.label, (arch.family, ByteSum()))
            whole.add(arch.bytes.stored, arch.bytes.inflated, arch.bytes.count)
    names = sorted(sums, key=arch_sort_key)
    return tuple(ArchBytes(name, sums[name][0], sums[name][1].bytes()) for name in names)


# Images and kernel code that are there several times, by their digests, and the bytes that costs.

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

    @property
    def in_other_files(self) -> int:
        """The bytes of images that several files have, all copies but those of one file."""
        several = (one for one in self._images.values() if one.files > 1)
        return sum(one.stored - round(one.stored / one.files) for one in several)

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
