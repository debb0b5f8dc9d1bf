"""Lists of devices, and the devices of this machine, from files of Linux drivers; no library is loaded.

=========================================================  ==========================================================
``/proc/driver/nvidia/gpus/*/information``                 NVIDIA's driver: ``Model:`` is the name of the product
``/sys/class/kfd/kfd/topology/nodes/*/properties``         AMD's: ``gfx_target_version`` is 90402 for gfx942
``/sys/bus/pci/devices/*/{vendor,class,device}``           every display controller: Intel's are known by their IDs
=========================================================  ==========================================================

These files do not show if an AMD device runs with xnack or sramecc on, so both settings are assumed.
"""

from __future__ import annotations

import os

from fatpack.errors import TargetError
from fatpack.targets.devices import Device, device_by_driver_name, device_names, parse_device
from fatpack.targets.vocabulary import load_vocabulary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_NVIDIA = "proc/driver/nvidia/gpus"
_AMD = "sys/class/kfd/kfd/topology/nodes"
_PCI = "sys/bus/pci/devices"

#: LIMIT: bytes of such a file; real ones have some hundred.
_MOST = 1 << 16

#: PCI vendor IDs, and the prefix of the class of display controllers
_INTEL = 0x8086
_VENDORS = {0x10DE: "NVIDIA", 0x1002: "AMD", _INTEL: "Intel"}
_DISPLAY = "0x03"
_HEX = frozenset("0123456789abcdefABCDEF")


#: name for the devices of the machine that the command runs on
THIS_MACHINE = "this-machine"


def parse_devices(texts: Iterable[str], root: str = "/") -> tuple[Device, ...]:
    """Return the devices with some names, each once, in order; a text may have several names, separated by commas.

    ``root`` is the folder with the files of drivers for ``this-machine``. Raises TargetError for an unknown name, a
    name of several architectures, and a machine without known devices.
    """
    found: list[Device] = []
    for text in texts:
        for name in (part.strip() for part in text.split(",")):
            if name == THIS_MACHINE:
                found += local_devices(root)
            else:
                found.append(parse_device(name))
    return tuple({one.arch: one for one in reversed(found)}.values())[::-1]


def local_devices(root: str = "/") -> tuple[Device, ...]:
    """Return the devices of the machine whose files are below ``root``, each architecture once.

    Raises TargetError if there is none, or for a device of unknown architecture.
    """
    found = [*_nvidia(root), *_amd(root), *_intel(root)]
    if found:
        return tuple({one.arch: one for one in reversed(found)}.values())[::-1]
    raise TargetError(
        "this machine shows no GPU",
        hint=_unseen(root) or "looked for drivers of NVIDIA, AMD and Intel; name the devices instead",
    )


def _nvidia(root: str) -> Iterator[Device]:
    for path in _files(root, _NVIDIA, "information"):
        rows = (line.partition(":") for line in _text(path).splitlines())
        model = next((value.strip() for key, _, value in rows if key.strip() == "Model"), "")
        known = device_by_driver_name(model)
        if known is None:
            raise TargetError(
                f"the driver shows {model[:80]!r}, whose compute capability is not known",
                hint="nvidia-smi --query-gpu=name,compute_cap --format=csv prints it: name that instead",
            )
        yield known


def _amd(root: str) -> Iterator[Device]:
    for path in _files(root, _AMD, "properties"):
        rows = (line.split() for line in _text(path).splitlines())
        number = next((row[1] for row in rows if len(row) == 2 and row[0] == "gfx_target_version"), "0")
        version = int(number) if number.isascii() and number.isdigit() else 0
        if not version:  # a processor is a node, too
            continue
        arch = f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"
        if arch not in load_vocabulary().amd:
            raise TargetError(f"the driver shows {arch}, which is not known", hint="name the devices instead")
        yield Device("amd", arch, path)


def _intel(root: str) -> Iterator[Device]:
    names = {row.pci: row for row in device_names() if row.pci}
    for vendor, number in _displays(root):
        if vendor != _INTEL:
            continue
        row = names.get(number)
        if row is None or not row.arch:
            raise TargetError(
                f"this machine has Intel {number:#06x}, whose architecture is not known",
                hint="name the devices instead",
            )
        yield Device("intel", row.arch, row.name, row.name)


def _unseen(root: str) -> str:
    """Return the display controllers without a driver that lists them, in words; "" if there are none."""
    found = [f"{_VENDORS[vendor]} {number:#06x}" for vendor, number in _displays(root) if vendor in _VENDORS]
    return f"it has {', '.join(found)}, and no driver lists these; name the devices instead" * bool(found)


def _displays(root: str) -> Iterator[tuple[int, int]]:
    """Yield vendor and device ID of the display controllers."""
    for path in _files(root, _PCI, "class"):
        if _text(path).startswith(_DISPLAY):
            folder = os.path.dirname(path)
            numbers = [_text(os.path.join(folder, name)).strip() for name in ("vendor", "device")]
            if all(number.startswith("0x") and _HEX.issuperset(number[2:]) and number[2:] for number in numbers):
                yield int(numbers[0], 16), int(numbers[1], 16)


def _files(root: str, folder: str, name: str) -> list[str]:
    """Return the files with a name in the subfolders of a folder, in order."""
    base = os.path.join(root, folder)
    try:
        inside = sorted(os.listdir(base), key=lambda text: (len(text), text))
    except OSError:
        return []
    return [path for path in (os.path.join(base, part, name) for part in inside) if os.path.isfile(path)]


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_MOST)
    except OSError:  # a device was removed meanwhile
        return ""
