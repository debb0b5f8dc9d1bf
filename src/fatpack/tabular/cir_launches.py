"""Compare the kernels that the host of a CIR container launches with those of its device modules.

A stub names its kernel (``cu.kernel_name``). Neither the compiler nor the linker reports a kernel that is missing in a
device module: the launch fails on that device. The bytecode that ClangIR writes does not show its kernels.
"""

from __future__ import annotations

from fatpack import formats
from fatpack.findings import finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from fatpack.model import Container, Finding


def as_listed(container: Container) -> dict[str, Any]:
    """Return what ``inspect --json`` writes of a container, as far as launches depend on it."""
    images = [{"index": index, "arch": image.target.arch} for index, image in enumerate(container.images)]
    return {"stored": dict(formats.get_format(container.format).describe(container)), "images": images}


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


def launch_findings(container: Container, listed: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield a finding for each launched kernel that a device module does not have; ``listed`` says which modules."""
    wanted, devices = cir_launches(listed)
    indices: dict[str, int] = {}
    for module, image in _devices(listed):
        indices.setdefault(_title(module, image), image["index"])
    for title, kernels in devices.items():
        for kernel in wanted:
            if kernels is not None and kernel not in kernels:
                text = f"the host launches {kernel}, which the module for {title} does not have"
                yield finding("FP1512", container.images[indices[title]].span, text)
