"""Devices for which conda or Hugging Face's loader takes a package, held against its code.

``cuda-arch >=8.0`` promises *every* device from 8.0 on. That holds if something in the package runs on each that is
known, and plain PTX serves those that are not. Nothing has to serve devices that an upper bound keeps away.
"""

from __future__ import annotations

import os

from fatpack.commands.check.model import Violation
from fatpack.commands.check.rule_context import supports
from fatpack.errors import pluralize
from fatpack.findings import CODES
from fatpack.record import Record
from fatpack.tabular.file_image_sets import selection_key
from fatpack.targets.devices import Device, nvidia_capabilities
from fatpack.targets.installers import conda, hugging_face
from fatpack.targets.nvidia import NvidiaArch, cuda_versions, parse_nvidia
from fatpack.targets.selection.runtime_settings import RuntimeSettings
from fatpack.targets.selection.select_image import first_cuda_for_device

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fatpack.commands.check.rule_context import DeviceSupport
    from fatpack.tabular.file_image_sets import ImageSetRows
    from fatpack.targets.installers.conda import AdmittedDevices, Capability

#: the oldest major version that PyTorch, and so its kernels, still knew in 2025
_FIRST_MAJOR = 5

#: Parts that are asked about in folders for Arm alone: 8.8 is in no list of parts for other machines.
_ON_ARM = conda.ON_ARM | {88}

#: capabilities that a message names
_NAMED = 12


class _Service(Record):
    """The service for a device: units that serve it, units of which that is unknown, and why the first one does not."""

    device: Capability
    served: int
    unknown: int
    why: str


class _Gap(Record):
    """Neighbouring devices that nothing serves; ``after`` and ``before`` are the served ones around them."""

    devices: tuple[Capability, ...]
    after: Capability | None
    before: Capability | None
    why: str


def compare_admitted(
    path: str,
    said: str,
    admitted: AdmittedDevices,
    units: Sequence[ImageSetRows],
    driver: tuple[int, int] | None = None,
) -> Iterator[Violation]:
    """Yield where a package's ``units`` for NVIDIA's devices do not bear out what it admits; ``said`` says that.

    ``driver`` is the CUDA version of the oldest driver with which it is installed, None if that is not known.
    """
    services = list(_services(admitted.capabilities, units))
    plain = sorted(_plain_text(units))
    gaps = list(_gaps(services))
    lacks_later = admitted.is_open and not plain
    for gap in gaps:
        yield _gap_violation(path, said, gap, admitted, is_open=lacks_later and gap.before is None)
    if lacks_later and not (gaps and gaps[-1].before is None):
        text = f"{said}: nothing in it is for devices after {_dotted(admitted.capabilities[-1])}, which may have it"
        yield _violation("FP3311", path, "later devices", text, _until(admitted.capabilities[-1], is_known=False))
    unknown = [each.device for each in services if not each.served and each.unknown]
    if unknown:
        text = f"{said}: it is not known if anything in it runs on {_names(unknown)}"
        yield _violation("FP3321", path, "metadata", text)
    partly = [each for each in services if 0 < each.served < len(units) - each.unknown]
    if partly:
        fewest = min(partly, key=lambda each: each.served)
        count = f"of {pluralize(len(units), 'unit')} {fewest.served} for {_dotted(fewest.device)}"
        text = f"{said}: only a part of its device code runs on {_names([each.device for each in partly])}"
        yield _violation("FP3322", path, "metadata", f"{text}: {count}")
    if driver is not None:
        yield from _older_drivers(path, driver, services, units)
    yield from _advice(path, admitted, units, plain)


def _older_drivers(
    path: str, driver: tuple[int, int], services: Sequence[_Service], units: Sequence[ImageSetRows]
) -> Iterator[Violation]:
    """Yield the devices that are served less with the oldest drivers with which the package is installed."""
    needed: dict[tuple[int, int], list[Capability]] = {}
    for each in (each for each in services if each.served):
        first = first_cuda_for_device(Device("nvidia", f"sm_{each.device[0]}{each.device[1]}"))
        for cuda in (known for known in cuda_versions() if known >= max(driver, first or driver)):
            (service,) = _services([each.device], units, RuntimeSettings(driver=cuda))
            if service.served >= each.served:
                if cuda > max(driver, first or driver):
                    needed.setdefault(cuda, []).append(each.device)
                break
    for cuda, devices in needed.items():
        text = f"its code for {_names(devices)} needs a driver of CUDA {_dotted(cuda)}, and it is installed from "
        text += f"{_dotted(driver)} on"
        yield _violation(
            "FP3337", path, "driver", text, f"depend on __cuda >={_dotted(cuda)}, or build for these devices"
        )


def compare_loaded(path: str, archs: Sequence[str], units: Sequence[ImageSetRows]) -> Iterator[Violation]:
    """Yield where the loader of Hugging Face accepts a kernel by its declared ``archs`` and nothing in it runs.

    It is another note where the loader refuses a device on which all ``units`` run. Parts that exist only beside Arm
    processors are asked about in folders for these.
    """
    has_arm = "aarch64" in os.path.basename(os.path.normpath(path))
    known = [
        (arch.major, arch.minor)
        for arch in nvidia_capabilities()
        if arch.major >= _FIRST_MAJOR and (has_arm or arch.number not in _ON_ARM)
    ]
    said = f"metadata.json declares {', '.join(archs[:_NAMED])}{', …' if len(archs) > _NAMED else ''}"
    services = {each.device: each for each in _services(known, units)}
    accepted = [device for device in known if hugging_face.is_taken_for_cuda(archs, device)]
    failing = [device for device in accepted if not services[device].served and not services[device].unknown]
    if failing:
        text = f"{said}, and the loader accepts it for {_names(failing)}, where nothing in it runs"
        hint = "build for these devices, or declare what the libraries have: `fatpack inspect FOLDER --by arch`"
        yield _violation("FP3332", path, "metadata.json", f"{text}: {services[failing[0]].why}", hint)
    unknown = [device for device in accepted if not services[device].served and services[device].unknown]
    if unknown:
        text = f"{said}: it is not known if anything in it runs on {_names(unknown)}"
        yield _violation("FP3321", path, "metadata.json", text)
    refused = [device for device in known if device not in accepted and services[device].served == len(units)]
    if refused:
        text = f"{said}, and the loader refuses it for {_names(refused)}, where all of it runs"
        yield _violation("FP3335", path, "metadata.json", text)


