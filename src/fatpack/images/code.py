"""Digests of what a kernel does, by which two builds of it are told apart: what goes in, and how it is put together.

=============  =====================================================================================================
form           what the digest of a kernel covers
=============  =====================================================================================================
cubin          the machine code of its section, its constant banks but the one of parameters, the relocations of both
               with the names of their symbols, and the same of each function that it is known to call
code-object    the machine code of its symbol, its descriptor without the place of the code, relocations in it, and all
               code of the section that is no kernel's
ptx            its header and body without comments, strings, blanks and directives of lines, numbered labels and
               depots without the number of the function; and the same of each function of the text that it calls
variables      of an image, not of a kernel: the names and initial values of variables that functions share. Sections
               ``.nv.global.init`` and ``.nv.constant*`` of no function; what is loaded of a code object beside code and
               descriptors; the text of PTX outside of functions
any of these   what :class:`~fatpack.images.kernel.Kernel` says that it needs: registers, memory, bounds, parameters
=============  =====================================================================================================

Not covered: lines, names of source files and times of them (``-lineinfo``), notes of tools, the order of kernels.
Names that compilers make of a unit's path or contents go in without that part (:func:`without_unit`). Code objects that
were linked hold distances to data in their code: there a kernel counts as changed too when the data of its neighbours
moved. SPIR-V, LLVM bitcode, LTO-IR and Tile IR have no digests.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fatpack.images.kernel import Kernel

#: what nvcc makes of a unit: _GLOBAL__N__b37fe2fa_4_k_cu_2f1254c8, a process behind it before CUDA 11.5; in mangled
#: names its length is in front
_NVCC_UNIT = re.compile(
    r"(?<!\d)\d*(_GLOBAL__N_|_INTERNAL)_[0-9a-f]{8}_(\d{1,9}_\w{1,512}?)_[0-9a-f]{8}(?:_\d{1,9})?(?=_|\d|[A-Z]|\b)"
)

#: what clang puts behind the name of a kernel or variable that other units do not see
_CLANG_UNIT = re.compile(r"(\.|__)(static|intern|anon)(\.|__)[0-9a-f]{16,}$")

#: fields of a kernel that its digest covers: all but its name, and its size, which is that of the code
_NEEDS = tuple(
    "registers sgprs agprs vgpr_spills sgpr_spills shared local has_dynamic_stack params constants max_threads "
    "required_threads min_blocks cluster wavefront barriers".split()
)

#: LIMIT: steps from kernels to the functions that they call, for each function and call of an image. With more, all
#: functions count for every kernel.
_STEPS = 16


def without_unit(name: str) -> str:
    """Return a mangled name without what a compiler made of the path or contents of its unit."""
    if "_GLOBAL__N_" in name or "_INTERNAL" in name:
        name = _NVCC_UNIT.sub(r"\1_\2", name)
    return _CLANG_UNIT.sub(r"\1\2", name)


def digest(parts: Iterable[bytes | memoryview]) -> bytes:
    """Return the SHA-256 of parts, each with its size before it: no two lists of parts have the same bytes."""
    from hashlib import sha256

    made = sha256()
    for part in parts:
        made.update(b"%d:" % len(part))
        made.update(part)
    return made.digest()


def with_calls(
    own: Mapping[str, bytes], calls: Mapping[str, Sequence[str]], kernels: Iterable[str]
) -> dict[str, bytes]:
    """Return the digest of each kernel that has one of its own, with those of all functions that it leads to.

    ``calls`` are names of functions by that of their caller; functions without a digest count by their names.
    """
    made: dict[str, bytes] = {}
    left = _STEPS * (len(own) + sum(map(len, calls.values()))) + 1000
    everything = b""
    for kernel in kernels:
        if kernel not in own or kernel in made:
            continue
        seen, waiting = {kernel}, [kernel]
        while waiting and left > 0:
            for name in calls.get(waiting.pop(), ()):
                left -= 1
                if name not in seen:
                    seen.add(name)
                    waiting.append(name)
        seen.discard(kernel)
        if left <= 0:
            everything = everything or digest(own[name] for name in sorted(own))
            made[kernel] = digest((own[kernel], everything))
        elif seen:
            named = sorted((without_unit(name), own.get(name, b"")) for name in seen)
            made[kernel] = digest((own[kernel], *(part for name, code in named for part in (name.encode(), code))))
        else:
            made[kernel] = own[kernel]
    return made


def with_needs(code: bytes, kernel: Kernel) -> str:
    """Return the digest of a kernel from that of its code, in hexadecimal."""
    needs = [f"{name}={value}" for name in _NEEDS if (value := getattr(kernel, name)) is not None]
    return digest((code, *(text.encode() for text in needs))).hex()
