"""Symbols that the table of an archive lists: what a file defines for others, by name.

Which files have symbols, which of their symbols count and in which order is LLVM's rule, so that our archives equal
those of llvm-ar 22: global and weak symbols that are defined (common ones are), without those that only the format
needs, in the order of the file's own table and with repetitions.

============  ==========================================================================================
``elf``       the section of type SYMTAB, whatever the file is: object, code object, cubin, library
``coff``      symbols of objects, big objects and PE images; the two names of an import object
``bitcode``   the symbol table that LLVM writes behind its modules, else the modules' own records
============  ==========================================================================================

How we know: ``llvm/lib/Object/ArchiveWriter.cpp`` (isArchiveSymbol), ``SymbolicFile.cpp``, ``llvm/lib/BinaryFormat/
Magic.cpp`` and the getSymbolFlags of each format, LLVM 22.1; archives of generated members are compared byte by byte.
"""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.errors import Unsupported
from fatpack.proportion import limit_name_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View

#: The fewest bytes of an ELF file that LLVM takes for one
_ELF_HEAD = 18

#: Files with symbols that are not read here: first bytes → what they are
_UNREAD = (
    (magic_numbers.BIG_MACH_O_32, "Mach-O"),
    (magic_numbers.BIG_MACH_O_64, "Mach-O"),
    (magic_numbers.MACH_O_32, "Mach-O"),
    (magic_numbers.MACH_O_64, "Mach-O"),
    (magic_numbers.WASM, "WebAssembly"),
    (magic_numbers.XCOFF_32, "XCOFF"),
    (magic_numbers.XCOFF_64, "XCOFF"),
    (magic_numbers.GOFF, "GOFF"),
)


def archive_symbols(view: View) -> Iterator[bytes] | None:
    """Return the names of a file's symbols for an archive's table; None for a file that has no symbols by nature.

    Tables are read in blocks, names one by one. Raises FormatError for damaged tables (bitcode that cannot be read
    counts as a file without symbols, as it does for LLVM), Unsupported for formats that are not read here.
    """
    head = view.head(0, 64)
    magic = head[:4]
    if len(magic) < 4:
        return None
    if magic == magic_numbers.ELF:
        from fatpack.binary import symbols_elf

        return symbols_elf.elf_symbols(view) if len(head) >= _ELF_HEAD else None
    if magic in (magic_numbers.BITCODE, magic_numbers.WRAPPED_BITCODE):
        from fatpack.binary.bitcode import symbols

        found = symbols.bitcode_symbols(view)
        return None if found is None else iter(found)
    for start, name in _UNREAD:
        if head.startswith(start):
            raise Unsupported(
                f"the symbols of {name} files are not read", hint="make this archive with llvm-ar", chain=view.chain
            )
    if magic == magic_numbers.DXIL:
        return iter(())  # LLVM lists none, but counts the file as an object
    from fatpack.binary import symbols as binary_symbols

    table = binary_symbols.coff_symbols(view, head)
    return None if table is None else limit_name_size(view, table)
