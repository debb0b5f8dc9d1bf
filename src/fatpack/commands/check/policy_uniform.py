"""Whether every kernel of a library is there for every architecture that the library is for.

Architectures are taken for devices: a kernel for sm_80 alone serves sm_86 too, where a neighbour has code for both. A
library that has PTX for later devices anywhere is to have it for every kernel.
"""

from __future__ import annotations

from fatpack.commands.check import kernels
from fatpack.commands.check.coverage import supports, supports_later_devices
from fatpack.commands.check.rule_context import selection_key
from fatpack.errors import TargetError
from fatpack.record import Record
from fatpack.targets.devices import Device, parse_device
from fatpack.targets.nvidia import parse_nvidia

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from fatpack.commands.check.kernels import ImageKernels
    from fatpack.commands.check.rule_context import ImageSetRows
    from fatpack.tabular.columns import ImageRow


class LackingKernels(Record):
    """What kernels of a library lack: ``title`` is the architecture, ``units`` are those in which, with the names."""

    title: str
    units: tuple[tuple[ImageSetRows, tuple[str, ...]], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The kernels, each once."""
        return tuple(dict.fromkeys(name for _, names in self.units for name in names))


def find_lacking_kernels(units: Sequence[ImageSetRows], found: ImageKernels) -> Iterator[LackingKernels]:
    """Yield, for every architecture of a library, the kernels that nothing in their unit serves it with."""
    for vendor in dict.fromkeys(unit.vendor for unit in units):
        own = [(unit, _holders(unit, found)) for unit in units if unit.vendor == vendor]
        for wanted, names in _devices(own):
            missing = [(unit, tuple(_unserved(unit, holders, wanted, names))) for unit, holders in own]
            if any(names for _, names in missing):
                yield LackingKernels(wanted.arch, tuple(pair for pair in missing if pair[1]))
        yield from _kernels_without_ptx(own)


def find_uncompared(units: Sequence[ImageSetRows], found: ImageKernels) -> list[ImageSetRows]:
    """Return the units of which nothing was compared: no image of them shows kernels, as bitcode and LTO-IR."""
    return [
        unit
        for unit in units
        if not kernels.image_set_kernels(unit, found)
        and not any(row.form in kernels.FORMS_WITH_KERNEL_NAMES for row in unit.images)
    ]


def _holders(unit: ImageSetRows, found: ImageKernels) -> dict[str, list[ImageRow]]:
    """Return the images of a unit that have each kernel, in stored order."""
    holders: dict[str, list[ImageRow]] = {}
    for row in unit.images:
        for name in found.names.get(kernels.image_key(row), {}):
            holders.setdefault(name, []).append(row)
    return holders


def _devices(own: Sequence[tuple[ImageSetRows, dict[str, list[ImageRow]]]]) -> list[tuple[Device, set[str]]]:
    """Return the devices that images with kernels were made for, with their names there; PTX alone makes none.

    Two names may mean one device: CUDA 13 renamed sm_101 to sm_110.
    """
    names = {
        row.arch: None
        for _, holders in own
        for rows in holders.values()
        for row in rows
        if row.arch and row.form != "ptx"
    }
    found: dict[str, tuple[Device, set[str]]] = {}
    for name in names:
        try:
            one = parse_device(name)
        except TargetError:  # a generic processor, SPIR-V: no device
            continue
        found.setdefault(one.arch, (one, set()))[1].add(name)
    return list(found.values())


def _unserved(
    unit: ImageSetRows, holders: dict[str, list[ImageRow]], wanted: Device, names: Collection[str]
) -> Iterator[str]:
    answers: dict[object, bool] = {}
    for name, rows in holders.items():
        if wanted.arch not in names and any(row.form == "cubin" and row.arch in names for row in rows):
            continue  # made for the device under its name before, as the rest of the library
        key = selection_key(rows)
        if key not in answers:
            answers[key] = supports(unit.replace(images=tuple(rows)).offered, wanted).serves
        if not answers[key]:
            yield name


def _kernels_without_ptx(own: Sequence[tuple[ImageSetRows, dict[str, list[ImageRow]]]]) -> Iterator[LackingKernels]:
    """Yield the kernels without PTX for later devices, if others have it."""
    texts = [
        arch.number
        for _, holders in own
        for rows in holders.values()
        for row in rows
        if row.form == "ptx" and (arch := parse_nvidia(row.arch or "")) is not None and not arch.suffix
    ]
    if not texts:
        return
    highest = Device("nvidia", f"sm_{max(texts)}")
    missing = []
    for unit, holders in own:
        names = tuple(
            name
            for name, rows in holders.items()
            if not supports_later_devices(unit.replace(images=tuple(rows)), highest)
        )
        if names:
            missing.append((unit, names))
    if missing:
        yield LackingKernels("PTX for later devices", tuple(missing))
