"""Fixes for units that do not run: builds, drivers, environment variables, as advice that can be typed."""

from __future__ import annotations

from fatpack.targets.compatibility import HIP_SPIRV, hip_target_ids
from fatpack.targets.nvidia import FAMILIES, first_cuda_for_ptx, parse_nvidia
from fatpack.targets.selection.cuda import ZSTD_SINCE
from fatpack.targets.selection.drivers import first_branch_with
from fatpack.targets.selection.rules import failure_with_code
from fatpack.targets.selection.select_image import first_cuda_for_device, required_cuda
from fatpack.targets.vocabulary import load_vocabulary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.tabular.image_sets import ImageSet
    from fatpack.targets.devices import Device
    from fatpack.targets.selection.runtime_settings import RuntimeSettings
    from fatpack.targets.selection.select_image import DeviceSelection

#: failures of users who set it
_DANGER = (
    "the hardware is not checked, kernels crash or read wrong memory (ROCm/rocm-systems#3531, ROCm/MIOpen#3540), and "
    "it hits every GPU of the machine"
)


def remedies(
    image_set: ImageSet, choice: DeviceSelection, device: Device, settings: RuntimeSettings
) -> tuple[str, ...]:
    """Return what helps, best first. Nothing for what runs."""
    if choice.outcome in ("runs", "compiles"):
        return ()
    if choice.rule == "C14" and image_set.own:
        return ()  # the library links it itself
    if choice.rule == "C14":
        return ("link it (nvcc -dlink, or the host link by nvcc), and explain the linked program",)
    if choice.rule in ("H15", "M4"):
        return ("link it with clang, and explain the linked program",)
    if choice.rule in ("C10", "H5"):
        return ("build it again: the image is not what its label says; fatpack doctor names every such image",)
    found = {"nvidia": _nvidia, "amd": _amd}.get(device.vendor, _intel)
    return tuple(found(image_set, choice, device, settings))


def _nvidia(image_set: ImageSet, choice: DeviceSelection, device: Device, settings: RuntimeSettings) -> Iterator[str]:
    arch = device.nvidia
    assert arch is not None
    if choice.rule == "C13":
        name = "CUDA_FORCE_PTX_JIT" if settings.forces_ptx and not settings.disables_ptx else "CUDA_DISABLE_PTX_JIT"
        yield f"unset {name}"
    needed, why = _driver(image_set, choice, device)
    if settings.driver is not None and settings.driver < needed:
        yield f"a driver of {driver_words(needed)}, for {why}"
        if choice.rule == "C8":
            yield compatibility_package(needed)
        if choice.rule == "C18":
            return
    if choice.rule == "C15" and _without_zstd(image_set, choice, device) <= (settings.driver or (0, 0)):
        yield "or the same images with LZ4: fatpack slim FILE -o OUT --recompress lz4"
        return
    if image_set.runtime == "cuda" and choice.rule not in ("C8", "C13", "C15"):
        yield f"install a build of this library that has sm_{arch.number}, or PTX for compute_{arch.number} or lower"
    for image in image_set.images:
        have = parse_nvidia(image.candidate.arch)
        members = FAMILIES.get(have.number, ()) if have is not None and have.suffix == "a" else ()
        if have is not None and have.number != arch.number and arch.number in members:
            yield f"sm_{have.number}a is for {have.capability} alone: built as sm_{have.number}f it runs here, too"
            break
    line = load_vocabulary().nvidia.get(f"sm_{arch.number}")
    since = f" (CUDA {line.since} or newer)" if line and line.since else ""
    until = f"; CUDA {line.until} is the last that builds it" if line and line.until else ""
    if image_set.runtime == "gcc":
        yield f"link it for the device: gcc -foffload=nvptx-none -foffload-options=nvptx-none=-misa=sm_{arch.number}"
        return
    if image_set.runtime != "cuda":
        yield f"build it for the device: --offload-arch=sm_{arch.number}"
        return
    yield f"build it for the device: nvcc -gencode arch=compute_{arch.number},code=sm_{arch.number}{since}{until}"
    yield f"or with clang: --offload-arch=sm_{arch.number}"


def _driver(image_set: ImageSet, choice: DeviceSelection, device: Device) -> tuple[tuple[int, int], str]:
    """Return the CUDA version of the driver that everything in the way asks for, and what it is that asks for it."""
    found = [(first_cuda_for_device(device) or (0, 0), device.arch)]
    for image in (image_set.images[number] for number in choice.possible):
        version = image.candidate.ptx_version if image.form == "ptx" else None
        if version and first_cuda_for_ptx(version):
            found.append((first_cuda_for_ptx(version) or (0, 0), f"PTX {image.ptx_version}"))
        if image.candidate.compression == "zstd":
            found.append((ZSTD_SINCE, "zstd"))
    return max(found, key=lambda one: one[0])


