"""Which image of a SYCL program an adapter takes.

====  =====================================================================================================
Y1     an image with a ``compile_target`` is for that device alone; SPIR-V without one is the fall-back
Y2     then the adapter chooses by triple and order; CUDA's does not look at the architecture
Y3     an image whose kernels require aspects or work-group sizes that the device lacks is not taken. What a device has
       only its driver knows, and so this is said beside the answer, and decides nothing
Y4     none: the program throws when it asks for the kernel
Y6     SYCLBIN: of each abstract module the first native image that fits, else the first that is compiled
====  =====================================================================================================

Source: the adapters of oneapi-src/unified-runtime (``device.cpp`` of each), 2026; Y1 as the pull requests 14909, 15208
and 18492 of intel/llvm describe it; Y3 and Y6: ``sycl/source/detail`` of intel/llvm (``program_manager``,
``syclbin.cpp``), 2026.
"""

from __future__ import annotations

from fatpack.targets.selection.model import Fit, SelectionResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.targets.selection.model import CandidateImage

#: what programs print
SYCL_ERROR = "No kernel named"

#: adapter → architectures of triples that it takes, the best first
_TRIPLES = {
    "level-zero": ("spir64_gen", "spir64"),
    "opencl-cpu": ("spir64_x86_64", "spir64"),
    "opencl-gpu": ("spir64_gen", "spir64"),
    "cuda": ("nvptx64",),
}

#: what clang calls SPIR-V for 64 bits, and a file of it alone says of itself → what DPC++ calls it
_SAME = {"spirv64": "spir64"}

#: of SPIR-V, OpenCL takes the last, all else the first
_TAKES_LAST = ("opencl-cpu", "opencl-gpu")


def select_sycl_image(
    images: Sequence[CandidateImage], device: str, adapter: str, *, is_module: bool = False
) -> SelectionResult:
    """Return what an adapter takes for a device; ``arch`` of an image is its ``compile_target``, "" without one.

    With ``is_module`` they are the images of an abstract module of a SYCLBIN file, of which the runtime chooses (Y6).
    """
    for kind in _TRIPLES[adapter]:
        found = [
            number
            for number, image in enumerate(images)
            if _kind(image) == kind and (adapter == "cuda" or image.arch in ("", device))
        ]
        if not found:
            continue
        if kind == "spir64":
            taken = found[-1] if adapter in _TAKES_LAST and not is_module else found[0]
            return SelectionResult("compiles", taken, "Y6" if is_module else "Y2", "SPIR-V is compiled for the device")
        is_sure = adapter != "cuda" or images[found[0]].arch == device
        rule = "Y6" if is_module else "Y2" if adapter == "cuda" else "Y1"
        return SelectionResult("runs", found[0], rule, f"the first for {kind}", "", is_sure)
    return SelectionResult("fails", None, "Y4", f"no image is for {device}", SYCL_ERROR)


def _kind(image: CandidateImage) -> str:
    """Return the architecture of an image's triple, as DPC++ calls it."""
    kind = image.triple.partition("-")[0]
    return _SAME.get(kind, kind)


def sycl_fit(image: CandidateImage, device: str, adapter: str) -> Fit:
    """Return whether an adapter may take one image for a device; the arguments are those of :func:`choose`."""
    kind = _kind(image)
    if kind not in _TRIPLES[adapter]:
        return Fit(False, "Y2", f"the adapter takes no {kind or 'image without a triple'}")
    if adapter == "cuda":
        return Fit(True, "Y2", "the adapter does not look at the architecture", image.arch == device)
    if image.arch not in ("", device):
        return Fit(False, "Y1", f"it is for {image.arch} alone")
    if kind == "spir64":
        return Fit(True, "Y2", "SPIR-V is compiled for any device")
    is_for_device = bool(image.arch)
    text = f"it is for {image.arch}" if is_for_device else "what it was compiled for is not stated"
    return Fit(True, "Y1" if is_for_device else "Y2", text, is_for_device)
