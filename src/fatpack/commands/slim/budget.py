"""Slimming to a size: steps that cost users least come first, until the result fits.

====  =============================================================  =================================================
step  goes                                                           noticed by users
====  =============================================================  =================================================
1     nothing: images are compressed with zstd                       the driver must be of CUDA 12.4 or newer
2     what can never run (:mod:`fatpack.targets.selection.dead`)     nothing
3     cubins that another of the same major version serves           a little speed
4     cubins that PTX of their container serves                      compilation at first use
5     all other PTX that no known device needs, with ``--drop-ptx``  devices that come later fail
6     devices, from the end of ``--priority``                        these devices fail
7     kernels that did not run, by ``--used``                        as :mod:`fatpack.commands.slim.used` says
====  =============================================================  =================================================

Steps 2 to 4 serve every device that was served. PTX that step 4 needs comes back if step 2 took it. Code for linkers
in objects and libraries that ask for kernels by architecture stay as they are in these steps; in steps 3 and 4
``sm_90a``, ``sm_100f``, code for Tegra, and cubins with kernels that their substitute lacks. Containers that are linked
together lose the same architectures.

Sizes in packages are not additive. How much a part of a step saves is estimated to choose how many parts are taken at
once; the result is written and measured, and only measured sizes are printed.
"""

from __future__ import annotations

from contextlib import ExitStack

from fatpack.commands.slim import SlimRefused
from fatpack.commands.slim.keep_for_device import (
    LINKED,
    arch_label,
    group_into_image_sets,
    image_form,
    image_key,
    images_for_device,
    is_host,
    target_vendor,
)
from fatpack.edit.selection import is_linked_program
from fatpack.errors import FatpackError, FormatError, Unsupported, UsageError, cli_or_api, pluralize
from fatpack.exit_codes import FINDINGS
from fatpack.printable import format_size, format_size_and_limit
from fatpack.record import Record
from fatpack.result import to_plain_data
from fatpack.tabular.arch_costs import ArchCosts
from fatpack.tabular.dead import DeadFinder
from fatpack.targets.devices import Device
from fatpack.targets.name_based_libraries import find_name_based_library
from fatpack.targets.nvidia import TEGRA_ARCHS, parse_nvidia
from fatpack.targets.selection.model import CandidateImage
from fatpack.targets.selection.select_image import CandidateSet
from fatpack.targets.vocabulary import load_vocabulary
from fatpack.text.style import PLAIN, table_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from typing import Any

    from fatpack.commands.slim.keep_for_device import SlimImage
    from fatpack.commands.slim.options import NameChange, SlimOptions
    from fatpack.commands.slim.plan import SlimPlan
    from fatpack.commands.slim.used import UseRequest
    from fatpack.io.source import View
    from fatpack.tabular.arch_costs import ArchCost
    from fatpack.targets.nvidia import NvidiaArch
    from fatpack.text.style import Style

_FATBIN = "cuda-fatbin"

#: bytes of an image that are deflated for an estimate
_SAMPLE = 1 << 18

#: LIMIT: times that a result is written and measured for one step
_ROUNDS = 4

#: the step that removes PTX for later devices
_PTX_STEP = 5

#: steps in words
_STEPS = {
    1: "compressed with zstd",
    2: "of no use to any device",
    3: "served by another cubin",
    4: "served by PTX, compiled at first use",
    5: "PTX for later devices",
    6: "devices of a low priority",
    7: "kernels that did not run",
}


class SizeRequest(Record):
    """The size to reach, in bytes, and the steps that are allowed.

    ``priority`` are devices, the most important first, of which the last go; ``use`` names the kernels that ran.
    ``has_zstd`` is true if the oldest driver in use inflates zstd, ``drops_ptx`` if PTX for later devices may go.
    """

    max_size: int
    priority: tuple[Device, ...] = ()
    use: UseRequest | None = None
    has_zstd: bool = False
    drops_ptx: bool = False


