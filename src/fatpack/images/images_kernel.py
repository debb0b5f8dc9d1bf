"""What a kernel needs of the device that runs it: one model for the images of all vendors.

========================  =========================================  ===========================================
field                     cubin, PTX                                 code object, by the keys of its metadata
========================  =========================================  ===========================================
``registers``             registers of a thread                      ``.vgpr_count``: vector registers; where
                                                                     accumulators share their file, with them
``sgprs``, ``agprs``                                                 ``.sgpr_count``, ``.agpr_count``
``vgpr_spills``,                                                     ``.vgpr_spill_count``, ``.sgpr_spill_count``:
``sgpr_spills``                                                      stores the register allocator had to add
``shared``                static shared memory, with what the        ``.group_segment_fixed_size``: LDS
                          system reserves of it (1 kB since sm_90)
``local``                 stack and local memory of a thread         ``.private_segment_fixed_size``: scratch
``has_dynamic_stack``     recursion: ``local`` is not known          ``.uses_dynamic_stack``: ``local`` is a least
``params``                parameters of the kernel                   ``.kernarg_segment_size``, hidden ones too
``constants``             (bank, size) of its constant banks
``max_threads``           ``.maxntid``, as a product                 ``.max_flat_workgroup_size``
``required_threads``      ``.reqntid``                               ``.reqd_workgroup_size``
``min_blocks``            ``.minnctapersm`` (in PTX only)
``cluster``               ``.reqnctapercluster``                     ``.cluster_dims``
``wavefront``                                                        ``.wavefront_size``
``barriers``              barriers of a block
``size``                  its machine code                           the same
========================  =========================================  ===========================================

Memory is in bytes: shared memory of a block (work-group), local memory of a thread (work-item).
"""

from __future__ import annotations

from fatpack import limits
from fatpack.errors import LimitExceeded, pluralize
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.io.source import View


class KernelNeeds(Record):
    """A kernel by its stored (mangled) name, and what is known of it; None for what is not.

    The module's docstring says what each field is to the vendors.
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


class KernelInfo(Record):
    """All that an image says of itself beyond what it is for: its kernels in stored order, and the tools that made it.

    ``contradictions`` are sentences about parts of the image that do not agree.
    """

    kernels: tuple[KernelNeeds, ...] = ()
    made_by: tuple[str, ...] = ()
    contradictions: tuple[str, ...] = ()


def check_count(view: View, count: int) -> None:
    """Raise LimitExceeded when an image has more kernels, or functions, than are described."""
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
    """Return how a sentence about the first of some kernels counts the others; "" for one."""
    return f"(and {len(names) - 1} more like it) " if len(names) > 1 else ""
