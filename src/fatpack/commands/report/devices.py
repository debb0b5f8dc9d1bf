"""On which devices all kernels of a library run: the runtimes' rules are asked of each known device of its vendors."""

from __future__ import annotations

from fatpack.commands.report.model import RunsOn
from fatpack.commands.report.sizes import arch_sort_key
from fatpack.targets.coverage import nvidia_capabilities as nvidia_devices
from fatpack.targets.devices import Device
from fatpack.targets.selection.choice_settings import RuntimeSettings
from fatpack.targets.selection.select_image import select_image
from fatpack.targets.vocabulary import load_vocabulary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from fatpack.targets.selection.select_image import CandidateSet

#: outcomes of the images of one column, the worst of all states of a device last
_WORST = ("runs", "unknown", "compiles", "fails")

#: outcome → the field of :class:`RunsOn` where it is that of the worst kernel
_FIELDS = {"runs": "ready", "compiles": "compiled", "unknown": "unknown", "some": "partly"}


class DeviceOutcomes:
    """What becomes of images on devices; the same question is asked once for all files."""

    def __init__(self) -> None:
        self._known: dict[tuple[CandidateSet, str], str] = {}
        self._vendors: dict[str, tuple[str, ...]] = {}

    def of(self, images: CandidateSet, vendor: str, device: Device) -> str:
        """Return what becomes of the images of one column on a device: runs, unknown, compiles or fails."""
        if device.vendor != vendor or (vendor == "nvidia" and device.nvidia is None):
            return "fails"
        key = images, device.arch
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = _outcome(images, device)
        return found

    def runs_on(
        self, kinds: Sequence[tuple[CandidateSet, str, str]], linked: int, patterns: Collection[int]
    ) -> tuple[RunsOn, ...]:
        """Return one answer for each vendor. ``kinds`` are images, vendor and architecture of each column, ``linked``
        the columns that wait for a link, ``patterns`` the columns that kernels have.
        """
        vendors = dict.fromkeys(vendor for _, vendor, _ in kinds)
        return tuple(self._of_vendor(vendor, kinds, linked, patterns) for vendor in vendors)

    def _of_vendor(
        self, vendor: str, kinds: Sequence[tuple[CandidateSet, str, str]], linked: int, patterns: Collection[int]
    ) -> RunsOn:
        names = self._names(vendor)
        own = [arch for _, its, arch in kinds if its == vendor and ":" in arch]
        found: dict[str, list[str]] = {field: [] for field in _FIELDS.values()}
        mine = sum(1 << bit for bit, (_, its, _) in enumerate(kinds) if its == vendor)
        asked = {bits & mine & ~linked for bits in patterns if bits & mine}
        for name in dict.fromkeys((*names, *own)):
            device = Device(vendor, name)
            outcomes = [self.of(images, its, device) for images, its, _ in kinds]
            worst = _worst(outcomes, asked)
            is_told = ":" in name and name.partition(":")[0] in found["ready"]
            if worst in _FIELDS and not is_told:
                found[_FIELDS[worst]].append(name)
        if vendor != "intel":  # names of Intel's devices have no numbers to be ordered by
            found = {field: sorted(archs, key=arch_sort_key) for field, archs in found.items()}
        ready, compiled, partly, unknown = (tuple(found[name]) for name in ("ready", "compiled", "partly", "unknown"))
        return RunsOn(vendor, ready, compiled, partly, unknown, is_every=set(names) <= {*ready, *compiled})

    def _names(self, vendor: str) -> tuple[str, ...]:
        """Return the known devices of a vendor, older ones first."""
        if vendor not in self._vendors:
            words = load_vocabulary()
            names: Iterable[str]
            if vendor == "nvidia":
                names = [arch.name for arch in nvidia_devices()]
            elif vendor == "amd":
                names = [line.name for line in words.amd.values() if line.kind == "processor"]
            else:
                names = [line.names[0] for line in words.intel.values() if line.kind == "gpu"]
            self._vendors[vendor] = tuple(dict.fromkeys(names))
        return self._vendors[vendor]


def _outcome(images: CandidateSet, device: Device) -> str:
    choices = select_image(images, device, RuntimeSettings())
    if any(choice.image is None or not choice.judgements[0].fits for choice in choices):
        return "fails"
    return max((choice.outcome for choice in choices), key=_WORST.index)


def _worst(outcomes: Sequence[str], patterns: Collection[int]) -> str:
    """Return what becomes of the kernels that fare worst; ``some`` where only others get anything."""
    masks = {word: sum(1 << bit for bit, outcome in enumerate(outcomes) if outcome == word) for word in _WORST[:3]}
    order = ("runs", "compiles", "unknown")
    each = [next((word for word in order if bits & masks[word]), "fails") for bits in patterns]
    if "fails" in each:
        return "some" if set(each) != {"fails"} else "fails"
    return max(each, key=order.index) if each else "fails"
