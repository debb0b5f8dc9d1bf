"""Whose devices an image is for: asked of every image, so it loads no rules of choosing."""

from __future__ import annotations

from fatpack.targets.compatibility import HIP_SPIRV
from fatpack.targets.nvidia import parse_nvidia
from fatpack.targets.triple import is_amdgpu, is_nvptx


def image_vendor(triple: str, arch: str) -> str:
    """Return whose devices an image is for: nvidia, amd or intel, which stands for all that SYCL compiles for."""
    if is_nvptx(triple) or parse_nvidia(arch.partition(",")[0]) is not None:
        return "nvidia"
    if is_amdgpu(triple) or arch.startswith(("gfx", HIP_SPIRV)) or "amd-amdhsa" in triple:
        return "amd"
    return "intel"