def _without_zstd(image_set: ImageSet, choice: DeviceSelection, device: Device) -> tuple[int, int]:
    """Return the CUDA version of the driver that would be needed if nothing were compressed with zstd."""
    bare = [
        image.candidate.replace(compression=None) for image in (image_set.images[number] for number in choice.possible)
    ]
    return max([first_cuda_for_device(device) or (0, 0), *filter(None, map(required_cuda, bare))])


def driver_words(cuda: tuple[int, int]) -> str:
    """Return a driver in words: ``CUDA 12.4 or newer (550 on Linux)``."""
    row = first_branch_with(cuda)
    return f"CUDA {cuda[0]}.{cuda[1]} or newer" + (f" (driver {row.branch})" if row else "")


def compatibility_package(cuda: tuple[int, int]) -> str:
    """Return what takes the place of a newer driver on some parts, with what it does on all others (C8)."""
    row = failure_with_code("cuda", 804)
    return (
        f"or NVIDIA's forward-compatibility package of CUDA {cuda[0]}.{cuda[1]}, on parts that NVIDIA lists for it: on "
        f"others the program gets: {row.text} ({row.code}, {row.names[0]})"
    )


def _amd(image_set: ImageSet, choice: DeviceSelection, device: Device, settings: RuntimeSettings) -> Iterator[str]:
    processor = device.arch.partition(":")[0]
    if settings.override:
        yield "unset HSA_OVERRIDE_GFX_VERSION"
    if choice.rule == "H12":
        yield "pack it anew, as a bundle of version 2 or not compressed: fatpack convert"
        return
    if choice.rule == "H13":
        yield f"ROCm 6.3 or newer, or --offload-arch={processor}"
        return
    if image_set.runtime == "kpack":
        yield f"install the archive for {processor}; fatpack check-kpack FOLDER says which one a program looks for"
        return
    if image_set.runtime == "gcc":
        option = f"-foffload-options=amdgcn-amdhsa=-march={processor}"
        yield f"link it for the device, with a GCC that knows it: gcc -foffload=amdgcn-amdhsa {option}"
        return
    generic = _generic(device.arch)
    also = (
        f", or for its family: --offload-arch={generic} (ROCm 6.3 or newer)"
        if generic and image_set.runtime == "hip"
        else ""
    )
    yield f"build it for the device: --offload-arch={processor}{also}"


def dangerous_workaround(
    image_set: ImageSet, choice: DeviceSelection, device: Device, settings: RuntimeSettings
) -> str:
    """Return what people do where an image for a relative of an AMD device is there, and why not to; "" if none is."""
    if device.vendor != "amd" or settings.override or image_set.runtime != "hip" or choice.outcome != "fails":
        return ""
    processor, family = device.arch.partition(":")[0], _generic(device.arch)
    for image in image_set.images:
        other = image.candidate.arch.partition(":")[0]
        if other != processor and family and choice.image is None and _generic(other) == family:
            return (
                f"HSA_OVERRIDE_GFX_VERSION={hsa_override_version(other)} makes the "
                f"runtime load the image for {other}; {_DANGER}"
            )
    return ""


def _generic(processor: str) -> str:
    """Return the generic processor for which HIP asks, "" without one."""
    return next((name.partition(":")[0] for name in hip_target_ids(processor)[1:] if name != HIP_SPIRV), "")


def hsa_override_version(processor: str) -> str:
    """Return a processor as HSA_OVERRIDE_GFX_VERSION takes it: ``10.3.0`` for gfx1030, ``9.0.10`` for gfx90a."""
    digits = processor.removeprefix("gfx")
    return f"{digits[:-2]}.{int(digits[-2], 16)}.{int(digits[-1], 16)}"


def _intel(image_set: ImageSet, choice: DeviceSelection, device: Device, settings: RuntimeSettings) -> Iterator[str]:
    line = load_vocabulary().intel.get(device.arch)
    if line is not None and line.kind == "cpu":
        yield "build it for the device: icpx -fsycl-targets=spir64_x86_64"
    else:
        yield f"build it for the device: icpx -fsycl-targets=intel_gpu_{device.arch}"
    yield "or as SPIR-V, which is compiled when it is loaded: icpx -fsycl -fsycl-targets=spir64"
