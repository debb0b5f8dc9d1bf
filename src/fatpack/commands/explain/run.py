"""Selection of images by the runtimes of devices, from rows of files and facts about the machine."""

from __future__ import annotations

import os

from fatpack.commands.explain.model import (
    DeviceAnswer,
    ExplainResult,
    ImageAnswer,
    ImageSetAnswer,
    RuleAnswer,
    RuntimeErrorText,
    StateAnswer,
    UnreadInput,
)
from fatpack.commands.explain.remedies import compatibility_package, dangerous_workaround, driver_words, remedies
from fatpack.commands.explain.tensile import TensileUnits, explain_library
from fatpack.errors import all_count_words, cli_or_api, pluralize
from fatpack.exit_codes import FINDINGS, FINE, worst_exit_code
from fatpack.inputs.files import MemberPath
from fatpack.limits import current_budget
from fatpack.printable import format_size
from fatpack.record import Record
from fatpack.tabular.image_sets import (
    CACHED,
    COMPILER_INPUT,
    UNDECIDED,
    ImageSet,
    ImageSetLocation,
    device_vendor,
    is_cached,
    is_compiler_input,
    is_undecided,
    read_image_sets,
)
from fatpack.tabular.skipped import CompletenessCheck
from fatpack.targets.name_based_libraries import find_name_based_library
from fatpack.targets.selection.rules import all_rules, failure_with_code
from fatpack.targets.selection.select_image import OUTCOMES, first_cuda_for_device, required_cuda, select_image
from fatpack.targets.vocabulary import feature_signs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from fatpack.tabular.columns import ImageRow
    from fatpack.tabular.image_kernels import ImageKernels
    from fatpack.tabular.skipped import Incomplete
    from fatpack.targets.devices import Device
    from fatpack.targets.selection.runtime_settings import RuntimeSettings
    from fatpack.targets.selection.select_image import DeviceSelection
    from fatpack.tensile.library import TensileLibrary


# The error that a program gets if a unit fails: as its runtime prints it, and as older runtimes printed it.

#: The last ROCm of which the older message is reported, and the first whose source has the newer one for sure.
_OLDER, _NEWER = (6, 2), (7, 0)

_OLD_TEXT = "Unable to find code object for all current devices!"


def runtime_error(image_set: ImageSet, choice: DeviceSelection, settings: RuntimeSettings) -> RuntimeErrorText | None:
    """Return the error that the program gets; None if the unit does not fail, or if that is not known."""
    if choice.outcome != "fails":
        return None
    if choice.error is None:
        return _in_words(image_set, choice)
    row = failure_with_code(*choice.error)
    if row.runtime == "hip" and choice.rule != "H5":
        return _hip(choice, settings)
    return RuntimeErrorText(row.text, row.code, row.names)


def _hip(choice: DeviceSelection, settings: RuntimeSettings) -> RuntimeErrorText:
    older, row = failure_with_code("hip", 209), failure_with_code("hip", 200)
    if settings.rocm is not None and settings.rocm <= _OLDER:
        return RuntimeErrorText(older.text, older.code, older.names, (f"it prints: {_OLD_TEXT}",))
    asked = f"{choice.state}, value of HIP_FORCE_SPIRV_CODEOBJECT: {int(settings.forces_spirv)}"
    also = [f"in the log of the runtime: No compatible code objects found for: {asked}"]
    if settings.rocm is None or settings.rocm < _NEWER:
        also.append(f"older runtimes: {_OLD_TEXT} ({older.code}, {older.names[0]})")
    return RuntimeErrorText(row.text, row.code, row.names, tuple(also))


def _in_words(image_set: ImageSet, choice: DeviceSelection) -> RuntimeErrorText:
    if image_set.runtime == "openmp" and choice.rule == "M6":
        mandatory = f"with OMP_TARGET_OFFLOAD=MANDATORY: {choice.text}"
        return RuntimeErrorText("no error: the region runs on the host", also=(mandatory,))
    if choice.rule == "G3":
        return RuntimeErrorText("no error: the region runs on the host")
    if choice.rule == "Y4":
        text = "No device image compatible with the current device was found for kernel …"
        return RuntimeErrorText(text, also=("before intel/llvm#21749: No kernel named … was found",))
    return RuntimeErrorText(choice.text or choice.reason)