def is_for_others(name: str, admitted: AdmittedDevices) -> bool:
    """Return whether a cubin's architecture is older than all that a package admits, or newer if that has an end."""
    arch = parse_nvidia(name)
    if arch is None or arch.is_virtual:
        return False
    own = divmod(arch.number, 10)
    return own < admitted.capabilities[0] or (own > admitted.capabilities[-1] and not admitted.is_open)


def _services(
    devices: Iterable[Capability], units: Sequence[ImageSetRows], settings: RuntimeSettings | None = None
) -> Iterator[_Service]:
    """Yield the service for each device; units of which runtimes see the same are asked once."""
    groups: dict[object, list[ImageSetRows]] = {}
    for unit in units:
        groups.setdefault(selection_key(unit.images), []).append(unit)
    for device in devices:
        wanted = Device("nvidia", f"sm_{device[0]}{device[1]}")
        answers: list[tuple[DeviceSupport, int]] = [
            (supports(group[0].offered, wanted, settings), len(group)) for group in groups.values()
        ]
        served = sum(count for answer, count in answers if answer.serves)
        unknown = sum(count for answer, count in answers if not answer.serves and not answer.is_certain)
        why = next((f"{answer.reason} [{answer.rule}]" for answer, _ in answers if not answer.serves), "")
        yield _Service(device, served, unknown, why)


def _gaps(services: Iterable[_Service]) -> Iterator[_Gap]:
    """Yield runs of devices that nothing serves; devices of which that is unknown do not part them."""
    found: list[_Service] = []
    after: Capability | None = None
    for each in services:
        if each.served:
            if found:
                yield _Gap(tuple(one.device for one in found), after, each.device, found[0].why)
            found, after = [], each.device
        elif not each.unknown:
            found.append(each)
    if found:
        yield _Gap(tuple(one.device for one in found), after, None, found[0].why)


def _gap_violation(path: str, said: str, gap: _Gap, admitted: AdmittedDevices, *, is_open: bool) -> Violation:
    later = " and on every later device" if is_open else ""
    around = ""
    if gap.after and gap.before:
        around = f", a gap between {_dotted(gap.after)} and {_dotted(gap.before)}"
    text = f"{said}: nothing in it runs on {_names(gap.devices)}{later}{around}: {gap.why}"
    first = gap.devices[0]
    if gap.before and not gap.after:
        hint = f"build for {_dotted(first)}, or depend on cuda-arch >={_dotted(gap.before)}"
    elif gap.before and gap.after:
        hint = f"build for {_dotted(first)}, or put PTX for {_dotted(gap.after)} into it"
    else:
        hint = _until(first)
        if admitted.idle:
            hint = f"{admitted.idle[0]} keeps none away, for newer devices get an older metapackage: {hint}"
    return _violation("FP3311", path, f"sm_{first[0]}{first[1]}", text, hint)


def _until(device: Capability, *, is_known: bool = True) -> str:
    """Return advice about devices that nothing serves, from one on, or from the next one on."""
    sign = "<" if is_known else "<="
    return f"put PTX into it, or depend on __cuda_arch {sign}{_dotted(device)} besides"


def _advice(
    path: str, admitted: AdmittedDevices, units: Sequence[ImageSetRows], plain: Sequence[int]
) -> Iterator[Violation]:
    """Yield where a package does not follow the advice of CEP 46, though all that it admits is served today."""
    images = [parsed for unit in units for arch in unit.archs if (parsed := parse_nvidia(arch)) is not None]
    if images and all(arch.suffix for arch in images):
        names = ", ".join(dict.fromkeys(arch.name for arch in images))
        text = f"its only code is for {names}, which runs on few devices: CEP 46 forbids to have a or f alone"
        yield _violation("FP3320", path, "metadata", text, "build for the plain architecture too")
    newest = max((arch.number for arch in images), default=0)
    if admitted.is_open and plain and plain[-1] < newest:
        made, has = (_dotted(divmod(number, 10)) for number in (newest, plain[-1]))
        text = f"its newest code is for {made}, and later devices compile its PTX for {has}"
        hint = f"CEP 46 asks for PTX of the highest compute capability: add compute_{newest}"
        yield _violation("FP3320", path, "metadata", text, hint)


def _plain_text(units: Iterable[ImageSetRows]) -> Iterator[int]:
    """Yield the numbers of PTX that every later device compiles."""
    for unit in units:
        for image in unit.offered.images:
            arch: NvidiaArch | None = parse_nvidia(image.candidate.arch) if image.candidate.form == "ptx" else None
            if arch is not None and not arch.suffix:
                yield arch.number


def _names(devices: Sequence[Capability]) -> str:
    rest = f" and {len(devices) - _NAMED} more" if len(devices) > _NAMED else ""
    return ", ".join(map(_dotted, devices[:_NAMED])) + rest


def _dotted(device: Capability) -> str:
    return f"{device[0]}.{device[1]}"


def _violation(code: str, path: str, subject: str, text: str, hint: str = "") -> Violation:
    return Violation(code, CODES[code][0], path, subject, text, hint)
