"""Target triples: parsing, and comparison by meaning instead of text.

A triple is ``architecture-vendor-system-environment``; parts at the end may be missing, and ``unknown`` and an
empty part mean the same (``spir64`` is ``spir64-unknown-unknown``). Some architectures have two names: LLVM 23
calls ``amdgcn`` ``amdgpu``, and may put the instruction set after it: ``amdgpu9.0a-amd-amdhsa`` is a target
whose processor is gfx90a (llvm/lib/TargetParser/Triple.cpp, 2026). Nothing here reads the vocabulary's data.
"""

from __future__ import annotations

from fatpack.record import Record

#: One name per architecture of which containers hold two. LLVM reads each pair as one architecture.
_ARCHITECTURES = {
    "amdgcn": "amdgpu",
    "amd64": "x86_64",
    "arm64": "aarch64",
    "ppc64": "powerpc64",
    "ppc64le": "powerpc64le",
    # Two spellings of AMD's instruction set families, see _GENERICS.
    "amdgpu9.5": "amdgpu9.4",
    "amdgpu10": "amdgpu10.1",
}

#: Family of AMD instruction sets → its generic processor; the same as in data/amd.toml.
_GENERICS = {
    "9": "gfx9-generic",
    "9.4": "gfx9-4-generic",
    "10.1": "gfx10-1-generic",
    "10.3": "gfx10-3-generic",
    "11": "gfx11-generic",
    "11.7": "gfx11-7-generic",
    "12": "gfx12-generic",
    "12.5": "gfx12-5-generic",
    "13": "gfx13-generic",
}


class Triple(Record):
    """The parts of a triple as they are spelled; a part that is missing is "".

    ``environment`` is everything after the third dash.
    """

    architecture: str
    vendor: str = ""
    system: str = ""
    environment: str = ""


def split_triple(text: str) -> Triple:
    """Return the parts of a triple. Any text is accepted: containers have triples that users typed."""
    return Triple(*text.split("-", 3))


def triple_identity(text: str) -> tuple[str, ...]:
    """Return a key that is equal for two triples exactly if they mean the same."""
    parts = ["" if part == "unknown" else part for part in text.split("-")]
    parts[0] = _ARCHITECTURES.get(parts[0], parts[0])
    while parts and not parts[-1]:
        parts.pop()
    return tuple(parts)


def same_triple(first: str, second: str) -> bool:
    """Return whether two triples mean the same, a different instruction set of AMD being a difference."""
    return triple_identity(first) == triple_identity(second)


def is_amdgpu(text: str) -> bool:
    """Return whether a triple is for AMD GPUs, under the old name of the architecture or the new one."""
    architecture = text.partition("-")[0]
    return architecture == "amdgcn" or architecture.startswith("amdgpu")


def is_nvptx(text: str) -> bool:
    """Return whether a triple is for NVIDIA GPUs."""
    return text.partition("-")[0] in ("nvptx64", "nvptx")


def sub_architecture(text: str) -> str:
    """Return the instruction set in a triple for AMD GPUs: ``9.0a`` of ``amdgpu9.0a-amd-amdhsa``, "" if none."""
    architecture = text.partition("-")[0]
    architecture = _ARCHITECTURES.get(architecture, architecture)
    return architecture[len("amdgpu") :] if architecture.startswith("amdgpu") else ""


def triple_processor(text: str) -> str:
    """Return the processor in a triple, "" if there is none.

    A family gives its generic processor (``amdgpu9`` → ``gfx9-generic``); the families 6, 7 and 8 have none and,
    like an instruction set that is no number, give their own name (``amdgpu6``).
    """
    isa = sub_architecture(text)
    if not isa:
        return ""
    if isa in _GENERICS:
        return _GENERICS[isa]
    major, _, rest = isa.partition(".")
    # Minor version and stepping are one hexadecimal digit each: 9.0.10 is written 9.0a.
    if len(rest) == 2 and major.isascii() and major.isdigit() and rest.isascii() and rest.isalnum():
        return f"gfx{major}{rest}"
    return f"amdgpu{isa}"


def _isa_of(processor: str) -> str:
    """Return the text after ``amdgpu`` in a triple for a processor: the inverse of :func:`triple_processor`.

    "" for a processor that is not from AMD.
    """
    for isa, generic in _GENERICS.items():
        if processor == generic:
            return isa
    digits = processor.removeprefix("gfx")
    if digits != processor and len(digits) > 2 and digits.isascii() and digits[:-2].isdigit() and digits.isalnum():
        return f"{digits[:-2]}.{digits[-2:]}"
    return processor[len("amdgpu") :] if processor.startswith("amdgpu") else ""


def as_llvm22(triple: str, arch: str) -> tuple[str, str]:
    """Return the triple and arch string of a target for AMD GPUs as LLVM 22 writes them, others as they are.

    ``amdgpu9.0a-amd-amdhsa`` without an arch string is ``amdgcn-amd-amdhsa`` with ``gfx90a``. A processor in the arch
    string overrides the one in the triple. Targets of both spellings are equal in this form. It is for comparison only:
    containers keep their spelling.
    """
    if not is_amdgpu(triple):
        return triple, arch
    processor, colon, features = arch.partition(":")
    if processor in ("", "generic"):
        processor = triple_processor(triple) or processor
    return f"amdgcn{triple[len(triple.partition('-')[0]) :]}", f"{processor}{colon}{features}"


def triple_spellings(triple: str, arch: str) -> tuple[str, ...]:
    """Return the ways to spell the triple of a target, the given one first.

    For AMD GPUs these are the old name of the architecture, the new one, and the new one with the processor in it.
    """
    if not is_amdgpu(triple):
        return (triple,)
    old, arch = as_llvm22(triple, arch)
    rest = old.removeprefix("amdgcn")
    isa = _isa_of(arch.partition(":")[0])
    return tuple(dict.fromkeys((triple, old, f"amdgpu{rest}", f"amdgpu{isa}{rest}")))


def without_sub_architecture(text: str) -> str:
    """Return the triple with AMD's instruction set taken out: the rest is equal for compatible triples."""
    isa = sub_architecture(text)
    return f"amdgpu{text[text.find('-') :] if '-' in text else ''}" if isa else text