def driver_too_old_error() -> RuntimeErrorText:
    """Return the error of a program whose CUDA runtime library is of a newer major version than the driver."""
    row = failure_with_code("cuda", 35)
    return RuntimeErrorText(row.text, row.code, row.names)


def missing_kernel_error(runtime: str) -> RuntimeErrorText:
    """Return the error of a program whose kernel is not in the image that was loaded."""
    if runtime != "cuda":
        return RuntimeErrorText("the kernel is not found")
    row, older = failure_with_code("cuda", 500), failure_with_code("cuda", 98)
    return RuntimeErrorText(row.text, row.code, row.names, (f"or: {older.text} ({older.code}, {older.names[0]})",))


# One unit and one device → the answer: the image that is taken, the rule, the error of the program, and the fix.

#: CUDA version that every driver has
_ANY = (0, 0)


def explain_image_set(
    image_set: ImageSet, device: Device, settings: RuntimeSettings, kernel: str
) -> tuple[ImageSetAnswer, tuple[int, int]]:
    """Return what a device gets of a unit, and the CUDA version that what runs asks of the driver.

    With a pattern of kernels (``kernel``), the loaded image must have a matching one.
    """
    choices = select_image(image_set.candidates, device, settings)
    if image_set.is_for_link:
        rule = "C14" if image_set.vendor == "nvidia" else "H15"
        reason = "this is code for the device link: only the output of the link is loaded"
        if image_set.own:
            reason = "this is LTO-IR, which the library's own code links at run time, and loads then"
        choices = tuple(
            one.replace(outcome="unknown", rule=rule, reason=reason, is_certain=False, error=None) for one in choices
        )
    if image_set.own > 1:
        several = f"the library chooses among {image_set.own} containers by itself"
        choices = tuple(one.replace(reason=f"{several}; {one.reason}") for one in choices)
    if not image_set.images:
        choices = tuple(one.replace(reason=f"it is registered, and has no image: {one.reason}") for one in choices)
    choice = min(choices, key=lambda one: OUTCOMES.index(one.outcome))
    loadable = [image_set.images[number] for one in choices for number in one.possible]
    answer = ImageSetAnswer(
        image_set.runtime,
        image_set.format,
        choice.outcome,
        choice.rule,
        choice.reason,
        choice.is_certain,
        tuple(_image(image_set, number, choices) for number in range(len(image_set.images))),
        runtime_error(image_set, choice, settings),
        remedies(image_set, choice, device, settings),
        dangerous_workaround(image_set, choice, device, settings),
    )
    runs = choice.outcome in ("runs", "compiles")
    needed = max([_ANY, *filter(None, (required_cuda(image.candidate) for image in loadable))]) if runs else _ANY
    if len({one.outcome for one in choices}) > 1:
        answer = _differing(answer, choices)
    if kernel and loadable and answer.outcome in ("runs", "compiles"):
        answer = _without_kernel(answer, [image.has_kernel for image in loadable])
    return answer, needed


def answer_of_file(
    image_set: ImageSet,
    device: Device,
    settings: RuntimeSettings,
    *,
    kernel: str = "",
    library: str = "",
    loads: int | None = None,
) -> tuple[ImageSetAnswer, tuple[int, int]]:
    """Return what a device gets of a unit in its file, and the CUDA version that what runs asks of the driver.

    ``library`` is the name of a library that asks for kernels by name, and the file loads the CUDA runtime library of
    the major version ``loads``.
    """
    answer, needed = explain_image_set(image_set, device, settings, kernel)
    # A driver that is older than the device does not know it, whatever takes the image (C18).
    needed = max(needed, first_cuda_for_device(device) or needed)
    if library:
        answer = library_answer(answer, library)
    if loads is not None and settings.driver is None:
        needed = max(needed, (loads, 0))
    elif loads is not None and settings.driver is not None:
        answer = runtime_library_answer(answer, loads, device, settings.driver)
    return answer, needed


def runtime_library_answer(
    answer: ImageSetAnswer, major: int, device: Device, driver: tuple[int, int]
) -> ImageSetAnswer:
    """Return the answer for a file that loads the CUDA runtime library of a major version, which a driver may lack."""
    if driver[0] >= major:
        return answer
    reason = f"it loads libcudart.so.{major}, and the driver is of CUDA {driver[0]}.{driver[1]}"
    needed = max((major, 0), first_cuda_for_device(device) or _ANY)
    newer = f"a driver of {driver_words(needed)}, for libcudart.so.{major}"
    return answer.replace(
        outcome="fails",
        rule="C19",
        reason=reason,
        is_certain=True,
        error=driver_too_old_error(),
        fixes=(newer, compatibility_package(needed)),
    )


