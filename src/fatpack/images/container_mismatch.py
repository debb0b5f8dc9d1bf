"""Whether an image's own claims contradict what a container stored about it.

Containers are made of what a command line said; nobody compares it with the image. Silence is the rule: an empty
or ``generic`` label, an unknown name, or an image that claims nothing contradicts nothing.
"""

from __future__ import annotations

from fatpack.findings import finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.images.identification import ImageInfo
    from fatpack.model import Finding, Image, Target

#: first part of a triple → (family, pointer size; 0 unknown). ``amdgpu`` and what follows it is LLVM 23's ``amdgcn``.
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

#: An image made ahead of time for a CPU through SYCL may be the machine's own object, or SPIR-V still.
_ALSO = {"spir64_x86_64": ("x86", "spirv")}

#: form → how a sentence calls it, where the word itself will not do
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
    """Return a sentence when the image is for another kind of machine than the stored triple names, else ""."""
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
    """Return a sentence when the image is for another processor than the stored arch names, else "".

    ``triple`` is the stored one: LLVM 23 may keep the processor there (``amdgpu9.0a-amd-amdhsa``). Several archs in
    one string, as LLVM's packager joins them, are a choice: one that fits is enough.
    """
    claimed = recognised.arch
    if not claimed:
        return ""
    choices = [arch for arch in (stored or _arch_of_triple(triple)).split(",") if arch]
    if not choices or any(_fits(arch, recognised) for arch in choices):
        return ""
    return f"stored for {','.join(choices)}, but the image is {_named(recognised)} for {claimed}"


def image_words(recognised: ImageInfo) -> str:
    """Return what an image is and what it is for, for sentences: ``a cubin for sm_90a``."""
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
    """Return the processor that LLVM 23 writes into a triple: gfx90a of ``amdgpu9.0a-amd-amdhsa``; "" for families."""
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
    # Before LLVM 12 features followed a plus sign: gfx906+xnack.
    return processor.partition("+")[0] == claimed_processor and all(
        signs.get(feature[:-1], feature[-1:]) == feature[-1:] for feature in features
    )


def _nvidia(arch: str) -> tuple[int, str] | None:
    """Return (number, variant) of ``sm_90a``; None for what is not of that kind."""
    number = arch.partition("_")[2]
    variant = number[-1:] if number[-1:] in ("a", "f") else ""
    digits = number.removesuffix(variant)
    return (int(digits), variant) if digits.isascii() and digits.isdigit() and len(digits) < 6 else None


def _fits_cubin(stored: tuple[int, str] | None, claimed: tuple[int, str] | None) -> bool:
    """Return whether number and ``a`` agree; no field of a cubin records ``f``, so that this is not compared."""
    if stored is None or claimed is None:
        return True
    return stored[0] == claimed[0] and (stored[1] == "a") == (claimed[1] == "a")


def _fits_ptx(stored: tuple[int, str] | None, claimed: tuple[int, str] | None) -> bool:
    """Return whether devices of the stored arch can use the text: it may be for a lower one, but not a higher.

    Of the same number it must not be for a variant that was not stored.
    """
    if stored is None or claimed is None:
        return True
    return claimed[0] < stored[0] or (claimed[0] == stored[0] and claimed[1] in ("", stored[1]))


#: stored form → forms of bytes that agree with it. An object may be any ELF; what is not listed must be equal.
_AGREEING = {
    "object": {"object", "cubin", "code-object", "archive", "bitcode", "spirv", "offload-binary"},
    "ptx": {"ptx"},
    # QUIRK(DPC++ before LLVM took 6 for SPIR-V): 6 was SYCLBIN.
    "spirv": {"spirv", "syclbin"},
    "": None,
}


#: forms whose bytes start with a magic, or a directive: what lacks it is something else, or damaged
_WITH_MAGIC = {"bitcode", "code-object", "cubin", "fatbin", "ptx", "spirv"}


#: what is stored and claimed → the contradictions. A library has thousands of images for a dozen targets.
_KNOWN: dict[tuple[str, ...], tuple[tuple[str, str], ...]] = {}
_MOST_KNOWN = 1000


def mismatch_findings(image: Image, recognised: ImageInfo, siblings: Sequence[Image] = ()) -> Iterator[Finding]:
    """Yield a finding for everything in which the bytes of an image contradict what is stored about it.

    ``siblings`` are the images of its container.
    """
    target = image.target
    labels = (image.form, target.triple, target.arch, recognised.form, recognised.triple, recognised.arch)
    # A module of CIR names nothing that could contradict its labels here; a container may have very many.
    problems = () if image.form == recognised.form == "cir" else _KNOWN.get(labels)
    if problems is None:
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        problems = _KNOWN[labels] = tuple(_of_labels(image.form, target, recognised))
    for code, problem in problems:
        if code != "FP1102" or not _is_made_of_tile_ir(image, recognised, siblings):
            yield finding(code, image.span, problem)
    if recognised.size is not None and recognised.size > image.size:
        yield finding(
            "FP1104",
            image.span,
            f"its headers describe {recognised.size} bytes, and {image.size} are there",
            "cut short?",
        )


def _is_made_of_tile_ir(image: Image, recognised: ImageInfo, siblings: Sequence[Image]) -> bool:
    """Return whether a cubin for a variant ``a`` that was not stored lies beside the Tile IR it was made of.

    QUIRK(nvcc 13.5, --enable-tile): tileiras compiles for sm_100a, and nvcc stores that for the sm_100 it was told.
    """
    stored, claimed = _nvidia(image.target.arch), _nvidia(recognised.arch)
    return (
        recognised.form == "cubin"
        and stored is not None
        and claimed == (stored[0], "a")
        and any(item.form == "tileir" and item.target.arch == image.target.arch for item in siblings)
    )


def _of_labels(stored: str, target: Target, recognised: ImageInfo) -> Iterator[tuple[str, str]]:
    """Yield code and sentence of every contradiction between what is stored and what the image claims to be."""
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
