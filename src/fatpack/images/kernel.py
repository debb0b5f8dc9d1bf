"""Properties of kernels for all vendors, and digests of their behaviour, by which two builds are compared.

=============  =====================================================================================================
form           bytes that the digest of a kernel covers
=============  =====================================================================================================
cubin          the machine code of its section, its constant banks, the relocations of both with the names of their
               symbols, its attributes in ``.nv.info`` (offsets of parameters, bounds, stack, registers) except the
               version of CUDA's API, and the same of each function that it is known to call
code-object    the machine code of its symbol, its descriptor without the offset of the code, relocations in it, all
               code of the section outside kernels, and its metadata without names of parameters and of source
               languages: offset and kind of each parameter, hidden ones too
ptx            its header and body without comments, strings, blanks and directives of lines, numbered labels and
               depots without the number of the function; and the same of each function of the text that it calls
variables      of an image, not of a kernel, the data that all functions share: names, sizes and initial values of
               variables, with their relocations; flags and ABI of the ELF header. Sections ``.nv.global*`` and
               ``.nv.constant*`` of no function; loaded bytes of a code object except code and descriptors, and its
               metadata about the image; the text of PTX outside of functions, with its version and target
any of these   the fields of :class:`~fatpack.images.kernel.KernelNeeds`: registers, memory, bounds, parameters
=============  =====================================================================================================

Not covered: line numbers, names and times of source files (``-lineinfo``), notes of tools, the order of kernels and
sections, and the second form of the code in cubins since sm_100, which contains line numbers. Names that compilers
derive from a unit's path or contents are covered without that part (:func:`strip_unit_suffix`). Linked code objects
contain distances to data in their code: a kernel then also counts as changed if data of other kernels moved. SPIR-V,
LLVM bitcode, LTO-IR and Tile IR have no digests.
"""

from __future__ import annotations

from fatpack import limits
from fatpack.errors import LimitExceeded, pluralize
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fatpack.io.source import View


# Properties of kernels: one model for the images of all vendors.
#
# ========================  =========================================  ===========================================
# field                     cubin, PTX                                 code object, by the keys of its metadata
# ========================  =========================================  ===========================================
# ``registers``             registers of a thread                      ``.vgpr_count``: vector registers; where
#                                                                      accumulators share their file, with them
# ``sgprs``, ``agprs``                                                 ``.sgpr_count``, ``.agpr_count``
# ``vgpr_spills``,                                                     ``.vgpr_spill_count``, ``.sgpr_spill_count``:
# ``sgpr_spills``                                                      stores the register allocator had to add
# ``shared``                static shared memory, with what the        ``.group_segment_fixed_size``: LDS
#                           system reserves of it (1 kB since sm_90)
# ``local``                 stack and local memory of a thread         ``.private_segment_fixed_size``: scratch
# ``has_dynamic_stack``     recursion: ``local`` is not known          ``.uses_dynamic_stack``: ``local`` is a least
# ``params``                parameters of the kernel                   ``.kernarg_segment_size``, hidden ones too
# ``constants``             (bank, size) of its constant banks
# ``max_threads``           ``.maxntid``, as a product                 ``.max_flat_workgroup_size``
# ``required_threads``      ``.reqntid``                               ``.reqd_workgroup_size``
# ``min_blocks``            ``.minnctapersm`` (in PTX only)
# ``cluster``               ``.reqnctapercluster``                     ``.cluster_dims``
# ``wavefront``                                                        ``.wavefront_size``
# ``barriers``              barriers of a block
# ``size``                  its machine code                           the same
# ``body``                  ``returns``, ``traps``, … if the code does nothing else (:mod:`fatpack.images.hollow`)
# ========================  =========================================  ===========================================
#
# Memory is in bytes: shared memory of a block (work-group), local memory of a thread (work-item).


class KernelNeeds(Record):
    """A kernel by its stored (mangled) name, and its properties; None for unknown ones.

    The table above maps each field to the vendors' terms.
    """

    name: str
    registers: int | None = None
    sgprs: int | None = None
    agprs: int | None = None
    vgpr_spills: int | None = None
    sgpr_spills: int | None = None
    shared: int | None = None
    local: int | None = None
    has_dynamic_stack: bool | None = None
    params: int | None = None
    constants: tuple[tuple[int, int], ...] | None = None
    max_threads: int | None = None
    required_threads: tuple[int, ...] | None = None
    min_blocks: int | None = None
    cluster: tuple[int, ...] | None = None
    wavefront: int | None = None
    barriers: int | None = None
    size: int | None = None
    body: str | None = None