class SizeStep(Record):
    """A step that was taken, the images that it removed, and the measured sizes before and after."""

    step: int
    what: str
    before: int
    after: int


class SizePlan(Record):
    """The options that reach a size, or come closest; the steps, the cost of each architecture, and the size."""

    options: SlimOptions
    request: SizeRequest
    before: int
    size: int
    steps: tuple[SizeStep, ...]
    costs: tuple[ArchCost, ...]

    @property
    def fits(self) -> bool:
        """True if the size is reached."""
        return self.size <= self.request.max_size

    def lines(self, style: Style = PLAIN) -> Iterator[str]:
        """Yield a table of the cost of each architecture, and a table of the steps."""
        if self.costs:
            total = sum(one.stored or 0 for one in self.costs)
            rows = [["architecture", "images", "stored", "share", "without it, its devices would"]]
            for one in self.costs:
                share = f"{100 * (one.stored or 0) / total:.0f} %" if total else "-"
                instead = "; ".join(dict.fromkeys(each.words for each in one.instead)) or "-"
                rows.append([one.label, str(one.images), format_size(one.stored or 0), share, instead])
            yield from table_lines(rows, style, right=(1, 2, 3), role=lambda row, _: "" if row else "heading")
        if self.steps:
            rows = [["step", "what goes", "before", "after", "saved"]]
            for step in self.steps:
                saved = format_size(step.before - step.after) if step.after < step.before else "-"
                sizes = format_size(step.before), format_size(step.after)
                rows.append([str(step.step), f"{_STEPS[step.step]}: {step.what}", *sizes, saved])
            yield from table_lines(rows, style, right=(2, 3, 4), role=lambda row, _: "" if row else "heading")
        verb = "fits into" if self.fits else "does not fit into"
        size, limit = format_size_and_limit(self.size, self.request.max_size)
        yield f"{size} {verb} {limit}"

    def record(self) -> dict[str, Any]:
        """Return the plan as plain data."""
        return {
            "max_size": self.request.max_size,
            "size": self.size,
            "fits": self.fits,
            "steps": [
                {"step": one.step, "what": one.what, "before": one.before, "after": one.after} for one in self.steps
            ],
            "archs": [
                {
                    "arch": one.label,
                    "images": one.images,
                    "stored": one.stored or 0,
                    "devices": list(one.devices),
                    "instead": to_plain_data(one.instead),
                }
                for one in self.costs
            ],
        }


class SizeNotReached(FatpackError):
    """No allowed step makes a file small enough; ``plan`` has the bytes that each step saves."""

    exit_code = FINDINGS

    def __init__(self, plan: SizePlan, chain: Sequence[str]) -> None:
        size, limit = format_size_and_limit(plan.size, plan.request.max_size)
        more = []
        if not plan.request.priority:
            more.append(cli_or_api("--priority DEVICE,… says which devices may go", "priority= says which may go"))
        if not plan.request.has_zstd:
            more.append(cli_or_api("--driver 550 allows zstd", "driver='550' allows zstd"))
        if not plan.request.drops_ptx and any(one.label.startswith("compute_") for one in plan.costs):
            more.append(cli_or_api("--drop-ptx gives PTX for later devices up", "keep_ptx='none' gives PTX up"))
        if plan.request.use is None:
            more.append(cli_or_api("--used PROFILE --drop-unused removes unused kernels", "used= removes kernels"))
        super().__init__(
            f"the smallest size reached is {size}, more than {limit}",
            hint="; ".join(more),
            chain=chain,
        )
        self.plan = plan


# The images of a file, and the steps that may remove each.


class _Candidate(Record):
    """An image of a container: its ``key`` in all scans of the file, its architecture and bytes in the result.

    ``kernels`` are those of its names that matter for substitutes.
    """

    key: object
    label: str
    form: str
    arch: NvidiaArch | None
    size: int
    stored: int
    kernels: frozenset[str] | None


