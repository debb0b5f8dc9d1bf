"""Records of ``split``: labels of a release, packages of each label, and what every device gets today and then."""

from __future__ import annotations

from fatpack.errors import FatpackError, pluralize
from fatpack.exit_codes import FINDINGS, FINE
from fatpack.printable import format_size
from fatpack.record import Record
from fatpack.result import MAX_PROBLEM_LINES, Result, to_plain_data

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from fatpack.commands.split.labels import RefusedLabel

#: The version of the JSON document.
SCHEMA = "fatpack.split/1"


class SplitRefused(FatpackError):
    """A device would get less than the fat package gives it, so nothing is written."""

    exit_code = FINDINGS


class LabelFacts(Record):
    """A label: its properties by vendor and feature, the devices to which installers give it, and what to know."""

    label: str
    devices: tuple[str, ...]
    properties: Mapping[str, Mapping[str, Sequence[str]]]
    notes: tuple[str, ...] = ()


class LibraryFacts(Record):
    """A library in the package of a label: sizes in bytes, and images by architecture that stay and go."""

    name: str
    before: int
    after: int
    kept: Mapping[str, int]
    dropped: Mapping[str, int]
    notes: tuple[str, ...] = ()


class VariantFacts(Record):
    """The package of a label: its file name, its bytes, and those of its libraries when they are installed.

    ``path`` is where it was written, "" if it was not. ``rule`` says what is in that of all others.
    """

    label: str
    name: str
    path: str
    size: int
    installed: int
    libraries: tuple[LibraryFacts, ...] = ()
    rule: str = ""


class DeviceFacts(Record):
    """A device: what it gets of the fat package, and of the package of the label that an installer takes.

    ``driver`` is the CUDA version from which on it gets the label, "" for any; with an older one it gets ``otherwise``.
    """

    device: str
    vendor: str
    today: str
    label: str
    then: str
    download: int
    driver: str = ""
    otherwise: str = ""


class PackageFacts(Record):
    """A fat package, and what became of it: ``size`` is its own, ``installed`` that of its libraries, in bytes."""

    path: str
    size: int
    installed: int
    variants: tuple[VariantFacts, ...]
    devices: tuple[DeviceFacts, ...]
    notes: tuple[str, ...] = ()


class ReleaseFacts(Record):
    """A release: the labels that all its packages share, the refused labels, and the index file that lists the labels.

    ``kind`` is that of its packages, ``wheel`` or ``conda``; of conda's no file lists the labels.
    """

    name: str
    index: str
    schema_version: str
    labels: tuple[LabelFacts, ...]
    refused: tuple[RefusedLabel, ...]
    packages: tuple[PackageFacts, ...]
    kind: str = "wheel"


class SplitResult(Result):
    """The result of ``split``: releases, each with its labels and packages. ``written`` is False for a dry run."""

    releases: tuple[ReleaseFacts, ...]
    written: bool = True

    @property
    def verdict(self) -> str:
        """``split``, or ``planned`` if nothing was written."""
        return "split" if self.written else "planned"

    def lines(self) -> Sequence[str]:
        """Return a line for each package, and one for each label that was refused."""
        found = []
        for release in self.releases:
            for package in release.packages:
                sizes = ", ".join(f"{one.label} {format_size(one.size)}" for one in package.variants)
                found.append(f"{package.path}: {format_size(package.size)} → {sizes or 'nothing'}")
            found += (f"{one.name} is no label: {one.reason}" for one in release.refused)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the document of ``--json``."""
        releases = [_release(one) for one in self.releases]
        return {"schema": SCHEMA, "written": self.written, "releases": releases, "exit_code": self.exit_code}


def _release(one: ReleaseFacts) -> dict[str, Any]:
    labels = [{**to_plain_data(label), "properties": _plain(label.properties)} for label in one.labels]
    return {**to_plain_data(one), "labels": labels}


def _plain(properties: Mapping[str, Mapping[str, Sequence[str]]]) -> dict[str, dict[str, list[str]]]:
    return {
        vendor: {feature: list(values) for feature, values in features.items()}
        for vendor, features in properties.items()
    }


# Proof of packages that are there: each against the fat one, and all together for every device.


class VariantVerdict(Record):
    """The proof of one package: ``problems`` are differences from the fat one, and properties that it must not have."""

    label: str
    path: str
    is_proved: bool
    problems: tuple[str, ...] = ()


class LostDevice(Record):
    """A device that gets less than of the fat package: ``driver`` is its driver's CUDA version, "" for others."""

    device: str
    driver: str
    label: str
    library: str
    before: str
    after: str

    @property
    def words(self) -> str:
        """The loss in words."""
        (found,) = losses_in_words([self])
        return found


