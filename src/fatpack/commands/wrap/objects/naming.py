"""What sections are called in the objects of each kind of host, as LLVM 22 and 23 name them."""

from __future__ import annotations

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.commands.wrap.host import WrapHost

#: What stands behind the name of the entries' section on COFF hosts, by which linkers sort: the start of all entries,
#: the entries of an object, and their end.
COFF_START, COFF_ENTRIES, COFF_STOP = "$OA", "$OE", "$OZ"

CODE_SECTIONS = ".text.startup"
OFFLOADING, RELOCATABLE_OFFLOADING = ".llvm.offloading", ".llvm.offloading.relocatable"
ENTRY_NAMES = ".llvm.rodata.offloading"


class FatbinNames(Record):
    """The sections of a fat binary and of its wrapper, and the alignment of the former.

    clang aligns bundles to pages where it embeds them itself, so that a runtime can map code objects out of the file.
    """

    image: str
    wrapper: str
    align: int


FATBIN_NAMES = {
    "cuda": FatbinNames(".nv_fatbin", ".nvFatBinSegment", 16),
    "hip": FatbinNames(".hip_fatbin", ".hipFatBinSegment", 4096),
}


def table_section(host: WrapHost) -> str:
    """Return the section of records with pointers that a program does not write."""
    return ".rdata" if host.file == "coff" else ".data.rel.ro"


def run_section(host: WrapHost, priority: int, *, at_end: bool) -> str:
    """Return the section of functions that run at the start or end of a program, by priority: low ones come first.

    MinGW's linkers sort names of ``.ctors`` downwards, and those of ``.CRT$XC`` are sorted as text.
    """
    if host.file == "elf":
        return f".{'fini' if at_end else 'init'}_array.{priority}"
    if host.is_gnu:
        return f".{'dtors' if at_end else 'ctors'}.{65535 - priority:05}"
    return f".CRT$X{'T' if at_end else 'C'}A{priority:05}"
