"""Contradictions between an image and what its container states about it.

Containers store what a command line stated, and no tool compares that with the image. Reports are conservative: an
empty or ``generic`` label, an unknown name, or an image that states nothing contradicts nothing.
"""

from __future__ import annotations

from fatpack.findings import finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.images.identification import ImageInfo
    from fatpack.model import Finding, Image, Target

#: first part of a triple → (family, pointer size; 0 unknown). ``amdgpu`` with a version is ``amdgcn`` in LLVM 23.
_FAMILIES = {
    "nvptx": ("nvptx", 32),
    "nvptx64": ("nvptx", 64),
    "amdgcn": ("amdgpu", 0),
    "amdgpu": ("amdgpu", 0),
    "spir": ("spirv", 32),
    "spir64": ("spirv", 64),
    "spirv": ("spirv", 0),
    "spirv32": ("spirv", 32),
    "spirv64": ("spirv", 64),
    "spir64_gen": ("spirv", 0),
    "i386": ("x86", 32),
    "i486": ("x86", 32),
    "i586": ("x86", 32),
    "i686": ("x86", 32),
    "x86_64": ("x86", 64),
    "amd64": ("x86", 64),
    "aarch64": ("aarch64", 0),
    "arm64": ("aarch64", 0),
    "arm64ec": ("aarch64", 0),
    "arm64e": ("aarch64", 0),
    "powerpc64": ("powerpc64", 0),
    "ppc64": ("powerpc64", 0),
    "powerpc64le": ("powerpc64le", 0),
    "ppc64le": ("powerpc64le", 0),
    "riscv32": ("riscv", 32),
    "riscv64": ("riscv", 64),
    "s390x": ("s390x", 0),
    "systemz": ("s390x", 0),
    "loongarch64": ("loongarch64", 0),
    "ve": ("ve", 0),
}

#: An image compiled ahead of time for a CPU through SYCL may be an object, or still SPIR-V.
_ALSO = {"spir64_x86_64": ("x86", "spirv")}

#: form → its name in sentences, if that is not the form itself
_NAMES = {
    "cubin": "a cubin",
    "code-object": "a code object",
    "ptx": "PTX",
    "spirv": "SPIR-V",
    "object": "an object",
    "fatbin": "a fat binary",
    "ltoir": "LTO-IR",
    "tileir": "Tile IR",
}

_NVIDIA_PREFIXES = ("sm_", "compute_", "lto_")


def triple_contradiction(stored: str, recognised: ImageInfo) -> str:
    """Return a sentence if the image is for another kind of machine than the stored triple, else ""."""
    claimed = _family(recognised.triple)
    first = stored.partition("-")[0]
    if claimed is None:
        return ""
    if first in _ALSO:
        is_fine = claimed[0] in _ALSO[first]
    else:
        wanted = _family(first)
        is_fine = wanted is None or (
            wanted[0] == claimed[0] and (wanted[1] == claimed[1] or not wanted[1] or not claimed[1])
        )
    if is_fine:
        return ""
    return f"stored for {stored}, but the image is {_named(recognised)} for {recognised.triple}"


def arch_contradiction(stored: str, triple: str, recognised: ImageInfo) -> str:
    """Return a sentence if the image is for another processor than the stored arch, else "".

    ``triple`` is the stored one: LLVM 23 may keep the processor there (``amdgpu9.0a-amd-amdhsa``). Several archs in
    one string, as LLVM's packager joins them, are alternatives: one match is enough.
    """
    claimed = recognised.arch
    if not claimed:
        return ""
    choices = [arch for arch in (stored or _arch_of_triple(triple)).split(",") if arch]
    if not choices or any(_fits(arch, recognised) for arch in choices):
        return ""
    return f"stored for {','.join(choices)}, but the image is {_named(recognised)} for {claimed}"


def image_words(recognised: ImageInfo) -> str:
    """Return form and target of an image for sentences: ``a cubin for sm_90a``."""
    target = recognised.arch or recognised.triple
    return f"{_named(recognised)} for {target}" if target else _named(recognised)


def _named(recognised: ImageInfo) -> str:
    return _NAMES.get(recognised.form, recognised.form)


def _family(triple: str) -> tuple[str, int] | None:
    first = triple.partition("-")[0]
    if first.startswith("amdgpu"):
        first = "amdgpu"
    return _FAMILIES.get(first)


def _arch_of_triple(triple: str) -> str:
    """Return the processor in a triple of LLVM 23: gfx90a for ``amdgpu9.0a-amd-amdhsa``; "" for families."""
    first = triple.partition("-")[0]
    major, _, minor = first.removeprefix("amdgpu").partition(".")
    return f"gfx{major}{minor}" if first.startswith("amdgpu") and len(minor) == 2 else ""


def _fits(stored: str, recognised: ImageInfo) -> bool:
    if stored == "generic":
        return True
    is_nvidia, is_amd = stored.startswith(_NVIDIA_PREFIXES), stored.startswith("gfx")
    if not is_nvidia and not is_amd:
        return True
    if recognised.form == "code-object":
        return is_amd and _fits_amd(stored, recognised.arch)
    if recognised.form == "cubin":
        return is_nvidia and _fits_cubin(_nvidia(stored), _nvidia(recognised.arch))
    if recognised.form == "ptx":
        return is_nvidia and _fits_ptx(_nvidia(stored), _nvidia(recognised.arch))
    return True


