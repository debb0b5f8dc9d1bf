"""One unit and one device → what is said of it: which image is taken by which rule, what is told, and what mends it."""

from __future__ import annotations

from fatpack.commands.explain.model import ImageAnswer, ImageSetAnswer, StateAnswer
from fatpack.commands.explain.remedies import compatibility_package, dangerous_workaround, driver_words, remedies
from fatpack.commands.explain.telling import driver_too_old_error, missing_kernel_error, runtime_error
from fatpack.targets.selection.select_image import OUTCOMES, first_cuda_for_device, required_cuda, select_image
from fatpack.targets.target_id import feature_signs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from fatpack.tabular.image_sets import ImageSet
    from fatpack.targets.devices import Device
    from fatpack.targets.selection.choice_settings import RuntimeSettings
    from fatpack.targets.selection.select_image import DeviceSelection

#: CUDA version that every driver has
_ANY = (0, 0)


def explain_image_set(
    unit: ImageSet, device: Device, settings: RuntimeSettings, kernel: str
) -> tuple[ImageSetAnswer, tuple[int, int]]:
    """Return what a device gets of a unit, and the CUDA version that what runs asks of the driver.

    For a pattern of kernels (``kernel``) what is taken has to have one.
    """
    choices = select_image(unit.asked, device, settings)
    if unit.waits:
        rule = "C14" if unit.vendor == "nvidia" else "H15"
        reason = "this is code for the device link, and only what the link makes of it is loaded"
        choices = tuple(
            one.replace(outcome="unknown", rule=rule, reason=reason, is_certain=False, error=None) for one in choices
        )
    if unit.own > 1:
        whole = f"the library chooses among {unit.own} containers by itself"
        choices = tuple(one.replace(reason=f"{whole}; {one.reason}") for one in choices)
    choice = min(choices, key=lambda one: OUTCOMES.index(one.outcome))
    taken = [unit.images[number] for one in choices for number in one.may]
    answer = ImageSetAnswer(
        unit.runtime,
        unit.format,
        choice.outcome,
        choice.rule,
        choice.reason,
        choice.is_certain,
        tuple(_image(unit, number, choices) for number in range(len(unit.images))),
        runtime_error(unit, choice, settings),
        remedies(unit, choice, device, settings),
        dangerous_workaround(unit, choice, device, settings),
    )
    runs = choice.outcome in ("runs", "compiles")
    needed = max([_ANY, *filter(None, (required_cuda(image.candidate) for image in taken))]) if runs else _ANY
    if len({one.outcome for one in choices}) > 1:
        answer = _differing(answer, choices)
    if kernel and taken and answer.outcome in ("runs", "compiles"):
        answer = _without_kernel(answer, [image.has_kernel for image in taken])
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
        told=driver_too_old_error(),
        mends=(newer, compatibility_package(needed)),
    )


def library_answer(answer: ImageSetAnswer, library: str) -> ImageSetAnswer:
    """Return the answer for a container of a library that asks for kernels by name, as its code for one device does."""
    if answer.rule != "C2" or answer.outcome != "fails":
        return answer
    reason = f"{answer.reason}; whether {library} asks for these kernels on this device is not known"
    return answer.replace(outcome="unknown", rule="C17", reason=reason, is_certain=False, told=None, mends=())


def _image(unit: ImageSet, number: int, choices: Sequence[DeviceSelection]) -> ImageAnswer:
    """Return what is said of one image: in which states it fits, and why, or why not."""
    image = unit.images[number]
    judged = [one.judgements[number] for one in choices]
    words = {("yes" if one.fits else "no") if one.is_certain else "unknown" for one in judged}
    said = judged[0]
    if len(words) > 1:
        fitting = [one.state for one, each in zip(choices, judged, strict=True) if each.fits]
        said = said.replace(reason=f"for {', '.join(fitting)}")
    needed = required_cuda(image.candidate)
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
        image.candidate.holds,
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
    advice = f"name the device with its features, as {states[-1].state}: what is left open counts both ways"
    mends = (advice, *answer.mends)
    return answer.replace(outcome="unknown", reason=reason, told=None, mends=mends, states=states, is_certain=False)


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
        advice = ("build the kernel for every architecture: the image that fits is taken without it",)
        return answer.replace(outcome="fails", rule=rule, reason=reason, told=found, mends=advice)
    reason = f"{answer.reason}; whether the kernel is in what is taken is not known"
    return answer.replace(outcome="unknown", reason=reason, is_certain=False)
