"""Input of policy rules: the units of the files, their kernels, and the rules by which runtimes choose."""

from __future__ import annotations

import fnmatch
import os

from fatpack.commands.check.model import MissingKernels, Violation
from fatpack.exit_codes import FINE
from fatpack.findings import CODES
from fatpack.formats.aks2.layout import AKS2_FORMAT
from fatpack.inputs.files import SEPARATOR, MemberPath
from fatpack.record import Record
from fatpack.tabular import image_sets as seen
from fatpack.tabular.file_image_sets import group_by_file
from fatpack.tabular.image_kernels import (
    MAX_BYTES_FOR_KERNEL_NAMES,
    ImageKernels,
    has_no_kernels,
    image_set_kernels,
    read_emptied,
    read_kernels,
    read_package_kernels,
)
from fatpack.tabular.skipped import CompletenessCheck
from fatpack.targets.devices import Device
from fatpack.targets.nvidia import parse_nvidia
from fatpack.targets.selection.runtime_settings import RuntimeSettings
from fatpack.targets.selection.select_image import select_image
from fatpack.targets.vocabulary import load_vocabulary
from fatpack.tensile.library import TensileFinder, library_folder, shown_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fatpack.commands.check.policy import Policy, Requirement
    from fatpack.limits import Budget
    from fatpack.tabular.columns import AnyRow, ImageRow
    from fatpack.tabular.file_image_sets import FileImageSets, ImageSetRows
    from fatpack.tabular.image_kernels import EmptiedContainers
    from fatpack.tabular.skipped import Incomplete
    from fatpack.tensile.library import TensileLibrary


# Deciding if a unit serves a device, by the rules of its runtime (:mod:`fatpack.targets.selection.select_image`).

_WAITS = "it is relocatable: only the output of the device link counts"
_WAITS_FOR_LINKER = "it is LTO-IR: only what a linker makes of it counts"


class DeviceSupport(Record):
    """The support of a unit for a device: ``serves``, the ``rule`` and ``reason`` for it, and if that is certain.

    If that cannot be known, it does not serve, and is not certain. ``compiles`` says that no machine code serves, and
    the driver compiles what does.
    """

    serves: bool
    rule: str
    reason: str
    is_certain: bool = True
    compiles: bool = False


def meets_requirement(image_set: ImageSetRows, requirement: Requirement) -> DeviceSupport:
    """Return whether a unit meets a requirement, PTX for later devices left aside."""
    if requirement.text:
        return _has_text(image_set, requirement.text)
    found = supports(image_set.offered, requirement.device)
    if requirement.is_native and found.compiles:
        return DeviceSupport(False, found.rule, f"no machine code is for it: {found.reason}")
    return found


def _has_text(image_set: ImageSetRows, name: str) -> DeviceSupport:
    """Return whether a unit has PTX of a name, or for an older device if the name is plain (C7)."""
    required = parse_nvidia(name)
    assert required is not None
    rule = {"a": "C4", "f": "C5"}.get(required.suffix, "C7")
    offered = image_set.offered
    for image in offered.images:
        text = parse_nvidia(image.candidate.arch) if image.candidate.form == "ptx" else None
        if text is None or text.suffix != required.suffix:
            continue
        if text.number == required.number or (not text.suffix and text.number < required.number):
            return DeviceSupport(True, rule, f"it has PTX for compute_{text.number}{text.suffix}", compiles=True)
    if offered.is_for_link:
        return DeviceSupport(False, "C14", _WAITS, is_certain=False)
    later = "" if required.suffix else " or an older one"
    return DeviceSupport(False, rule, f"it has no PTX for {name}{later}")


