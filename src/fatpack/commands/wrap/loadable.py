"""Whether the runtime of CUDA or HIP can load an image: it is for its devices, and linked for them.

CUDA's loads what a fat binary holds: cubins, PTX and other code of NVIDIA. HIP's loads code objects, and SPIR-V, which
it compiles (``amdgcnspirv``). Both need linked ELF: relocatable is what a compiler leaves to the device link. OpenMP's
and SYCL's have plugins for many devices, some of which compile bitcode, and OpenMP's take shared libraries of the host:
there nothing is refused but objects and archives of a host, which hold code that is still to be linked.

How we know: "Separate Compilation" in NVIDIA's "CUDA Compiler Driver NVCC" (relocatable device code must be linked
before it can be executed), and "ELF Code Object" in LLVM's "User Guide for AMDGPU Backend" (the loader requires
``ET_DYN``).
"""

from __future__ import annotations

from fatpack import images
from fatpack.binary.elf.quick_header import read_quick_header
from fatpack.errors import UsageError, cli_or_api
from fatpack.magic_numbers import ELF

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.images.identification import ImageInfo
    from fatpack.io.source import View

#: form → the kind whose runtime loads it, for advice
_KIND_OF = {"cubin": "cuda", "ptx": "cuda", "ltoir": "cuda", "tileir": "cuda", "fatbin": "cuda", "code-object": "hip"}

#: kind → the forms that its runtime loads. Bytes that nobody knows are a user's affair.
_LOADED = {
    "cuda": ("cubin", "ptx", "ltoir", "tileir", "fatbin", "", "empty"),
    "hip": ("code-object", "spirv", "", "empty"),
}

#: kind → who links for its devices
_LINKERS = {"cuda": "nvlink or clang-nvlink-wrapper", "hip": "ld.lld, or clang --target=amdgcn-amd-amdhsa"}

#: e_type of what a linker still gets
_RELOCATABLE = 1


def refuse_unloadable(kind: str, name: str, view: View) -> None:
    """Raise UsageError for an image that the runtime of a kind never loads."""
    recognised = images.identify_image(view)
    form = recognised.form
    if kind not in _LOADED:
        if form == "archive" or (form == "object" and not _is_linked(view)):
            problem = f"{name}: {recognised.detail}, which is no device image"
            hint = "fatpack extract takes device images out of it; fatpack link-inputs lists what a device link takes"
            raise UsageError(problem, hint=hint)
        return
    if form not in _LOADED[kind]:
        what = " ".join(filter(None, (form, f"({recognised.detail})" if recognised.detail else "")))
        raise UsageError(f"{name}: {what}, which {kind}'s runtime does not load", hint=_advice(kind, recognised))
    elf = read_quick_header(view, view.head(0, images.HEAD_SIZE)) if form in ("cubin", "code-object") else None
    if elf is not None and elf.type == _RELOCATABLE:
        problem = f"{name}: a relocatable {form} ({recognised.detail}), and {kind}'s runtime loads linked ones"
        raise UsageError(problem, hint=_link(kind))


def _is_linked(view: View) -> bool:
    """Return whether an object of a host is linked: a shared library is what OpenMP's plugins for hosts load."""
    found = read_quick_header(view, view.head(0, images.HEAD_SIZE)) if view.head(0, len(ELF)) == ELF else None
    return found is not None and found.type != _RELOCATABLE


def _advice(kind: str, recognised: ImageInfo) -> str:
    form = recognised.form
    if form in ("bitcode", "llvm-ir") and (not recognised.triple or _is_for(kind, recognised.triple)):
        return _link(kind)
    if form == "object":
        return f"fatpack extract takes device images out of an object; where they are relocatable, {_link(kind)}"
    other = _KIND_OF.get(form)
    if other:
        return f"{cli_or_api(f'--kind={other}', f'kind={other!r}')} registers it"
    return f"give an image for {kind}'s devices; {_link(kind)}"


def _is_for(kind: str, triple: str) -> bool:
    return triple.startswith("nvptx" if kind == "cuda" else "amdgcn")


def _link(kind: str) -> str:
    return f"link it for the device first ({_LINKERS[kind]}); fatpack link-inputs collects what belongs to that link"
