"""Sections added to and taken out of ELF files exactly as llvm-objcopy 22 does it, for fat objects.

This is not how fatpack edits (``editing.append`` and ``rewrite`` leave every byte in place that need not
move). llvm-objcopy takes a file apart and writes it anew::

    1. sections go, with the relocations that apply to them, their symbols, and groups that held nothing else
    2. local symbols come first; new sections come last, and get their flags
    3. tables of names are built again, from the names still in use
    4. segments keep their places in relation to each other; sections outside of them follow, in the order of their
       old offsets, each aligned; then the section table

What lies in no section and no segment is lost that way: padding, and whatever follows the file.

Sources: ``llvm/lib/ObjCopy/ELF``, LLVM 22.1; the reference tests compare every byte.
"""

from __future__ import annotations

from fatpack.binary.elf.file import ElfFile
from fatpack.binary.elf.objcopy.sections import ElfModel
from fatpack.binary.elf.objcopy.writer import write_model

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.io.source import Piece, View

__all__ = ["add_sections", "remove_sections"]


def add_sections(view: View, additions: Sequence[tuple[str, Sequence[Piece]]]) -> list[Piece]:
    """Return the file with sections added that linkers drop, as pieces; names may repeat.

    As ``llvm-objcopy --add-section=NAME=FILE --set-section-flags=NAME=readonly,exclude`` does: sections that have one
    of the names already get the flags too. Raises HostError for a file that llvm-objcopy refuses or would damage,
    FormatError for a damaged one, UsageError for an impossible name.
    """
    from fatpack.binary.host_sections import encode_section_name

    named = [(encode_section_name(name), content) for name, content in additions]
    model = ElfModel(ElfFile(view))
    model.remove(lambda _: False)
    _sort_symbols(model)
    for name, content in named:
        model.add(name, content)
    model.exclude({name for name, _ in named})
    return write_model(model)


def remove_sections(view: View, prefix: str) -> list[Piece]:
    """Return the file without the sections whose names start with ``prefix``, as pieces.

    As ``llvm-objcopy --regex --remove-section='PREFIX.*'`` does: relocations and symbols of the sections go too.
    Raises HostError when something else needs one of them, and what :func:`add_sections` raises.
    """
    start = prefix.encode("utf-8", "surrogateescape")
    model = ElfModel(ElfFile(view))
    model.remove(lambda part: part.name.startswith(start))
    _sort_symbols(model)
    return write_model(model)


def _sort_symbols(model: ElfModel) -> None:
    if model.symbols is not None and model.symbol_table is not None:
        model.symbols.sort()