class KernelInfo(Record):
    """Everything that an image states about itself except its target: kernels in stored order, and producers.

    ``contradictions`` are sentences about parts of the image that do not agree.
    """

    kernels: tuple[KernelNeeds, ...] = ()
    made_by: tuple[str, ...] = ()
    contradictions: tuple[str, ...] = ()


def check_count(view: View, count: int) -> None:
    """Raise LimitExceeded if an image has more kernels, or functions, than the limit."""
    if count > limits.KERNELS:
        raise LimitExceeded(
            f"more than {pluralize(limits.KERNELS, 'kernel')}",
            format="elf",
            offset=view.offset(0),
            field="symbol table",
            hint=limits.advice("KERNELS"),
            chain=view.chain,
        )


def and_others_words(names: Sequence[str]) -> str:
    """Return words that count the other kernels in a sentence about the first one; "" for one kernel."""
    return f"(and {len(names) - 1} more like it) " if len(names) > 1 else ""


#: nvcc's name of a unit: _GLOBAL__N__b37fe2fa_4_k_cu_2f1254c8, before CUDA 11.5 followed by a process; mangled names
#: have its length in front
_NVCC_UNIT = (
    r"(?<!\d)\d*(_GLOBAL__N_|_INTERNAL)_[0-9a-f]{8}_(\d{1,9}_\w{1,512}?)_[0-9a-f]{8}(?:_\d{1,9})?(?=_|\d|[A-Z]|\b)"
)

#: nvcc's prefix of static names in objects for the device link: __nv_static_43__HASH_17_k_cu_HASH_641_t
_NVCC_STATIC = r"__nv_static_\d{1,5}__[0-9a-f]{8}_(\d{1,9}_\w{1,512}?)_[0-9a-f]{8}(?:_\d{1,9})?(?=_)"

#: nvcc's name of a unit with a symbol instead of the second number: _GLOBAL__N__22fe00ac_4_a_cu_table. Objects for the
#: device link contain it twice: __nv_static_22__22fe00ac_4_a_cu_table__ZN33_GLOBAL__N_…
_NVCC_NAMED = r"(_GLOBAL__N_|_INTERNAL|__nv_static_\d{1,5}_)_[0-9a-f]{8}(?=_\d)"

#: clang's suffix of a kernel or variable with internal linkage
_CLANG_UNIT = r"(\.|__)(static|intern|anon)(\.|__)[0-9a-f]{16,}$"
#: smallest number of digits in it: searching for these first is faster, since names have thousands of bytes
_CLANG_DIGITS = 16

#: ptxas' names of a function's static memory, with a number: $___ZZ3onePfi1PE1s__62, _Z3onePfi1P$229
_PTXAS_LOCAL = r"^(?:(\$___.{1,2048})__|(_Z.{1,2048})\$)\d{1,9}$"

#: clang's symbol in each HIP unit, with a digest of its path
_HIP_UNIT = "__hip_cuid_"

#: fields of a kernel that its digest covers: all except its name, and size and body, which follow from the code
_COVERED = slice(1, -2)
_NEEDS = KernelNeeds._fields[_COVERED]

#: LIMIT: steps from kernels to called functions, per function and call of an image. Beyond it, all functions count for
#: every kernel.
_STEPS = 16


#: larger parts are not copied before they are hashed
_SMALL = 4096

#: LIMIT: names whose stripped form is kept, and characters of one: containers hold a unit's code for each architecture
_MOST_STRIPPED, _LONG = 4096, 2048
_stripped: dict[str, str] = {}

#: size of a small part → how it is stated before the part
_stated: dict[int, bytes] = {}

#: LIMIT: texts of properties that are kept; kernels of one unit mostly need the same
_MOST_NEEDS = 4096
_needs_texts: dict[tuple[object, ...], bytes] = {}


def strip_unit_suffix(name: str) -> str:
    """Return a mangled name without the part that a compiler derived from the path or contents of its unit."""
    if len(name) > _LONG:
        return _strip(name)
    found = _stripped.get(name)
    if found is None:
        if len(_stripped) >= _MOST_STRIPPED:
            _stripped.clear()
        found = _stripped[name] = _strip(name)
    return found


