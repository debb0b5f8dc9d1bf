"""Answers about the libraries of a package: the units that run on a device, counted, by the rules of ``explain``.

A *unit* is an image set: a container, or several from which one image is chosen. Units that differ in their place alone
are one, with a count, so that a question about a package costs as much as about one library.
"""

from __future__ import annotations

from fatpack.commands.explain.run import answer_of_file
from fatpack.errors import pluralize
from fatpack.record import Record
from fatpack.tabular.columns import RowOptions
from fatpack.tabular.image_sets import ImageSet, ImageSetLocation, read_image_sets
from fatpack.tabular.read_file import read_rows
from fatpack.targets.name_based_libraries import find_name_based_library
from fatpack.targets.nvidia import first_cuda_for_ptx
from fatpack.targets.selection.cuda import ZSTD_SINCE
from fatpack.targets.selection.runtime_settings import RuntimeSettings
from fatpack.targets.selection.select_image import first_cuda_for_device

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fatpack.commands.explain.model import ImageSetAnswer
    from fatpack.io.source import View
    from fatpack.targets.devices import Device
    from fatpack.targets.selection.model import CandidateImage

#: the CUDA version from which drivers treat Orin's cubins in another way (rule C3)
_ORIN_SINCE = (13, 0)


class LibraryCode(Record):
    """The device code of a library: its units with their counts, and the CUDA runtime library's major that it loads.

    ``name`` is its path in the package, ``library`` the name of one that asks for kernels by name, else "". ``problem``
    says why not all of it was read, "" if all was.
    """

    name: str
    units: tuple[tuple[ImageSet, int], ...] = ()
    cuda_runtime: int | None = None
    library: str = ""
    problem: str = ""

    def is_for(self, vendor: str) -> bool:
        """Return whether the library has code for devices of a vendor."""
        return any(unit.vendor == vendor for unit, _ in self.units)

    @property
    def candidates(self) -> Iterator[CandidateImage]:
        """The images that devices choose from; code for linkers is none."""
        return (image.candidate for unit, _ in self.units if not unit.is_for_link for image in unit.images)


def read_library(view: View, name: str) -> LibraryCode:
    """Return the device code of a file, of which the headers and the first bytes of images are read."""
    found: dict[ImageSet, int] = {}
    runtime, problem = None, ""
    for item in read_image_sets(read_rows(view, RowOptions(compares_heads=True))):  # type: ignore[arg-type]  # of images
        if isinstance(item, ImageSet):
            unit = _without_place(item)
            found[unit] = found.get(unit, 0) + 1
        else:
            runtime, problem = item.cuda_runtime, item.error or ""
    # Images stay inflated as long as their file is open: of fifteen libraries at once they would take 100 MB.
    view.source.drop_cache()
    linked = {unit.vendor for unit in found if not unit.is_for_link}
    units = tuple((unit, count) for unit, count in found.items() if not (unit.is_for_link and unit.vendor in linked))
    library = find_name_based_library(name)
    return LibraryCode(name, units, runtime, library.library if library else "", problem)


def _without_place(unit: ImageSet) -> ImageSet:
    images = tuple(image.replace(position="") for image in unit.images)
    container = None if unit.place.container is None else 0
    return unit.replace(place=ImageSetLocation("", container=container), images=images, rows=())


class Served(Record):
    """The number of units of a library that run on a device, that may run (it is not known), and that do not."""

    runs: int = 0
    unknown: int = 0
    fails: int = 0

    def is_less_than(self, before: Served) -> bool:
        """Return whether a device gets less than before: fewer units that run, or that may."""
        return self.runs < before.runs or self.runs + self.unknown < before.runs + before.unknown


