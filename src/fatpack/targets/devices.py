"""Names of devices: architectures, product names, and ``this-machine``.

::

    sm_86  gfx942:xnack-  8.9  pvc      an architecture, as in every other command
    'RTX 4090'  'MI300X'  'Arc A770'    a name in ``data/devices.toml``, or its last words; also RTX4090
    this-machine                        the devices that drivers list in files (:mod:`fatpack.targets.local_devices`)

A name of several architectures is refused: *GeForce GTX TITAN X* is 5.2, *NVIDIA TITAN X* is 6.1.
"""

from __future__ import annotations

import itertools
import os
from importlib import import_module

from fatpack.errors import TargetError
from fatpack.record import Record
from fatpack.targets.nvidia import NvidiaArch, can_load, parse_nvidia
from fatpack.targets.vocabulary import (
    check_target_id,
    feature_signs,
    load_vocabulary,
    nearest_names,
    respelled_name,
    unknown_name,
    without_prefix,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


# ``fatpack targets NAME --runs-on``


class Coverage(Record):
    """The devices on which one form of image runs: ``form`` is cubin, ptx or image, ``rule`` the reason in words.

    ``names`` are the known names it runs on; ``doubtful`` are those without certainty: Tegra parts with a driver of
    servers, renamed capabilities, and those of a guide that is known from quotations.
    """

    form: str
    rule: str
    names: tuple[str, ...]
    doubtful: tuple[str, ...] = ()


def run_coverage(name: str) -> tuple[Coverage, ...]:
    """Return the devices on which images for a name run, one entry per form of image.

    ``name`` is an architecture, an AMD target ID or alias, or an Intel device. Raises TargetError for another.
    """
    words = load_vocabulary()
    name = without_prefix(name)
    arch = parse_nvidia(name)
    if arch is not None and name in words.nvidia:
        return tuple(_nvidia(arch, form) for form in (("ptx",) if arch.is_virtual else ("cubin", "ptx")))
    if name.partition(":")[0] in words.amd:
        return (_amd(name),)
    if name in words.intel:
        line = words.intel[name]
        compiler = {"gpu": f"ocloc -device {line.compiler}", "cpu": f"opencl-aot -march={line.compiler}"}
        rule = compiler.get(line.kind, "the devices of that name")
        return (Coverage("image", f"what it was compiled for: {rule}", line.covers or line.names),)
    members = words.members(name)
    if members and members != (name,):
        return (Coverage("image", "every processor of the family", members),)
    raise unknown_name(name)


def nvidia_capabilities() -> tuple[NvidiaArch, ...]:
    """Return the compute capabilities that NVIDIA devices have, by architecture name, oldest first."""
    lines = load_vocabulary().nvidia.values()
    found = (parse_nvidia(line.name) for line in lines if not line.renamed)
    return tuple(arch for arch in found if arch is not None and not arch.suffix and not arch.is_virtual)


def _nvidia(arch: NvidiaArch, form: str) -> Coverage:
    rulings = [(device.name, can_load(arch, device, form)) for device in nvidia_capabilities()]
    return Coverage(
        form,
        can_load(arch, arch, form).rule,
        tuple(name for name, ruling in rulings if ruling.answer and ruling.is_certain),
        tuple(name for name, ruling in rulings if not ruling.is_certain),
    )


def _amd(name: str) -> Coverage:
    target_id = check_target_id(name)
    line = load_vocabulary().amd[target_id.processor]
    if line.kind == "portable":
        rule = "AMD GPUs under a HIP runtime that compiles SPIR-V when it is loaded; OpenMP and kpack do not"
        return Coverage("image", rule, ())
    states = {"+": "on", "-": "off"}
    fixed = " and ".join(f"{feature[:-1]} {states[feature[-1]]}" for feature in target_id.features)
    rule = "the processors that it covers" if line.kind == "generic" else "this processor"
    names = tuple(":".join((member, *target_id.features)) for member in line.serves)
    return Coverage("image", f"{rule}, with {fixed}" if fixed else rule, names)


#: vendors in the order of the table
VENDORS = ("nvidia", "amd", "intel")

#: advice for a device that is in no table
OTHERWISE = "Or give the compute capability: nvidia-smi --query-gpu=compute_cap --format=csv prints it, as 8.6"

#: advice for LLVM's name of an Intel device for which DPC++ does not compile
_INTEL = "name the device as DPC++ does: fatpack targets lists the names"

#: architectures listed for an ambiguous name
_SHOWN = 6


class Device(Record):
    """A device: its ``vendor``, and ``arch`` as containers spell it.

    ``arch`` is ``sm_89``, a target ID (``gfx942:xnack-``) or an Intel name; ``spelling`` is the name that was typed,
    and ``title`` the name of the product, "" for a device named by its architecture.
    """

    vendor: str
    arch: str
    spelling: str = ""
    title: str = ""

    @property
    def nvidia(self) -> NvidiaArch | None:
        """The architecture of an NVIDIA device, without a suffix: a device has none; None for others."""
        arch = parse_nvidia(self.arch) if self.vendor == "nvidia" else None
        return NvidiaArch(arch.number) if arch else None

    @property
    def states(self) -> tuple[str, ...]:
        """The target IDs that an AMD device may report, with all its features: one for each setting of the features
        that were not typed.
        """
        processor = self.arch.partition(":")[0]
        line = load_vocabulary().amd.get(processor) if self.vendor == "amd" else None
        if line is None:
            return ()
        given = feature_signs(self.arch)
        settings = [[given[name]] if name in given else ["+", "-"] for name in sorted(line.features)]
        names = sorted(line.features)
        return tuple(
            ":".join((processor, *(f"{name}{sign}" for name, sign in zip(names, chosen, strict=True))))
            for chosen in itertools.product(*settings)
        )

    @property
    def words(self) -> str:
        """The name of the device in messages: ``GeForce RTX 4090 (sm_89)``."""
        return f"{self.title} ({self.arch})" if self.title else self.arch


class DeviceName(Record):
    """A line of ``devices.toml``."""

    vendor: str
    name: str
    arch: str
    source: str
    pci: int = 0

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the name in lower case, without the part in brackets at its end."""
        return _words(self.name.partition(" (")[0])


_loaded: list[tuple[DeviceName, ...]] = []
_sources: dict[str, str] = {}


def device_names() -> tuple[DeviceName, ...]:
    """Return all lines of ``devices.toml``; it is read by the first call."""
    if not _loaded:
        path = os.path.join(os.path.dirname(__file__), "data", "devices.toml")
        with open(path, "rb") as file:
            data: Mapping[str, Any] = import_module("tomllib").load(file)
        _loaded.append(tuple(DeviceName(vendor, **row) for vendor in VENDORS for row in data[vendor]))
        _sources.update(data["sources"])
    return _loaded[0]


def name_sources() -> Mapping[str, str]:
    """Return the citation of each ``source`` of a line."""
    device_names()
    return _sources


def parse_device(name: str) -> Device:
    """Return the device of a name: an architecture, a compute capability, or a product. Raises TargetError."""
    words = load_vocabulary()
    short = without_prefix(name)
    digits = name.replace(".", "", 1)
    if name[:1].isdigit() and f"sm_{digits}" in words.nvidia:
        short = f"sm_{digits}"
    if short in words.nvidia:
        arch = parse_nvidia(words.nvidia[short].renamed or short)
        if arch is None or arch.is_virtual:
            raise TargetError(f"{name} is a virtual architecture of PTX, not a device", hint=f"write sm_{short[8:]}")
        return Device("nvidia", f"sm_{arch.number}", name)
    if short.partition(":")[0] in words.amd:
        line = words.amd[short.partition(":")[0]]
        if line.kind in ("generic", "portable"):
            raise TargetError(
                f"{name} is a target of images, not a device", hint=f"name a device, such as {line.serves[0]}"
            )
        return Device("amd", str(check_target_id(short)), name)
    if short in words.intel and words.intel[short].kind in ("gpu", "cpu"):
        return Device("intel", short, name)
    if short in words.intel:
        other = words.relative(short)
        if other:
            return Device("intel", other, name)
        what = "is the name of a group of devices" if words.intel[short].kind == "xe-group" else "is LLVM's name alone"
        raise TargetError(f"{name} {what}; the images that runtimes load there are unknown", hint=_INTEL)
    return _sold(name)


def _sold(name: str) -> Device:
    """Return the device with a product name."""
    typed_words = _words(name)
    rows = [row for row in device_names() if typed_words and row.words[-len(typed_words) :] == typed_words]
    if typed_words and (not rows or not any(char.isdigit() for char in name)):
        # A series (RTX, TITAN, RTX PRO 6000): all products whose names begin so; further words select one.
        rows = [row for row in device_names() if _is_run(typed_words, row.words)]
    exact = [row for row in rows if row.name == name]
    archs = {row.arch: row for row in exact or rows}
    if not archs:
        printed = device_by_driver_name(name)
        if printed is not None:
            return printed
        if len(typed_words) > 1 and typed_words[0] in ("amd", "intel"):
            return _sold(name.split(maxsplit=1)[1])
        spaced = _spaced("".join(typed_words))
        if spaced:
            return _sold(spaced).replace(spelling=name)
        is_arch = name.lower().startswith(("gfx", "sm_", "compute_")) or respelled_name(name)
        near = _nearest(name, len(typed_words)) if any(char.isdigit() for char in name) and not is_arch else ()
        if not near:
            raise unknown_name(name)
        hint = f"did you mean {', '.join(near)}? {OTHERWISE}"
        raise TargetError(f"unknown device {name[:80]!r}", nearest=near, hint=hint)
    if len(archs) > 1 or "" in archs:
        choices = [f"{row.arch or 'unknown'} is {row.name}" for row in list(archs.values())[:_SHOWN]]
        raise TargetError(
            f"{name[:80]!r} is the name of several devices: {', '.join(choices)}", hint="name the architecture"
        )
    row = next(iter(archs.values()))
    return Device(row.vendor, row.arch, name, row.name if len(rows) == 1 or exact else name)


def _is_run(typed_words: tuple[str, ...], words: tuple[str, ...]) -> bool:
    """Return whether some words follow each other in a name."""
    return any(words[at : at + len(typed_words)] == typed_words for at in range(len(words) - len(typed_words) + 1))


def _nearest(name: str, count: int) -> tuple[str, ...]:
    """Return names of devices that resemble a name of ``count`` words: complete names, or their last words."""
    known: dict[str, str] = {}
    for row in device_names():
        words = row.name.partition(" (")[0].split()
        known.setdefault(row.name.lower(), row.name)
        known.setdefault(" ".join(words[-count:]).lower(), " ".join(words[-count:]))
    series = _series(name)
    return tuple(known[near] for near in nearest_names(name, known) if not series or _series(near) == series)


def _series(name: str) -> str:
    """Return the first digits of a name's number of three digits or more: 30 for RTX 3070; "" without one."""
    numbers = ("".join(filter(str.isdigit, word)) for word in _words(name))
    return next((number[:-2] for number in numbers if len(number) > 2), "")


def _spaced(joined: str) -> str:
    """Return the name of a device that was typed with other spaces, as in the table; "" if it is no device."""
    for row in device_names() if joined else ():
        words = row.name.partition(" (")[0].split()
        for start in range(len(words)):
            if "".join(_words(" ".join(words[start:]))) == joined:
                return " ".join(words[start:])
    return ""


def _words(name: str) -> tuple[str, ...]:
    return tuple(name.lower().replace("-", " ").replace("_", " ").split())


#: Words that drivers append to the name of a device: its form, its memory, and Super (same generation).
_FORMS = frozenset(
    "pcie sxm sxm2 sxm3 sxm4 sxm5 nvl laptop gpu max q with design hbm2 hbm2e hbm3 hbm3e mig super".split()
)


def device_by_driver_name(name: str) -> Device | None:
    """Return the NVIDIA device with a driver's name, None if it is unknown.

    ``NVIDIA H100 80GB HBM3`` is an H100; other words than of form and memory make it another device.
    """
    typed_words = _bare(_words(name))
    best: DeviceName | None = None
    for row in device_names():
        words = _bare(row.words)
        rest = typed_words[len(words) :]
        is_named = row.vendor == "nvidia" and typed_words[: len(words)] == words and all(map(_is_form, rest))
        if is_named and (best is None or len(words) > len(_bare(best.words))):
            best = row
    return Device(best.vendor, best.arch, name, name) if best and best.arch else None


def _bare(words: tuple[str, ...]) -> tuple[str, ...]:
    while words[:1] in (("nvidia",), ("tesla",), ("geforce",)):
        words = words[1:]
    return words


def _is_form(word: str) -> bool:
    return word in _FORMS or word.removesuffix("gb").isdigit()