def _strip(name: str) -> str:
    if "_GLOBAL__N_" in name or "_INTERNAL" in name or "__nv_static_" in name:
        if "__nv_static_" in name:
            name = _substitute(_NVCC_STATIC, r"__nv_static_\1", name)
        name = _substitute(_NVCC_NAMED, r"\1", _substitute(_NVCC_UNIT, r"\1_\2", name))
    if name.startswith(_HIP_UNIT):
        return _HIP_UNIT
    if "$" in name:
        name = _substitute(_PTXAS_LOCAL, r"\1\2", name)
    if not name[-_CLANG_DIGITS:].strip("0123456789abcdef"):
        name = _substitute(_CLANG_UNIT, r"\1\2", name)
    return name


def _substitute(expression: str, replacement: str, name: str) -> str:
    import re

    return re.sub(expression, replacement, name)


def header_digest_text(osabi: int, abi_version: int, flags: int) -> bytes:
    """Return the fields of a device ELF's header that determine whether, and how, a driver loads it."""
    return b"abi %d.%d flags %#x" % (osabi, abi_version, flags)


def state_part(part: bytes) -> bytes:
    """Return a part of a digest after its size, as :func:`digest_parts` hashes it."""
    return b"%d:%b" % (len(part), part)


def digest_parts(parts: Iterable[bytes | memoryview]) -> bytes:
    """Return the SHA-256 of parts with their sizes: different lists of parts never have the same bytes."""
    from hashlib import sha256

    made = sha256()
    small: list[bytes | memoryview] = []  # an image has a thousand relocations, of which each is a part
    add, stated = small.append, _stated
    for part in parts:
        size = len(part)
        if size > _SMALL:
            add(b"%d:" % size)
            made.update(b"".join(small))
            made.update(part)
            small.clear()
            continue
        head = stated.get(size)
        if head is None:
            head = stated[size] = b"%d:" % size
        add(head)
        add(part)
    made.update(b"".join(small))
    return made.digest()


def digest_stated(pieces: Iterable[bytes | memoryview]) -> bytes:
    """Return the result of :func:`digest_parts` for parts that come after their sizes already, in any pieces."""
    from hashlib import sha256

    made = sha256()
    small: list[bytes | memoryview] = []
    for piece in pieces:
        if len(piece) > _SMALL:
            made.update(b"".join(small))
            made.update(piece)
            small.clear()
        else:
            small.append(piece)
    made.update(b"".join(small))
    return made.digest()


def digest_with_calls(
    own: Mapping[str, bytes], calls: Mapping[str, Sequence[str]], kernels: Iterable[str]
) -> dict[str, bytes]:
    """Return the digest of each kernel, which covers the digests of all functions that it can reach.

    ``calls``: called functions by the name of the caller; functions without a digest are covered by their names.
    """
    made: dict[str, bytes] = {}
    left = _STEPS * (len(own) + sum(map(len, calls.values()))) + 1000
    everything = b""
    for kernel in kernels:
        if kernel not in own or kernel in made:
            continue
        if left > 0 and not calls.get(kernel):  # most kernels call nothing
            made[kernel] = own[kernel]
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
            everything = everything or digest_parts(own[name] for name in sorted(own))
            made[kernel] = digest_parts((own[kernel], everything))
        elif seen:
            named = sorted((strip_unit_suffix(name), own.get(name, b"")) for name in seen)
            made[kernel] = digest_parts(
                (own[kernel], *(part for name, code in named for part in (name.encode(), code)))
            )
        else:
            made[kernel] = own[kernel]
    return made


def digest_with_needs(code: bytes, kernel: KernelNeeds) -> str:
    """Return the digest of a kernel, in hexadecimal, from the digest of its code and its properties."""
    from hashlib import sha256

    values = kernel._values()[_COVERED]
    texts = _needs_texts.get(values)
    if texts is None:
        if len(_needs_texts) >= _MOST_NEEDS:
            _needs_texts.clear()
        pairs = zip(_NEEDS, values, strict=True)
        stated = [state_part(f"{name}={value}".encode()) for name, value in pairs if value is not None]
        texts = _needs_texts[values] = b"".join(stated)
    return sha256(state_part(code) + texts).hexdigest()
