"""Coverage: kernels of a library by architecture, and devices that get no kernel.

The rules of the runtimes decide (:mod:`fatpack.targets.selection`), of each image alone. What is relocatable, and what
only linkers take, counts through the device link: no device gets it as it is (C11, C12, C14).
"""

from __future__ import annotations

from fatpack.commands.report.model import CoveragePattern, KernelCoverage, RunsOn, arch_family, arch_label
from fatpack.commands.report.sizes import arch_sort_key
from fatpack.record import Record
from fatpack.tabular.image_sets import choosing_runtime, make_candidate, needs_device_link
from fatpack.targets.devices import Device
from fatpack.targets.devices import nvidia_capabilities as nvidia_devices
from fatpack.targets.selection.cuda import LINKED
from fatpack.targets.selection.model import image_vendor
from fatpack.targets.selection.runtime_settings import RuntimeSettings
from fatpack.targets.selection.select_image import CandidateSet, select_image
from fatpack.targets.vocabulary import load_vocabulary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from fatpack.tabular.columns import ImageRow, KernelRow


# The devices on which all kernels of a library run, by the runtimes' rules for each known device of its vendors.

#: outcomes of the images of one column, the worst of all states of a device last
_WORST = ("runs", "unknown", "compiles", "fails")

#: outcome → the field of :class:`RunsOn` where it is that of the worst kernel
_FIELDS = {"runs": "ready", "compiles": "compiled", "unknown": "unknown", "some": "partly"}


class DeviceOutcomes:
    """Outcomes of images on devices, cached: each combination is evaluated once for all files."""

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


#: LIMIT: characters of kernel names that are compared in one file; torch has 5 million. Kernels beyond are counted.
_MOST_CHARACTERS = 100_000_000

#: LIMIT: columns of one library; a kernel of more architectures is compared by these.
_MOST_COLUMNS = 64

#: LIMIT: patterns of one library that are listed.
_MOST_PATTERNS = 120

#: Forms that no device is of: compiled when they are loaded, or linked.
_NO_CODE = ("ptx", "spirv", *LINKED)


class _Column:
    """Images of one architecture and form; relocatable images are a column of their own, with the same label."""

    def __init__(self, row: ImageRow) -> None:
        self.label = arch_label(row.arch, row.form, row.triple, row.offload)
        self.family = arch_family(row.arch, row.form, row.triple, row.offload)
        self.is_text = row.form in _NO_CODE
        self.is_linked = needs_link_step(row)
        self.vendor = image_vendor(row.triple or "", row.arch or "")
        self.arch = (row.arch or "").partition(",")[0]
        self.images = CandidateSet(
            (make_candidate(row, self.arch, self.vendor),),
            choosing_runtime(row, self.vendor),
            is_kpack=row.container_format == "rocm-kpack",
        )


def needs_link_step(row: ImageRow) -> bool:
    """Return whether an image counts only through a device link: relocatable code, and code for linkers."""
    relocatable = (row.stored_kind or "").startswith("relocatable")
    return needs_device_link(row) or row.form in LINKED or (relocatable and row.form != "cubin")


class FileCoverage:
    """The kernels of one file, by name: kernels of one name in several containers are one."""

    def __init__(self, outcomes: DeviceOutcomes | None = None) -> None:
        self._outcomes = outcomes or DeviceOutcomes()
        self._columns: dict[tuple[str, bool], int] = {}
        self._kinds: list[_Column] = []
        self._kernels: dict[str, int] = {}
        self._characters = 0
        self._bit = 0
        self.not_compared = 0
        self._columns_left = False

    def image(self, row: ImageRow) -> None:
        """Take the image whose kernels come next."""
        name = arch_label(row.arch, row.form, row.triple, row.offload), needs_link_step(row)
        number = self._columns.get(name)
        if number is None:
            number = len(self._columns)
            if number >= _MOST_COLUMNS:
                self._bit, self._columns_left = 0, True
                return
            self._columns[name] = number
            self._kinds.append(_Column(row))
        self._bit = 1 << number

    def kernel(self, row: KernelRow) -> None:
        """Take a kernel."""
        name = row.kernel or ""
        have = self._kernels.get(name)
        if have is None:
            if self._characters + len(name) > _MOST_CHARACTERS:
                self.not_compared += 1
                return
            self._characters += len(name) + 50
            have = 0
        self._kernels[name] = have | self._bit

    def record(self, path: str) -> KernelCoverage | None:
        """Return the kernels by what they are there for; None for a file without kernels."""
        if not self._kernels:
            return None
        seen = 0
        for bits in self._kernels.values():
            seen |= bits
        used = list({kind.label: kind for bit, kind in enumerate(self._kinds) if seen >> bit & 1}.values())
        used.sort(key=lambda kind: arch_sort_key(kind.label))
        by_bits: dict[int, list[str]] = {}
        for name, bits in self._kernels.items():
            by_bits.setdefault(bits, []).append(name)
        rules = [self._rule(kind) for kind in used]
        patterns = []
        for bits, names in by_bits.items():
            cells = tuple(_cell(bits, rule) for rule in rules)
            patterns.append(CoveragePattern(cells, len(names), tuple(sorted(names))))
        # Holes are rare, and what people look for: they are listed first of all.
        patterns.sort(key=lambda item: (not item.holes, -item.count, item.cells))
        listed = sorted(patterns[:_MOST_PATTERNS], key=lambda item: (-item.count, item.cells))
        return KernelCoverage(
            path,
            tuple(kind.label for kind in used),
            tuple(kind.family for kind in used),
            tuple(listed),
            len(self._kernels),
            sum(item.count for item in patterns[_MOST_PATTERNS:]),
            sum(item.count for item in patterns if item.holes),
            sum(item.count for item in patterns if item.links),
            is_whole=not self.not_compared and not self._columns_left,
            runs_on=self._runs_on(by_bits, seen),
        )

    def _runs_on(self, patterns: Collection[int], seen: int) -> tuple[RunsOn, ...]:
        linked = sum(1 << bit for bit, kind in enumerate(self._kinds) if kind.is_linked)
        kinds = [
            (kind.images, kind.vendor if seen >> bit & 1 else "", kind.arch) for bit, kind in enumerate(self._kinds)
        ]
        return tuple(answer for answer in self._outcomes.runs_on(kinds, linked, patterns) if answer.vendor)

    def _rule(self, wanted: _Column) -> _Rule:
        """Return which columns serve the devices of one, and how."""
        own = ready = text = link = 0
        device = Device(wanted.vendor, wanted.arch)
        for bit, kind in enumerate(self._kinds):
            is_own = kind.label == wanted.label
            outcome = "fails" if is_own or wanted.is_text else self._outcomes.of(kind.images, kind.vendor, device)
            if kind.is_linked and (is_own or outcome != "fails"):
                link |= 1 << bit
            elif is_own:
                own |= 1 << bit
            elif outcome == "compiles" or (outcome == "unknown" and kind.is_text):
                text |= 1 << bit
            elif outcome != "fails":
                ready |= 1 << bit
        return _Rule(own, ready, text, link, wanted.is_text)


class _Rule(Record):
    """The columns whose images are for a column's devices, serve them as they are, are compiled there, or wait for a
    link; and whether the column is of text, which no device is of.
    """

    own: int
    ready: int
    text: int
    link: int
    is_text: bool


def _cell(bits: int, rule: _Rule) -> str:
    for word, columns in (("own", rule.own), ("served", rule.ready), ("ptx", rule.text), ("link", rule.link)):
        if bits & columns:
            return word
    return "blank" if rule.is_text else "none"
