"""The labels of a release: by a rule or as given, the devices that get each, its properties, and why one is refused.

The data that decide are those of the release: what runs where. A label's *devices* are those of the table to which the
installer gives it, by its own rules, not those that one would like; its package keeps what they load. Where installer
and driver disagree, the label is narrowed or refused (each has a test in ``tests/commands/split/test_traps.py``):

* NVIDIA's provider lists ``100_real`` for 10.3 too, and code for ``sm_100a`` does not run there: no label.
* It lists no PTX of an earlier major: what only such PTX serves goes to ``null``, which keeps it.
* Of two labels that fit, the one with the higher driver floor wins before the architecture is compared: labels of one
  major version share a floor.
* Of several GPUs only the highest counts, which no label can mend: the result says so.
"""

from __future__ import annotations

from fatpack.commands.slim.options import SlimOptions
from fatpack.commands.split.variants import check_label
from fatpack.errors import UsageError, cli_or_api
from fatpack.record import Record
from fatpack.targets.devices import Device, nvidia_capabilities, parse_device
from fatpack.targets.installers.variant_providers import (
    CUDA_MAJORS,
    LOWEST_CAPABILITY,
    NULL_LABEL,
    amd_features,
    choose_label,
    nvidia_features,
)
from fatpack.targets.nvidia import RENAMED, TEGRA_ARCHS, cuda_versions, parse_nvidia
from fatpack.targets.selection.select_image import first_cuda_for_device
from fatpack.targets.vocabulary import load_vocabulary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from fatpack.commands.split.serving import LibraryCode, ServingJudge
    from fatpack.targets.installers.variant_providers import Properties

    Driver: TypeAlias = "tuple[int, int] | None"

#: rules by which labels are made; anything else is a list of them
RULES = ("family", "device")

#: vendors whose devices installers can tell apart, in the order in which they are preferred
VENDORS = ("nvidia", "amd")

#: vendor → patterns of what only the other vendor's devices load
OF_OTHERS = {"nvidia": ("gfx*", "amdgcnspirv"), "amd": ("sm_*", "compute_*", "lto_*")}


class Label(Record):
    """A label: ``values`` are what the installer compares, ``devices`` those of the table to which it gives the label.

    ``floor`` is the CUDA version of the oldest driver that it asks for, None for any. ``notes`` say what a packager
    should know, and ``is_insisted`` that devices without code were accepted.
    """

    name: str
    vendor: str
    values: tuple[str, ...]
    devices: tuple[Device, ...] = ()
    floor: tuple[int, int] | None = None
    notes: tuple[str, ...] = ()
    is_insisted: bool = False

    @property
    def properties(self) -> Properties:
        """The properties of its package, by vendor and feature."""
        feature = "sm_arch" if self.vendor == "nvidia" else "gfx_arch"
        found = {feature: self.values}
        if self.floor is not None:
            found["cuda_version_lower_bound"] = (f"{self.floor[0]}.{self.floor[1]}",)
        return {self.vendor: found}

    @property
    def numbers(self) -> tuple[int, ...]:
        """The compute capabilities of its values: 86 for ``86_real``; none for other vendors."""
        return tuple(int(value.removesuffix("_real")) for value in self.values) if self.vendor == "nvidia" else ()


class RefusedLabel(Record):
    """A label that no package gets: ``null`` serves its devices."""

    name: str
    reason: str


class LabelMap(Record):
    """The labels of a release, the same for all its packages. ``devices`` is the table of what the release can serve.

    ``vendors`` are those of the labels; ``has_null`` says that a package for all others is among them.
    """

    labels: tuple[Label, ...]
    refused: tuple[RefusedLabel, ...]
    devices: tuple[Device, ...]
    has_null: bool = True

    @property
    def vendors(self) -> tuple[str, ...]:
        """The vendors of the labels, the preferred one first; of a release without labels NVIDIA, to say one."""
        own = {label.vendor for label in self.labels}
        return tuple(vendor for vendor in VENDORS if vendor in own) or VENDORS[:1]

    @property
    def variants(self) -> dict[str, Properties]:
        """The properties of each label."""
        found: dict[str, Properties] = {label.name: label.properties for label in self.labels}
        return {**found, **({NULL_LABEL: {}} if self.has_null else {})}

    def taken(self, device: Device, driver: Driver) -> tuple[str, ...]:
        """Return the labels that installers take for a device alone in its machine, the usual one first.

        "" is the package without label; none means that nothing is installed.
        """
        return taken_labels(self.variants, self.vendors, device, driver)

    def options_for(self, label: Label, codes: Sequence[LibraryCode], judge: ServingJudge) -> SlimOptions:
        """Return what stays in the package of a label."""
        return options_for(label, codes, judge)


