"""Rows of files, devices and what is known of their machine → what the runtimes load, and why."""

from __future__ import annotations

from fatpack.answers.explain.mending import danger, driver_words, mends
from fatpack.answers.explain.records import (
    DeviceAnswer,
    Explained,
    ImageAnswer,
    RuleAnswer,
    StateAnswer,
    UnitAnswer,
    Unread,
)
from fatpack.answers.explain.telling import missing, told
from fatpack.answers.explain.wording import verdict
from fatpack.errors import counted, in_both
from fatpack.facts.units import Place, Unit, units_of
from fatpack.outcomes import FINDINGS, FINE, worst
from fatpack.record import Record
from fatpack.target.choice import rules as rule_table
from fatpack.target.choice.asking import OUTCOMES, ask, needs
from fatpack.target.libraries import naming_library
from fatpack.target.target_id import signs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from fatpack.facts.columns import ImageRow
    from fatpack.target.choice.asking import Choice
    from fatpack.target.choice.settings import Settings
    from fatpack.target.devices import Device


class Question(Record):
    """What is asked: the devices, what is known of their machine, and a pattern of kernels (""; all of them).

    ``driver`` and ``rocm`` are the versions as they were given.
    """

    devices: tuple[Device, ...]
    settings: Settings
    kernel: str = ""
    driver: str = ""
    rocm: str = ""


def explain(rows: Iterable[ImageRow], paths: Sequence[str], question: Question) -> Explained:
    """Return what some devices get of files; ``rows`` are those of their images, with ``has_kernel`` for a kernel.

    Reads nothing but the rows: what their containers state decides, as it does for a runtime.
    """
    asking = [_Asking(device, question) for device in question.devices]
    unread: list[Unread] = []
    files = read = 0
    held: list[Unit] = []
    for item in units_of(rows):
        if isinstance(item, Unit):
            held.append(item)
            continue
        files += bool(item.count)
        read += item.error is None
        if item.error or (item.exit_code or 0) > FINDINGS:
            problem = (item.error or "").removeprefix(
                f"{item.path}: "
            ) or f"parts of it could not be read ({', '.join(item.findings)})"
            unread.append(Unread(item.path, problem, item.exit_code or FINDINGS))
        _ask_all(asking, held)
        held = []
    _ask_all(asking, held)
    answers = tuple(one.answer(is_read=bool(read)) for one in asking)
    code = FINE if all(one.is_served for one in answers) else FINDINGS
    names = dict.fromkeys(name for one in asking for name in one.names)
    table = [row for row in rule_table.rules() if row.name in names]
    return Explained(
        tuple(paths),
        files,
        question.kernel,
        question.driver,
        question.rocm,
        answers,
        tuple(RuleAnswer(row.name, row.says, row.mark, row.source) for row in table),
        tuple(unread),
        worst((code, *(one.exit_code for one in unread))),
    )


def _ask_all(asking: Sequence[_Asking], units: Sequence[Unit]) -> None:
    """Ask about the units of one file. What waits for a link does not count beside what was linked."""
    linked = any(unit.runtime == "cuda" and not unit.waits for unit in units)
    for one in asking:
        for unit in units:
            if unit.waits and linked:
                one.pass_by("relocatable", unit)
            else:
                one.take(unit)


class _Asking:
    """One device, and what it gets so far: units that answer alike are one."""

    def __init__(self, device: Device, question: Question) -> None:
        self._device = device
        self._question = question
        self._answers: dict[object, tuple[UnitAnswer, list[Place]]] = {}
        self._passed: dict[str, int] = {}
        self._libraries: dict[str, None] = {}
        self._needs: tuple[int, int] = (0, 0)
        self.names: dict[str, None] = {}

    def pass_by(self, why: str, unit: Unit) -> None:
        """Count a unit that is not asked about."""
        if unit.vendor == self._device.vendor:
            self._passed[why] = self._passed.get(why, 0) + 1

    def take(self, unit: Unit) -> None:
        """Ask about a unit, if it is for devices of this vendor and has the kernel that was asked for."""
        if unit.vendor != self._device.vendor:
            return
        if self._question.kernel and not any(image.has_kernel for image in unit.images):
            self.pass_by("unseen" if any(image.has_kernel is None for image in unit.images) else "other", unit)
            return
        library = naming_library(unit.place.path.rpartition("!")[2]) if unit.vendor == "nvidia" else None
        if library is not None:
            self._libraries[f"{library.library} chooses by name: {library.reason} [C17]"] = None
            self.names["C17"] = None
        images = tuple((one.candidate, one.form, one.count, one.has_kernel) for one in unit.images)
        name = library.library if library else ""
        key = (name, unit.format, unit.runtime, unit.bundle_version, unit.waits, unit.place.container is None, images)
        if key not in self._answers:
            self._answers[key] = (_of_library(self._answer(unit), name), [])
        self._answers[key][1].append(unit.place)

    def _answer(self, unit: Unit) -> UnitAnswer:
        question = self._question
        choices = ask(unit.asked, self._device, question.settings)
        if unit.waits:
            reason = "it is relocatable: what a device link makes of it is what counts"
            choices = tuple(
                one.replace(outcome="unknown", rule="C14", reason=reason, is_certain=False, error=None)
                for one in choices
            )
        choice = min(choices, key=lambda one: OUTCOMES.index(one.outcome))
        taken = [unit.images[number] for one in choices for number in one.may]
        answer = UnitAnswer(
            unit.runtime,
            unit.format,
            choice.outcome,
            choice.rule,
            choice.reason,
            choice.is_certain,
            tuple(_image(unit, number, choices) for number in range(len(unit.images))),
            told(unit, choice, question.settings),
            mends(unit, choice, self._device, question.settings),
            danger(unit, choice, self._device, question.settings),
        )
        if choice.outcome in ("runs", "compiles"):
            found = [needs(image.candidate) for image in taken]
            self._needs = max([self._needs, *filter(None, found)])
        if len({one.outcome for one in choices}) > 1:
            answer = _differing(answer, choices)
        if question.kernel and taken and answer.outcome in ("runs", "compiles"):
            answer = _without_kernel(answer, [image.has_kernel for image in taken])
        for name in (answer.rule, *(image.rule for image in answer.images)):
            self.names[name] = None
        return answer

    def answer(self, *, is_read: bool) -> DeviceAnswer:
        """Return what the device gets of all that was asked about, what fails first; ``is_read``: a file was read."""
        units = [answer.replace(places=tuple(places)) for answer, places in self._answers.values()]
        units.sort(key=lambda one: OUTCOMES.index(one.outcome))
        counts = {name: sum(one.count for one in units if one.outcome == name) for name in OUTCOMES}
        device, question = self._device, self._question
        return DeviceAnswer(
            device.arch,
            device.words,
            device.vendor,
            verdict(device, units, question.kernel, self._passed)
            if is_read or units
            else f"{device.words}: nothing was read",
            counts["runs"] + counts["compiles"],
            counts["compiles"],
            counts["fails"],
            counts["unknown"],
            tuple(units),
            tuple(self._notes()),
        )

    def _notes(self) -> list[str]:
        device, settings = self._device, self._question.settings
        notes = []
        if device.vendor == "nvidia":
            if settings.driver is None and self._needs != (0, 0):
                notes.append(f"what runs needs a driver of {driver_words(self._needs)}: none was named")
            if settings.driver is not None and self._answers:
                notes.append("only images were compared, not the CUDA runtime library that the program brings")
        elif settings.driver is not None:
            notes.append(f"{in_both('--driver', 'driver=')} is NVIDIA's: not used for {device.arch}")
        if self._passed.get("relocatable"):
            count = counted(self._passed["relocatable"], "container")
            notes.append(f"{count} of relocatable code: what the device link made of it is what counts [C14]")
            self.names["C14"] = None
        if self._passed.get("unseen"):
            notes.append(f"{counted(self._passed['unseen'], 'container')} with code that shows no names of kernels")
        return [*notes, *self._libraries]


