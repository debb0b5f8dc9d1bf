"""Rows of files, devices and what is known of their machine → what the runtimes load, and why."""

from __future__ import annotations

import os

from fatpack.commands.explain.model import DeviceAnswer, ExplainResult, RuleAnswer, UnreadInput
from fatpack.commands.explain.remedies import driver_words
from fatpack.commands.explain.unit_answers import explain_image_set, library_answer, runtime_library_answer
from fatpack.commands.explain.wording import device_verdict
from fatpack.errors import cli_or_api, pluralize
from fatpack.exit_codes import FINDINGS, FINE, worst_exit_code
from fatpack.record import Record
from fatpack.tabular.image_sets import ImageSet, ImageSetLocation, read_image_sets
from fatpack.tabular.skipped import CompletenessCheck
from fatpack.targets.name_based_libraries import find_name_based_library
from fatpack.targets.selection import rules as rule_table
from fatpack.targets.selection.select_image import OUTCOMES, first_cuda_for_device

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fatpack.commands.explain.model import ImageSetAnswer
    from fatpack.tabular.columns import ImageRow
    from fatpack.tabular.skipped import Incomplete
    from fatpack.targets.devices import Device
    from fatpack.targets.selection.choice_settings import RuntimeSettings


#: rules by which the HIP runtime finds no image for a device
_UNSERVED = ("H2", "H3", "H4", "H7")


class ExplainQuery(Record):
    """What is asked: the devices, what is known of their machine, and a pattern of kernels (""; all of them).

    ``driver`` and ``rocm`` are the versions as they were given.
    """

    devices: tuple[Device, ...]
    settings: RuntimeSettings
    kernel: str = ""
    driver: str = ""
    rocm: str = ""


def explain_rows(rows: Iterable[ImageRow], paths: Sequence[str], question: ExplainQuery) -> ExplainResult:
    """Return what some devices get of files; ``rows`` are those of their images, with ``has_kernel`` for a kernel.

    Reads nothing but the rows: what their containers state decides, as it does for a runtime.
    """
    asking = [_DeviceExplainer(device, question) for device in question.devices]
    unread: list[UnreadInput] = []
    files = read = 0
    held: list[ImageSet] = []
    end = CompletenessCheck()
    missed: list[Incomplete | None] = []

    def watched() -> Iterator[ImageRow]:
        for row in rows:
            missed[:] = [end.missed(row)]
            yield row

    for item in read_image_sets(watched()):
        if isinstance(item, ImageSet):
            held.append(item)
            continue
        files += bool(item.count)
        read += item.error is None
        # A row of a file is yielded before the next row is taken.
        if missed and missed[0] is not None:
            unread.append(UnreadInput(item.path, missed[0].problem, missed[0].exit_code))
        _ask_all(asking, held, item.cuda_runtime)
        held = []
    _ask_all(asking, held)
    names_unread = [os.path.basename(one.path) or one.path for one in unread]
    answers = tuple(one.answer(names_unread, is_read=bool(read), has_code=bool(files)) for one in asking)
    answers = _in_one_machine(answers, asking)
    code = FINE if all(one.is_served for one in answers) else FINDINGS
    names = dict.fromkeys(name for one in asking for name in one.names)
    table = [row for row in rule_table.all_rules() if row.name in names]
    return ExplainResult(
        tuple(paths),
        files,
        question.kernel,
        question.driver,
        question.rocm,
        answers,
        tuple(RuleAnswer(row.name, row.says, row.mark, row.source) for row in table),
        tuple(unread),
        worst_exit_code((code, *(one.exit_code for one in unread))),
    )


def _in_one_machine(answers: tuple[DeviceAnswer, ...], asking: Sequence[_DeviceExplainer]) -> tuple[DeviceAnswer, ...]:
    """Return answers with what AMD devices do to each other: the runtime stops at the first without an image."""
    devices = [one for one in answers if one.vendor == "amd"]
    if len({one.device for one in devices}) > 1 and any(unit.runtime == "kpack" for unit in devices[0].units):
        asking[0].names["K7"] = None
        note = (
            "if these devices are in one machine, the code object that is found for one of them is handed to all: "
            "hide the others with HIP_VISIBLE_DEVICES [K7]"
        )
        first = devices[0]
        answers = tuple(one.replace(notes=(*one.notes, note)) if one is first else one for one in answers)
        devices = [one for one in answers if one.vendor == "amd"]
    unserved = next((one for one in devices if one.fails and any(unit.rule in _UNSERVED for unit in one.units)), None)
    if unserved is None or len(devices) < 2:
        return answers
    note = (
        f"if these devices are in one machine, {unserved.words} leaves those behind it without code, too, and "
        "the program without any if it is the first: HIP_VISIBLE_DEVICES hides it [H8]"
    )
    asking[0].names["H8"] = None
    return tuple(one.replace(notes=(*one.notes, note)) if one is unserved else one for one in answers)


def _ask_all(asking: Sequence[_DeviceExplainer], units: Sequence[ImageSet], cuda_runtime: int | None = None) -> None:
    """Ask about the units of one file. What waits for a link does not count beside what was linked.

    ``cuda_runtime`` is the major version of the CUDA runtime library that the file loads, None if it is not known.
    """
    linked = {unit.vendor for unit in units if not unit.waits}
    for one in asking:
        for unit in units:
            if unit.waits and unit.vendor in linked:
                one.pass_by("relocatable", unit)
            else:
                one.take(unit, cuda_runtime)


