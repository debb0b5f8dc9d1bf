"""Rows of images in units: the images of a file among which one runtime chooses.

==========================  ======================================================================================
CUDA fat binary, bundle     each container: each source file that was compiled, or each device link, is chosen alone
LLVM offload binaries, CIR  all that lie side by side in one section: the link sorts them
SYCL                        all images of one file; of SYCLBIN files those of each abstract module
kpack                       all that the archives of a folder hold for one program: an archive often has one device
data of a library           all in it: nothing registers these containers, and the library chooses one by itself
library of Tensile          all of it: its tables say what each device needs (:mod:`fatpack.tensile`)
AKS2 archives               those of one kernel, which lie in a folder for each target
loose images                all that lie in one folder, or are members of one archive
==========================  ======================================================================================

An image of several containers is counted by these. Code in ``__nv_relfatbin`` of a linked
file was input of its device link, and no driver looks at it.
"""

from __future__ import annotations

from fatpack.binary.section_names import CUDA_RELOCATABLE, with_cut
from fatpack.model import arch_name
from fatpack.record import Record
from fatpack.tabular import image_sets as seen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fatpack.tabular.columns import AnyRow, ImageRow

#: sections of what a device link takes; PE images cut their names
_LINKER_INPUT = with_cut(CUDA_RELOCATABLE)

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
        """The position at which ``inspect`` lists its container."""
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
    """A file that was read: the row of the file, and its units.

    ``inputs`` are the images in it that a compiler reads, and ``caches`` those of kernel caches, which are in no unit.
    """

    last: AnyRow
    units: tuple[ImageSetRows, ...]
    inputs: tuple[ImageRow, ...] = ()
    caches: tuple[ImageRow, ...] = ()


def row_arch_label(row: AnyRow) -> str:
    """Return the architecture as people write it: ``sm_90a``, ``compute_80`` for PTX, else that of the triple."""
    return arch_name(row.arch or "", row.form or "") or (row.triple or "").partition("-")[0] or row.form or "unknown"


def selection_key(rows: Iterable[ImageRow]) -> tuple[object, ...]:
    """Return what runtimes look at in the images of a unit: units of which it is the same are served alike."""
    return tuple(
        (
            seen.is_of_gcc(row),
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
    return seen.device_vendor(row.offload or "", row.triple or "", row.arch or "", row.form or "")


def group_by_file(rows: Iterable[AnyRow]) -> Iterable[FileImageSets]:
    """Yield every file with its units, in order; of files without device code there are none."""
    waiting: list[ImageRow] = []
    for row in rows:
        if row.row != "file":
            waiting.append(row)  # type: ignore[arg-type]  # rows of images were asked for
            continue
        inputs = tuple(image for image in waiting if seen.is_compiler_input(image) and row_vendor(image))
        caches = tuple(image for image in waiting if seen.is_cached(image))
        yield FileImageSets(row, group_into_image_sets(waiting), inputs, caches)
        waiting = []


def group_into_image_sets(rows: Sequence[ImageRow]) -> tuple[ImageSetRows, ...]:
    """Return the units of the images of one file."""
    found: dict[tuple[object, ...], list[ImageRow]] = {}
    has_linked = any(row.section is not None and row.section not in _LINKER_INPUT for row in rows)
    for row in rows:
        if seen.is_cached(row):
            continue
        vendor = row_vendor(row)
        is_input = row.section in _LINKER_INPUT and has_linked
        if vendor and not row.containers and not is_input and not seen.is_compiler_input(row):
            found.setdefault(_unit_key(row, vendor), []).append(row)
    return tuple(
        ImageSetRows(images[0].path, str(key[-1]), images[0].offload or "", tuple(images))
        for key, images in seen.without_link_leftovers(found.items())
    )


def _unit_key(row: ImageRow, vendor: str) -> tuple[object, ...]:
    """Return the key of the images of a unit: an image set, but all loose images are one unit, and so are SYCL's."""
    if row.container is None:
        return "loose", row.offload, vendor
    if row.offload == "sycl" and row.module is None and not seen.is_host_data(row):
        return "sycl", vendor
    return seen.image_set_key(row, vendor)
