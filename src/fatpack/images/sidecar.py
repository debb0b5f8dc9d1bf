"""Metadata files of compilers beside an image (JSON), and contradictions between them and the image.

::

    cache of Triton, and of Inductor     package of AOTInductor (.pt2), or the same unpacked
    HASH/add_kernel.cubin                data/aotinductor/MODEL/HASH.cubin
    HASH/add_kernel.json                 data/aotinductor/MODEL/HASH.wrapper_metadata.json

====================  ================================================================================================
``target``            Triton: ``{"backend": "cuda", "arch": 90, "warp_size": 32}``; ``hip`` has ``"gfx942"``, ``xpu``
                      an object. 2.2 has ``{"capability": 90}`` and ``device_type``, 2.1 ``arch`` and ``device_type``
``name``              the kernel that is looked up when the image was loaded
``num_warps``         warps per launch; times the width of a warp it is the number of threads
``shared``            bytes of shared memory of each launch; nearly all of it is dynamic, and not in the image
``AOTI_DEVICE_KEY``   AOTInductor: ``cuda`` (ROCm's too), ``xpu``, ``cpu``
``AOTI_COMPUTE_…``    ``AOTI_COMPUTE_CAPABILITY``: ``90``, or ``gfx942``; AOTInductor looks for no other device
====================  ================================================================================================

Sources: ``triton/compiler/compiler.py`` of Triton 2.1, 2.2, 3.0 and 3.9, and the caches that 3.0 and 3.9 write for
three SMs and two AMD processors; ``get_device_information`` in ``torch/_inductor/codecache.py`` of PyTorch in 2025.

No loader compares the two: with a wrong image the driver refuses it, or the launch has too few threads. Reports are
conservative, as for containers (:mod:`fatpack.images.container_mismatch`): missing values contradict nothing.
"""

from __future__ import annotations

from fatpack.errors import BadValue, LimitExceeded
from fatpack.images import container_mismatch
from fatpack.images.identification import EXTENSIONS
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fatpack.images.identification import ImageInfo
    from fatpack.images.kernel import KernelNeeds

#: LIMIT: bytes that are read of a metadata file. Triton's have one to four thousand.
MAX_SIDECAR_SIZE = 256 << 10

#: AOTInductor stores the images of a model in a folder of this name, with a metadata file named after the host code.
PACKAGE, OF_PACKAGE = "aotinductor", "_metadata.json"

#: name of a compiler's backend → triple of its images
_TRIPLES = {"cuda": "nvptx64-nvidia-cuda", "hip": "amdgcn-amd-amdhsa", "xpu": "spir64-unknown-unknown"}

#: extensions of images that caches contain beside metadata: those of all forms, and Triton's own
_EXTENSIONS = frozenset(EXTENSIONS.values()) | {"amdgcn", "llir", "ttir", "ttgir", "zebin", "co"}

#: bytes of shared memory that the system reserves in each block since sm_90; cubins include them in the kernel's
_RESERVED = 1024


class SidecarClaims(Record):
    """The statements of a metadata file about its image; "" and None for missing ones.

    ``producer``: the compiler that writes such files. ``triple`` and ``arch``: the target, ``arch`` without variant,
    because Triton writes 90 for ``sm_90a`` too. ``kernel``: the launched kernel, with ``threads`` threads in warps of
    ``warp_size``, and ``shared`` bytes of shared memory.
    """

    producer: str
    triple: str = ""
    arch: str = ""
    kernel: str = ""
    warp_size: int | None = None
    threads: int | None = None
    shared: int | None = None


def sidecar_name(name: str) -> str:
    """Return the name of the metadata file for the file name of an image; "" if there is none for this extension."""
    stem, dot, extension = name.rpartition(".")
    return f"{stem}.json" if dot and stem and extension in _EXTENSIONS else ""


def read_sidecar(data: bytes) -> SidecarClaims | None:
    """Parse a metadata file; None if the JSON has another structure. Raises BadValue for invalid JSON."""
    import json

    if len(data) > MAX_SIDECAR_SIZE:
        raise LimitExceeded(
            f"more than {MAX_SIDECAR_SIZE} bytes; metadata of an image has some thousands", format="json"
        )
    try:
        # The decoder refuses numbers of more than 4300 digits, and deep nesting; _number handles shorter numbers.
        values = json.loads(data)
    except (ValueError, RecursionError) as error:
        at = getattr(error, "pos", None)
        place = f" at character {at}" if isinstance(at, int) else ""
        raise BadValue(f"this is no JSON{place}", format="json", hint="the compiler writes it again") from error
    if not isinstance(values, dict):
        return None
    if "AOTI_DEVICE_KEY" in values:
        return _of_inductor(values)
    return _of_triton(values) if "num_warps" in values else None


