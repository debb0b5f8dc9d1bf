"""Labels of conda packages: ranges of compute capabilities, which solvers compare with a machine's ``__cuda_arch``.

A label's package is for all devices from one capability up to another one. The range starts with its own code, and ends

* where the range of the next label starts, or other code of the release is made for a newer major version;
* before the first device on which nothing runs: labels by rule have another range behind it;
* nowhere, if plain PTX serves every device that is to come.

``cuda-arch >=8.0,<9.0`` has both bounds for people, and ``__cuda_arch <9.0`` beside it holds the upper one: a 9.0
could have the metapackage for 8.9 (:mod:`fatpack.targets.installers.conda`). All other devices, and machines without
GPUs, get the fat package, which has the lower build number.
"""

from __future__ import annotations

from itertools import pairwise

from fatpack.commands.slim.options import SlimOptions
from fatpack.commands.split.labels import OF_OTHERS, RULES, Label, LabelMap, RefusedLabel, Release, gaps, propose
from fatpack.errors import UsageError
from fatpack.record import Record
from fatpack.targets.devices import Device
from fatpack.targets.installers.conda import (
    CUDA_ARCH,
    CondaMachine,
    CondaPackage,
    admitted_devices,
    choose_conda_package,
    read_conda_index,
)
from fatpack.targets.nvidia import parse_nvidia

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.commands.split.labels import Driver
    from fatpack.commands.split.serving import LibraryCode, ServingJudge
    from fatpack.literals import CondaDependency
    from fatpack.targets.installers.conda import Capability
    from fatpack.targets.installers.variant_providers import Properties

#: Added to the build number of the fat package: of the builds that a machine may have, solvers take the highest number.
#: It is so high that the fat package keeps a lower priority than the others when it is built anew.
PRIORITY = 100

#: the lowest compute capability that a release is asked about, as for wheels
_LOWEST = (5, 0)


class CondaLabel(Label):
    """A label with its range, which starts with ``start`` and ends before ``end``; None: with no device.

    ``specs`` are the dependencies that say so.
    """

    start: Capability = _LOWEST
    end: Capability | None = None
    specs: tuple[str, ...] = ()

    @property
    def properties(self) -> Properties:
        """The dependencies of its package."""
        return {"conda": {"depends": self.specs}}


class CondaLabels(LabelMap):
    """The labels of a release; ``fat`` is its package without label, as solvers know it."""

    fat: CondaPackage = read_conda_index({})

    @property
    def builds(self) -> tuple[CondaPackage, ...]:
        """The builds as solvers know them: the path of each is its label, "" for the fat one."""
        found = [self.fat]
        number = self.fat.build_number + PRIORITY
        for label in self.labels:
            asks = read_conda_index({"depends": list(label.values)}).depends
            depends = (*self.fat.depends, *asks)
            found.append(self.fat.replace(path=label.name, build_number=number, depends=depends))
        return tuple(found)

    def taken(self, device: Device, driver: Driver) -> tuple[str, ...]:
        """Return the labels that solvers take for a device alone in its machine; none if they install nothing."""
        return labels_taken(self.builds, device, driver)

    def options_for(self, label: Label, codes: Sequence[LibraryCode], judge: ServingJudge) -> SlimOptions:
        """Return what stays for a label: what its devices load, and the newest PTX if there are later ones."""
        release = Release([codes], judge)
        devices = tuple(one for one in label.devices if release.may_run(one))
        is_open = isinstance(label, CondaLabel) and label.end is None
        return SlimOptions(
            devices=devices or label.devices,
            drop=OF_OTHERS["nvidia"],
            keep_ptx="newest" if is_open else "none",
            allow_empty=True,
        )


def labels_taken(builds: Sequence[CondaPackage], device: Device, driver: Driver) -> tuple[str, ...]:
    """Return the paths of the builds that solvers may take for a device alone in its machine."""
    arch = device.nvidia
    machine = CondaMachine(((arch.major, arch.minor),) if arch is not None else (), driver)
    choice = choose_conda_package(builds, machine)
    return () if choice.package is None else tuple(one.path for one in (choice.package, *choice.equals))


def table_of_admitted(package: CondaPackage) -> tuple[Device, ...]:
    """Return the devices that may have a package, from the lowest one on that any release is asked about."""
    admitted = admitted_devices(package).capabilities
    return tuple(Device("nvidia", f"sm_{major}{minor}") for major, minor in admitted if (major, minor) >= _LOWEST)


