"""The cost of an architecture of a file, and its use: its bytes, and what its devices would take without it.

For each set of images from which a runtime selects, every known device is asked twice: with all images, and without
those of the architecture that it takes. Of the answers for several sets the worst counts: a library is of use to a
device only if all of its code is.
"""

from __future__ import annotations

from fatpack.errors import pluralize
from fatpack.printable import format_size
from fatpack.record import Record
from fatpack.targets.devices import Device, nvidia_capabilities
from fatpack.targets.nvidia import parse_nvidia
from fatpack.targets.selection.runtime_settings import RuntimeSettings
from fatpack.targets.selection.select_image import select_image
from fatpack.targets.vocabulary import load_vocabulary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.targets.selection.model import CandidateImage
    from fatpack.targets.selection.select_image import CandidateSet

#: outcomes without an image, the best first; ``fails`` is called nothing
_OUTCOMES = ("runs", "compiles", "unknown", "fails")

#: devices that a sentence names
_NAMED = 4


class Substitute(Record):
    """The code that some devices take if an architecture goes; ``outcome``: runs, compiles, unknown or fails.

    ``label`` is what they take then, "" if nothing; several where containers differ.
    """

    devices: tuple[str, ...]
    outcome: str
    label: str

    @property
    def words(self) -> str:
        """The substitute in words: ``run sm_86's code``."""
        if self.outcome == "fails" or not self.label:
            return "have nothing"
        owner = f"{self.label}'s code" if "," not in self.label else f"the code of {self.label}"
        verb = {"runs": "run", "compiles": "compile", "unknown": "perhaps run"}[self.outcome]
        return f"{verb} {self.label if self.outcome == 'compiles' else owner}"


class ArchCost(Record):
    """The images of an architecture, or its PTX, in one file (``path``), or in all (``path`` is "").

    ``stored`` are the bytes that they take in the files (None: not known), ``kernels`` how many they have, ``devices``
    the known ones that take one of them now, and ``instead`` what becomes of these devices without it.
    """

    label: str
    images: int
    stored: int | None
    inflated: int = 0
    kernels: int = 0
    devices: tuple[str, ...] = ()
    instead: tuple[Substitute, ...] = ()
    path: str = ""

    @property
    def advice(self) -> str:
        """The cost in a sentence: ``sm_89 costs 61 MB, and its devices would run sm_86's code``."""
        size = format_size(self.inflated if self.stored is None else self.stored)
        cost = f"{self.label} costs {size}{' inflated' if self.stored is None else ''}"
        if not self.devices:
            return f"{cost}, and no known device takes it"
        if len(self.instead) == 1:
            return f"{cost}, and its devices would {self.instead[0].words}"
        parts = [f"{_names(one.devices)} would {one.words}" for one in self.instead]
        return f"{cost}: without it {', '.join(parts[:-1])} and {parts[-1]}"


def _names(devices: Sequence[str]) -> str:
    return ", ".join(devices) if len(devices) <= _NAMED else f"{pluralize(len(devices), 'device')} from {devices[0]} on"


def known_devices(vendor: str) -> tuple[Device, ...]:
    """Return the devices of a vendor that the tables name, by architecture; none of vendors but NVIDIA and AMD."""
    if vendor == "nvidia":
        return tuple(Device(vendor, arch.name) for arch in nvidia_capabilities())
    if vendor == "amd":
        return tuple(Device(vendor, line.name) for line in load_vocabulary().amd.values() if line.kind == "processor")
    return ()


class _Sum:
    def __init__(self) -> None:
        self.images = self.inflated = self.kernels = self.stored = 0
        self.is_known = True
        #: device → what it takes instead in each set: outcome and label
        self.instead: dict[str, set[tuple[str, str]]] = {}


#: what a set of images answers: label → device → outcome and label without it
_Answer = dict[str, dict[str, tuple[str, str]]]


class ArchCosts:
    """The costs of the architectures of one file, or of several; an answer is computed once for sets that are alike."""

    def __init__(self, answers: dict[object, _Answer] | None = None) -> None:
        self._sums: dict[str, _Sum] = {}
        self._answers: dict[object, _Answer] = {} if answers is None else answers

    def count(self, label: str, stored: int | None, inflated: int = 0, kernels: int = 0) -> None:
        """Add an image."""
        whole = self._sums.setdefault(label, _Sum())
        whole.images += 1
        whole.inflated += inflated
        whole.kernels += kernels
        whole.stored += stored or 0
        whole.is_known &= stored is not None

    def choose(self, images: CandidateSet, labels: Sequence[str], vendor: str) -> None:
        """Add a set from which a runtime selects; ``labels`` are those of its images, in their order."""
        plain = tuple(_plain(image) for image in images.candidates)
        alike = images.replace(candidates=plain, bundle_version=None)
        key = alike, tuple(labels), vendor
        if key not in self._answers:
            self._answers[key] = _ask(alike, labels, vendor)
        for label, devices in self._answers[key].items():
            instead = self._sums.setdefault(label, _Sum()).instead
            for device, answer in devices.items():
                instead.setdefault(device, set()).add(answer)

    def records(self, path: str = "") -> tuple[ArchCost, ...]:
        """Return the cost of each architecture, oldest first."""
        return tuple(self._record(label, self._sums[label], path) for label in sorted(self._sums, key=_order))

    def _record(self, label: str, whole: _Sum, path: str) -> ArchCost:
        groups: dict[tuple[str, str], list[str]] = {}
        for device, answers in whole.instead.items():
            worst = max((outcome for outcome, _ in answers), key=_OUTCOMES.index)
            taken = sorted({name for outcome, name in answers if outcome == worst}, key=_order)
            groups.setdefault((worst, ", ".join(filter(None, taken))), []).append(device)
        instead = tuple(Substitute(tuple(names), *key) for key, names in groups.items())
        stored = whole.stored if whole.is_known else None
        facts = whole.images, stored, whole.inflated, whole.kernels
        return ArchCost(label, *facts, tuple(whole.instead), instead, path)


def _plain(image: CandidateImage) -> CandidateImage:
    """Return an image without what does not decide what devices take: sets of a library then are alike."""
    return image.replace(ptx_version=None, compression=None, contents="", code_object=None, actual_form="")


def _ask(images: CandidateSet, labels: Sequence[str], vendor: str) -> _Answer:
    found: _Answer = {}
    for device in known_devices(vendor):
        for state, taken in enumerate(_taken(images, device)):
            if taken is None:
                continue
            label = labels[taken]
            left = [at for at, name in enumerate(labels) if name != label]
            fewer = images.replace(candidates=tuple(images.candidates[at] for at in left))
            choice = select_image(fewer, device, RuntimeSettings())[state] if left else None
            if choice is None or choice.image is None:
                answer = "fails", ""
            else:
                answer = choice.outcome, "" if choice.outcome == "fails" else labels[left[choice.image]]
            devices = found.setdefault(label, {})
            before = devices.get(device.arch)
            if before is None or _OUTCOMES.index(before[0]) < _OUTCOMES.index(answer[0]):
                devices[device.arch] = answer
    return found


def _taken(images: CandidateSet, device: Device) -> Iterator[int | None]:
    for choice in select_image(images, device, RuntimeSettings()):
        yield choice.image if choice.outcome != "fails" else None


def _order(label: str) -> tuple[int, str]:
    arch = parse_nvidia(label.replace("compute_", "sm_").replace("lto_", "sm_"))
    return (arch.number if arch else 0, label)
