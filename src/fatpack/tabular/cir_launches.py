"""Which kernels the host of a CIR container launches, and which device modules have them.

A stub names its kernel (``cu.kernel_name``); a device module has it or not, which the bytecode that ClangIR writes does
not show. Neither the compiler nor the linker notices a missing kernel: the program does, on that device.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any


def cir_launches(container: Mapping[str, Any]) -> tuple[list[str], dict[str, set[str] | None]]:
    """Return the kernels that the host's stubs launch, in their order, and the kernels of every device module.

    Device modules are called by architecture, or by name where they have none; None stands for kernels that cannot be
    decoded. The container is as ``inspect`` records it.
    """
    wanted: dict[str, None] = {}
    devices: dict[str, set[str] | None] = {}
    for module, image in zip(container["stored"].get("modules", ()), container["images"], strict=False):
        if module["role"] == "host":
            wanted |= dict.fromkeys(stub["kernel"] for stub in module["stubs"])
        elif "kernels" in module:
            title = _title(module, image)
            known, found = devices.setdefault(title, set()), module["kernels"]
            devices[title] = None if known is None or found is None else {*known, *found}
    return list(wanted), devices


def _title(module: Mapping[str, Any], image: Mapping[str, Any]) -> str:
    return str(image["arch"] or module["name"] or f"module {image['index']}")


def launch_problems(container: Mapping[str, Any]) -> Iterator[tuple[str, int, str]]:
    """Yield (finding code, index of the device's image, message) for kernels that are launched and missing."""
    wanted, devices = cir_launches(container)
    indices: dict[str, int] = {}
    for module, image in zip(container["stored"].get("modules", ()), container["images"], strict=False):
        if module["role"] != "host":
            indices.setdefault(_title(module, image), image["index"])
    for title, kernels in devices.items():
        for kernel in wanted:
            if kernels is not None and kernel not in kernels:
                yield (
                    "FP1512",
                    indices[title],
                    f"the host launches {kernel}, which the module for {title} does not have",
                )
