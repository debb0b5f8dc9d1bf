"""Folders of programs and kpack archives, as packages of ROCm install them side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.builders import kpack, kpack_host
from tests.builders.device_elf import device_elf

AMDGPU = 224

#: processor → e_flags & 0xff; LLVM 22, ``llvm/include/llvm/BinaryFormat/ELF.h``
MACHINES = {"gfx906": 0x2F, "gfx90a": 0x3F, "gfx942": 0x4C, "gfx1100": 0x41, "gfx1101": 0x46, "gfx1201": 0x4E}
MACHINES |= {"gfx11-generic": 0x54}

#: sign → what e_flags has for it, of code objects of version 4 and newer; for a processor without the feature 0
SIGNS = {"": 1, "-": 2, "+": 3}


def code(target: str) -> bytes:
    """Return a code object of version 5 for a target ID, without kernels: its header says what it is for."""
    processor, *features = target.split(":")
    signs = {feature[:-1]: feature[-1] for feature in features}
    flags = MACHINES[processor]
    if processor.startswith("gfx9"):
        flags |= SIGNS[signs.get("xnack", "")] << 8
    if processor in ("gfx906", "gfx90a", "gfx942"):
        flags |= SIGNS[signs.get("sramecc", "")] << 10
    return device_elf(AMDGPU, flags, osabi=64, abi_version=3)


class Site:
    """A folder in which packages are installed."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, path: str, data: bytes) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        return file

    def library(self, path: str, places: Sequence[str], *, count: int = 1, name: str = "") -> Path:
        """Install a library whose code was moved: that of ``count`` units."""
        marker = kpack_host.reference(name or path, places)
        return self.write(path, kpack_host.library(marker, count=count))

    def archive(
        self,
        path: str,
        objects: Sequence[tuple[str, str] | tuple[str, str, bytes]],
        *,
        archs: Sequence[str] | None = None,
        scheme: str = "none",
    ) -> Path:
        """Install an archive of (binary, target ID), or with bytes of one's own."""
        rows = [(item[0], item[1], item[2] if len(item) == 3 else code(item[1])) for item in objects]
        return self.write(path, kpack.archive(rows, archs=archs, scheme=scheme))

    def manifest(self, path: str, **files: Mapping[str, object]) -> Path:
        return self.write(path, kpack.manifest(files))


def sound(root: Path) -> Site:
    """Return a folder in which everything is found: two libraries, three units, two devices."""
    site = Site(root)
    site.library("core/lib/libx.so", ["../.kpack/x_@GFXARCH@.kpack"], count=2)
    site.library("core/lib/liby.so", ["../.kpack/y_@GFXARCH@.kpack"])
    for arch in ("gfx90a", "gfx1100"):
        site.archive(f"core/.kpack/x_{arch}.kpack", [(f"core/lib/libx.so#{number}", arch) for number in range(2)])
        site.archive(f"core/.kpack/y_{arch}.kpack", [("core/lib/liby.so#0", arch)])
    return site
