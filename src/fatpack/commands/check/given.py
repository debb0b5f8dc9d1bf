"""What every rule is given: what was read, the policy, and the kernels that are read where a rule is broken."""

from __future__ import annotations

import fnmatch
import os

from fatpack.commands.check import kernels
from fatpack.commands.check.kernels import ImageKernels
from fatpack.commands.check.model import MissingKernels, Violation
from fatpack.commands.check.rule_context import group_by_file, merge_loose_images
from fatpack.exit_codes import FINE
from fatpack.findings import CODES
from fatpack.inputs.files import SEPARATOR, MemberPath
from fatpack.tabular.skipped import CompletenessCheck

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fatpack.budget import Budget
    from fatpack.commands.check.policy_policy import Policy
    from fatpack.commands.check.rule_context import FileImageSets, ImageSetRows
    from fatpack.tabular.columns import AnyRow
    from fatpack.tabular.skipped import Incomplete

#: LIMIT: bytes of a library whose kernels are read to name those that lack an architecture; more only if that is asked.
MAX_BYTES_FOR_KERNEL_NAMES = 256 << 20


class RuleContext:
    """What was named and read, and the policy that is held against it: what every rule is given.

    ``missed`` says of paths what could not be read of them; ``told`` are those of which that was said already.
    ``compiled`` are the devices that some units serve only after compiling, with the number of these and of all units.
    """

    def __init__(self, names: Sequence[str], policy: Policy, budget: Budget) -> None:
        self.names, self.policy, self.budget = names, policy, budget
        self.found: list[FileImageSets] = []
        self.kernels: dict[str, ImageKernels] = {}
        self.told: set[str] = set()
        self.missed: dict[str, Incomplete] = {}
        self.compiled: dict[str, tuple[int, int]] = {}

    def read(self, rows: Iterable[AnyRow]) -> None:
        """Take all rows, of files, images and kernels."""
        self.found = merge_loose_images(list(group_by_file(self._without_kernels(rows))))

    def _without_kernels(self, rows: Iterable[AnyRow]) -> Iterator[AnyRow]:
        """Yield the rows that are not of kernels, whose names are kept by their files."""
        files = CompletenessCheck()
        for row in rows:
            missed = files.missed(row) if row.row != "kernel" else None
            if missed is not None:
                self.missed[row.path] = missed
            if self.policy.uniform:
                self.kernels.setdefault(row.path, ImageKernels()).add(row)
            if row.row != "kernel":
                yield row

    def vendors(self, name: str) -> Iterator[str]:
        """Yield for whose devices the images are that a name stands for, also if others are chosen from with them."""
        for unit in (unit for item in self.found for unit in item.units):
            if len(self.names) == 1 or any(is_named(row.path, name) for row in unit.images):
                yield unit.vendor

    def of(self, name: str) -> list[FileImageSets]:
        """Return the files that a name stands for."""
        if len(self.names) == 1:
            return self.found
        return [item for item in self.found if is_named(item.last.path, name)]

    def hole(self, item: FileImageSets, unit: ImageSetRows, rule: str, reason: str) -> MissingKernels | None:
        """Return a unit as what does not serve; None for one that has no kernels, which nothing misses."""
        found = self.kernels_of(unit, item)
        if found is not None and kernels.has_no_kernels(unit, found):
            return None
        row = unit.first
        names = None if found is None else kernels.image_set_kernels(unit, found)
        return MissingKernels(
            unit.position, row.section or "", row.member or "", row.offset, unit.listed, rule, reason, names
        )

    def read_kernels(self, lacking: Iterable[tuple[FileImageSets, ImageSetRows]]) -> None:
        """Read what :meth:`hole` will ask of some units in packages, all of it in one walk through each package."""
        paths = dict.fromkeys(
            row.path for item, unit in lacking if self._names_kernels(item) for row in unit.images if row.path
        )
        wanted = [path for path in paths if path not in self.kernels and isinstance(path, MemberPath)]
        if len(wanted) > 1:
            self.kernels |= kernels.read_package_kernels(wanted, self.budget, deep=self.policy.deep)

    def _names_kernels(self, item: FileImageSets) -> bool:
        return self.policy.names_kernels or (item.last.file_size or 0) <= MAX_BYTES_FOR_KERNEL_NAMES

    def kernels_of(self, unit: ImageSetRows, item: FileImageSets) -> ImageKernels | None:
        """Return the kernels of all files that a unit's images lie in; None where they are not read."""
        paths = dict.fromkeys(row.path for row in unit.images)
        found = ImageKernels()
        for path in paths:
            if path not in self.kernels:
                if not self._names_kernels(item):
                    return None
                self.kernels[path] = kernels.read_kernels(path, self.budget)
            if len(paths) == 1:
                return self.kernels[path]  # a library has thousands of units: nothing is copied for each
            found.merge(self.kernels[path])
        return found


def make_violation(
    code: str,
    path: str,
    subject: str,
    message: str,
    hint: str = "",
    *,
    units: int = 0,
    holes: tuple[MissingKernels, ...] = (),
    unread: int = FINE,
) -> Violation:
    """Return a violation: an error, if the check fails because of it."""
    severity = "note" if CODES[code][0] == "note" else "error"
    return Violation(code, severity, path, subject, message, hint, units, holes, unread)


def inside_prefixes(name: str) -> tuple[str, str]:
    """Return how the paths begin of what is in a package, or a folder."""
    return f"{name}{SEPARATOR}", f"{name.rstrip(os.sep)}{os.sep}"


def is_named(path: str, name: str) -> bool:
    """Return whether a file is what a name stands for: itself, something in it, or one that its pattern means."""
    is_in = path == name or path.startswith(inside_prefixes(name))
    return is_in or fnmatch.fnmatchcase(path.partition(SEPARATOR)[0], name)