def library_answer(answer: ImageSetAnswer, library: str) -> ImageSetAnswer:
    """Return the answer for a container of a library that asks for kernels by name, as its code for one device does."""
    if answer.rule != "C2" or answer.outcome != "fails":
        return answer
    reason = f"{answer.reason}; it is not known if {library} asks for these kernels on this device"
    return answer.replace(outcome="unknown", rule="C17", reason=reason, is_certain=False, error=None, fixes=())


def _image(image_set: ImageSet, number: int, choices: Sequence[DeviceSelection]) -> ImageAnswer:
    """Return the answer for one image: the states in which it fits, and the reasons."""
    image = image_set.images[number]
    judged = [one.judgements[number] for one in choices]
    words = {("yes" if one.fits else "no") if one.is_certain else "unknown" for one in judged}
    said = judged[0]
    if len(words) > 1:
        fitting = [one.state for one, each in zip(choices, judged, strict=True) if each.fits]
        said = said.replace(reason=f"for {', '.join(fitting)}")
    needed = required_cuda(image.candidate)
    role = "taken" if any(one.image == number for one in choices) else ""
    if not role and any(number in one.possible for one in choices):
        role = "may"
    return ImageAnswer(
        image.position,
        image.name,
        image.form,
        image.count,
        words.pop() if len(words) == 1 else "some",
        said.rule,
        said.reason,
        role,
        image.candidate.compression,
        image.ptx_version,
        "" if needed is None else f"{needed[0]}.{needed[1]}",
        image.has_kernel,
        image.candidate.contents,
    )


def _differing(answer: ImageSetAnswer, choices: Sequence[DeviceSelection]) -> ImageSetAnswer:
    """Return the answer for a device whose features decide, and are not all known."""
    states = tuple(StateAnswer(one.state, one.outcome, one.rule, one.reason) for one in choices)
    good = {one.state for one in states if one.outcome in ("runs", "compiles")}
    if len(good) == len(states):
        return answer.replace(states=states)
    feature = _deciding(states, good)
    if feature:
        on = next(feature_signs(state)[feature] for state in good)
        off = "-" if on == "+" else "+"
        reason = f"it runs with {feature}{on}, and not with {feature}{off}"
    else:
        others = [one.state for one in states if one.state not in good]
        reason = f"it runs on {', '.join(sorted(good)) or 'none'}, and not on {', '.join(others)}"
    advice = f"give the device with its features, as {states[-1].state}: a feature left out means both settings"
    fixes = (advice, *answer.fixes)
    return answer.replace(outcome="unknown", reason=reason, error=None, fixes=fixes, states=states, is_certain=False)


def _deciding(states: Sequence[StateAnswer], good: Collection[str]) -> str:
    """Return the feature whose setting alone decides, "" if there is none."""
    for feature in feature_signs(states[0].state):
        settings: dict[str, set[bool]] = {feature_signs(one.state)[feature]: set() for one in states}
        for one in states:
            settings[feature_signs(one.state)[feature]].add(one.state in good)
        if sorted(settings.values(), key=str) == [{False}, {True}]:
            return feature
    return ""


def _without_kernel(answer: ImageSetAnswer, known: Sequence[bool | None]) -> ImageSetAnswer:
    """Return the answer for a kernel that the image that is taken may lack."""
    if all(known):
        return answer
    if not any(known) and None not in known:
        reason = f"{answer.reason}, and the kernel is not in it"
        found = missing_kernel_error(answer.runtime)
        rule = "C10" if answer.runtime == "cuda" else answer.rule
        advice = ("build the kernel for every architecture: the fitting image is taken even if it lacks the kernel",)
        return answer.replace(outcome="fails", rule=rule, reason=reason, error=found, fixes=advice)
    reason = f"{answer.reason}; it is not known if the image taken has the kernel"
    return answer.replace(outcome="unknown", reason=reason, is_certain=False)


# The verdict on a device, in one sentence.

_VENDORS = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel"}


