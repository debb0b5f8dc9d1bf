"""Which kernels the host of a CIR container launches, and which device modules have them: the table of stubs.

::

    launched              sm_80  sm_90
    _Z5scalePff           yes    missing

A stub names its kernel (``cu.kernel_name``); a device module has it or not. That a module lacks a kernel is noticed
neither by the compiler nor by the linker, but when the program runs on that device.
"""

from __future__ import annotations

from fatpack.report.text import columns, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any


def launches(container: Mapping[str, Any]) -> tuple[list[str], dict[str, set[str]]]:
    """Return the kernels that the host's stubs launch, in their order, and the kernels of every device module.

    Device modules are called by architecture, or by name where they have none; the container is as ``inspect`` records
    it.
    """
    wanted: dict[str, None] = {}
    devices: dict[str, set[str]] = {}
    for module, image in zip(container["stored"].get("modules", ()), container["images"], strict=False):
        if module["role"] == "host":
            wanted |= dict.fromkeys(stub["kernel"] for stub in module["stubs"])
        elif module.get("kernels") is not None:
            title = image["arch"] or module["name"] or f"module {image['index']}"
            devices.setdefault(title, set()).update(module["kernels"])
    return list(wanted), devices


def problems(container: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (finding code, message) for kernels that are launched and missing."""
    wanted, devices = launches(container)
    for title, kernels in devices.items():
        for kernel in wanted:
            if kernel not in kernels:
                yield "FP1512", f"the host launches {kernel}, which the module for {title} does not have"


def launch_table(container: Mapping[str, Any], indent: str) -> Iterator[str]:
    """Yield the table of stubs and device modules; nothing if the host launches nothing."""
    wanted, devices = launches(container)
    if not wanted or not devices:
        return
    rows: list[Sequence[str]] = [["launched", *map(printable, devices)]]
    for kernel in wanted:
        has = ("yes" if kernel in kernels else "missing" for kernels in devices.values())
        rows.append([printable(kernel), *has])
    yield from columns(rows, indent=indent)
