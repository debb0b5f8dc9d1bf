"""What is asked of a runtime's rules, and what they answer."""

from __future__ import annotations

from fatpack.record import Record
from fatpack.targets.compatibility import HIP_SPIRV
from fatpack.targets.nvidia import parse_nvidia
from fatpack.targets.triple import is_amdgpu, is_nvptx


class CandidateImage(Record):
    """An image as a runtime sees it: what its container states, in stored order.

    ``form`` is a form of images (cubin, ptx, ltoir, code-object, …) or the kind of an entry that no driver takes
    (relocatable-ptx), ``arch`` the stored one, ``triple`` where the runtime looks at it. ``ptx_version`` is that of a
    PTX text, ``compression`` the method, None for none. ``holds`` is what the bytes are for by their own account, where
    that contradicts ``arch``, else "". ``code_object`` is the version of an AMD code object, None where it was not
    read. ``bytes_are`` says what the bytes are in place of the stored form: the form that they have, or ``damaged``, or
    ``unknown``; "" where they are that form, or nobody looked.
    """

    form: str
    arch: str
    triple: str = ""
    ptx_version: tuple[int, int] | None = None
    compression: str | None = None
    holds: str = ""
    code_object: int | None = None
    bytes_are: str = ""


class SelectionResult(Record):
    """What a runtime does with a container.

    ``outcome`` is ``runs``, ``compiles`` (PTX or SPIR-V, when it is loaded) or ``fails``. ``image`` is the position of
    the image that was taken, also where it then fails; None if none fits. ``rule`` is the name of the rule that
    decided, ``reason`` says it in words; ``error`` is the message of the runtime, ``code`` its number where others have
    the same words. ``is_certain`` is False where the rule is neither documented nor observed.
    """

    outcome: str
    image: int | None
    rule: str
    reason: str
    error: str = ""
    is_certain: bool = True
    code: int | None = None


class Fit(Record):
    """Whether one image fits a device, whatever lies beside it: ``rule`` is the name of the rule that says so.

    ``reason`` says it in words. ``is_certain`` is False where nobody has documented or observed it.
    """

    fits: bool
    rule: str
    reason: str
    is_certain: bool = True


# Whose devices an image is for: asked of every image, so it loads no rules of choosing.


def image_vendor(triple: str, arch: str) -> str:
    """Return whose devices an image is for: nvidia, amd or intel, which stands for all that SYCL compiles for."""
    if is_nvptx(triple) or parse_nvidia(arch.partition(",")[0]) is not None:
        return "nvidia"
    if is_amdgpu(triple) or arch.startswith(("gfx", HIP_SPIRV)) or "amd-amdhsa" in triple:
        return "amd"
    return "intel"
