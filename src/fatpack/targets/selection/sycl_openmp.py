"""Select the image that LLVM's offload plugins, or the adapters of SYCL's runtime, load.

LLVM's offload plugins load the first image of a descriptor, in stored order, that the plugin accepts:

====  =====================================================================================================
M1     the first that fits, regardless of the following ones
M2     NVIDIA: the same major version and no higher minor one; ``a``, ``f`` and Tegra are not checked
M3     AMD: the same processor, and all features of the image are those of the device; other files than ELF and bitcode
       are skipped (``isPluginCompatible`` of ``common/src/PluginInterface.cpp``)
M4     bitcode is compiled for the device if the plugin was built with a compiler, regardless of its target
M5     Intel: Level Zero's plugin accepts every image, and does not compare the device
M6     none: the region runs on the host without a message
====  =====================================================================================================

Source: libomptarget/PluginManager.cpp, plugins-nextgen/cuda/src/rtl.cpp and plugins-nextgen/amdgpu of llvm-project's
offload, 2026. CUDA's rules apply when the driver loads the selected image.
"""

from __future__ import annotations

from fatpack.model import arch_name
from fatpack.targets.compatibility import can_serve_hip, hip_target_ids
from fatpack.targets.nvidia import parse_nvidia
from fatpack.targets.selection import amd, cuda
from fatpack.targets.selection.model import Fit, SelectionResult
from fatpack.targets.triple import is_nvptx
from fatpack.targets.vocabulary import feature_signs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.targets.nvidia import NvidiaArch
    from fatpack.targets.selection.model import CandidateImage


# Selection of an image of a SYCL program by an adapter.
#
# ====  =====================================================================================================
# Y1     an image with a ``compile_target`` is for that device alone; SPIR-V without one is the fall-back
# Y2     then the adapter selects by triple and order; CUDA's does not check the architecture
# Y3     an image whose kernels require aspects or work-group sizes that the device lacks is not loaded. Only the driver
#        knows these properties, so this is reported beside the answer and decides nothing
# Y4     none: the program throws when it requests the kernel
# Y6     SYCLBIN: of each abstract module the first native image that fits, else the first that is compiled
# ====  =====================================================================================================
#
# Source: the adapters of oneapi-src/unified-runtime (``device.cpp`` of each), 2026; Y1 as the pull requests 14909,
# 15208 and 18492 of intel/llvm describe it; Y3 and Y6: ``sycl/source/detail`` of intel/llvm (``program_manager``,
# ``syclbin.cpp``), 2026.

#: the message that programs print
SYCL_ERROR = "No kernel named"

#: adapter → architectures of triples that it loads, the best first
_TRIPLES = {
    "level-zero": ("spir64_gen", "spir64"),
    "opencl-cpu": ("spir64_x86_64", "spir64"),
    "opencl-gpu": ("spir64_gen", "spir64"),
    "cuda": ("nvptx64",),
}

#: clang's name of 64-bit SPIR-V, also used for a SPIR-V file without a container → DPC++'s name
_SAME = {"spirv64": "spir64"}

#: adapters that load the last SPIR-V image; the others load the first
_TAKES_LAST = ("opencl-cpu", "opencl-gpu")


