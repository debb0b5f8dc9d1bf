"""Kernels of the images of a file, and registered containers without images: read only where a verdict needs them."""

from __future__ import annotations

import os

from fatpack import binary
from fatpack.binary.host_sections import section_name_stem
from fatpack.binary.section_names import CUDA_FATBIN, HIP_FATBIN
from fatpack.errors import FatpackError
from fatpack.exit_codes import error_message
from fatpack.findings import CODES
from fatpack.inputs.files import MemberPath
from fatpack.inputs.reopen import map_package_files, reopen
from fatpack.model import Finding
from fatpack.record import Record
from fatpack.tabular.columns import KernelRow, RowOptions
from fatpack.tabular.hollow import KernelCode
from fatpack.tabular.read_file import read_rows
from fatpack.tabular.read_many import read_file_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypeAlias

    from fatpack.inputs.files import InputFile
    from fatpack.limits import Budget
    from fatpack.tabular.columns import AnyRow
    from fatpack.tabular.file_image_sets import ImageSetRows

#: LIMIT: bytes of a library whose kernels are read to name the ones that lack an architecture; no limit with --kernels.
MAX_BYTES_FOR_KERNEL_NAMES = 256 << 20


#: how much is read of a file for its kernels
KERNEL_ROW_OPTIONS = RowOptions(each_kernel=True)

#: Forms whose readers name every kernel
FORMS_WITH_KERNEL_NAMES = ("cubin", "ptx", "code-object", "spirv")

#: file, position and member of an image
_Key: TypeAlias = "tuple[str, str | None, str | None]"


class ImageKernels:
    """The names of the kernels of images, and which images were not read to the end.

    ``codes`` has the size and the kind of the code of each. ``names`` has an image as soon as it was read, also one
    without kernels. ``unread`` has the others, which may have kernels. ``problem`` says what could not be read, "" if
    all could, or are LTO-IR, whose names NVIDIA's tools obfuscate: that is no damage.
    """

    def __init__(self) -> None:
        self.names: dict[_Key, dict[str, None]] = {}
        self.codes: list[KernelCode] = []
        self.unread: set[_Key] = set()
        self.problem = ""

    def add(self, row: AnyRow) -> None:
        """Take the row of an image, of a kernel (its image comes first), or of the file."""
        if isinstance(row, KernelRow) and row.row == "kernel":
            name = row.kernel or ""
            self.names.setdefault(image_key(row), {})[name] = None
            self.codes.append(KernelCode(name, row.label or "", row.code_size, row.body))
        elif row.row != "file":
            self.names.setdefault(image_key(row), {})
            if getattr(row, "kernel_count", None) is None or is_damaged(row):
                self.unread.add(image_key(row))
                if row.form == "ltoir" and not is_damaged(row):
                    return
                where = f"image {row.position}" if row.position else "the image"
                why = f": {'; '.join(row.messages)}" if row.messages else ""
                self._fail(f"the kernels of {where} cannot be read{why}")
        elif row.error is not None:
            self._fail(row.error)

    def _fail(self, problem: str) -> None:
        self.problem = self.problem or problem

    def merge(self, other: ImageKernels) -> None:
        """Add the kernels of the images of another file."""
        self.names |= other.names
        self.codes += other.codes
        self.unread |= other.unread
        self._fail(other.problem)


def is_damaged(row: AnyRow) -> bool:
    """Return whether a finding of a row says that something of it could not be read."""
    return any(CODES[code][0] == "error" for code in row.findings)


def image_key(row: AnyRow) -> _Key:
    """Return what names an image: its file, its position, the member that it is."""
    return row.path, row.position, row.member


def read_kernels(path: str, budget: Budget) -> ImageKernels:
    """Return the kernels of a file's images, also of one in a package; what cannot be read is its ``problem``."""
    found = ImageKernels()
    try:
        with reopen(path, budget) as source:
            for row in read_rows(source.view(), KERNEL_ROW_OPTIONS):
                found.add(row)
    except (FatpackError, OSError) as error:
        found.problem = found.problem or error_message(error)
    return found