def _of_triton(values: Mapping[str, object]) -> SidecarClaims:
    target = values.get("target")
    if not isinstance(target, dict):
        target = {"arch": values.get("arch")}
    backend = _text(target.get("backend")) or _text(values.get("device_type"))
    arch = _arch(target.get("arch") or target.get("capability"))
    warp_size = _number(target.get("warp_size")) or _number(values.get("warp_size"))
    warps = _number(values.get("num_warps"))
    width = warp_size or (32 if backend == "cuda" else None)
    return SidecarClaims(
        "Triton",
        _TRIPLES.get(backend, ""),
        arch,
        _text(values.get("name")),
        warp_size,
        warps * width if warps and width else None,
        _number(values.get("shared")),
    )


def _of_inductor(values: Mapping[str, object]) -> SidecarClaims:
    device, arch = _text(values["AOTI_DEVICE_KEY"]), _arch(values.get("AOTI_COMPUTE_CAPABILITY"))
    if arch.startswith("gfx"):
        device = "hip"
    elif device == "cuda" and not arch:
        device = ""  # it may be for ROCm
    return SidecarClaims("AOTInductor", _TRIPLES.get(device, ""), arch)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> int | None:
    """Return a number of at most 32 bits, as for launches; products of longer ones would not fit into messages."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 32 else None


def _arch(value: object) -> str:
    """Return an architecture in the spelling of containers: ``sm_90`` for 90, ``"90"`` and ``"sm90"``; else ""."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        return ""
    digits = value.removeprefix("sm").removeprefix("_").rstrip("af")
    if digits.isascii() and digits.isdigit() and len(digits) < 5:
        return f"sm_{digits}"
    return value.partition(":")[0] if value.startswith("gfx") else ""


def target_problems(claimed: SidecarClaims, recognised: ImageInfo) -> Iterator[tuple[str, str]]:
    """Yield code and sentence of each contradiction about the target."""
    if claimed.triple and container_mismatch.triple_contradiction(claimed.triple, recognised):
        yield (
            "FP1111",
            f"says {claimed.arch or claimed.triple}, and the image is {container_mismatch.image_words(recognised)}",
        )
    elif claimed.arch:
        choices = [claimed.arch, *(f"{claimed.arch}{variant}" for variant in "af" if claimed.arch.startswith("sm_"))]
        if all(container_mismatch.arch_contradiction(arch, claimed.triple, recognised) for arch in choices):
            yield "FP1111", f"says {claimed.arch}, and the image is {container_mismatch.image_words(recognised)}"


def kernel_problems(
    claimed: SidecarClaims, recognised: ImageInfo, kernels: tuple[KernelNeeds, ...]
) -> Iterator[tuple[str, str]]:
    """Yield code and sentence of each contradiction about the kernel and its launch."""
    if not claimed.kernel or not kernels:
        return
    kernel = next((kernel for kernel in kernels if kernel.name == claimed.kernel), None)
    if kernel is None:
        more = f" and {len(kernels) - 1} more" if len(kernels) > 1 else ""
        yield "FP1112", f"says kernel {claimed.kernel}, and the image has {kernels[0].name}{more}"
        return
    for problem in _launch_problems(claimed, kernel, recognised):
        yield "FP1113", problem


def _launch_problems(claimed: SidecarClaims, kernel: KernelNeeds, recognised: ImageInfo) -> Iterator[str]:
    if claimed.warp_size and kernel.wavefront and claimed.warp_size != kernel.wavefront:
        yield f"says warps of {claimed.warp_size} threads, and {kernel.name} is made for {kernel.wavefront}"
    if claimed.threads:
        required = _product(kernel.required_threads)
        if required and required != claimed.threads:
            yield f"says {claimed.threads} threads, and {kernel.name} requires {required}"
        elif kernel.max_threads and kernel.max_threads < claimed.threads:
            yield f"says {claimed.threads} threads, and {kernel.name} allows {kernel.max_threads}"
    if claimed.shared is not None and kernel.shared:
        # The launch's size includes the static memory that the image states.
        own = kernel.shared - (_RESERVED if recognised.form == "cubin" and kernel.shared >= _RESERVED else 0)
        if own > claimed.shared:
            yield f"says {claimed.shared} bytes of shared memory, and {kernel.name} has {own} of its own"


def _product(sizes: tuple[int, ...] | None) -> int:
    if not sizes:
        return 0
    product = 1
    for size in sizes:
        product *= size
    return product
