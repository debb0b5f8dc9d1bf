"""Which image of a descriptor LLVM's offload plugins take: the first in stored order that the plugin accepts.

====  =====================================================================================================
M1     the first that fits, whatever follows
M2     NVIDIA: the same major version and no higher minor one; ``a``, ``f`` and Tegra are not looked at
M3     AMD: the same processor, and all features of the image are those of the device
M6     none: the region runs on the host without a word
====  =====================================================================================================

Source: libomptarget/PluginManager.cpp, plugins-nextgen/cuda/src/rtl.cpp and plugins-nextgen/amdgpu of llvm-project's
offload, 2026. What the driver then says of a taken image is CUDA's business.
"""

from __future__ import annotations

from fatpack.target.choice import cuda
from fatpack.target.choice.answer import Answer, Judgement
from fatpack.target.nvidia import parse_nvidia
from fatpack.target.target_id import signs
from fatpack.target.triple import is_nvptx

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.target.choice.answer import Candidate

#: what programs print if they must not fall back to the host
ERROR = "No images found compatible with the installed hardware"


def choose(images: Sequence[Candidate], device: str) -> Answer:
    """Return what happens to a target region: ``device`` is ``sm_89``, or a target ID with every feature."""
    for number, image in enumerate(images):
        if is_nvptx(image.triple):
            if _nvidia_accepts(image.arch, device):
                return _loaded(number, image, device)
        elif image.arch.partition(":")[0] == device.partition(":")[0] and _has_features(image.arch, device):
            return Answer("runs", number, "M3", f"the plugin takes {image.arch}, the first that fits")
    return Answer("fails", None, "M6", f"no image fits {device}; the region runs on the host", ERROR)


def judge(image: Candidate, device: str) -> Judgement:
    """Return whether the plugin accepts one image for a device; the arguments are those of :func:`choose`."""
    if is_nvptx(image.triple):
        fits = _nvidia_accepts(image.arch, device)
        return Judgement(fits, "M2", f"{image.arch} is {'' if fits else 'not '}of its major version and no newer")
    processor, own = image.arch.partition(":")[0], device.partition(":")[0]
    if processor != own:
        return Judgement(False, "M3", f"the processors differ: {processor or 'none'} and {own}")
    fits = _has_features(image.arch, device)
    return Judgement(fits, "M3", f"both are for {own}" if fits else f"the device has not all features of {image.arch}")


def _nvidia_accepts(image: str, device: str) -> bool:
    have, want = parse_nvidia(image), parse_nvidia(device)
    return have is not None and want is not None and have.major == want.major and have.minor <= want.minor


def _has_features(image: str, device: str) -> bool:
    return signs(image).items() <= signs(device).items()


def _loaded(number: int, image: Candidate, device: str) -> Answer:
    arch = parse_nvidia(device)
    answer = cuda.choose([image], arch) if arch else None
    if answer is None or answer.outcome == "fails":
        error = answer.error if answer else ""
        return Answer("fails", number, "M2", f"the plugin takes {image.arch}, and the driver refuses it", error)
    return Answer(answer.outcome, number, "M1", f"the plugin takes {image.arch}, the first that fits")
