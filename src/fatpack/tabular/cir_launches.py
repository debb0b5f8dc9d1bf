"""Compare the kernels that the host of a CIR container launches with those of its device modules.

A stub names its kernel (``cu.kernel_name``). Neither the compiler nor the linker reports a kernel that is missing in a
device module: the launch fails on that device. The bytecode that ClangIR writes does not show its kernels.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any


def cir_launches(container: Mapping[str, Any]) -> tuple[list[str], dict[str, set[str] | None]]:
    """Return the kernels that the host's stubs launch, in their order, and the kernels of every device module.

    The key of a device module is its architecture, or its name if it has none; its value is None if its kernels cannot
    be decoded. The container is as ``inspect --json`` writes it.
    """
    wanted: dict[str, None] = {}
    devices: dict[str, set[str] | None] = {}
    for module in container["stored"].get("modules", ()):
        if module["role"] == "host":
            wanted |= dict.fromkeys(stub["kernel"] for stub in module["stubs"])
    for module, image in _devices(container):
        if "kernels" in module:
            title = _title(module, image)
            known, found = devices.setdefault(title, set()), module["kernels"]
            devices[title] = None if known is None or found is None else {*known, *found}
    return list(wanted), devices


def _devices(container: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Yield the device modules with their images, of those images that the listing has."""
    modules = container["stored"].get("modules", ())
    for image in container["images"]:
        if image["index"] < len(modules) and modules[image["index"]]["role"] != "host":
            yield modules[image["index"]], image


def _title(module: Mapping[str, Any], image: Mapping[str, Any]) -> str:
    return str(image["arch"] or module["name"] or f"module {image['index']}")


def launch_problems(container: Mapping[str, Any]) -> Iterator[tuple[str, int, str]]:
    """Yield (finding code, index of the device's image, message) for each device that lacks a launched kernel."""
    wanted, devices = cir_launches(container)
    indices: dict[str, int] = {}
    for module, image in _devices(container):
        indices.setdefault(_title(module, image), image["index"])
    for title, kernels in devices.items():
        for kernel in wanted:
            if kernels is not None and kernel not in kernels:
                yield (
                    "FP1512",
                    indices[title],
                    f"the host launches {kernel}, which the module for {title} does not have",
                )