class ChangedDevice(Record):
    """A device that takes other images than of the fat package, and no fewer: ``before`` and ``after`` name them."""

    device: str
    driver: str
    label: str
    library: str
    before: str
    after: str


def losses_in_words(lost: Sequence[LostDevice | ChangedDevice]) -> list[str]:
    """Return losses and changes in words: those of devices and drivers that get the same are one line."""
    drivers: dict[tuple[str, ...], list[str]] = {}
    for one in lost:
        key = one.device, one.label, one.library, one.before, one.after
        drivers.setdefault(key, []).append(one.driver)
    devices: dict[tuple[str, ...], list[str]] = {}
    for (device, *rest), versions in drivers.items():
        between = versions[0] if len(versions) == 1 else f"{versions[0]} to {versions[-1]}"
        devices.setdefault((between, *rest), []).append(device)
    found = []
    for (between, label, library, before, after), names in devices.items():
        machine = f"{', '.join(names)} with a driver of CUDA {between}" if between else ", ".join(names)
        verb = "gets" if len(names) == 1 else "get"
        taken = f"{verb} {label}" if label else f"{verb} the package without label"
        found.append(f"{machine} {taken}: {library}: {after}, and {before} of the fat package")
    return found


class SplitVerdict(Result):
    """The proof of a split from its files alone: each package, and what every device gets.

    ``questions`` is the number of devices with drivers that were asked about. ``changed`` are those that get as much as
    before, of other images.
    """

    fat: tuple[str, ...]
    folder: str
    variants: tuple[VariantVerdict, ...]
    lost: tuple[LostDevice, ...]
    problems: tuple[str, ...]
    questions: int
    changed: tuple[ChangedDevice, ...] = ()

    @property
    def is_proved(self) -> bool:
        """True if each package is proved, no device loses anything, and the files fit together."""
        return bool(self.variants) and all(one.is_proved for one in self.variants) and not (self.lost or self.problems)

    @property
    def exit_code(self) -> int:
        """0 if all is proved, else 1."""
        return FINE if self.is_proved else FINDINGS

    @property
    def verdict(self) -> str:
        """``proved`` or ``not proved``."""
        return "proved" if self.is_proved else "not proved"

    def lines(self) -> Sequence[str]:
        """Return the verdict, and the first problems."""
        wrong = [f"{one.path}: {problem}" for one in self.variants for problem in one.problems]
        wrong += [*self.problems, *losses_in_words(self.lost)]
        more = [f"and {len(wrong) - MAX_PROBLEM_LINES} more"] if len(wrong) > MAX_PROBLEM_LINES else []
        count = pluralize(len(self.variants), "package")
        proved = sum(one.is_proved for one in self.variants)
        asked = pluralize(self.questions, "question")
        first = (
            f"{self.folder}: {proved} of {count} proved to be the fat one with less device code; of {asked} "
            f"(a device with a driver) {len(self.lost) or 'none'} would get less than today"
        )
        return [first, *wrong[:MAX_PROBLEM_LINES], *more]

    def to_dict(self) -> dict[str, Any]:
        """Return the document of ``--verify --json``."""
        return {
            "schema": VERIFY_SCHEMA,
            "proved": self.is_proved,
            **to_plain_data(self),
            "exit_code": self.exit_code,
        }


#: The version of the JSON document of ``--verify``.
VERIFY_SCHEMA = "fatpack.split-proof/1"
