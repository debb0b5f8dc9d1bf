"""The relocations of a device ELF, by the section that they change: System V gABI, chapter 4, "Relocation"."""

from __future__ import annotations

from struct import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.binary.elf.device_elf import DeviceElfSections

#: sh_type
_RELA, _REL = 4, 9


class SectionRelocations:
    """The sections of relocations of an image, found by the section that each of them changes."""

    def __init__(self, sections: DeviceElfSections) -> None:
        self._sections = sections
        self._of: dict[int, list[int]] = {}
        for index, (_, kind, _, _, _, size, _, info) in enumerate(sections.headers):
            if kind in (_REL, _RELA) and size:
                self._of.setdefault(info, []).append(index)

    def __bool__(self) -> bool:
        return bool(self._of)

    def of(self, number: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield (offset, type, number of the symbol, addend) of what changes a section; the addend of REL is 0.

        Raises FormatError when the sections of relocations overlap others, or are cut short.
        """
        sections = self._sections
        wide = sections.elf.shape.bits == 64
        order = "<" if sections.order == "little" else ">"
        for index in self._of.get(number, ()):
            has_addend = sections.headers[index][1] == _RELA
            row = Struct(order + ("QQ" if wide else "II") + (("q" if wide else "i") if has_addend else ""))
            stored = sections.bytes_of(index)
            for offset, info, *addend in row.iter_unpack(stored[: len(stored) - len(stored) % row.size]):
                symbol, kind = (info >> 32, info & 0xFFFFFFFF) if wide else (info >> 8, info & 0xFF)
                yield offset, kind, symbol, addend[0] if addend else 0