def read_package_kernels(paths: Iterable[str], budget: Budget, *, deep: bool) -> dict[str, ImageKernels]:
    """Return the kernels of files in packages, each of which is walked once.

    A file whose reading ends with an error is left out; :func:`read_kernels` gives its problem.
    """
    made = map_package_files(paths, _of_leaf, budget, deep=deep)
    return {path: found for path, found in made.items() if found is not None}


def _of_leaf(leaf: InputFile) -> ImageKernels | None:
    found = ImageKernels()
    for row in read_file_rows(leaf, KERNEL_ROW_OPTIONS):
        if row.error is not None:
            return None
        found.add(row)
    return found


def image_set_kernels(image_set: ImageSetRows, kernels: ImageKernels) -> tuple[str, ...]:
    """Return the kernels of a unit, each once, in the order of its images."""
    names: dict[str, None] = {}
    for row in image_set.images:
        names |= kernels.names.get(image_key(row), {})
    return tuple(names)


def has_no_kernels(image_set: ImageSetRows, kernels: ImageKernels) -> bool:
    """Return whether a unit has no kernels for sure: every image of it was read, and would show them."""
    keys = [image_key(row) for row in image_set.images]
    are_read = all(key in kernels.names and key not in kernels.unread for key in keys)
    are_shown = all(row.form in FORMS_WITH_KERNEL_NAMES and not row.findings for row in image_set.images)
    return are_read and are_shown and not any(kernels.names[key] for key in keys)


#: the note of a listing that registered containers have no images, and the warning that kernels are in no image
_NO_IMAGES, _IN_NO_IMAGE = "FP3061", "FP3046"


class EmptiedContainers(Record):
    """Registered containers of a file that have no image for any device, as ``slim`` leaves them.

    ``numbers`` and ``section`` are their places. ``lost`` says in words which kernels are registered and in no image;
    if that is "", it is not known if there are any, for the reason ``why_not``.
    """

    path: str
    vendor: str
    numbers: tuple[int, ...]
    section: str
    lost: str
    why_not: str = ""


def read_emptied(last: AnyRow, budget: Budget) -> EmptiedContainers | None:
    """Return the registered containers without images of a file by its row, None if no kernel of them is lost."""
    if _NO_IMAGES not in (last.findings or ()) or last.error is not None:
        return None
    from fatpack.scanner import scan
    from fatpack.scanner.registration_verdict import ScannedContainers, judge_file

    try:
        with reopen(last.path, budget) as source:
            found = list(scan(source.view()))
            verdict = judge_file(source.view(), ScannedContainers(found))
    except (FatpackError, OSError):
        return None  # it was read before; a file that changes meanwhile is reported by other rules
    lost = next((item.message for item in verdict.findings if item.code == _IN_NO_IMAGE), "")
    containers = [item for item in found if not isinstance(item, Finding)]
    emptied = {
        number: item
        for number, item in enumerate(containers)
        if not any(image.size and image.target.offload != "host" for image in item.container.images)
    }
    if not emptied or not (lost or verdict.why_not):
        return None
    first = next(iter(emptied.values()))
    vendor = "nvidia" if first.container.format == "cuda-fatbin" else "amd"
    return EmptiedContainers(last.path, vendor, tuple(emptied), first.section or "", lost, verdict.why_not)


#: sections of containers that records register, and the kinds of hosts whose records are read
_REGISTERED, _HOSTS = (CUDA_FATBIN, HIP_FATBIN), ("elf", "coff", "pe")

#: what of a file is not checked in which no record registers such containers
UNREGISTERED = "that its device code is registered, because no record in it does that"


def lacks_records(last: AnyRow, sections: Iterable[str | None], budget: Budget) -> bool:
    """Return whether containers in the sections of a file are of the kind that records register, and it has no record.

    Files in packages are not opened again for this.
    """
    path = last.path
    if last.host not in _HOSTS or last.error is not None or isinstance(path, MemberPath) or not os.path.isfile(path):
        return False
    if not any(section_name_stem(section or "") in _REGISTERED for section in sections):
        return False
    try:
        with reopen(path, budget) as source:
            sites = list(binary.get_host(last.host).locate(source.view()))
    except (FatpackError, OSError):
        return False
    return not any(not isinstance(site, Finding) and site.content in (binary.TABLE, binary.RECORDS) for site in sites)