def supports(image_set: seen.ImageSet, device: Device, settings: RuntimeSettings | None = None) -> DeviceSupport:
    """Return what a unit is to a device; an AMD device is served in all states that it leaves open.

    Without ``settings`` the versions of driver and runtime are any.
    """
    choices = select_image(image_set.candidates, device, settings or RuntimeSettings())
    failed = [choice for choice in choices if choice.outcome == "fails"]
    if failed and image_set.is_for_link and all(choice.rule == "C12" for choice in failed):
        return DeviceSupport(False, "C14", _WAITS_FOR_LINKER, is_certain=False)
    if failed:
        states = ", ".join(choice.state for choice in failed)
        partly = f"nothing is for {states}" if len(failed) < len(choices) else failed[0].reason
        return DeviceSupport(False, failed[0].rule, partly, all(choice.is_certain for choice in failed))
    if image_set.is_for_link:
        return DeviceSupport(False, "C14", _WAITS, is_certain=False)
    unknown = next((choice for choice in choices if choice.outcome == "unknown"), None)
    if unknown is not None:
        return DeviceSupport(False, unknown.rule, f"it is not known if it runs: {unknown.reason}", is_certain=False)
    compiled = next((choice for choice in choices if choice.outcome == "compiles"), None)
    first = choices[0] if compiled is None else compiled
    return DeviceSupport(True, first.rule, first.reason, compiles=compiled is not None)


def supports_later_devices(image_set: ImageSetRows, device: Device) -> bool:
    """Return whether every later device is served, also future ones: plain PTX is for all from its
    number on (C7), and what lies between the device and that number is served by something else.
    """
    arch, asked = device.nvidia, image_set.offered
    parsed = [parse_nvidia(image.candidate.arch) for image in asked.images if image.candidate.form == "ptx"]
    numbers = [text.number for text in parsed if text is not None and not text.suffix]
    if arch is None or not numbers:
        return False
    known = (parse_nvidia(name) for name in load_vocabulary().nvidia)
    between = {each.number for each in known if each is not None and arch.number < each.number < min(numbers)}
    return all(supports(asked, Device("nvidia", f"sm_{number}")).serves for number in sorted(between))


def _key_across_files(unit: ImageSetRows) -> object:
    """Return the key that a unit shares with those of other files; None if its file has all of it."""
    around, library = unit.first.container_format, library_folder(unit.path)
    if library is not None:
        return library, "", "", "", unit.vendor
    if around == AKS2_FORMAT:
        return seen.image_set_key(unit.first, unit.vendor)
    is_loose = unit.first.member is None and (unit.first.container is None or around == "rocm-kpack")
    return (os.path.dirname(unit.path), unit.offload, around, unit.program, unit.vendor) if is_loose else None


def merge_loose_images(found: Sequence[FileImageSets]) -> list[FileImageSets]:
    """Return libraries in which the loose images of a folder are one unit: that of the first file.

    So are all images of a library of Tensile, and the AKS2 archives of one kernel: AOTriton has a file for each target,
    and reads that of the device (``aotriton.images/amd-gfx942/…``).
    """
    first: dict[object, tuple[int, int]] = {}
    made: list[list[ImageSetRows]] = []
    more: dict[tuple[int, int], list[ImageRow]] = {}
    for item in found:
        made.append([])
        for unit in item.units:
            key = _key_across_files(unit)
            if key is not None and key in first:
                more.setdefault(first[key], []).extend(unit.images)
                continue
            first[key] = len(made) - 1, len(made[-1])
            made[-1].append(unit)
    for (at, number), images in more.items():
        before = made[at][number]
        made[at][number] = before.replace(images=(*before.images, *images))
    return [item.replace(units=tuple(units)) for item, units in zip(found, made, strict=True)]


# The input of every rule: the rows, the policy, and the kernels that are read where a rule is broken.


