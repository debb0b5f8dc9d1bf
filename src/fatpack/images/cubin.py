"""Cubins: ELF for NVIDIA GPUs, by ptxas and nvlink. The format is not documented; all facts are measured.

========================  ===========================================  =======================================
field                     old ABI (EI_OSABI 0x33, EI_ABIVERSION 7)     new ABI (0x41, 8)
========================  ===========================================  =======================================
written for               every SM up to CUDA 11, SM < 100 in 12.x     SM >= 100 in 12.8, every SM in 13.x
SM number                 ``e_flags`` & 0xff                           ``e_flags`` >> 8 & 0xffff
``a`` (sm_90a)            ``e_flags`` & 0x800                          ``e_flags`` & 8 (12.x), else section
                                                                       ``.nv.compat``, attribute 9 is 1 (13.x)
``f`` (sm_100f)                                                        the options in a note of type 2000
toolkit                   ``e_version``, 10 * major + minor            note of type 1000 (13.x)
========================  ===========================================  =======================================

Sources: cubins of ptxas 11.2, 11.8, 12.4, 12.9 and 13.0, with one option varied at a time; cuobjdump's names for
extracted images agree on the number and on ``a``. LLVM 22's ``ELF.h`` has the flags of the old ABI. No field records
the family variant: sm_100f differs from sm_100 only in the command line that ptxas 13 leaves in its note, and a cubin
without that note states sm_100.
"""

from __future__ import annotations

from fatpack.binary.elf.layout import NOTE_SECTION, SYMTAB
from fatpack.binary.elf.quick_header import QuickHeader, decode_names
from fatpack.binary.elf.symbols import ElfSymbolTable
from fatpack.images.identification import ImageInfo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View

_OLD_OSABI = 0x33

#: the first SMs with a variant ``a``, and with ``f``
_FIRST_ACCELERATED, _FIRST_FAMILY = 90, 100

#: ptxas writes notes and ``.nv.compat`` before the code. These first bytes were read with the header; using them saves
#: two reads of a small cubin.
_FRONT = 4000

#: sh_type of ``.nv.compat``: SHT_LOPROC + 0x86
_COMPAT = 0x70000086

#: ``.nv.compat``: the attribute that is 1 in code for exactly one SM, else 0
_ACCELERATOR = 9

#: LIMIT: bytes of ``.nv.compat`` that are read; it has 16 to 48.
_COMPAT_SIZE = 256

#: The whole of ``.note.nv.cuinfo``: u32 12, 8, 1000, "NVIDIA Corp\0", u16 2, u16 virtual SM, u32 10 * toolkit
_INFO_SIZE = 32
_INFO_START = b"\x0c\0\0\0\x08\0\0\0\xe8\x03\0\0NVIDIA Corp\0\x02\0"

#: Start of a tool's note after the size of its descriptor: u32 2000, "NVIDIA Corp\0"; the last string of the note has
#: the tool's options.
_TOOL_START = b"\xd0\x07\0\0NVIDIA Corp\0"

#: LIMIT: bytes of such a note that are read; a command line may be long.
TOOL_SIZE = 64 << 10

#: LIMIT: notes that are read; linked cubins have one set per toolkit that made a part.
_NOTES = 8

#: st_info type and st_other bit of a kernel; a device function lacks the bit
FUNC, ENTRY = 2, 0x10

#: 1 for each st_info of a function, and for each st_other of a kernel
_FUNCTIONS = bytes(info & 15 == FUNC for info in range(256))
_ENTRIES = bytes(other & ENTRY != 0 for other in range(256))