def device_verdict(
    device: Device,
    units: Sequence[ImageSetAnswer],
    kernel: str,
    passed: Mapping[str, int],
    unread: Sequence[str] = (),
    *,
    has_code: bool = True,
) -> str:
    """Return the sentence: how many containers run, and the outcomes of the others. ``units`` has failing ones first.

    ``unread`` are the names of files that were not read, or not to their end: the sentence begins with them.
    ``has_code`` is whether there is device code at all.
    """
    total = sum(one.count for one in units)
    opening = f"{device.words}: {_unread(unread)}"
    if not total:
        is_known = has_code or passed.get("undecided")
        return f"{opening}{_nothing(device, kernel, passed) if is_known else 'no device code was found'}"
    noun = _noun(units)
    fails = sum(one.count for one in units if one.outcome == "fails")
    unknown = sum(one.count for one in units if one.outcome == "unknown")
    compiles = sum(one.count for one in units if one.outcome == "compiles")
    runs = total - fails - unknown
    parts: list[str] = []
    for count, one, several in (
        (runs, "runs", "run"),
        (fails, "fails", "fail"),
        (unknown, "is not known to run", "are not known to run"),
    ):
        if count:
            which = str(count) if parts else _which(count, total, noun)
            parts.append(f"{which} {one if count == 1 else several}")
    if unknown == total > 1:
        parts = [f"none of the {pluralize(total, noun)} is known to run"]
    if compiles:
        parts[0] += f"{'' if compiles == runs else f', {compiles} of them'} after compiling"
    wrong = [one for one in units if one.outcome == ("fails" if fails else "unknown")]
    worst = max(wrong, key=lambda one: one.count, default=None)
    why = "" if worst is None else f": {_why(worst)}"
    return f"{opening}{', '.join(parts)}{why}"


def _unread(names: Sequence[str]) -> str:
    """Return how a sentence about files begins of which not all was read."""
    if not names:
        return ""
    which = names[0] if len(names) == 1 else pluralize(len(names), "file")
    return f"not all of {which} could be read; of what was read, "


def _why(answer: ImageSetAnswer) -> str:
    """Return the error that the program gets, in the words that people search for."""
    if answer.error is None:
        return answer.reason
    return f"{answer.error.text} ({answer.error.names[0]})" if answer.error.names else answer.error.text


def _which(count: int, total: int, noun: str) -> str:
    if total == 1:
        return "the library" if noun == "library" else f"the only {noun}"
    return all_count_words(total, noun) if count == total else f"{count} of {pluralize(total, noun)}"


def _nothing(device: Device, kernel: str, passed: Mapping[str, int]) -> str:
    vendor = _VENDORS[device.vendor]
    if passed.get("no kernel"):
        count = passed["no kernel"]
        which = "the only container has" if count == 1 else f"{all_count_words(count, 'container')} have"
        return f"{which} no kernel, so that no launch can fail"
    if kernel and passed:
        return f"the kernel is in no image for {vendor} devices that shows its kernels"
    if passed.get("input"):
        return f"what it has for {vendor} devices is {COMPILER_INPUT}"
    if passed.get("cache"):
        return f"what it has for {vendor} devices is {CACHED}"
    if passed.get("undecided"):
        return f"what it has is {UNDECIDED}"
    return f"nothing in it is for {vendor} devices"


def _noun(units: Sequence[ImageSetAnswer]) -> str:
    nouns = {one.noun for one in units}
    return nouns.pop() if len(nouns) == 1 else "container"


#: rules by which the HIP runtime finds no image for a device
_UNSERVED = ("H2", "H3", "H4", "H7")


class ExplainQuery(Record):
    """The devices, the versions and environment of their machine, and a pattern of kernel names ("": all kernels).

    ``driver`` and ``rocm`` are the versions as they were given.
    """

    devices: tuple[Device, ...]
    settings: RuntimeSettings
    kernel: str = ""
    driver: str = ""
    rocm: str = ""