class RuleContext:
    """The paths, the policy, and the rows read from the files: the input of every rule.

    ``missed`` says of paths what could not be read of them; ``reported`` are paths with a violation about that.
    ``compiled`` are the devices that some units serve only after compiling, with the number of these and of all units.
    ``unchecked`` says of libraries what no rule could check in them, though one was asked to.
    """

    def __init__(self, names: Sequence[str], policy: Policy, budget: Budget) -> None:
        self.names, self.policy, self.budget = names, policy, budget
        self.found: list[FileImageSets] = []
        self.kernels: dict[str, ImageKernels] = {}
        self.reported: set[str] = set()
        self.missed: dict[str, Incomplete] = {}
        self.compiled: dict[str, tuple[int, int]] = {}
        self.unchecked: dict[str, list[str]] = {}
        self._emptied: dict[str, EmptiedContainers | None] = {}
        self._tensile: dict[str, TensileLibrary] = {}

    def emptied(self, item: FileImageSets) -> EmptiedContainers | None:
        """Return the registered containers without images of a file, read once; None if no kernel of them is lost."""
        path = item.last.path
        if path not in self._emptied:
            self._emptied[path] = read_emptied(item.last, self.budget)
        return self._emptied[path]

    def read(self, rows: Iterable[AnyRow]) -> None:
        """Take all rows, of files, images and kernels."""
        found = list(group_by_file(self._without_kernels(rows)))
        finder = TensileFinder(self.budget, deep=self.policy.deep, is_filtered=bool(self.policy.exclude))
        for item in found:
            finder.take(item.last.path, (row.arch or "" for unit in item.units for row in unit.images))
        self._tensile = {library.path: library for library in finder.libraries()} if finder else {}
        self.found = merge_loose_images(found)

    @property
    def tensile_libraries(self) -> tuple[TensileLibrary, ...]:
        """The libraries of Tensile among the files."""
        return tuple(self._tensile.values())

    def tensile(self, image_set: ImageSetRows) -> TensileLibrary | None:
        """Return the library of Tensile that a unit is, None for any other, and for one whose tables were not read."""
        folder = library_folder(image_set.path) if self._tensile else None
        found = None if folder is None else self._tensile.get(shown_folder(folder))
        return found if found is not None and found.is_read else None

    def _without_kernels(self, rows: Iterable[AnyRow]) -> Iterator[AnyRow]:
        """Yield the rows that are not of kernels, whose names are kept by their files."""
        files = CompletenessCheck()
        for row in rows:
            missed = files.missed(row) if row.row != "kernel" else None
            if missed is not None:
                self.missed[row.path] = missed
            if self.policy.reads_kernels:
                self.kernels.setdefault(row.path, ImageKernels()).add(row)
            if row.row != "kernel":
                yield row

    def vendors(self, name: str) -> Iterator[str]:
        """Yield the vendors of the images at a path, also of images in one set with others."""
        for unit in (unit for item in self.found for unit in item.units):
            if len(self.names) == 1 or any(is_named(row.path, name) for row in unit.images):
                yield unit.vendor

    def of(self, name: str) -> list[FileImageSets]:
        """Return the files at a path of the request."""
        if len(self.names) == 1:
            return self.found
        return [item for item in self.found if is_named(item.last.path, name)]

    def hole(self, item: FileImageSets, image_set: ImageSetRows, rule: str, reason: str) -> MissingKernels | None:
        """Return a unit as what does not serve; None for one that has no kernels, which nothing misses."""
        found = self.kernels_of(image_set, item)
        if found is not None and has_no_kernels(image_set, found):
            return None
        row = image_set.first
        names = None if found is None else image_set_kernels(image_set, found)
        return MissingKernels(
            image_set.position, row.section or "", row.member or "", row.offset, image_set.listed, rule, reason, names
        )

    def read_kernels(self, image_sets: Iterable[tuple[FileImageSets, ImageSetRows]]) -> None:
        """Read what :meth:`hole` will ask of some units in packages, all of it in one walk through each package."""
        paths = dict.fromkeys(
            row.path for item, unit in image_sets if self._names_kernels(item) for row in unit.images if row.path
        )
        wanted = [path for path in paths if path not in self.kernels and isinstance(path, MemberPath)]
        if len(wanted) > 1:
            self.kernels |= read_package_kernels(wanted, self.budget, deep=self.policy.deep)

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
                self.kernels[path] = read_kernels(path, self.budget)
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
    """Return whether a file belongs to a path of the request: the file itself, one in it, or a match."""
    is_in = path == name or path.startswith(inside_prefixes(name))
    return is_in or fnmatch.fnmatchcase(path.partition(SEPARATOR)[0], name)