def select_sycl_image(
    images: Sequence[CandidateImage], device: str, adapter: str, *, is_module: bool = False
) -> SelectionResult:
    """Return the image that an adapter loads for a device; ``arch`` of an image is its ``compile_target`` or "".

    With ``is_module`` the images are an abstract module of a SYCLBIN file, from which the runtime selects (Y6).
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
    """Return whether an adapter may load one image for a device; the arguments are those of
    :func:`select_sycl_image`.
    """
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


#: the message of programs that must not fall back to the host
OPENMP_ERROR = "No images found compatible with the installed hardware"


_BITCODE = (
    "it is bitcode: the device link of an object makes an image of it, and in a linked program the plugin compiles it "
    "only if it was built with a compiler"
)


def select_openmp_image(images: Sequence[CandidateImage], device: str) -> SelectionResult:
    """Return the image for a target region: ``device`` is ``sm_89``, or a target ID with every feature."""
    for number, image in enumerate(images):
        if image.form == "bitcode" and is_nvptx(image.triple) == (parse_nvidia(device) is not None):
            return SelectionResult("compiles", number, "M4", _BITCODE, is_certain=False)
        if is_nvptx(image.triple):
            if _nvidia_accepts(image.arch, device):
                return _loaded(number, image, device)
        elif _amd_accepts(image, device):
            if image.contents and not any(
                can_serve_hip(image.contents, name).answer for name in hip_target_ids(device)
            ):
                reason = f"the plugin takes {image.arch}, and the code object in it is for {image.contents}"
                return SelectionResult("fails", number, "H5", reason)
            return SelectionResult("runs", number, "M3", f"the plugin takes {image.arch}, the first that fits")
    return SelectionResult("fails", None, "M6", f"no image fits {device}; the region runs on the host", OPENMP_ERROR)


def select_openmp_intel_image(images: Sequence[CandidateImage], device: str) -> SelectionResult:
    """Return the image for a target region on an Intel device: the first one, regardless of its target.

    SPIR-V is compiled for the device; for any other form it is unknown before loading if it runs.
    """
    if not images:
        return SelectionResult(
            "fails", None, "M6", f"no image is for {device}; the region runs on the host", OPENMP_ERROR
        )
    if _is_portable(images[0]):
        return SelectionResult("compiles", 0, "M5", "SPIR-V is compiled for the device")
    name = images[0].arch or images[0].triple or "the first image"
    return SelectionResult("runs", 0, "M5", f"the plugin takes {name} without a look at the device", is_certain=False)


def openmp_intel_fit(image: CandidateImage) -> Fit:
    """Return that the plugin accepts an image: it accepts all; certain for SPIR-V only."""
    return Fit(True, "M5", "the plugin does not compare the device", _is_portable(image))


def _is_portable(image: CandidateImage) -> bool:
    return image.triple.partition("-")[0] in ("spir64", "spirv64", "spirv")


def openmp_fit(image: CandidateImage, device: str) -> Fit:
    """Return whether the plugin accepts one image for a device; the arguments are those of
    :func:`select_openmp_image`.
    """
    if image.form == "bitcode" and is_nvptx(image.triple) == (parse_nvidia(device) is not None):
        return Fit(True, "M4", "compiled where the plugin has a compiler", is_certain=False)
    if is_nvptx(image.triple):
        fits = _nvidia_accepts(image.arch, device)
        return Fit(fits, "M2", f"{image.arch} is {'' if fits else 'not '}of its major version and no newer")
    processor, own = image.arch.partition(":")[0], device.partition(":")[0]
    if processor != own:
        return Fit(False, "M3", f"the processors differ: {processor or 'none'} and {own}")
    if _is_none(image):
        return Fit(False, "M3", f"what is stored for {image.arch} {amd.not_code_object_words(image)}")
    fits = _has_features(image.arch, device)
    return Fit(fits, "M3", f"both are for {own}" if fits else f"the device has not all features of {image.arch}")


def _amd_accepts(image: CandidateImage, device: str) -> bool:
    """Return whether the plugin accepts an image: an ELF file, or bitcode, for the processor; it skips others."""
    is_for = image.arch.partition(":")[0] == device.partition(":")[0] and _has_features(image.arch, device)
    return is_for and not _is_none(image)


def _is_none(image: CandidateImage) -> bool:
    return image.actual_form not in ("", "damaged")


def _nvidia_accepts(image: str, device: str) -> bool:
    have, want = parse_nvidia(image), parse_nvidia(device)
    return have is not None and want is not None and have.major == want.major and have.minor <= want.minor


def _has_features(image: str, device: str) -> bool:
    return feature_signs(image).items() <= feature_signs(device).items()


def _loaded(number: int, image: CandidateImage, device: str) -> SelectionResult:
    arch = parse_nvidia(device)
    answer = cuda.select_cuda_image([image], arch) if arch else None
    if answer is None or answer.outcome == "fails":
        error = answer.error if answer else ""
        return SelectionResult(
            "fails", number, "M2", f"the plugin takes {image.arch}, and the driver refuses it", error
        )
    return SelectionResult(answer.outcome, number, "M1", f"the plugin takes {image.arch}, the first that fits")


# Select what libgomp's plug-ins load on a device of one record that GCC's program registers.
#
# ====  =====================================================================================================
# G1    nvptx: all PTX texts of a record are linked by the driver, so the device must serve the highest of their targets
# G2    gcn: the processor in the header of the code object must be the device's, else the program stops
# G3    a device for whose kind nothing is registered runs nothing: the region runs on the host, without a message
# G4    gcn: a generic processor is compared as any other by GCC 14 and older; for newer plug-ins this is not known
# ====  =====================================================================================================
#
# The plug-in does not compare the features of a code object (xnack, sramecc): ROCr does when it loads the object (H5).
#
# Source: libgomp/plugin/plugin-nvptx.c (``link_ptx``, ``GOMP_OFFLOAD_load_image``), libgomp/plugin/plugin-gcn.c
# (``isa_matches_agent``) and libgomp/target.c of GCC, of 2021 to 2024. Which devices a plug-in knows at all depends on
# its version, and is not asked here. No device was at hand.

#: the name of GCC's runtime
LIBGOMP = "gcc"

#: what a program prints when the driver refuses a text, and when the plug-in has loaded nothing
_LINK_ERROR = "libgomp: cuLinkAddData (ptx_code) error: …; Cannot map target functions or variables"


def nvptx_fit(image: CandidateImage, device: NvidiaArch, driver: tuple[int, int] | None = None) -> Fit:
    """Return whether the driver takes one text for a device."""
    if image.form != "ptx":
        return Fit(False, "G1", f"a {image.form or 'text'} is not linked as PTX")
    found = cuda.select_cuda_image([image], device, driver)
    if found.outcome == "fails":
        judged = cuda.cuda_fit(image, device, driver)
        reason = found.reason if judged.fits else judged.reason
        return Fit(False, found.rule if judged.fits else judged.rule, reason, found.is_certain)
    return Fit(True, "G1", f"the driver links it for {device.name}", found.is_certain)


def select_nvptx_texts(
    images: Sequence[CandidateImage], device: NvidiaArch, driver: tuple[int, int] | None = None
) -> SelectionResult:
    """Return what becomes of all texts of a record: the one with the highest target decides."""
    judged = [nvptx_fit(image, device, driver) for image in images]
    for number, fit in enumerate(judged):
        if not fit.fits:
            name = arch_name(images[number].arch, images[number].form)
            reason = f"all texts are linked together, and {name} {fit.reason}"
            return SelectionResult("fails", number, fit.rule, reason, _LINK_ERROR, fit.is_certain)
    highest = max(range(len(images)), key=lambda number: _target(images[number]), default=None)
    if highest is None:
        return SelectionResult("fails", None, "G3", "no text is registered: the region runs on the host")
    reason = (
        f"the driver links all PTX texts, of which the highest is for {images[highest].arch.replace('sm', 'compute')}"
    )
    return SelectionResult("compiles", highest, "G1", reason, is_certain=all(fit.is_certain for fit in judged))


def _target(image: CandidateImage) -> int:
    digits = "".join(letter for letter in image.arch if letter.isdigit())
    return int(digits or 0)


def gcn_fit(image: CandidateImage, device: str) -> Fit:
    """Return whether the plug-in and ROCr take a code object for a device, a target ID with all features."""
    processor, own = image.arch.partition(":")[0], device.partition(":")[0]
    if processor.endswith("-generic") and any(
        can_serve_hip(image.arch, name).answer for name in hip_target_ids(device)
    ):
        return Fit(
            True, "G4", f"{processor} covers {own}, and plug-ins of GCC 14 and older refuse it", is_certain=False
        )
    if processor != own:
        return Fit(False, "G2", f"the code object is for {processor or 'no processor'}, the device is {own}")
    verdict = can_serve_hip(image.arch, device)
    return Fit(True, "G2", f"both are for {own}") if verdict.answer else Fit(False, "H5", verdict.reason)


def select_gcn_image(images: Sequence[CandidateImage], device: str) -> SelectionResult:
    """Return whether the code object of a record is loaded on a device; a record has one."""
    for number, image in enumerate(images):
        fit = gcn_fit(image, device)
        if fit.fits and not image.actual_form:
            return SelectionResult("runs", number, fit.rule, fit.reason, is_certain=fit.is_certain)
        own, processor = device.partition(":")[0], image.arch.partition(":")[0]
        text = f"libgomp: GCN code object ISA '{processor}' does not match GPU ISA '{own}'" if fit.rule == "G2" else ""
        return SelectionResult("fails", number, fit.rule, fit.reason, text or "the code object is not loaded")
    return SelectionResult("fails", None, "G3", "no code object is registered: the region runs on the host")