def taken_label(variants: Mapping[str, Properties], vendors: Sequence[str], device: Device, driver: Driver) -> str:
    """Return the label that an installer takes for a device alone in its machine, "" for the package without a label.

    ``driver`` is the CUDA version of its driver, None: the newest.
    """
    features: dict[str, Mapping[str, Sequence[str]]] = {}
    arch = device.nvidia
    if arch is not None:
        features["nvidia"] = nvidia_features([(arch.major, arch.minor)], driver or all_drivers()[-1])
    elif device.vendor == "amd":
        features["amd"] = amd_features([device.arch], None)
    return choose_label(variants, features, vendors) or ""


def all_drivers() -> tuple[tuple[int, int], ...]:
    """Return the CUDA versions of drivers that providers list, oldest first."""
    return tuple(version for version in cuda_versions() if version[0] in CUDA_MAJORS)


def drivers_for(device: Device) -> tuple[Driver, ...]:
    """Return the drivers with which a device is asked about: those of NVIDIA that find it; others are asked once."""
    if device.vendor != "nvidia":
        return (None,)
    first = first_cuda_for_device(device) or (0, 0)
    return tuple(driver for driver in all_drivers() if driver >= first) or all_drivers()[-1:]


def taken_labels(
    variants: Mapping[str, Properties], vendors: Sequence[str], device: Device, driver: Driver
) -> tuple[str, ...]:
    """Return the labels that installers take for a device: uv has NVIDIA's provider alone, others have AMD's too."""
    found = taken_label(variants, vendors, device, driver)
    without = choose_label(variants, {}, vendors) or ""
    return tuple(dict.fromkeys((found, without))) if device.vendor != "nvidia" else (found,)


def table_of_devices(codes: Iterable[LibraryCode]) -> tuple[Device, ...]:
    """Return the devices that a release is asked about: all of NVIDIA that providers list, and AMD's that it names."""
    archs = {image.arch.partition(":")[0] for code in codes for image in code.candidates}
    lowest = LOWEST_CAPABILITY[0] * 10 + LOWEST_CAPABILITY[1]
    found = [Device("nvidia", arch.name) for arch in nvidia_capabilities() if arch.number >= lowest]
    words = load_vocabulary()
    gfx = {member for arch in archs if arch in words.amd and arch != "amdgcnspirv" for member in words.members(arch)}
    return (*found, *(Device("amd", arch) for arch in sorted(gfx, key=_gfx_key)))


def _gfx_key(arch: str) -> tuple[int, str]:
    return len(arch), arch


