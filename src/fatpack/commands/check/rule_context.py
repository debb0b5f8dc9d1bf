"""Input of policy rules: units of images among which one runtime chooses, and the rules by which it does.

==========================  ======================================================================================
CUDA fat binary, bundle     each container: each source file that was compiled, or each device link, is chosen alone
LLVM offload binaries, CIR  all that lie side by side in one section: the link sorts them
SYCL                        all images of one file; of SYCLBIN files those of each abstract module
kpack                       all that the archives of a folder hold for one program: an archive often has one device
data of a library           all in it: nothing registers these containers, and the library chooses one by itself
library of Tensile          all of it: its tables say what each device needs (:mod:`fatpack.tensile`)
loose images                all that lie in one folder, or are members of one archive
==========================  ======================================================================================

An image of several containers is counted by these. Code in ``__nv_relfatbin`` of a linked
file was input of its device link, and no driver looks at it.
"""

from __future__ import annotations

import fnmatch
import os

from fatpack import binary
from fatpack.binary.host_sections import section_name_stem
from fatpack.binary.section_names import CUDA_FATBIN, CUDA_RELOCATABLE, HIP_FATBIN, with_cut
from fatpack.commands.check.model import MissingKernels, Violation
from fatpack.errors import FatpackError
from fatpack.exit_codes import FINE, error_message
from fatpack.findings import CODES
from fatpack.inputs.files import SEPARATOR, MemberPath
from fatpack.inputs.reopen import map_package_files, reopen
from fatpack.model import Finding, arch_name
from fatpack.record import Record
from fatpack.tabular import image_sets as seen
from fatpack.tabular.columns import KernelRow, RowOptions
from fatpack.tabular.hollow import KernelCode
from fatpack.tabular.read_file import read_rows
from fatpack.tabular.read_many import read_file_rows
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
    from typing import TypeAlias

    from fatpack.commands.check.policy import Policy, Requirement
    from fatpack.inputs.files import InputFile
    from fatpack.limits import Budget
    from fatpack.tabular.columns import AnyRow, ImageRow
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


# The names of the kernels of units: read only where a policy is broken, or asks for all of them.

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

    A file that cannot be read completely is left out; :func:`read_kernels` gives its problem.
    """
    made = map_package_files(paths, _of_leaf, budget, deep=deep)
    return {path: found for path, found in made.items() if not found.problem}


def _of_leaf(leaf: InputFile) -> ImageKernels:
    found = ImageKernels()
    for row in read_file_rows(leaf, KERNEL_ROW_OPTIONS):
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


_SIDE_BY_SIDE = ("llvm-offload-binary", "cir-offload-container")

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
    """Return libraries in which the loose images of a folder are one unit: that of the first file.

    So are all images of a library of Tensile.
    """
    first: dict[object, tuple[int, int]] = {}
    made: list[list[ImageSetRows]] = []
    more: dict[tuple[int, int], list[ImageRow]] = {}
    for item in found:
        made.append([])
        for unit in item.units:
            library = library_folder(unit.path)
            if library is None and not _is_loose(unit.first):
                made[-1].append(unit)
                continue
            around = unit.first.container_format
            key: object = (os.path.dirname(unit.path), unit.offload, around, unit.program, unit.vendor)
            if library is not None:
                key = library, "", "", "", unit.vendor
            if key not in first:
                first[key] = len(made) - 1, len(made[-1])
                made[-1].append(unit)
            else:
                at, number = first[key]
                more.setdefault((at, number), []).extend(unit.images)
    for (at, number), images in more.items():
        before = made[at][number]
        made[at][number] = before.replace(images=(*before.images, *images))
    return [item.replace(units=tuple(units)) for item, units in zip(found, made, strict=True)]


# The input of every rule: the rows, the policy, and the kernels that are read where a rule is broken.

#: LIMIT: bytes of a library whose kernels are read to name the ones that lack an architecture; no limit with --kernels.
MAX_BYTES_FOR_KERNEL_NAMES = 256 << 20


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
