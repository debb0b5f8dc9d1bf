"""Code objects: ELF for AMD GPUs, by LLVM. The header's flags state the target.

LLVM AMDGPUUsage, "ELF Code Object"; :mod:`fatpack.targets.amdgpu_flags` reads the flags.

Code object v2 has the processor in a note, which is not read: ROCm 3 was the last to use it.
"""

from __future__ import annotations

from fatpack.binary.elf.layout import DYNSYM, SYMTAB
from fatpack.binary.elf.quick_header import QuickHeader, decode_name, decode_names
from fatpack.binary.elf.symbols import ElfSymbolTable
from fatpack.images.identification import ImageInfo
from fatpack.targets.amdgpu_flags import flagged_target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View

#: st_info types: a kernel's descriptor is an object; v2 has a type for kernels
_OBJECT, _HSA_KERNEL = 1, 10

#: 1 for each st_info with one of these types, for any binding; and for each with the second
_INFOS = bytes(info & 15 in (_OBJECT, _HSA_KERNEL) for info in range(256))
_V2_INFOS = frozenset(info for info in range(256) if info & 15 == _HSA_KERNEL)


#: header fields → (arch, triple, detail): a library has thousands of code objects with a dozen different headers
_CLAIMS: dict[tuple[int, ...], tuple[str, str, str]] = {}
_MOST_CLAIMS = 1000


def identify_elf(elf: QuickHeader) -> ImageInfo:
    """Identify a code object by its header."""
    fields = (elf.flags, elf.osabi, elf.abi_version, elf.type, elf.shape.bits)
    if fields not in _CLAIMS:
        if len(_CLAIMS) >= _MOST_CLAIMS:
            _CLAIMS.clear()
        _CLAIMS[fields] = _claim(elf)
    arch, triple, detail = _CLAIMS[fields]
    return ImageInfo("code-object", arch, triple, elf.extent()[0], detail)


def _claim(elf: QuickHeader) -> tuple[str, str, str]:
    """Return architecture, triple and detail of a code object."""
    arch, triple, version = flagged_target(elf.flags, elf.osabi, elf.abi_version)
    detail = elf.describe() + (f", code object v{version}" if version else "")
    if not arch and version != 2:
        detail += f", processor number {elf.flags & 0xFF:#x}"
    return arch, triple, detail


def kernels(view: View) -> tuple[str, ...]:
    """Return the names of the kernels, from the names of their descriptors: ``NAME.kd``.

    Dynamic symbols are preferred: the runtime uses them, and there are few. Raises FormatError if the table is damaged.
    """
    symbols = ElfSymbolTable(view, (DYNSYM, SYMTAB))
    starts, infos = symbols.defined(_INFOS)
    names = symbols.names(starts)
    if not _V2_INFOS.isdisjoint(infos):
        found = [
            name if info in _V2_INFOS else name[:-3]
            for name, info in zip(names, infos, strict=True)
            if name[-3:] == b".kd" or info in _V2_INFOS
        ]
        return tuple(dict.fromkeys(decode_names(found)))
    # One split finds the descriptors and removes their suffix; other names stay in front of them.
    parts = decode_name(b"\0".join([*names, b""])).split(".kd\0")[:-1]
    if len(parts) != len(names):
        parts = [part.rpartition("\0")[2] for part in parts]
    return tuple(dict.fromkeys(parts))