class _Move(Record):
    """An image that a step takes: its ``key``, the bytes that this saves, and the PTX that has to stay then."""

    step: int
    arch: int
    label: str
    key: object
    size: int
    restored: object = None


class _Survey:
    """The costs and moves of all libraries of a file."""

    def __init__(self, devices: Sequence[Device], *, is_deflated: bool) -> None:
        self._devices = devices
        self._is_deflated = is_deflated
        self.moves: list[_Move] = []
        self._costs = ArchCosts()

    def costs(self) -> tuple[ArchCost, ...]:
        """Return the cost of each architecture, oldest first."""
        return self._costs.records()

    def take(self, view: View, plan: SlimPlan) -> None:
        """Add a library. Reads names of kernels, and for packages a sample of each image."""
        rows = [row for row in plan.kept if not is_host(row.image)]
        self._count(rows)
        linked_ids, untouched = _linked_and_untouched(view, rows)
        by_name = find_name_based_library(view.chain[-1] if view.chain else "") is not None
        containers: dict[int, list[SlimImage]] = {}
        together: list[tuple[list[_Candidate], list[_Move]]] = []
        for row in rows:
            if row.found.format == _FATBIN and id(row.found) not in untouched:
                containers.setdefault(row.number, []).append(row)
        left = [(inside[0].found, frozenset(row.index for row in inside)) for inside in containers.values()]
        for inside, dead in zip(containers.values(), DeadFinder(view).find_in(left), strict=True):
            needs_kernels = len([row for row in inside if row.image.form in ("cubin", "ptx")]) > 1 and not by_name
            found = [self._candidate(row, needs_kernels=needs_kernels) for row in inside]
            gone = {one.key for row, one in zip(inside, found, strict=True) if row.index in dead}
            moves = list(_moves(found, inside[0].image.target.offload, self._devices, gone, by_name=by_name))
            if id(inside[0].found) in linked_ids:
                together.append((found, moves))
            else:
                self.moves += moves
        self.moves += _moves_alike(together)

    def _count(self, rows: Sequence[SlimImage]) -> None:
        for row in rows:
            self._costs.count(arch_label(row.image), row.image.stored_size or 0, row.image.size)
        for inside in group_into_image_sets(rows):
            target, format = inside[0].image.target, inside[0].found.format
            runtime = {"cuda-fatbin": "cuda", "rocm-kpack": "kpack"}.get(format, target.offload)
            images = CandidateSet(tuple(_as_candidate(row) for row in inside), runtime, is_kpack=format == "rocm-kpack")
            self._costs.choose(images, [arch_label(row.image) for row in inside], target_vendor(target))

    def _candidate(self, row: SlimImage, *, needs_kernels: bool) -> _Candidate:
        image = row.image
        form = image.as_stored.form if image.as_stored.form in (*LINKED, "relocatable-ptx") else image.form
        stored = image.stored_size or 0
        kernels = None
        if needs_kernels and form in ("cubin", "ptx"):
            try:
                kernels = frozenset(image.kernel_names)
            except (FormatError, Unsupported):
                kernels = None  # nothing takes its place
        size = self._deflated(row, stored) if self._is_deflated else stored
        return _Candidate(
            image_key(row.found, image),
            arch_label(image),
            form,
            parse_nvidia(image.target.arch),
            size,
            stored,
            kernels,
        )

    def _deflated(self, row: SlimImage, stored: int) -> int:
        """Return the estimated size of an image in a package, from a compressed sample."""
        if row.image.compression is not None or not stored:
            return stored
        import zlib

        try:
            sample = row.image.read(min(_SAMPLE, stored))
        except (FormatError, Unsupported):
            return stored
        return stored * len(zlib.compress(sample, 6)) // max(len(sample), 1)


def _as_candidate(row: SlimImage) -> CandidateImage:
    return CandidateImage(image_form(row.image), row.image.target.arch, row.image.target.triple)