def _fits_amd(stored: str, claimed: str) -> bool:
    """Return whether the processors are equal and no feature is on in one and off in the other."""
    processor, *features = stored.split(":")
    claimed_processor, *claimed_features = claimed.split(":")
    signs = {feature[:-1]: feature[-1:] for feature in claimed_features}
    # Before LLVM 12, features followed a plus sign: gfx906+xnack.
    return processor.partition("+")[0] == claimed_processor and all(
        signs.get(feature[:-1], feature[-1:]) == feature[-1:] for feature in features
    )


def _nvidia(arch: str) -> tuple[int, str] | None:
    """Return (number, variant) of ``sm_90a``; None for other names."""
    number = arch.partition("_")[2]
    variant = number[-1:] if number[-1:] in ("a", "f") else ""
    digits = number.removesuffix(variant)
    return (int(digits), variant) if digits.isascii() and digits.isdigit() and len(digits) < 6 else None


def _fits_cubin(stored: tuple[int, str] | None, claimed: tuple[int, str] | None) -> bool:
    """Return whether number and ``a`` agree. ``f`` is not compared, because no field of a cubin records it."""
    if stored is None or claimed is None:
        return True
    return stored[0] == claimed[0] and (stored[1] == "a") == (claimed[1] == "a")


def _fits_ptx(stored: tuple[int, str] | None, claimed: tuple[int, str] | None) -> bool:
    """Return whether devices of the stored arch can use the text, which may be for a lower arch but not for a higher.

    A text for the same number must not be for a variant that the label lacks.
    """
    if stored is None or claimed is None:
        return True
    return claimed[0] < stored[0] or (claimed[0] == stored[0] and claimed[1] in ("", stored[1]))


#: stored form → forms of bytes that agree with it. An object may be any ELF; forms that are not listed must be equal.
_AGREEING = {
    "object": {"object", "cubin", "code-object", "archive", "bitcode", "spirv", "offload-binary"},
    "ptx": {"ptx"},
    # QUIRK(DPC++ before LLVM used 6 for SPIR-V): 6 was SYCLBIN.
    "spirv": {"spirv", "syclbin"},
    "": None,
}


#: forms whose bytes start with a magic or a directive: bytes without it are something else, or damaged
_WITH_MAGIC = {"bitcode", "code-object", "cubin", "fatbin", "ptx", "spirv"}


#: stored and stated values → contradictions. A library has thousands of images for a dozen targets.
_KNOWN: dict[tuple[str, ...], tuple[tuple[str, str], ...]] = {}
_MOST_KNOWN = 1000


def mismatch_findings(image: Image, recognised: ImageInfo, neighbours: Sequence[Image] = ()) -> Iterator[Finding]:
    """Yield a finding for each contradiction between the bytes of an image and its container.

    ``neighbours`` are the other images of its container.
    """
    target = image.target
    labels = (image.form, target.triple, target.arch, recognised.form, recognised.triple, recognised.arch)
    # A module of CIR states nothing that could contradict its labels; a container may have very many.
    problems = () if image.form == recognised.form == "cir" else _KNOWN.get(labels)
    if problems is None:
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        problems = _KNOWN[labels] = tuple(_of_labels(image.form, target, recognised))
    for code, problem in problems:
        if code != "FP1102" or not _is_made_of_tile_ir(image, recognised, neighbours):
            yield finding(code, image.span, problem)
    if recognised.size is not None and recognised.size > image.size:
        yield finding(
            "FP1104",
            image.span,
            f"its headers describe {recognised.size} bytes, and {image.size} are there",
            "cut short?",
        )


def _is_made_of_tile_ir(image: Image, recognised: ImageInfo, neighbours: Sequence[Image]) -> bool:
    """Return whether a cubin for an unlabelled variant ``a`` is beside the Tile IR that it was compiled from.

    QUIRK(nvcc 13.5, --enable-tile): tileiras compiles for sm_100a, and nvcc stores the requested sm_100.
    """
    stored, claimed = _nvidia(image.target.arch), _nvidia(recognised.arch)
    return (
        recognised.form == "cubin"
        and stored is not None
        and claimed == (stored[0], "a")
        and any(item.form == "tileir" and item.target.arch == image.target.arch for item in neighbours)
    )


def _of_labels(stored: str, target: Target, recognised: ImageInfo) -> Iterator[tuple[str, str]]:
    """Yield code and sentence of each contradiction between the label and the image."""
    real = recognised.form
    agreeing = _AGREEING.get(stored, {stored})
    if real and agreeing is not None and real not in agreeing and real != "empty":
        yield "FP1101", f"stored as {stored}, but the bytes are {real}"
    if not real and stored in _WITH_MAGIC:
        yield "FP1105", f"stored as {stored}, but the bytes do not look like it"
    problem = triple_contradiction(target.triple, recognised)
    if problem:
        yield "FP1103", problem
    problem = arch_contradiction(target.arch, target.triple, recognised)
    if problem:
        yield "FP1102", problem