class ServingJudge:
    """Answers what devices get of libraries; each question about alike units is answered once."""

    def __init__(self) -> None:
        self._answers: dict[tuple[int, str, str, object], tuple[ImageSetAnswer, tuple[int, int]]] = {}
        self._steps: dict[int, frozenset[tuple[int, int]]] = {}
        self._served: dict[tuple[int, str, object], Served] = {}
        #: unit → its number; ``id()`` of a unit or library that is kept here → its number
        self._units: dict[ImageSet, int] = {}
        self._numbers: dict[int, tuple[object, int]] = {}

    def served(self, code: LibraryCode, device: Device, driver: tuple[int, int] | None) -> Served:
        """Return what a device gets of a library with a driver of a CUDA version; None: one that is new enough."""
        key = self._number(code), device.arch, driver
        found = self._served.get(key)
        if found is None:
            runs = unknown = fails = 0
            for unit, count in code.units:
                if unit.vendor != device.vendor:
                    continue
                outcome = self._outcome(code, unit, device, driver)
                runs += count if outcome in ("runs", "compiles") else 0
                unknown += count if outcome == "unknown" else 0
                fails += count if outcome == "fails" else 0
            found = self._served[key] = Served(runs, unknown, fails)
        return found

    def taken(self, code: LibraryCode, device: Device, driver: tuple[int, int] | None) -> dict[str, int]:
        """Return the images that a device takes of a library where they run, as patterns name them, with their counts.

        Where the rules leave open which one it takes, all that it may take are counted, as ``perhaps sm_80``.
        """
        found: dict[str, int] = {}
        for unit, count in code.units:
            if unit.vendor == device.vendor and self._outcome(code, unit, device, driver) in ("runs", "compiles"):
                for image in self._answer(code, unit, device, driver)[0].images:
                    if image.role:
                        name = image.name if image.role == "taken" else f"perhaps {image.name}"
                        found[name] = found.get(name, 0) + count
        return found

    def serves(self, code: LibraryCode, device: Device, driver: tuple[int, int] | None = None) -> bool:
        """Return whether something of a library runs on a device, or if that is not known."""
        found = self.served(code, device, driver)
        return bool(found.runs or found.unknown)

    def why_unknown(self, code: LibraryCode, device: Device) -> str:
        """Return why it is not known if something of a library runs on a device, "" if it is known."""
        answers = (self._answer(code, unit, device, None)[0] for unit, _ in code.units if unit.vendor == device.vendor)
        return next((answer.reason for answer in answers if answer.outcome == "unknown"), "")

    def needed_driver(self, code: LibraryCode, device: Device) -> tuple[int, int] | None:
        """Return the CUDA version of the oldest driver with which all runs that can run on a device, None if none does.

        It is that of the runtime library, and newer where an image is compressed in a newer way or must be compiled.
        Drivers that are older than the device are no question here: none of them finds it.
        """
        needs = []
        first = first_cuda_for_device(device)
        for unit, _ in code.units:
            if unit.vendor == device.vendor:
                answer, needed = self._answer(code, unit, device, None)
                if answer.outcome in ("runs", "compiles"):
                    needs.append((0, 0) if needed == first else needed)
        return max([*needs, (code.cuda_runtime or 0, 0)]) if needs else None

    def _outcome(self, code: LibraryCode, unit: ImageSet, device: Device, driver: tuple[int, int] | None) -> str:
        if driver is not None and unit.runtime == "cuda" and driver[0] < (code.cuda_runtime or 0):
            return "fails"  # rule C19
        return self._answer(code, unit, device, driver)[0].outcome

    def _answer(
        self, code: LibraryCode, unit: ImageSet, device: Device, driver: tuple[int, int] | None
    ) -> tuple[ImageSetAnswer, tuple[int, int]]:
        number = self._number(unit)
        step = self._step(unit, number, device, driver)
        key = number, code.library, device.arch, step
        found = self._answers.get(key)
        if found is None:
            found = self._answers[key] = answer_of_file(unit, device, RuntimeSettings(step), library=code.library)
        return found

    def _number(self, item: LibraryCode | ImageSet) -> int:
        """Return the number of a unit, the same for equal ones, or of a library."""
        known = self._numbers.get(id(item))
        if known is None:
            number = (
                self._units.setdefault(item, len(self._units)) if isinstance(item, ImageSet) else len(self._numbers)
            )
            known = self._numbers[id(item)] = item, number
        return known[1]

    def _step(
        self, unit: ImageSet, number: int, device: Device, driver: tuple[int, int] | None
    ) -> tuple[int, int] | None:
        """Return a driver that gives the same answer as some driver: the newest version of any rule up to it."""
        if driver is None or device.vendor != "nvidia":
            return None
        if number not in self._steps:
            self._steps[number] = frozenset(_steps(image.candidate for image in unit.images))
        known = first_cuda_for_device(device)
        steps = {*self._steps[number], _ORIN_SINCE, *([known] if known else [])}
        return max((step for step in steps if step <= driver), default=(1, 0))


def _steps(images: Iterable[CandidateImage]) -> Iterator[tuple[int, int]]:
    for image in images:
        if image.compression == "zstd":
            yield ZSTD_SINCE
        first = first_cuda_for_ptx(image.ptx_version) if image.ptx_version else None
        if first is not None:
            yield first


def served_words(served: Sequence[Served]) -> str:
    """Return what a device gets of the libraries that have code for its vendor, in words."""
    running = sum(1 for one in served if one.runs)
    unknown = sum(1 for one in served if one.unknown and not one.runs)
    if not running:
        return "not known" if unknown else "nothing runs"
    if any(one.runs and one.fails for one in served):
        # Libraries that run in part are counted as `fatpack explain` counts them: by what is chosen alone.
        runs, total = sum(one.runs for one in served), sum(one.runs + one.unknown + one.fails for one in served)
        return f"{runs} of {pluralize(total, 'container')} {'runs' if runs == 1 else 'run'}"
    return "runs" if running == len(served) else f"{running} of {pluralize(len(served), 'library')} run"