def _linked_and_untouched(view: View, rows: Sequence[SlimImage]) -> tuple[frozenset[int], frozenset[int]]:
    """Return the ``id()`` of containers that are linked together, and of containers that cannot be edited."""
    if not is_linked_program(view) or not rows:
        return frozenset(), frozenset()
    from fatpack.commands.slim import linked
    from fatpack.scanner import detect_host

    found = list({id(row.found): row.found for row in rows}.values())
    file = linked.take_apart(view, detect_host(view), found)
    return file.same_arch_ids, frozenset(map(id, file.elsewhere))


def _moves_alike(together: Sequence[tuple[Sequence[_Candidate], Sequence[_Move]]]) -> Iterator[_Move]:
    """Yield the moves in containers that are linked together: of an architecture that may go from all of them."""
    wanted = {(one.step, one.label) for _, moves in together for one in moves}
    for step, label in sorted(wanted):
        gone = [one for _, moves in together for one in moves if (one.step, one.label) == (step, label)]
        if len(gone) == sum(one.label == label for found, _ in together for one in found):
            yield from gone


def _moves(
    found: Sequence[_Candidate],
    offload: str,
    devices: Sequence[Device],
    dead: Collection[object],
    *,
    by_name: bool,
) -> Iterator[_Move]:
    """Yield the images of a container that steps 2 to 5 may remove; ``dead`` are the keys of images that never run."""
    plain = [one for one in found if one.form in ("cubin", "ptx") and one.arch is not None]
    useless = [one for one in found if one.key in dead]
    for one in useless:
        yield _move(2, one)
    taken = _taken_by(plain, offload, devices or _known_devices(), by_name=by_name)
    for at, one in enumerate(plain):
        if one.form == "ptx" and at not in taken and one not in useless and not by_name:
            yield _move(_PTX_STEP, one)
    left = [one for one in plain if one not in useless]
    if by_name:
        return
    cubins = sorted(
        (one for one in left if one.form == "cubin" and _is_common(one)),
        key=lambda one: (_number(one), one.label),
    )
    staying: list[_Candidate] = []
    for one in cubins:
        lower = [other for other in staying if _major(other) == _major(one) and _number(other) < _number(one)]
        if any(_has_kernels(other, one) for other in lower):
            yield _move(3, one)
        else:
            staying.append(one)
    texts = sorted((one for one in plain if one.form == "ptx" and _is_common(one)), key=_number)
    chosen: _Candidate | None = None
    for one in staying:
        low = [text for text in texts if _number(text) <= _number(one) and _has_kernels(text, one)]
        if chosen is None and low:
            chosen = low[-1]
        if chosen is not None and _has_kernels(chosen, one):
            yield _move(4, one).replace(restored=chosen.key)


def _move(step: int, one: _Candidate) -> _Move:
    return _Move(step, _number(one), one.label, one.key, one.size)


def _number(one: _Candidate) -> int:
    return one.arch.number if one.arch is not None else 0


def _major(one: _Candidate) -> int:
    return _number(one) // 10


def _is_common(one: _Candidate) -> bool:
    """Return whether an image runs on later devices, too: it is for no Tegra part, and has no suffix."""
    return one.arch is not None and not one.arch.suffix and one.arch.number not in TEGRA_ARCHS


def _has_kernels(one: _Candidate, of: _Candidate) -> bool:
    return one.kernels is not None and of.kernels is not None and one.kernels >= of.kernels


def _taken_by(found: Sequence[_Candidate], offload: str, devices: Sequence[Device], *, by_name: bool) -> set[int]:
    """Return the numbers of the images of a container that some devices take."""
    images = tuple(
        CandidateImage(one.form, one.label if one.form == "cubin" else f"sm_{_number(one)}", "nvptx64-nvidia-cuda")
        for one in found
    )
    taken: set[int] = set()
    for device in devices:
        served = images_for_device(images, offload, device, all_minors=by_name)
        taken |= served.needed | served.possible
    return taken


