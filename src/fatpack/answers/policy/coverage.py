"""Whether a unit serves a device, by the rules of its runtime: :mod:`fatpack.target.choice`; none are made here."""

from __future__ import annotations

from fatpack.answers.policy.units import candidate
from fatpack.record import Record
from fatpack.target.choice import cuda, hip, kpack, openmp, sycl
from fatpack.target.devices import Device
from fatpack.target.nvidia import parse_nvidia
from fatpack.target.vocabulary import vocabulary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.answers.policy.requirements import Requirement
    from fatpack.answers.policy.units import Unit
    from fatpack.target.choice.answer import Answer, Candidate

#: adapters of SYCL's runtimes that serve Intel devices
_ADAPTERS = ("level-zero", "opencl-cpu")


class Coverage(Record):
    """What a unit is to a device: ``serves`` it or not, by which ``rule``, why, and whether that is certain."""

    serves: bool
    rule: str
    reason: str
    is_certain: bool = True


def covers(unit: Unit, wanted: Requirement) -> Coverage:
    """Return whether a unit meets a requirement, PTX for later devices left aside."""
    return served([candidate(row) for row in unit.images], unit.offload, wanted.device, is_kpack=unit.is_kpack)


def served(images: Sequence[Candidate], offload: str, device: Device, *, is_kpack: bool = False) -> Coverage:
    """Return what images of one unit are to a device; an AMD device is served in all states that it leaves open."""
    answers = list(_answers(images, offload, device, is_kpack=is_kpack))
    failed = [(name, answer) for name, answer in answers if answer.outcome == "fails"]
    if failed:
        answer = failed[0][1]
        states = ", ".join(name for name, _ in failed)
        partly = f"nothing is for {states}" if len(failed) < len(answers) else answer.reason
        return Coverage(False, answer.rule, partly, all(each.is_certain for _, each in failed))
    answer = next((each for _, each in answers if not each.is_certain), answers[0][1])
    # Which of several is taken may be open where it is certain that one of them runs.
    alone = [[image] for image in images] if not answer.is_certain and len(images) > 1 else []
    is_certain = answer.is_certain or any(_is_certain(one, offload, device, is_kpack=is_kpack) for one in alone)
    return Coverage(True, answer.rule, answer.reason, is_certain)


def _is_certain(images: Sequence[Candidate], offload: str, device: Device, *, is_kpack: bool) -> bool:
    """Return whether images serve a device for sure."""
    answers = _answers(images, offload, device, is_kpack=is_kpack)
    return all(answer.outcome != "fails" and answer.is_certain for _, answer in answers)


def _answers(images: Sequence[Candidate], offload: str, device: Device, *, is_kpack: bool) -> list[tuple[str, Answer]]:
    """Return what the runtime answers for each state of a device, with its name."""
    if device.vendor == "nvidia":
        arch = device.nvidia
        assert arch is not None
        answer = openmp.choose(images, device.arch) if offload == "openmp" else cuda.choose(images, arch)
        return [(device.arch, answer)]
    if device.vendor == "amd":
        return [(state, _amd(images, offload, state, is_kpack=is_kpack)) for state in device.states or (device.arch,)]
    tried = [sycl.choose(images, device.arch, adapter) for adapter in _ADAPTERS]
    return [(device.arch, next((answer for answer in tried if answer.outcome != "fails"), tried[0]))]


def _amd(images: Sequence[Candidate], offload: str, state: str, *, is_kpack: bool) -> Answer:
    if is_kpack:
        archs = [image.arch for image in images]
        return kpack.choose(kpack.candidates([archs], state), lambda _, arch: arch in archs)
    return openmp.choose(images, state) if offload == "openmp" else hip.choose(images, state)


def has_later(unit: Unit, device: Device) -> bool:
    """Return whether every later device is served, also those that nobody knows yet: plain PTX is for all from its
    number on (C7), and what lies between the device and that number is served by something else.
    """
    arch = device.nvidia
    parsed = [parse_nvidia(row.arch or "") for row in unit.images if row.form == "ptx"]
    numbers = [text.number for text in parsed if text is not None and not text.suffix]
    if arch is None or not numbers:
        return False
    known = (parse_nvidia(name) for name in vocabulary().nvidia)
    between = {each.number for each in known if each is not None and arch.number < each.number < min(numbers)}
    images = [candidate(row) for row in unit.images]
    return all(served(images, unit.offload, Device("nvidia", f"sm_{number}")).serves for number in sorted(between))