def _of_library(answer: UnitAnswer, library: str) -> UnitAnswer:
    """Return the answer for a container of a library that asks for kernels by name, as its code for one device does."""
    if not library or answer.rule != "C2" or answer.outcome != "fails":
        return answer
    reason = f"{answer.reason}; whether {library} asks for these kernels on this device is not known"
    return answer.replace(outcome="unknown", rule="C17", reason=reason, is_certain=False, told=None, mends=())


def _image(unit: Unit, number: int, choices: Sequence[Choice]) -> ImageAnswer:
    """Return what is said of one image: in which states it fits, and why, or why not."""
    image = unit.images[number]
    judged = [one.judgements[number] for one in choices]
    words = {("yes" if one.fits else "no") if one.is_certain else "unknown" for one in judged}
    said = judged[0]
    if len(words) > 1:
        fitting = [one.state for one, each in zip(choices, judged, strict=True) if each.fits]
        said = said.replace(reason=f"for {', '.join(fitting)}")
    needed = needs(image.candidate)
    role = "taken" if any(one.image == number for one in choices) else ""
    if not role and any(number in one.may for one in choices):
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
    )


def _differing(answer: UnitAnswer, choices: Sequence[Choice]) -> UnitAnswer:
    """Return the answer for a device whose features decide, and are not all known."""
    states = tuple(StateAnswer(one.state, one.outcome, one.rule, one.reason) for one in choices)
    good = {one.state for one in states if one.outcome in ("runs", "compiles")}
    if len(good) == len(states):
        return answer.replace(states=states)
    feature = _deciding(states, good)
    if feature:
        on = next(signs(state)[feature] for state in good)
        off = "-" if on == "+" else "+"
        reason = f"it runs with {feature}{on}, and not with {feature}{off}"
    else:
        others = [one.state for one in states if one.state not in good]
        reason = f"it runs on {', '.join(sorted(good)) or 'none'}, and not on {', '.join(others)}"
    advice = f"name the device with its features, as {states[-1].state}: what is left open counts both ways"
    mends = (advice, *answer.mends)
    return answer.replace(outcome="unknown", reason=reason, told=None, mends=mends, states=states, is_certain=False)


def _deciding(states: Sequence[StateAnswer], good: Collection[str]) -> str:
    """Return the feature whose setting alone decides, "" if there is none."""
    for feature in signs(states[0].state):
        settings: dict[str, set[bool]] = {signs(one.state)[feature]: set() for one in states}
        for one in states:
            settings[signs(one.state)[feature]].add(one.state in good)
        if sorted(settings.values(), key=str) == [{False}, {True}]:
            return feature
    return ""


def _without_kernel(answer: UnitAnswer, known: Sequence[bool | None]) -> UnitAnswer:
    """Return the answer for a kernel that the image that is taken may lack."""
    if all(known):
        return answer
    if not any(known) and None not in known:
        reason = f"{answer.reason}, and the kernel is not in it"
        found = missing(answer.runtime)
        rule = "C10" if answer.runtime == "cuda" else answer.rule
        advice = ("build the kernel for every architecture: the image that fits is taken without it",)
        return answer.replace(outcome="fails", rule=rule, reason=reason, told=found, mends=advice)
    reason = f"{answer.reason}; whether the kernel is in what is taken is not known"
    return answer.replace(outcome="unknown", reason=reason, is_certain=False)