_devices: list[tuple[Device, ...]] = []


def _known_devices() -> tuple[Device, ...]:
    if not _devices:
        archs = filter(None, map(parse_nvidia, load_vocabulary().nvidia))
        numbers = sorted({arch.number for arch in archs if not arch.is_virtual})
        _devices.append(tuple(Device("nvidia", f"sm_{number}") for number in numbers))
    return _devices[0]


# The search for the first steps that fit.


class _Search:
    """The state of a search: the file, the request, and the steps that were taken."""

    def __init__(
        self,
        view: View,
        path: str,
        naming: NameChange,
        request: SizeRequest,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        from fatpack.commands.slim.packages import is_package

        self._view, self._path, self._naming, self._request = view, path, naming, request
        self._is_package = is_package(view, path)
        self._tell = tell
        self.steps: list[SizeStep] = []
        self.costs: tuple[ArchCost, ...] = ()
        self._moves: Sequence[_Move] = ()

    def measure(self, options: SlimOptions, survey: _Survey | None = None) -> int:
        """Return the size of the result, written in full. Raises the errors of slimming."""
        from fatpack.commands.slim.plan import plan_slim
        from fatpack.commands.slim.result import SlimmedFile

        def slimmed(part: View) -> SlimmedFile:
            plan = plan_slim(part, options)
            if survey is not None:
                survey.take(part, plan)
            return SlimmedFile(plan)

        if not self._is_package:
            return slimmed(self._view).plan.size
        from fatpack.commands.slim.packages import slim_package

        with ExitStack() as stack:
            naming = self._naming.for_options(options)
            made = slim_package(self._view, self._path, slimmed, naming, stack)
            return len(self._view) if made is None else sum(map(len, made.pieces))

    def reach(self, options: SlimOptions) -> tuple[SlimOptions, int]:
        """Return options with as many of the steps 1 to 4 as are needed, and the size of their result."""
        survey = _Survey(options.devices, is_deflated=self._is_package)
        size = self.measure(options, survey)
        self.costs = self.costs or survey.costs()
        self._moves = survey.moves
        if size > self._request.max_size and self._request.has_zstd and options.recompress is None:
            packed = options.replace(recompress="zstd", lossless=True)
            options, size = self._taken(1, "all images of CUDA", packed, size)
        for step in (2, 3, 4):
            moves: dict[tuple[int, str], list[_Move]] = {}
            for one in survey.moves:
                if one.step == step:
                    moves.setdefault((one.arch, one.label), []).append(one)
            waiting = [moves[key] for key in sorted(moves, reverse=step == 3)]
            for number in range(1, _ROUNDS + 1):
                if size <= self._request.max_size or not waiting:
                    break
                parts = _enough(waiting, size - self._request.max_size, takes_all=number == _ROUNDS)
                options, size = self._fewest(step, parts, options, size)
        return options, size

    def _fewest(
        self, step: int, parts: list[list[_Move]], options: SlimOptions, before: int
    ) -> tuple[SlimOptions, int]:
        """Take parts of a step, without the last of them if the room that is left says that it is not needed."""
        taken, size = self._taken(step, _titles(parts), _without(options, parts), before)
        if len(parts) > 1 and 4 * sum(one.size for one in parts[-1]) <= 5 * (self._request.max_size - size):
            fewer = _without(options, parts[:-1])
            smaller = self.measure(fewer)
            if smaller <= self._request.max_size:
                self.steps[-1] = SizeStep(step, _titles(parts[:-1]), before, smaller)
                return fewer, smaller
        return taken, size

    def _taken(self, step: int, what: str, options: SlimOptions, before: int) -> tuple[SlimOptions, int]:
        if self._tell is not None:
            self._tell(f"step {step}: {_STEPS[step]}: {what}")
        size = self.measure(options)
        self.steps.append(SizeStep(step, what, before, size))
        return options, size

    def run(self, options: SlimOptions) -> SizePlan:
        """Return the first options that fit, or the last."""
        before = len(self._view)
        current, size = self.reach(options)
        request = self._request
        current, size = self._without_newest_ptx(current, size)
        least = [(size, current)]
        for count in range(len(request.priority), 0, -1):
            if size <= request.max_size:
                break
            kept = request.priority[:count]
            words = f"all but {', '.join(one.arch for one in kept)}"
            devices = options.replace(devices=kept)
            try:
                current, size = self._staged(6, words, devices, size)
            except SlimRefused:
                continue  # containers have nothing for the devices that are left
            least.append((size, current))
        if size > request.max_size and request.use is not None:
            profiles = ", ".join(one.path for one in request.use.profiles)
            used = current.replace(use=request.use)
            current, size = self._taken(7, f"by {profiles}", used, size)
            least.append((size, current))
        if size > request.max_size:
            size, current = min(least, key=lambda one: one[0])
        return SizePlan(current, request, before, size, tuple(self.steps), self.costs)

    def _without_newest_ptx(self, options: SlimOptions, size: int) -> tuple[SlimOptions, int]:
        """Take step 5 where it is wanted: PTX that serves cubins which step 4 took stays."""
        needed = {one.restored for one in self._moves if one.key in options.removed}
        moves = [one for one in self._moves if one.step == _PTX_STEP and one.key not in needed]
        if size <= self._request.max_size or not (self._request.drops_ptx and moves):
            return options, size
        by_label: dict[str, list[_Move]] = {}
        for one in moves:
            by_label.setdefault(one.label, []).append(one)
        return self._taken(_PTX_STEP, _titles(by_label.values()), _without(options, by_label.values()), size)

    def _staged(self, step: int, words: str, options: SlimOptions, before: int) -> tuple[SlimOptions, int]:
        """Remove devices, and then take as many of the earlier steps as the other devices need."""
        options, size = self._taken(step, words, options, before)
        return (options, size) if size <= self._request.max_size else self.reach(options)


def _enough(waiting: list[list[_Move]], needed: int, *, takes_all: bool) -> list[list[_Move]]:
    """Take parts of a step until they should save enough."""
    parts = []
    while waiting and (needed > 0 or takes_all):
        parts.append(waiting.pop(0))
        needed -= sum(one.size for one in parts[-1])
    return parts


def _without(options: SlimOptions, parts: Iterable[Sequence[_Move]]) -> SlimOptions:
    moves = [one for part in parts for one in part]
    restored = {one.restored for one in moves if one.restored is not None}
    removed = (options.removed | {one.key for one in moves}) - restored
    return options.replace(removed=frozenset(removed))


def _titles(parts: Iterable[Sequence[_Move]]) -> str:
    return ", ".join(f"{part[0].label} of {pluralize(len(part), 'container')}" for part in parts)


def plan_for_size(
    view: View, path: str, options: SlimOptions, naming: NameChange, tell: Callable[[str], None] | None = None
) -> SizePlan:
    """Return the options by which a file gets as small as ``options.size`` asks, with the fewest of the steps.

    ``tell`` gets the steps in words before their results are measured, which takes long for large packages.

    Raises SizeNotReached if it does not, UsageError for a folder, and what slimming the file raises.
    """
    request = options.size
    assert request is not None
    plan = _Search(view, path, naming, request, tell).run(options)
    if not plan.fits:
        raise SizeNotReached(plan, view.chain)
    return plan


def parse_max_size(given: int | str) -> int:
    """Return a size in bytes: a number, or a text as ``400MB`` or ``2GiB``. Raises UsageError."""
    from fatpack.printable import parse_size

    try:
        size = parse_size(given) if isinstance(given, str) else given
    except ValueError as error:
        raise UsageError(f"{cli_or_api('--max-size', 'max_size')}: {error}") from None
    if size <= 0:
        raise UsageError(f"{cli_or_api('--max-size', 'max_size')} is {given}", hint="give a size as 400MB")
    return size