class _DeviceExplainer:
    """One device, and what it gets so far: units that answer alike are one."""

    def __init__(self, device: Device, question: ExplainQuery) -> None:
        self._device = device
        self._question = question
        self._answers: dict[object, tuple[ImageSetAnswer, list[ImageSetLocation]]] = {}
        self._passed: dict[str, int] = {}
        self._libraries: dict[str, None] = {}
        #: the CUDA versions of which a driver must be for what runs, (0, 0) for any driver
        self._needs: set[tuple[int, int]] = set()
        self._runtimes: dict[int | None, None] = {}
        self.names: dict[str, None] = {}

    def pass_by(self, why: str, unit: ImageSet) -> None:
        """Count a unit that is not asked about."""
        if unit.vendor == self._device.vendor:
            self._passed[why] = self._passed.get(why, 0) + 1

    def take(self, unit: ImageSet, cuda_runtime: int | None = None) -> None:
        """Ask about a unit, if it is for devices of this vendor and has the kernel that was asked for."""
        if unit.vendor != self._device.vendor:
            return
        if self._question.kernel and not any(image.has_kernel for image in unit.images):
            self.pass_by("unseen" if any(image.has_kernel is None for image in unit.images) else "other", unit)
            return
        library = find_name_based_library(unit.place.path.rpartition("!")[2]) if unit.vendor == "nvidia" else None
        if library is not None:
            self._libraries[f"{library.library} asks for kernels by their names: {library.reason} [C17]"] = None
            self.names["C17"] = None
        images = tuple((one.candidate, one.form, one.count, one.has_kernel) for one in unit.images)
        name = library.library if library else ""
        loads = cuda_runtime if unit.runtime == "cuda" else None
        alike = (
            name,
            unit.format,
            unit.runtime,
            unit.bundle_version,
            unit.waits,
            unit.place.container is None,
            loads,
            unit.own,
        )
        key = (alike, images)
        if key not in self._answers:
            self._answers[key] = (self._answer(unit, name, loads), [])
        self._answers[key][1].append(unit.place)

    def _answer(self, unit: ImageSet, library: str, loads: int | None) -> ImageSetAnswer:
        """Return the answer for a unit, of a library that names kernels and loads a CUDA runtime if it does."""
        settings, kernel = self._question.settings, self._question.kernel
        answer, needed = explain_image_set(unit, self._device, settings, kernel)
        # A driver that is older than the device does not know it, whatever takes the image (C18).
        needed = max(needed, first_cuda_for_device(self._device) or needed)
        if library:
            answer = library_answer(answer, library)
        if loads is not None:
            self._runtimes[loads] = None
            if settings.driver is None:
                needed = max(needed, (loads, 0))
            else:
                answer = runtime_library_answer(answer, loads, self._device, settings.driver)
        if answer.outcome != "fails":
            self._needs.add(needed)
        for name in (answer.rule, *(image.rule for image in answer.images)):
            self.names[name] = None
        return answer

    def answer(self, unread: Sequence[str], *, is_read: bool, has_code: bool) -> DeviceAnswer:
        """Return what the device gets of all that was asked about, what fails first.

        ``unread`` are the names of files that could not be read to their end; ``is_read``: one could be; ``has_code``:
        one has device code, for whatever device.
        """
        units = [answer.replace(places=tuple(places)) for answer, places in self._answers.values()]
        units.sort(key=lambda one: OUTCOMES.index(one.outcome))
        counts = {name: sum(one.count for one in units if one.outcome == name) for name in OUTCOMES}
        device, question = self._device, self._question
        return DeviceAnswer(
            device.arch,
            device.words,
            device.vendor,
            device_verdict(device, units, question.kernel, self._passed, unread, has_code=has_code)
            if is_read or units
            else f"{device.words}: nothing was read",
            counts["runs"] + counts["compiles"],
            counts["compiles"],
            counts["fails"],
            counts["unknown"],
            tuple(units),
            tuple(self._notes(may_run=counts["fails"] < sum(counts.values()))),
            not unread,
        )

    def _notes(self, *, may_run: bool) -> list[str]:
        device, settings = self._device, self._question.settings
        notes = []
        if device.vendor == "nvidia":
            newest = max(self._needs, default=(0, 0))
            if settings.driver is None and newest != (0, 0) and may_run:
                which = "what runs needs" if len(self._needs) == 1 else "some of what runs needs"
                notes.append(f"{which} a driver of {driver_words(newest)}: none was named")
            if settings.driver is not None and self._answers and not self._runtimes:
                notes.append(
                    "which CUDA runtime library it brings is not known, so that was not compared with the driver"
                )
        elif settings.driver is not None:
            notes.append(f"{cli_or_api('--driver', 'driver=')} is NVIDIA's: not used for {device.arch}")
        if may_run and any(answer.runtime == "sycl" for answer, _ in self._answers.values()):
            notes.append(
                "aspects and work-group sizes that kernels require are not compared: an image with one that the device "
                "lacks is not taken [Y3]"
            )
            self.names["Y3"] = None
        if self._passed.get("relocatable"):
            count = pluralize(self._passed["relocatable"], "container")
            notes.append(
                f"{count} not counted: relocatable code, of which only what a device link made is loaded [C14]"
            )
            self.names["C14"] = None
        if self._passed.get("unseen"):
            notes.append(f"{pluralize(self._passed['unseen'], 'container')} with code that shows no names of kernels")
        return [*notes, *self._libraries]
