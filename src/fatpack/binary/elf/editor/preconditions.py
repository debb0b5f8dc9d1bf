"""Reasons not to edit: every check raises HostError that names the obstacle.

The first one that applies is reported; ``fatpack.binary.elf.editor.rewrite`` has the order.
"""

from __future__ import annotations

from fatpack.binary.elf import layout
from fatpack.binary.elf.editor.editable import PACKED_RELOCATIONS, find_group_member, relocations_through
from fatpack.binary.elf.layout import SH_INFO, SH_SIZE, SH_TYPE
from fatpack.errors import HostError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from fatpack.binary.elf.editor.editable import DefinedElfSymbol, EditableFile

#: Types of sections that contain device code, and nothing that the file itself consists of.
EDITABLE_TYPES = (layout.PROGBITS, layout.OFFLOADING)


def check_section(elf: EditableFile, index: int, *, is_removed: bool) -> None:
    """Raise UsageError or HostError if a section may not be edited, regardless of references to it."""
    if not 0 < index < elf.section_count:
        raise UsageError(f"there is no section {index}", hint=f"the file has 1 to {elf.section_count - 1}")
    section = elf.section(index)
    if section.type not in EDITABLE_TYPES:
        raise HostError(
            f"{elf.title(section)} has type {layout.section_type_word(section.type)}: it is no section of device code",
            hint=f"sections of type {' or '.join(map(layout.section_type_word, EDITABLE_TYPES))} can be edited",
            chain=elf.view.chain,
        )
    if section.flags & layout.COMPRESSED:
        raise HostError(
            f"{elf.title(section)} is compressed by its section flags",
            hint="decompress it first",
            chain=elf.view.chain,
        )
    if section.flags & (layout.MERGE | layout.STRINGS):
        raise HostError(
            f"{elf.title(section)} may be merged with others by the linker, entry by entry",
            hint="device code does not belong into such a section; compile it again",
            chain=elf.view.chain,
        )
    if section.flags & layout.ALLOC and (is_removed or elf.is_linked):
        raise HostError(
            f"{elf.title(section)} is loaded at run time",
            hint="it has its place in memory since the link; edit the object and link again"
            if elf.is_linked
            else "code refers to it when the program starts; replace its contents instead",
            chain=elf.view.chain,
        )


def check_symbols(elf: EditableFile, symbols: Sequence[DefinedElfSymbol], removed: Collection[int]) -> None:
    """Raise HostError if a symbol is in a removed section, or inside one that gets other contents."""
    for symbol in symbols:
        if symbol.is_marker:
            continue
        section = elf.section(symbol.section)
        if symbol.section in removed:
            raise HostError(
                f"{symbol.title} is defined in {elf.title(section)}",
                hint="replace the contents of the section instead",
                chain=elf.view.chain,
            )
        if symbol.value != elf.start_value(section):
            raise HostError(
                f"{symbol.title} lies inside {elf.title(section)}, at {symbol.value:#x}",
                hint="only a section that is used as a whole can get other contents",
                chain=elf.view.chain,
            )


def check_relocations(elf: EditableFile, indices: Collection[int], symbols: Sequence[DefinedElfSymbol]) -> None:
    """Raise HostError if relocations change one of the sections, or cannot be read although symbols may need them."""
    for index, row in enumerate(elf.section_rows):
        kind, target = row[SH_TYPE], row[SH_INFO]
        if kind in (layout.REL, layout.RELA, *PACKED_RELOCATIONS) and target in indices and row[SH_SIZE]:
            raise HostError(
                f"{elf.title(elf.section(index))} relocates {elf.title(elf.section(target))}: its contents depend on "
                "the link",
                hint="only sections with finished contents can be edited; compile the source again",
                chain=elf.view.chain,
            )
        if kind in PACKED_RELOCATIONS and symbols and not elf.is_linked:
            raise HostError(
                f"{elf.title(elf.section(index))} holds relocations as {layout.section_type_word(kind)}, and one of "
                f"them may go through {symbols[0].title}",
                hint="compile without --crel",
                chain=elf.view.chain,
            )


def check_uses(elf: EditableFile, symbols: Sequence[DefinedElfSymbol], removed: Collection[int]) -> None:
    """Raise HostError if a relocation needs a removed section, or refers into one that gets other contents."""
    for use in relocations_through(elf, symbols):
        is_removed = use.symbol.section in removed
        if use.addend == 0 and not is_removed:
            continue
        place = f"relocation {use.number} of {elf.title(use.relocations)}"
        target = elf.title(elf.section(use.symbol.section))
        hint = "only a section that is used as a whole can get other contents"
        if is_removed:
            problem, hint = f"{place} needs {target}", "replace the contents of the section instead"
        elif use.addend is None:
            problem = f"{place} has type {use.type}, of which it is not known how far into {target} it points"
        else:
            problem = f"{place} points {use.addend:+#x} bytes from the start of {target}"
        raise HostError(problem, hint=hint, chain=elf.view.chain)


def check_links(elf: EditableFile, indices: Collection[int], symbols: Sequence[DefinedElfSymbol]) -> None:
    """Raise HostError if a group, or another section by its link or info field, refers to one of the sections.

    ``symbols`` are those of the sections: the signature of a group may be one of them.
    """
    signatures = {(symbol.table, symbol.number): symbol.section for symbol in symbols}
    for index, row in enumerate(elf.section_rows):
        if index in indices or row[SH_TYPE] == layout.NULL:
            continue
        _, kind, flags, _, _, _, link, info, _, _ = row
        named_by_info = flags & layout.INFO_LINK or kind in (layout.REL, layout.RELA)
        referred = link if link in indices else info if named_by_info and info in indices else None
        if referred is None and kind == layout.GROUP:
            referred = signatures.get((link, info)) or find_group_member(elf, elf.section(index), indices)
        if referred is not None:
            raise HostError(
                f"{elf.title(elf.section(index))} refers to {elf.title(elf.section(referred))}",
                hint="a section that others need cannot be removed; replace its contents instead",
                chain=elf.view.chain,
            )