def explain_rows(
    rows: Iterable[ImageRow], paths: Sequence[str], question: ExplainQuery, *, has_files: bool = True
) -> ExplainResult:
    """Return what some devices get of files; ``rows`` are those of their images, with ``has_kernel`` for a kernel.

    What the containers state decides, as it does for a runtime. Files are read only for the kernels of containers that
    fail, because no launch fails for one without kernels; without ``has_files`` the paths are names of other data.
    """
    kernels = _LaunchedKernels(has_files=has_files)
    asking = [_DeviceExplainer(device, question, kernels) for device in question.devices]
    unread: list[UnreadInput] = []
    files = read = 0
    held: list[ImageSet] = []
    tensile = TensileUnits(current_budget()) if has_files else None
    end = CompletenessCheck()
    missed: list[Incomplete | None] = []

    def watched() -> Iterator[ImageRow]:
        for row in rows:
            missed[:] = [end.missed(row)]
            if tensile is not None:
                tensile.see(row)
            reason = (
                "" if row.row == "file" else "input" if is_compiler_input(row) else "cache" if is_cached(row) else ""
            )
            if reason:
                vendor = device_vendor(row.offload or "", row.triple or "", row.arch or "", row.form or "")
                for one in asking:
                    one.skip_image(reason, vendor)
            yield row

    for item in read_image_sets(watched()):
        if isinstance(item, ImageSet):
            if tensile is None or not tensile.take(item):
                held.append(item)
            continue
        if is_undecided(item):
            for one in asking:
                one.skip_bytecode()
        files += bool(item.count)
        read += item.error is None
        # A row of a file is yielded before the next row is taken.
        if missed and missed[0] is not None:
            unread.append(UnreadInput(item.path, missed[0].problem, missed[0].exit_code))
        kernels.size = item.file_size or 0
        if kernels.are_unregistered(item, held):
            for one in asking:
                one.unregistered += 1
        _ask_all(asking, [*held, *kernels.emptied(item)], item.cuda_runtime, _not_searched(item, unread))
        held = []
    _ask_all(asking, held)
    for library, units in tensile.libraries() if tensile is not None else ():
        if library is None:
            _ask_all(asking, units)
            continue
        for one in asking:
            one.take_library(library, units)
    names_unread = [os.path.basename(one.path) or one.path for one in unread]
    answers = tuple(one.answer(names_unread, is_read=bool(read), has_code=bool(files)) for one in asking)
    answers = _in_one_machine(answers, asking)
    code = FINE if all(one.is_served for one in answers) else FINDINGS
    names = dict.fromkeys(name for one in asking for name in one.names)
    table = [row for row in all_rules() if row.name in names]
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


def _not_searched(row: ImageRow, unread: Sequence[UnreadInput]) -> str:
    """Return what of a file was not searched, in words; "" if all of it was."""
    if row.not_searched:
        return f"{format_size(row.not_searched)} not searched"
    return unread[-1].problem if unread and unread[-1].path == row.path else ""


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
        f"if these devices are in one machine, {unserved.words} leaves the devices after it without code, too, and "
        "the program without any if it is the first: HIP_VISIBLE_DEVICES hides it [H8]"
    )
    asking[0].names["H8"] = None
    return tuple(one.replace(notes=(*one.notes, note)) if one is unserved else one for one in answers)


def _ask_all(
    explainers: Sequence[_DeviceExplainer],
    image_sets: Sequence[ImageSet],
    cuda_runtime: int | None = None,
    not_searched: str = "",
) -> None:
    """Add the units of one file. Relocatable units do not count beside linked ones.

    ``cuda_runtime`` is the major version of the CUDA runtime library that the file loads, None if it is not known.
    ``not_searched`` says what of the file was not searched.
    """
    linked = {image_set.vendor for image_set in image_sets if not image_set.is_for_link}
    for one in explainers:
        for image_set in image_sets:
            if image_set.is_for_link and image_set.vendor in linked:
                one.skip("relocatable", image_set)
            else:
                one.take(image_set, cuda_runtime, not_searched)


