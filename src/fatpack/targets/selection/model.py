"""Input and output of the rules by which runtimes select an image."""

from __future__ import annotations

from fatpack.record import Record
from fatpack.targets.compatibility import HIP_SPIRV
from fatpack.targets.nvidia import parse_nvidia
from fatpack.targets.triple import is_amdgpu, is_nvptx


class CandidateImage(Record):
    """An image as a runtime sees it: the entry of its container.

    ``form``: a form of images (cubin, ptx, ltoir, code-object, …), or the kind of an entry that no driver loads
    (relocatable-ptx).
    ``arch``, ``triple``: as stored; the triple only if the runtime reads it.
    ``ptx_version``: the version of a PTX text.
    ``compression``: the method, None if the image is not compressed.
    ``contents``: the architecture in the image itself if it contradicts ``arch``, else "".
    ``code_object``: the version of an AMD code object, None if it was not read.
    ``actual_form``: the form of the bytes if it is not the stored form, or ``damaged``, or ``unknown``; "" if they have
    the stored form or were not read.
    """

    form: str
    arch: str
    triple: str = ""
    ptx_version: tuple[int, int] | None = None
    compression: str | None = None
    contents: str = ""
    code_object: int | None = None
    actual_form: str = ""


class SelectionResult(Record):
    """The image that a runtime selects from a container, and the result of loading it.

    ``outcome``: ``runs``, ``compiles`` (PTX or SPIR-V, when it is loaded) or ``fails``.
    ``image``: the position of the selected image, also if it fails to load; None if none fits.
    ``rule``, ``reason``: the name of the rule that decided, and the reason in words.
    ``error``, ``code``: the message of the runtime, and its number if several errors have the same message.
    ``is_certain``: False if the rule is neither documented nor observed.
    """

    outcome: str
    image: int | None
    rule: str
    reason: str
    error: str = ""
    is_certain: bool = True
    code: int | None = None


class Fit(Record):
    """The answer if one image runs on a device, regardless of the other images: ``rule`` is the rule that decided.

    ``reason`` is the reason in words. ``is_certain`` is False if the rule is neither documented nor observed.
    """

    fits: bool
    rule: str
    reason: str
    is_certain: bool = True


def image_vendor(triple: str, arch: str) -> str:
    """Return the vendor of an image's devices: nvidia, amd, apple, or intel, which means every other device of SYCL."""
    if triple.startswith("air64"):
        return "apple"
    if is_nvptx(triple) or parse_nvidia(arch.partition(",")[0]) is not None:
        return "nvidia"
    if is_amdgpu(triple) or arch.startswith(("gfx", HIP_SPIRV)) or "amd-amdhsa" in triple:
        return "amd"
    return "intel"
