"""Which image of a SYCL program an adapter takes.

====  =====================================================================================================
Y1     an image with a ``compile_target`` is for that device alone; SPIR-V without one is the fall-back
Y2     then the adapter chooses by triple and order; CUDA's does not look at the architecture
Y4     none: the program throws when it asks for the kernel
====  =====================================================================================================

Source: the adapters of oneapi-src/unified-runtime (``device.cpp`` of each), 2026; Y1 as the pull requests 14909, 15208
and 18492 of intel/llvm describe it.
"""

from __future__ import annotations

from fatpack.target.choice.answer import Answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.target.choice.answer import Candidate

#: what programs print
ERROR = "No kernel named"

#: adapter → architectures of triples that it takes, the best first
_TRIPLES = {
    "level-zero": ("spir64_gen", "spir64"),
    "opencl-cpu": ("spir64_x86_64", "spir64"),
    "opencl-gpu": ("spir64_gen", "spir64"),
    "cuda": ("nvptx64",),
}

#: of SPIR-V, OpenCL takes the last, all else the first
_TAKES_LAST = ("opencl-cpu", "opencl-gpu")


def choose(images: Sequence[Candidate], device: str, adapter: str) -> Answer:
    """Return what an adapter takes for a device; ``arch`` of an image is its ``compile_target``, "" without one."""
    for kind in _TRIPLES[adapter]:
        found = [
            number
            for number, image in enumerate(images)
            if image.triple.partition("-")[0] == kind and (adapter == "cuda" or image.arch in ("", device))
        ]
        if not found:
            continue
        if kind == "spir64":
            taken = found[-1] if adapter in _TAKES_LAST else found[0]
            return Answer("compiles", taken, "Y2", "SPIR-V is compiled for the device")
        is_sure = adapter != "cuda" or images[found[0]].arch == device
        return Answer("runs", found[0], "Y2" if adapter == "cuda" else "Y1", f"the first for {kind}", "", is_sure)
    return Answer("fails", None, "Y4", f"no image is for {device}", ERROR)