class _LaunchedKernels:
    """The kernels of the file whose units are judged, read once for all devices; ``size`` is that of the file."""

    def __init__(self, *, has_files: bool) -> None:
        self.size = 0
        self._has_files = has_files
        self._path = ""
        self._kernels: ImageKernels | None = None

    def emptied(self, row: ImageRow) -> list[ImageSet]:
        """Return the registered containers of a file without images, whose kernels are in no other, as units."""
        from fatpack.tabular import image_kernels

        found = image_kernels.read_emptied(row, current_budget()) if self._can_read(row.path) else None
        if found is None or not found.lost:
            return []
        format, runtime = ("cuda-fatbin", "cuda") if found.vendor == "nvidia" else ("clang-offload-bundle", "hip")
        return [
            ImageSet(
                ImageSetLocation(found.path, container=number, section=found.section), format, found.vendor, runtime, ()
            )
            for number in found.numbers
        ]

    def are_unregistered(self, row: ImageRow, image_sets: Sequence[ImageSet]) -> bool:
        """Return whether the containers of a file are of the kind that records register, and it has no record."""
        from fatpack.tabular import image_kernels

        sections = {each.place.section for each in image_sets}
        return self._can_read(row.path) and image_kernels.lacks_records(row, sections, current_budget())

    def _can_read(self, path: str) -> bool:
        """Return whether a file can be read again: a stream cannot."""
        return self._has_files and (isinstance(path, MemberPath) or os.path.isfile(path))

    def have_no_kernels(self, image_set: ImageSet) -> bool:
        """Return whether a unit has no kernel for sure, by the rule of ``check``; False for files that it leaves out.

        nvcc puts such a container into each program: that of its stub for the runtime.
        """
        from fatpack.tabular import file_image_sets, image_kernels

        path = image_set.place.path
        if not image_set.images:  # of one that was emptied, kernels are registered
            return False
        if self.size > image_kernels.MAX_BYTES_FOR_KERNEL_NAMES or not self._can_read(path):
            return False
        if self._kernels is None or path != self._path:
            self._path, self._kernels = path, image_kernels.read_kernels(path, current_budget())
        rows = file_image_sets.ImageSetRows(path, image_set.vendor, image_set.runtime, image_set.rows)
        return image_kernels.has_no_kernels(rows, self._kernels)