def map_conda_labels(
    packages: Sequence[Sequence[LibraryCode]],
    by: str,
    judge: ServingJudge,
    fat: CondaPackage,
    depend_on: CondaDependency,
) -> CondaLabels:
    """Return the labels of a release, each with its range and devices.

    ``packages`` are the libraries of each package, ``by`` a rule or a list; ``fat`` says which devices may have them.
    Raises UsageError for a list that is none, or whose labels lie between each other.
    """
    release = Release(packages, judge)
    table = table_of_admitted(fat)
    proposed = propose(by, release.codes)
    refused = [RefusedLabel(one.name, _NOT_NVIDIA) for one in proposed if one.vendor != "nvidia"]
    own = sorted((one for one in proposed if one.vendor == "nvidia"), key=lambda one: min(one.numbers))
    _refuse_interleaved(own)
    is_open = admitted_devices(fat).is_open and any(_has_plain_text(code) for code in release.codes)
    labels: list[Label] = []
    for at, label in enumerate(own):
        limit = divmod(min(own[at + 1].numbers), 10) if at + 1 < len(own) else None
        runs = list(_runs(label, limit, table, release, is_open=is_open))
        if not runs:
            refused.append(RefusedLabel(label.name, "nothing runs on the devices that would get it"))
        # A label that was given is one package; a rule makes one for each range.
        for run in runs if by in RULES else runs[:1]:
            name = label.name if run is runs[0] else f"sm{run.start[0]}{run.start[1]}"
            specs = specs_of(run.start, run.end, depend_on)
            made = CondaLabel(name, "nvidia", specs, run.devices, start=run.start, end=run.end, specs=specs)
            labels.append(made.replace(notes=tuple(gaps(made, release))))
    return CondaLabels(tuple(labels), tuple(refused), table, False, fat.replace(path=""))


#: the reason for which other vendors' labels are refused
_NOT_NVIDIA = "cuda-arch is about NVIDIA's devices; all others get the fat package"


def _refuse_interleaved(labels: Sequence[Label]) -> None:
    for label, other in pairwise(labels):
        if max(label.numbers) >= min(other.numbers):
            text = f"labels {label.name} and {other.name} lie between each other, and a conda package has one range"
            raise UsageError(text, hint="give each label neighbouring devices: ampere=sm_80+sm_86,hopper=sm_90")


class _Run(Record):
    """Neighbouring devices that are served, and their range, which ends before ``end``; None: with no device."""

    devices: tuple[Device, ...]
    start: Capability
    end: Capability | None


def _runs(
    label: Label, limit: Capability | None, table: Sequence[Device], release: Release, *, is_open: bool
) -> Iterator[_Run]:
    """Yield the ranges of a label, all of them before ``limit``; ``is_open``: PTX serves devices that are to come."""
    first, newest = divmod(min(label.numbers), 10), max(label.numbers) // 10
    newer = [major for major in _majors(release.codes) if major > newest]
    stop = min([*([limit] if limit else []), *((major, 0) for major in newer)], default=None)
    own = [one for one in table if first <= _capability(one) and (stop is None or _capability(one) < stop)]
    served: list[Device] = []
    for device in (*own, None):
        if device is not None and release.may_run(device):
            served.append(device)
            continue
        if served:
            start, last = _capability(served[0]), _capability(served[-1])
            end = stop if device is None else _capability(device)
            if end is None and not is_open:
                end = last[0] + 1, 0
            # The label's own number may be that of a Jetson, which is not in the table of other machines.
            start = first if served[0] is own[0] and first >= _capability(table[0]) else start
            yield _Run(tuple(served), start, end)
        served = []


def specs_of(start: Capability, end: Capability | None, depend_on: CondaDependency) -> tuple[str, ...]:
    """Return the dependencies of a package for the devices from one capability up to another, None: for all later."""
    bounds = f">={start[0]}.{start[1]}" + (f",<{end[0]}.{end[1]}" if end else "")
    if depend_on == CUDA_ARCH or end is None:
        return (f"{depend_on} {bounds}",)
    return f"{depend_on} {bounds}", f"{CUDA_ARCH} <{end[0]}.{end[1]}"


def _majors(codes: Sequence[LibraryCode]) -> Iterator[int]:
    """Yield the major versions for which there is machine code."""
    for image in (image for code in codes for image in code.candidates if image.form != "ptx"):
        arch = parse_nvidia(image.arch)
        if arch is not None and not arch.is_virtual:
            yield arch.major


def _has_plain_text(code: LibraryCode) -> bool:
    """Return whether a library has PTX that every later device compiles."""
    archs = (parse_nvidia(image.arch) for image in code.candidates if image.form == "ptx")
    return any(arch is not None and not arch.suffix for arch in archs)


def _capability(device: Device) -> Capability:
    arch = device.nvidia
    assert arch is not None
    return arch.major, arch.minor
