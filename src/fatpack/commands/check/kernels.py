"""The names of the kernels of units: read only where a policy is broken, or asks for all of them."""

from __future__ import annotations

from fatpack.commands.check.reopening import map_package_files, reopen
from fatpack.errors import FatpackError
from fatpack.exit_codes import error_message
from fatpack.findings import CODES
from fatpack.tabular.options import RowOptions
from fatpack.tabular.packages import read_file_rows
from fatpack.tabular.read_file import read_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypeAlias

    from fatpack.budget import Budget
    from fatpack.commands.check.rule_context import ImageSetRows
    from fatpack.inputs.files import InputFile
    from fatpack.tabular.columns import AnyRow

#: how much is read of a file for its kernels
KERNEL_ROW_OPTIONS = RowOptions(each_kernel=True)

#: Forms whose readers name every kernel
FORMS_WITH_KERNEL_NAMES = ("cubin", "ptx", "code-object")

#: file, position and member of an image
_Key: TypeAlias = "tuple[str, str | None, str | None]"


class ImageKernels:
    """The names of the kernels of images, and which images were not read to the end.

    ``names`` has an image as soon as it was read, also one without kernels. ``unread`` has those that were not, and
    whoever asks for their kernels is not to take silence for none. ``problem`` says what could not be read, "" if all
    could.
    """

    def __init__(self) -> None:
        self.names: dict[_Key, dict[str, None]] = {}
        self.unread: set[_Key] = set()
        self.problem = ""

    def add(self, row: AnyRow) -> None:
        """Take the row of an image, of a kernel (its image comes first), or of the file."""
        if row.row == "kernel":
            self.names.setdefault(image_key(row), {})[getattr(row, "kernel", None) or ""] = None
        elif row.row != "file":
            self.names.setdefault(image_key(row), {})
            if getattr(row, "kernel_count", None) is None or is_damaged(row):
                self.unread.add(image_key(row))
                where = f"image {row.position}" if row.position else "the image"
                why = f": {'; '.join(row.messages)}" if row.messages else ""
                self._fail(f"the kernels of {where} cannot be read{why}")
        elif row.error is not None:
            self._fail(row.error)

    def _fail(self, problem: str) -> None:
        self.problem = self.problem or problem

    def merge(self, other: ImageKernels) -> None:
        """Add what is known of the images of another file."""
        self.names |= other.names
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

    A file of which something cannot be read is left out: :func:`read` says it.
    """
    made = map_package_files(paths, _of_leaf, budget, deep=deep)
    return {path: found for path, found in made.items() if not found.problem}


def _of_leaf(leaf: InputFile) -> ImageKernels:
    found = ImageKernels()
    for row in read_file_rows(leaf, KERNEL_ROW_OPTIONS):
        found.add(row)
    return found


def image_set_kernels(unit: ImageSetRows, kernels: ImageKernels) -> tuple[str, ...]:
    """Return the kernels of a unit, each once, in the order of its images."""
    names: dict[str, None] = {}
    for row in unit.images:
        names |= kernels.names.get(image_key(row), {})
    return tuple(names)


def has_no_kernels(unit: ImageSetRows, kernels: ImageKernels) -> bool:
    """Return whether a unit has no kernels for sure: every image of it was read, and would show them."""
    keys = [image_key(row) for row in unit.images]
    are_read = all(key in kernels.names and key not in kernels.unread for key in keys)
    are_shown = all(row.form in FORMS_WITH_KERNEL_NAMES and not row.findings for row in unit.images)
    return are_read and are_shown and not any(kernels.names[key] for key in keys)
