"""Names of sections without device code: those of compilers, linkers and debuggers.

All other sections of a host are searched for containers, since a producer may use a name of its own: cuBLASLt has a
tenth of its fat binaries in ``.cask_resource``. Device code in a known section is still found if records point to it,
or by searching the whole file.

The names are those of the gABI and of GNU's, LLVM's and Microsoft's compilers and linkers (``bfd/elf.c`` of binutils
2.40; ``llvm/lib/MC/MCObjectFileInfo.cpp`` and ``lld/COFF/Writer.cpp`` of LLVM 22.1), and what NVIDIA's libraries for
Linux were seen to have.
"""

from __future__ import annotations

from fatpack.errors import UsageError
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


#: Code and data of the host, which may contain anything: names up to their second dot, dollar or minus, ``.text`` for
#: ``.text.main`` and ``.text$mn``.
_OPEN = frozenset(
    ".text .ltext .init .fini .data .ldata .rodata .rdata .lrodata .sdata .srodata .tdata .data1 .rodata1".split()
)

#: Those of them that are data which a program reads: libraries embed device code there.
_DATA = frozenset(".data .ldata .rodata .rdata .lrodata .sdata .srodata .data1 .rodata1".split())

#: Sections with a format of their own, which cannot contain containers.
_FORMED = frozenset(
    # start and end of programs
    ".plt .stub .tbss .bss .lbss .sbss .init_array .fini_array .preinit_array .ctors .dtors .jcr .tm_clone_table .got"
    " .opd .toc .branch_lt .iplt .igot .relro_padding"
    # symbols, names, relocations, versions
    " .symtab .symtab_shndx .strtab .shstrtab .dynsym .dynstr .dynamic .hash .rel .rela .relr .crel .interp .group"
    " .note .comment .gnu .gnu_debuglink .gnu_debugaltlink .gnu_debugdata .gnu_extab .gnu_incremental_inputs"
    # unwinding, exceptions, probes
    " .eh_frame .eh_frame_hdr .eh_frame_entry .gcc_except_table .exception_ranges .ARM .riscv .MIPS .PPC .sframe"
    " .stapsdt __patchable_function_entries __mcount_loc .kcfi_traps"
    # debugging; intermediate code of the host, with or without a second copy of device code
    " .debug .zdebug .stab .stabstr .line .gdb_index .mdebug .pdr .gptab .reginfo .llvm .llvmbc .llvmcmd .gnu_lto"
    # Windows
    " .pdata .xdata .idata .edata .didat .reloc .tls .CRT .drectve .cormeta .sxdata .gfids .giats .gljmp .gehcont"
    " .00cfg .voltbl .retplne .fptable _RDATA .msvcjmc .hexpthk .chks64 .buildid .eh_fram .gcc_exc"
    # nvcc's sections for the host compiler
    " .nvHRCE .nvHRCI .nvHRDE .nvHRDI .nvHRKE .nvHRKI".split()
)

#: Prefixes without a dot: debug information, sanitizers and coverage have many sections each.
_BEGINNINGS = (
    ".debug_",
    ".zdebug_",
    ".llvm_",
    ".SUNW_",
    "__llvm_",
    "__sancov_",
    "asan_",
    "__asan_",
    "__sanitizer_",
    "__xray_",
    "xray_",
)

_KNOWN = _OPEN | _FORMED

_BREAKS = ".$-"


def is_known_section(name: str) -> bool:
    """Return whether a section of this name is a known one without device code."""
    return section_name_stem(name) in _KNOWN or name.startswith(_BEGINNINGS)


def may_hold_anything(stem: str) -> bool:
    """Return whether sections with this stem are code and data of the host, which may contain anything."""
    return stem in _OPEN


def is_host_data_section(stem: str) -> bool:
    """Return whether sections with this stem are data of the host, in which libraries embed device code."""
    return stem in _DATA


def section_name_stem(name: str) -> str:
    """Return a name up to its second dot, dollar or minus, which sections of many functions have in common."""
    ends = [at for mark in _BREAKS if (at := name.find(mark, 1)) > 0]
    return name[: min(ends)] if ends else name


class SectionSplit(Record):
    """The sections of a host: ranges of the unknown ones (``searched``), and a summary of the known ones.

    ``skipped``: number and size, by stem, of the known sections that may contain anything. ``data``: the ranges of
    the known sections that are data, by stem; ``code``: the ranges of the others.
    """

    searched: Sequence[tuple[int, int]]
    skipped: Mapping[str, tuple[int, int]]
    data: Mapping[str, Sequence[tuple[int, int]]]
    code: Sequence[tuple[int, int]] = ()


def split_sections(rows: Iterable[tuple[int, int, str, int]]) -> SectionSplit:
    """Split sections that are given as (start, end, name, number)."""
    return split_by_stem((start, end, stem := known_stem(name), stem) for start, end, name, _ in rows)


def known_stem(name: str) -> str:
    """Return the stem of a known section's name, "" for any other section."""
    return section_name_stem(name) if is_known_section(name) else ""


def split_by_stem(rows: Iterable[tuple[int, int, str, str]]) -> SectionSplit:
    """Split sections that are given as (start, end, stem, title); the stem of an unknown section is ""."""
    searched: list[tuple[int, int]] = []
    skipped: dict[str, tuple[int, int]] = {}
    data: dict[str, list[tuple[int, int]]] = {}
    code: list[tuple[int, int]] = []
    for start, end, stem, title in rows:
        if not stem:
            searched.append((start, end))
        elif may_hold_anything(stem):
            count, size = skipped.get(title, (0, 0))
            skipped[title] = count + 1, size + end - start
            if is_host_data_section(stem):
                data.setdefault(title, []).append((start, end))
            else:
                code.append((start, end))
    return SectionSplit(searched, skipped, data, code)


# Names of sections as stored in objects


def encode_section_name(name: str) -> bytes:
    """Return a name in UTF-8, with surrogates as their bytes. Raises UsageError for a name that no section can have."""
    try:
        stored = name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        stored = b""
    if not stored or b"\0" in stored:
        raise UsageError(f"{name!r} cannot be the name of a section", hint="give a name in UTF-8 without NUL")
    return stored
