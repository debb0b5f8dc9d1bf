"""What a cubin says of itself that fatbinary copies into its entry."""

from __future__ import annotations

from fatpack.binary.elf.quick_header import CUDA, read_quick_header
from fatpack.errors import UsageError
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View

#: EI_OSABI of cubins since CUDA 12.8 (for SM 100 and later) and 13.0 (for all)
_NEW_OSABI = 0x41

#: bit of ``e_flags`` in the new ABI: the code can be finalized for other SMs
_FINALIZABLE = 2

#: sh_type of ``.nv.compat``: SHT_LOPROC + 0x86
_COMPAT = 0x70000086

#: LIMIT: bytes of ``.nv.compat``; real ones have 16 to 48.
_COMPAT_SIZE = 1 << 16


class CubinFacts(Record):
    """Facts of a cubin: SM number, word size, EI_VERSION and EI_ABIVERSION, whether it can be finalized.

    ``compat`` is the content of ``.nv.compat``, which is copied if it can.
    """

    sm: int
    bits: int
    elf_version: int
    abi_version: int
    is_finalizable: bool
    compat: bytes


def read_cubin_facts(view: View) -> CubinFacts:
    """Return the facts of a cubin. Raises UsageError for anything else."""
    head = view.head(0, 64)
    elf = read_quick_header(view, head)
    if elf is None or elf.machine != CUDA:
        raise UsageError("this is no cubin", hint="other images need another form", chain=view.chain)
    is_new = elf.osabi == _NEW_OSABI
    is_finalizable = is_new and bool(elf.flags & _FINALIZABLE)
    compat = b""
    for _, at, size in elf.extent((_COMPAT,))[1] if is_finalizable else ():
        if size > _COMPAT_SIZE:
            raise UsageError(f"the section .nv.compat has {size} bytes", chain=view.chain)
        compat = view.read(at, size)
        break
    sm = elf.flags >> 8 & 0xFFFF if is_new else elf.flags & 0xFF
    return CubinFacts(sm, elf.shape.bits, head[6], head[8], is_finalizable, compat)
