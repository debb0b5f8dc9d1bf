"""Rows to units: the images among which one runtime chooses, of one vendor and one programming model.

==========================  ======================================================================================
CUDA fat binary, bundle     each container: each source file that was compiled, or each device link, is chosen alone
LLVM offload binaries, CIR  all that lie side by side in one section: the link sorts them
SYCL                        all images of one file; of SYCLBIN files those of each abstract module
kpack                       all that the archives of a folder hold for one program: an archive often has one device
data of a library           all in it: nothing registers these containers, and the library chooses one by itself
loose images                all that lie in one folder, or are members of one archive
==========================  ======================================================================================

What an image of several containers holds is counted by those, not by the image. Code in ``__nv_relfatbin`` of a linked
file was input of its device link, and no driver looks at it.
"""

from __future__ import annotations

import os

from fatpack.record import Record
from fatpack.tabular import image_sets as seen
from fatpack.targets.selection import vendors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fatpack.tabular.columns import AnyRow, ImageRow

_SIDE_BY_SIDE = ("llvm-offload-binary", "cir-offload-container")

#: sections of what a device link takes; PE images cut their names
_LINKER_INPUT = ("__nv_relfatbin", "__nv_rel")

#: forms that no driver loads as they are, in words
_UNLOADED = {
    "ltoir": " (LTO-IR)",
    "relocatable-ptx": " (relocatable PTX)",
    "tileir": " (Tile IR)",
    "bitcode": " (bitcode)",
}


class ImageSetRows(Record):
    """The images that a runtime chooses from, in stored order."""

    path: str
    vendor: str
    offload: str
    images: tuple[ImageRow, ...]

    @property
    def first(self) -> ImageRow:
        """The first image, which says where the unit lies."""
        return self.images[0]

    @property
    def program(self) -> str | None:
        """The program whose code it is in a kpack archive, None for all else."""
        return self.first.binary if self.first.container_format == "rocm-kpack" else None

    @property
    def offered(self) -> seen.ImageSet:
        """The unit as runtimes see it."""
        return seen.make_image_set(self.images)

    @property
    def position(self) -> str:
        """Where ``inspect`` lists its container."""
        return (self.first.position or "").rpartition(".")[0]

    @property
    def archs(self) -> tuple[str, ...]:
        """The architectures in it, each once."""
        return tuple(dict.fromkeys(map(row_arch_label, self.images)))

    @property
    def listed(self) -> tuple[str, ...]:
        """The architectures in it with what no driver loads called by its form, each once."""
        return tuple(dict.fromkeys(f"{row_arch_label(row)}{_UNLOADED.get(row.form or '', '')}" for row in self.images))


class FileImageSets(Record):
    """A file that was read: the row of the file, and its units."""

    last: AnyRow
    units: tuple[ImageSetRows, ...]


def row_arch_label(row: AnyRow) -> str:
    """Return the architecture as people write it: ``sm_90a``, ``compute_80`` for PTX, else that of the triple."""
    arch = row.arch or ""
    if row.form == "ptx" and arch.startswith("sm_"):
        return f"compute_{arch.removeprefix('sm_')}"
    return arch or (row.triple or "").partition("-")[0] or row.form or "unknown"


def selection_key(rows: Iterable[ImageRow]) -> tuple[object, ...]:
    """Return what runtimes look at in the images of a unit: units of which it is the same are served alike."""
    return tuple(
        (
            row.form,
            row.stored_form,
            row.stored_kind,
            row.arch,
            row.triple,
            row.ptx_version,
            row.compression,
            row.container_format,
            row.container_version,
            row.section,
            row.claimed,
            row.code_object,
            row.findings,
        )
        for row in rows
    )


def row_vendor(row: AnyRow) -> str:
    """Return whose devices an image is for: nvidia, amd, intel (all that SYCL compiles for), "" for the host's."""
    if row.offload == "host" or row.form == "empty":
        return ""
    triple = row.triple or ""
    vendor = vendors.image_vendor(triple, row.arch or "")
    is_sycl = triple.startswith("spir") or row.form == "spirv" or row.offload == "sycl"
    return vendor if vendor != "intel" or is_sycl else ""


def group_by_file(rows: Iterable[AnyRow]) -> Iterable[FileImageSets]:
    """Yield every file with its units, in order; of files without device code there are none."""
    waiting: list[ImageRow] = []
    for row in rows:
        if row.row != "file":
            waiting.append(row)  # type: ignore[arg-type]  # rows of images were asked for
            continue
        yield FileImageSets(row, group_into_image_sets(waiting))
        waiting = []


def group_into_image_sets(rows: Sequence[ImageRow]) -> tuple[ImageSetRows, ...]:
    """Return the units of the images of one file."""
    found: dict[tuple[object, ...], list[ImageRow]] = {}
    has_linked = any(row.section is not None and row.section not in _LINKER_INPUT for row in rows)
    for row in rows:
        vendor = row_vendor(row)
        is_input = row.section in _LINKER_INPUT and has_linked
        if vendor and not row.containers and not is_input:
            offload = seen.choosing_runtime(row, vendor) if seen.is_host_data(row) else row.offload
            found.setdefault((_place(row), offload, vendor), []).append(row)
    owners = {key[-1] for key, images in found.items() if seen.is_host_data(images[0])}
    return tuple(
        ImageSetRows(images[0].path, str(key[-1]), images[0].offload or "", tuple(images))
        for key, images in found.items()
        if not (key[-1] in owners and seen.is_left_by_link(images))
    )


def _place(row: ImageRow) -> object:
    around = (row.position or "").rpartition("/")[0]
    if row.container is None:
        return "loose"
    if seen.is_host_data(row):
        return "own", around, row.member
    if row.container_format == "rocm-kpack":
        return row.binary
    if row.offload == "sycl" and row.module is None:
        return "sycl"
    if row.container_format in _SIDE_BY_SIDE or seen.is_side_by_side(row):
        return around, row.member, row.section_index, row.section
    return around, row.container, row.module


def _is_loose(row: ImageRow) -> bool:
    return row.member is None and (row.container is None or row.container_format == "rocm-kpack")


def merge_loose_images(found: Sequence[FileImageSets]) -> list[FileImageSets]:
    """Return libraries in which the loose images of a folder are one unit: that of the first file."""
    first: dict[object, tuple[int, int]] = {}
    made: list[list[ImageSetRows]] = []
    more: dict[tuple[int, int], list[ImageRow]] = {}
    for library in found:
        made.append([])
        for unit in library.units:
            if not _is_loose(unit.first):
                made[-1].append(unit)
                continue
            key = os.path.dirname(unit.path), unit.offload, unit.first.container_format, unit.program, unit.vendor
            if key not in first:
                first[key] = len(made) - 1, len(made[-1])
                made[-1].append(unit)
            else:
                at, number = first[key]
                more.setdefault((at, number), []).extend(unit.images)
    for (at, number), images in more.items():
        before = made[at][number]
        made[at][number] = before.replace(images=(*before.images, *images))
    return [library.replace(units=tuple(units)) for library, units in zip(found, made, strict=True)]
