"""Which image of a descriptor LLVM's offload plugins take: the first in stored order that the plugin accepts.

====  =====================================================================================================
M1     the first that fits, whatever follows
M2     NVIDIA: the same major version and no higher minor one; ``a``, ``f`` and Tegra are not looked at
M3     AMD: the same processor, and all features of the image are those of the device; other files than ELF and bitcode
       are passed over (``isPluginCompatible`` of ``common/src/PluginInterface.cpp``)
M4     bitcode is compiled for the device where the plugin was built with a compiler, whatever it is for
M5     Intel: Level Zero's plugin accepts every image, and does not compare the device
M6     none: the region runs on the host without a word
====  =====================================================================================================

Source: libomptarget/PluginManager.cpp, plugins-nextgen/cuda/src/rtl.cpp and plugins-nextgen/amdgpu of llvm-project's
offload, 2026. What the driver then says of a taken image is CUDA's business.
"""

from __future__ import annotations

from fatpack.target.choice import cuda, hip
from fatpack.target.choice.answer import Answer, Judgement
from fatpack.target.compatibility import hip_names, serves_hip
from fatpack.target.nvidia import parse_nvidia
from fatpack.target.target_id import signs
from fatpack.target.triple import is_nvptx

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.target.choice.answer import Candidate

#: what programs print if they must not fall back to the host
ERROR = "No images found compatible with the installed hardware"


_BITCODE = (
    "it is bitcode: the device link of an object makes an image of it, and in a linked program the plugin compiles it "
    "only if it was built with a compiler"
)


def choose(images: Sequence[Candidate], device: str) -> Answer:
    """Return what happens to a target region: ``device`` is ``sm_89``, or a target ID with every feature."""
    for number, image in enumerate(images):
        if image.form == "bitcode" and is_nvptx(image.triple) == (parse_nvidia(device) is not None):
            return Answer("compiles", number, "M4", _BITCODE, is_certain=False)
        if is_nvptx(image.triple):
            if _nvidia_accepts(image.arch, device):
                return _loaded(number, image, device)
        elif _amd_accepts(image, device):
            if image.holds and not any(serves_hip(image.holds, name).answer for name in hip_names(device)):
                reason = f"the plugin takes {image.arch}, and the code object in it is for {image.holds}"
                return Answer("fails", number, "H5", reason)
            return Answer("runs", number, "M3", f"the plugin takes {image.arch}, the first that fits")
    return Answer("fails", None, "M6", f"no image fits {device}; the region runs on the host", ERROR)


def choose_intel(images: Sequence[Candidate], device: str) -> Answer:
    """Return what happens to a target region on an Intel device: the first image is taken, whatever it is for.

    SPIR-V is compiled for the device; whether anything else runs nobody knows before it is loaded.
    """
    if not images:
        return Answer("fails", None, "M6", f"no image is for {device}; the region runs on the host", ERROR)
    if _is_portable(images[0]):
        return Answer("compiles", 0, "M5", "SPIR-V is compiled for the device")
    name = images[0].arch or images[0].triple or "the first image"
    return Answer("runs", 0, "M5", f"the plugin takes {name} without a look at the device", is_certain=False)


def judge_intel(image: Candidate) -> Judgement:
    """Return that the plugin accepts an image: it accepts all, and of SPIR-V it is known that it runs."""
    return Judgement(True, "M5", "the plugin does not compare the device", _is_portable(image))


def _is_portable(image: Candidate) -> bool:
    return image.triple.partition("-")[0] in ("spir64", "spirv64", "spirv")


def judge(image: Candidate, device: str) -> Judgement:
    """Return whether the plugin accepts one image for a device; the arguments are those of :func:`choose`."""
    if image.form == "bitcode" and is_nvptx(image.triple) == (parse_nvidia(device) is not None):
        return Judgement(True, "M4", "compiled where the plugin has a compiler", is_certain=False)
    if is_nvptx(image.triple):
        fits = _nvidia_accepts(image.arch, device)
        return Judgement(fits, "M2", f"{image.arch} is {'' if fits else 'not '}of its major version and no newer")
    processor, own = image.arch.partition(":")[0], device.partition(":")[0]
    if processor != own:
        return Judgement(False, "M3", f"the processors differ: {processor or 'none'} and {own}")
    if _is_none(image):
        return Judgement(False, "M3", f"what is stored for {image.arch} {hip.is_none(image)}")
    fits = _has_features(image.arch, device)
    return Judgement(fits, "M3", f"both are for {own}" if fits else f"the device has not all features of {image.arch}")


def _amd_accepts(image: Candidate, device: str) -> bool:
    """Return whether the plugin takes an image: an ELF file, or bitcode, for the processor; anything else it passes."""
    is_for = image.arch.partition(":")[0] == device.partition(":")[0] and _has_features(image.arch, device)
    return is_for and not _is_none(image)


def _is_none(image: Candidate) -> bool:
    return image.bytes_are not in ("", "damaged")


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