def identify_elf(elf: QuickHeader) -> ImageInfo:
    """Identify a cubin."""
    is_old = elf.osabi == _OLD_OSABI
    front = b"" if is_old else elf.view.head(0, _FRONT)
    size, sections = elf.extent(() if is_old else (_COMPAT, NOTE_SECTION))
    if is_old:
        number = elf.flags & 0xFF
        # QUIRK(ptxas 8): the bit is set for sm_60 and sm_61, with another meaning.
        is_accelerated = bool(elf.flags & 0x800) and number >= _FIRST_ACCELERATED
        is_family = False
        toolkit = elf.version if elf.version > 10 else 0
    else:
        number = elf.flags >> 8 & 0xFFFF
        is_accelerated = bool(elf.flags & 8) or _is_accelerated(elf.view, front, sections)
        is_family = not is_accelerated and number >= _FIRST_FAMILY and _is_family(elf.view, front, sections, number)
        toolkit = _toolkit(elf.view, front, sections)
    detail = f"{elf.describe()}, {f'CUDA {toolkit // 10}.{toolkit % 10}, ' if toolkit else ''}ABI {elf.abi_version}"
    return ImageInfo(
        "cubin",
        f"sm_{number}{'a' if is_accelerated else 'f' if is_family else ''}" if number else "",
        "nvptx64-nvidia-cuda" if elf.shape.bits == 64 else "nvptx-nvidia-cuda",
        size,
        detail,
    )


def _peek(view: View, front: bytes, offset: int, size: int) -> bytes:
    """Return bytes of a section, from ``front`` if it has them."""
    return front[offset : offset + size] if offset + size <= len(front) else view.head(offset, size)


def _is_accelerated(view: View, front: bytes, sections: list[tuple[int, int, int]]) -> bool:
    """Return whether ``.nv.compat`` states that the code runs on one SM only.

    Its records are u8 format, u8 attribute and a value: a u16 size and that many bytes in format 4, two bytes in all
    others.
    """
    for kind, offset, size in sections:
        if kind != _COMPAT:
            continue
        records = _peek(view, front, offset, min(size, _COMPAT_SIZE))
        at = 0
        while at + 4 <= len(records):
            if records[at + 1] == _ACCELERATOR and records[at] != 4:
                return records[at + 2] == 1
            at += 4 + (int.from_bytes(records[at + 2 : at + 4], "little") if records[at] == 4 else 0)
        break
    return False


def _is_family(view: View, front: bytes, sections: list[tuple[int, int, int]], number: int) -> bool:
    """Return whether a tool's options request the family of an SM: ``-arch sm_100f``."""
    name = b"sm_%df" % number
    notes = [(offset, size) for kind, offset, size in sections if kind == NOTE_SECTION and size > _INFO_SIZE]
    for offset, size in notes[:_NOTES]:
        note = _peek(view, front, offset, min(size, TOOL_SIZE))
        options = note.rstrip(b"\0").rpartition(b"\0")[2].replace(b"=", b" ").split()
        if note.startswith(_TOOL_START, 8) and name in options:
            return True
    return False


def _toolkit(view: View, front: bytes, sections: list[tuple[int, int, int]]) -> int:
    """Return ten times the toolkit's version from the notes; 0 if they do not state it."""
    notes = [(offset, size) for kind, offset, size in sections if kind == NOTE_SECTION and size == _INFO_SIZE]
    for offset, size in notes[:_NOTES]:
        note = _peek(view, front, offset, size)
        if note.startswith(_INFO_START) and len(note) == _INFO_SIZE:
            return int.from_bytes(note[28:], "little")
    return 0


def code_sizes(view: View) -> dict[str, int | None]:
    """Return the size of each kernel's code, by its name. Raises FormatError if the symbol table is damaged."""
    symbols = ElfSymbolTable(view, (SYMTAB,))
    found = symbols.sizes(_FUNCTIONS, _ENTRIES)
    sizes: dict[str, int | None] = {}
    for name, (_, size) in zip(decode_names(symbols.names([at for at, _ in found])), found, strict=True):
        sizes.setdefault(name, size)
    return sizes


def kernels(view: View) -> tuple[str, ...]:
    """Return the names of the kernels. Raises FormatError if the symbol table is damaged."""
    symbols = ElfSymbolTable(view, (SYMTAB,))
    starts, _ = symbols.defined(_FUNCTIONS, _ENTRIES)
    return tuple(dict.fromkeys(decode_names(symbols.names(starts))))