class _DeviceExplainer:
    """One device, and what it gets so far: units that answer alike are one."""

    def __init__(self, device: Device, question: ExplainQuery, kernels: _LaunchedKernels) -> None:
        self._device = device
        self._kernels = kernels
        self._question = question
        self._answers: dict[object, tuple[ImageSetAnswer, list[ImageSetLocation]]] = {}
        self._passed: dict[str, int] = {}
        self._libraries: dict[str, None] = {}
        #: the CUDA versions of which a driver must be for what runs, (0, 0) for any driver
        self._needs: set[tuple[int, int]] = set()
        self._runtimes: dict[int | None, None] = {}
        #: the number of files in which no record registers containers
        self.unregistered = 0
        #: the number of records of GCC's offloading for devices of other vendors
        self.others_of_gcc = 0
        self.names: dict[str, None] = {}

    def skip(self, reason: str, image_set: ImageSet) -> None:
        """Count a unit that is not asked about."""
        if image_set.vendor == self._device.vendor:
            self._passed[reason] = self._passed.get(reason, 0) + 1

    def skip_image(self, reason: str, vendor: str) -> None:
        """Count an image that is in no unit: of a file that a compiler reads (input), or of a kernel cache (cache)."""
        if vendor == self._device.vendor:
            self._passed[reason] = self._passed.get(reason, 0) + 1

    def skip_bytecode(self) -> None:
        """Count a file whose code is not compiled for any device yet."""
        self._passed["undecided"] = self._passed.get("undecided", 0) + 1

    def take(self, image_set: ImageSet, cuda_runtime: int | None = None, not_searched: str = "") -> None:
        """Add a unit, if it is for devices of this vendor and has the requested kernel.

        A program that chooses containers by itself does not certainly fail if some of it was ``not_searched``.
        """
        if image_set.vendor != self._device.vendor:
            self.others_of_gcc += image_set.runtime == "gcc"
            return
        if self._question.kernel and not any(image.has_kernel for image in image_set.images):
            self.skip("unseen" if any(image.has_kernel is None for image in image_set.images) else "other", image_set)
            return
        library = (
            find_name_based_library(image_set.place.path.rpartition("!")[2]) if image_set.vendor == "nvidia" else None
        )
        if library is not None:
            self._libraries[f"{library.library} asks for kernels by their names: {library.reason} [C17]"] = None
            self.names["C17"] = None
        images = tuple((one.candidate, one.form, one.count, one.has_kernel) for one in image_set.images)
        name = library.library if library else ""
        loads = cuda_runtime if image_set.runtime == "cuda" else None
        alike = (
            name,
            image_set.format,
            image_set.runtime,
            image_set.bundle_version,
            image_set.is_for_link,
            image_set.place.container is None,
            loads,
            image_set.own,
            not_searched,
        )
        key = (alike, images)
        if key not in self._answers:
            answer = self._answer(image_set, name, loads)
            if not_searched and image_set.own and answer.outcome == "fails":
                reason = f"{answer.reason}; not known: {not_searched}"
                answer = answer.replace(outcome="unknown", reason=reason, is_certain=False, error=None, fixes=())
            self._answers[key] = (answer, [])
        answer, places = self._answers[key]
        if (
            answer.outcome in ("fails", "unknown")
            and not image_set.is_for_link
            and self._kernels.have_no_kernels(image_set)
        ):
            self.skip("no kernel", image_set)
        else:
            places.append(image_set.place)

    def take_library(self, library: TensileLibrary, units: Sequence[ImageSet]) -> None:
        """Add a library of Tensile, if the device is AMD's and the library has the requested kernel."""
        if self._device.vendor != "amd":
            return
        if self._question.kernel and not any(image.has_kernel for unit in units for image in unit.images):
            self.skip("other", units[0])
            return
        processor = self._device.arch.partition(":")[0]
        answer = explain_library(library, units, processor, lambda image_set: self._answer(image_set, "", None))
        self._answers[library.path] = (answer, list(answer.places))

    def _answer(self, image_set: ImageSet, library: str, loads: int | None) -> ImageSetAnswer:
        """Return the answer for a unit, of a library that names kernels and loads a CUDA runtime if it does."""
        question = self._question
        answer, needed = answer_of_file(
            image_set, self._device, question.settings, kernel=question.kernel, library=library, loads=loads
        )
        if loads is not None:
            self._runtimes[loads] = None
        if answer.outcome != "fails":
            self._needs.add(needed)
        return answer

    def answer(self, unread: Sequence[str], *, is_read: bool, has_code: bool) -> DeviceAnswer:
        """Return the answer for the device: all units, failing ones first.

        ``unread`` are the names of files that could not be read to their end; ``is_read``: one could be; ``has_code``:
        one has device code, for whatever device.
        """
        units = [answer.replace(places=tuple(places)) for answer, places in self._answers.values() if places]
        for name in (name for one in units for name in (one.rule, *(image.rule for image in one.images))):
            self.names[name] = None
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
            0 if units else self._passed.get("no kernel", 0),
        )

    def _gcc_notes(self) -> Iterator[str]:
        """Yield what to know of GCC's offloading: what is not linked, and where regions run without a device."""
        if self._passed.get("undecided"):
            count = pluralize(self._passed["undecided"], "file")
            yield f"{count} not counted: {UNDECIDED}"
        if self.others_of_gcc and not any(answer.runtime == "gcc" for answer, _ in self._answers.values()):
            whose = pluralize(self.others_of_gcc, "record")
            yield (
                f"{whose} of GCC's offloading for other devices: the regions run on the host here, without a message, "
                "with OMP_TARGET_OFFLOAD=mandatory too if there is no other device [G3]"
            )
            self.names["G3"] = None

    def _notes(self, *, may_run: bool) -> list[str]:
        device, settings = self._device, self._question.settings
        notes = []
        if device.vendor == "nvidia":
            newest = max(self._needs, default=(0, 0))
            if settings.driver is None and newest != (0, 0) and may_run:
                needs = "needs" if len(self._needs) == 1 else "some images need"
                way = cli_or_api("--driver", "driver=")
                notes.append(f"{needs} a driver of {driver_words(newest)}; pass {way} to check yours")
            if settings.driver is not None and self._answers and not self._runtimes:
                notes.append("its CUDA runtime library is not known, and was not compared with the driver")
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
        if self._passed.get("no kernel"):
            count = pluralize(self._passed["no kernel"], "container")
            notes.append(f"{count} not counted: no kernel in it, so that no launch can fail")
        if self._passed.get("input"):
            count = pluralize(self._passed["input"], "file")
            notes.append(f"{count} not counted: {COMPILER_INPUT}")
        if self._passed.get("cache"):
            count = pluralize(self._passed["cache"], "image")
            notes.append(f"{count} not counted: of {CACHED}")
        notes += self._gcc_notes()
        if self.unregistered and self._answers:
            notes.append(
                f"not checked in {pluralize(self.unregistered, 'file')}: that the device code is registered; no record "
                "in it does that, so the program has to load it itself"
            )
        if self._passed.get("unseen"):
            notes.append(f"{pluralize(self._passed['unseen'], 'container')} with code that shows no names of kernels")
        return [*notes, *self._libraries]
