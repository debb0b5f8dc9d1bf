"""What kernels and architectures are called in an overview: names by which many belong together."""

from __future__ import annotations

#: Letters in front of a nested name that belong to no identifier: const, volatile, restrict, references to this.
_QUALIFIERS = "rVKRO"

#: How compilers begin the name of an anonymous namespace (Itanium C++ ABI: clang and GCC; NVIDIA adds a hash).
_ANONYMOUS = "_GLOBAL__N_"

#: Forms that are machine code for the architecture they name, or that say nothing else.
_NATIVE = ("cubin", "code-object", "elf", "hsaco", "native", "")


#: LIMIT: characters of what an architecture is called; beyond, several count as one.
_LONGEST = 80


def kernel_namespace(name: str) -> str:
    """Return the qualified name that a mangled kernel name begins with, without its template's arguments.

    ``_ZN2at6native3addIfEEvPT_`` gives ``at::native::add``. A name that is mangled in no way we know, or that begins
    with a substitution, is returned as it is. (Itanium C++ ABI, 5.1.2: <encoding>, <nested-name>, <source-name>.)
    """
    if not name.startswith("_Z"):
        return name
    at = 3 if name.startswith("_ZL") else 2
    is_nested = name[at : at + 1] == "N"
    if is_nested:
        at += 1
        while name[at : at + 1] in _QUALIFIERS and at < len(name):
            at += 1
    words: list[str] = []
    if name.startswith("St", at):
        words.append("std")
        at += 2
    while True:
        at += is_nested and name[at : at + 1] == "L"  # of internal linkage, as clang writes it: not in the grammar
        end = at
        while name[end : end + 1].isdecimal() and name[end].isascii() and end - at < 6:
            end += 1
        if end == at:
            break
        length = int(name[at:end])
        word = name[end : end + length]
        if not length or len(word) < length:
            break
        if not word.startswith(_ANONYMOUS):
            words.append(word)
        at = end + length
        if not is_nested:
            break
    return "::".join(words) or name


def arch_label(arch: str | None, form: str | None, triple: str | None, offload: str | None) -> str:
    """Return what the images for one architecture are called: ``sm_90``, ``sm_90 ptx``, ``gfx90a:xnack+``, ``host``."""
    if offload == "host":
        return "host"
    what = form or ""
    if not arch:
        first = (triple or "").partition("-")[0]
        words = " ".join(filter(None, (first if first != what else "", what))) or "unknown"
    else:
        words = arch if what in _NATIVE else f"{arch} {what}"
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]}…"


def arch_family(arch: str | None, form: str | None, triple: str | None, offload: str | None) -> str:
    """Return the family of architectures that a picture has one colour for: ``sm9``, ``gfx11``, ``intel``, ``other``.

    NVIDIA's are those of one major compute capability, AMD's those of one generation.
    """
    arch = arch or ""
    if offload == "host":
        return "host"
    for prefix in ("sm_", "compute_", "lto_"):
        if arch.startswith(prefix):
            digits = _digits(arch[len(prefix) :])
            return f"sm{digits[:-1]}" if 1 < len(digits) < 5 else "other"
    if arch.startswith("gfx"):
        digits = arch[3:].partition(":")[0].partition("-")[0]
        if len(digits) < 3:  # a generic processor: gfx9-generic, gfx9-4-generic, gfx11-generic
            return f"gfx{digits}" if digits.isdecimal() else "other"
        return f"gfx{digits[:-2]}"
    words = f"{triple or ''} {form or ''}"
    if "spir" in words or "intel" in words or arch.startswith(("intel", "pvc", "bmg", "dg2", "xe")):
        return "intel"
    return "other"


def _digits(text: str) -> str:
    end = 0
    while end < len(text) and text[end] in "0123456789":
        end += 1
    return text[:end]