def propose(by: str, codes: Sequence[LibraryCode]) -> list[Label]:
    """Return the labels of a rule, or of a list (``sm_80,hopper=sm_90``), without devices. Raises UsageError.

    ``family``: one for each major version of NVIDIA, named by its lowest code, and for each target of AMD. ``device``:
    one for each architecture that the release has code for.
    """
    if by not in RULES:
        return list(_listed(by))
    archs = [image.arch for code in codes for image in code.candidates if image.form != "ptx"]
    numbers = sorted(
        {arch.number for name in archs if (arch := parse_nvidia(name)) is not None and not arch.is_virtual}
    )
    if by == "family":
        numbers = [number for at, number in enumerate(numbers) if not at or numbers[at - 1] // 10 != number // 10]
    labels = [Label(f"sm{number}", "nvidia", (f"{number}_real",)) for number in numbers]
    words = load_vocabulary()
    gfx = sorted({name.partition(":")[0] for name in archs if name.partition(":")[0] in words.amd}, key=_gfx_key)
    own = [name for name in gfx if words.amd[name].kind == "processor"]
    labels += (Label(name, "amd", (name,)) for name in own)
    for name in gfx:
        members = tuple(member for member in words.members(name) if member not in own)
        if words.amd[name].kind == "generic" and members:
            labels.append(Label(name.replace("-", "_"), "amd", members))
    return labels


def _listed(by: str) -> Iterator[Label]:
    seen: set[str] = set()
    for item in by.split(","):
        if item.strip() in RULES:
            text = f"{cli_or_api('--by', 'by')}: {item.strip()} is a rule for all labels, and stands alone"
            raise UsageError(text, hint=f"write {item.strip()} alone, or a list of devices: sm_80,hopper=sm_90")
        name, equals, archs = item.strip().rpartition("=")
        devices = [parse_device(arch.strip()) for arch in archs.split("+") if arch.strip()]
        if not devices or (equals and not name):
            text = f"{cli_or_api('--by', 'by')}: {item.strip()[:40]!r} names no device"
            raise UsageError(text, hint="write family, device, or labels: sm_80,hopper=sm_90,ampere=sm_80+sm_86")
        vendors = {device.vendor for device in devices}
        if len(vendors) > 1 or not vendors <= set(VENDORS):
            which = "devices of two vendors" if len(vendors) > 1 else f"a device of {vendors.pop()}"
            raise UsageError(
                f"{item.strip()[:40]!r} has {which}, which no label can have",
                hint="a package fits if the machine has one value of each vendor: give each vendor its own label",
            )
        if any(":" in device.arch for device in devices):
            text = f"{item.strip()[:40]!r} has a feature, and providers list processors without them"
            raise UsageError(text, hint="leave out the part after the colon: gfx90a")
        vendor, archs_of = devices[0].vendor, tuple(dict.fromkeys(device.arch for device in devices))
        label = check_label(name or "_".join(arch.replace("_", "") for arch in archs_of))
        if label in seen:
            raise UsageError(f"label {label} is given twice", hint=f"join them: {label}=A+B")
        seen.add(label)
        values = tuple(f"{arch.removeprefix('sm_')}_real" for arch in archs_of) if vendor == "nvidia" else archs_of
        yield Label(label, vendor, values)


class Release:
    """The code in all packages of a release, and the answers about it."""

    def __init__(self, packages: Sequence[Sequence[LibraryCode]], judge: ServingJudge) -> None:
        self.packages = packages
        self.judge = judge
        self.codes = [code for package in packages for code in package]

    def runs(self, device: Device) -> bool:
        """Return whether something runs on a device, in any library."""
        return any(self.judge.served(code, device, None).runs for code in self.codes)

    def may_run(self, device: Device, driver: Driver = None) -> bool:
        """Return whether something runs, or if that is not known."""
        return any(self.judge.serves(code, device, driver) for code in self.codes)

    def tied(self, device: Device) -> tuple[str, ...]:
        """Return the architectures of cubins that would run on a device if they were not tied to others (``a``, ``f``).

        Those are what an installer takes for code of the device.
        """
        arch = device.nvidia
        if arch is None:
            return ()
        found = set()
        for image in (image for code in self.codes for image in code.candidates if image.form != "ptx"):
            one = parse_nvidia(image.arch)
            if one is not None and one.suffix:
                number = RENAMED.get(one.number, one.number)
                if arch.major * 10 <= number <= arch.number:
                    found.add(image.arch)
        return tuple(sorted(found))

    def floor(self, devices: Sequence[Device]) -> tuple[int, int] | None:
        """Return the oldest driver that a label may ask for without promising what does not run, None for any.

        Libraries of several toolkits in one package are alternatives: those of the oldest one decide.
        """
        plain = [one for one in devices if one.nvidia is not None and one.nvidia.number not in TEGRA_ARCHS]
        found = [self._floor_of(package, plain or devices) for package in self.packages]
        floor = max(found, default=(0, 0))
        return floor if floor >= (CUDA_MAJORS[0], 0) else None

    def _floor_of(self, package: Sequence[LibraryCode], devices: Sequence[Device]) -> tuple[int, int]:
        needs: list[tuple[int | None, tuple[int, int]]] = []
        for code in package:
            own = [needed for one in devices if (needed := self.judge.needed_driver(code, one)) is not None]
            if own:
                needs.append((code.cuda_runtime, max(own)))
        oldest = min((runtime for runtime, _ in needs if runtime is not None), default=None)
        return max((needed for runtime, needed in needs if runtime in (None, oldest)), default=(0, 0))


def map_labels(
    packages: Sequence[Sequence[LibraryCode]],
    by: str,
    judge: ServingJudge,
    *,
    insisted: Sequence[str] = (),
    has_null: bool = True,
) -> LabelMap:
    """Return the labels of a release, each with its devices and properties.

    ``packages`` are the libraries of each package, ``by`` a rule or a list; ``insisted`` are labels that stay although
    devices that get them have no code. Raises UsageError for a list that is none, and for an insisted label that is
    not among them.
    """
    release = Release(packages, judge)
    table = table_of_devices(release.codes)
    labels = propose(by, release.codes)
    for name in insisted:
        if name not in (label.name for label in labels):
            known = ", ".join(label.name for label in labels) or "none"
            raise UsageError(f"there is no label {name[:40]} to insist on", hint=f"labels: {known}")
    labels = [label.replace(is_insisted=label.name in insisted) for label in labels]
    refused: list[RefusedLabel] = []
    notes: dict[str, tuple[str, ...]] = {}
    is_stable = False
    while not is_stable:
        labels = _with_devices(labels, table)
        labels, is_stable = _judged(labels, release, refused, notes)
    labels = [label.replace(notes=(*notes.get(label.name, ()), *gaps(label, release))) for label in labels]
    return LabelMap(tuple(_with_floors(labels, release)), tuple(refused), table, has_null)


def _with_devices(labels: Sequence[Label], table: Sequence[Device]) -> list[Label]:
    """Return labels with the devices to which an installer gives them."""
    variants = {label.name: label.properties for label in labels}
    taken: dict[str, list[Device]] = {}
    for device in table:
        taken.setdefault(taken_label(variants, VENDORS, device, None), []).append(device)
    return [label.replace(devices=tuple(taken.get(label.name, ()))) for label in labels]


def _judged(
    labels: Sequence[Label], release: Release, refused: list[RefusedLabel], notes: dict[str, tuple[str, ...]]
) -> tuple[list[Label], bool]:
    """Return the labels up to the first that is narrowed or refused, which changes what others get, and the rest.

    The second value is True if there was none.
    """
    for at, label in enumerate(labels):
        rest = labels[at + 1 :]
        if not label.devices:
            refused.append(RefusedLabel(label.name, _taken_words(label, labels)))
            return [*labels[:at], *rest], False
        if not any(map(release.may_run, label.devices)):
            names = ", ".join(map(device_name, label.devices))
            refused.append(RefusedLabel(label.name, f"nothing runs on {names}"))
            return [*labels[:at], *rest], False
        narrowed = _narrowed(label, release)
        if narrowed.values != label.values:
            gone = ", ".join(device_name(one) for one in label.devices if not release.may_run(one))
            notes[label.name] = (f"narrowed to {', '.join(narrowed.values)}: nothing runs on {gone}",)
            return [*labels[:at], narrowed, *rest], False
        tied = [one for one in label.devices if not release.may_run(one) and release.tied(one)]
        if tied and not label.is_insisted:
            refused.append(RefusedLabel(label.name, _tied_words(label, tied, release)))
            return [*labels[:at], *rest], False
    return list(labels), True


def _taken_words(label: Label, labels: Sequence[Label]) -> str:
    """Return why no device gets a label: others that fit as well are preferred by installers."""
    alone = {label.name: label.properties}
    takers = [
        other.name
        for other in labels
        if any(taken_label(alone, VENDORS, device, None) == label.name for device in other.devices)
    ]
    if not takers:
        return "no device would get it"
    return f"no device would get it: its devices get {', '.join(takers)}"


def _narrowed(label: Label, release: Release) -> Label:
    """Return a label without values for which nothing runs: the installer gives ``80_real`` to 8.0 and all above."""
    values: list[str] = []
    numbers = sorted(label.numbers)
    if not numbers:
        return label
    for at, number in enumerate(numbers):
        end = next((other for other in numbers[at + 1 :] if other // 10 == number // 10), number // 10 * 10 + 10)
        own = [one.nvidia.number for one in label.devices if one.nvidia is not None and release.may_run(one)]
        start = min((one for one in own if number <= one < end), default=None)
        at_number = [one for one in label.devices if one.nvidia is not None and number <= one.nvidia.number < end]
        lowest = min((one.nvidia.number for one in at_number if one.nvidia is not None), default=number)
        if start is not None:
            values.append(f"{number if start == lowest else start}_real")
    return label.replace(values=tuple(dict.fromkeys(values)) or label.values)


def _tied_words(label: Label, devices: Sequence[Device], release: Release) -> str:
    names = ", ".join(map(device_name, devices))
    code = ", ".join(dict.fromkeys(name for one in devices for name in release.tied(one)))
    return (
        f"installers give {label.values[0]} to {names} too, and code for {code} alone does not run there: its devices "
        f"get {NULL_LABEL}; build for sm_{label.numbers[0]} or its family, add PTX, or insist with "
        f"{cli_or_api(f'--insist {label.name}', f'insist={label.name!r}')}"
    )


def gaps(label: Label, release: Release) -> Iterator[str]:
    """Yield the messages about devices that get a label and have no code, before and after."""
    empty = [one for one in label.devices if not release.may_run(one)]
    if empty:
        verbs = "gets it and has" if len(empty) == 1 else "get it and have"
        yield f"{', '.join(map(device_name, empty))}: {verbs} no code, before and after"
    unsure = [one for one in label.devices if release.may_run(one) and not release.runs(one)]
    if unsure:
        reasons = (release.judge.why_unknown(code, device) for device in unsure for code in release.codes)
        why = "; ".join(dict.fromkeys(filter(None, reasons)))
        verb = "gets" if len(unsure) == 1 else "get"
        yield f"{', '.join(map(device_name, unsure))}: {verb} it, and it is not known if its code runs there: {why}"


def _with_floors(labels: Sequence[Label], release: Release) -> Iterator[Label]:
    """Yield labels with their driver floors: the same for all of one major version.

    Installers compare the floor before the architecture: of ``sm80`` from 12.4 and ``sm86`` from 12.0 an 8.6 would get
    ``sm80``.
    """
    floors: dict[str, tuple[int, int] | None] = {}
    majors: dict[int, list[Label]] = {}
    for label in labels:
        if label.vendor == "nvidia":
            floors[label.name] = release.floor(label.devices)
            for major in {number // 10 for number in label.numbers}:
                majors.setdefault(major, []).append(label)
    is_stable = False
    while not is_stable:
        is_stable = True
        for group in majors.values():
            highest = max((floors[label.name] or (0, 0) for label in group), default=(0, 0))
            for label in group:
                if (floors[label.name] or (0, 0)) != highest:
                    floors[label.name], is_stable = highest, False
    yield from (label.replace(floor=floors.get(label.name)) for label in labels)


def device_name(device: Device) -> str:
    """Return a device as tables name it: its compute capability, or the processor."""
    return device.nvidia.capability if device.nvidia is not None else device.arch


# The code that stays in the package of a label.


def options_for(label: Label, codes: Sequence[LibraryCode], judge: ServingJudge) -> SlimOptions:
    """Return what stays for a label: what its devices load, PTX of its own major for later ones, and nothing else.

    Code for the devices of another vendor goes; a library without code for these devices becomes empty of it.
    """
    release = Release([codes], judge)
    devices = tuple(one for one in label.devices if release.may_run(one))
    majors = dict.fromkeys(number // 10 for number in label.numbers)
    keep = tuple(f"compute_{major}[0-9]" for major in majors)
    return SlimOptions(
        devices=devices or label.devices,
        keep=keep,
        drop=OF_OTHERS[label.vendor],
        keep_ptx="none",
        allow_empty=True,
    )


def options_for_rest(labels: LabelMap, codes: Sequence[LibraryCode], judge: ServingJudge) -> SlimOptions | None:
    """Return what stays for the devices that get no label, with any driver; None if there are none: all stays."""
    release = Release([codes], judge)
    variants, vendors = labels.variants, labels.vendors
    rest = tuple(
        device
        for device in labels.devices
        if any(
            release.may_run(device, driver) and NULL_LABEL in taken_labels(variants, vendors, device, driver)
            for driver in drivers_for(device)
        )
    )
    return SlimOptions(devices=rest, keep_ptx="newest", allow_empty=True) if rest else None
