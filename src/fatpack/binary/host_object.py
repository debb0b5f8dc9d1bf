"""What objects offer beyond their memory: relocations, and the functions that run before main."""

from __future__ import annotations

from fatpack.binary.memory import HostMemory
from fatpack.binary.relocations import POINTER, ObjectRelocations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set

    from fatpack.binary.memory import MemorySection, MemorySymbol
    from fatpack.binary.relocations import Relocation
    from fatpack.io.source import View


class ObjectMemory(HostMemory):
    """An object laid out at invented addresses. ``slots`` are the addresses of pointers that the linker makes.

    ``referred`` are the addresses of symbols that the relocations read so far are about, in whichever way.
    """

    is_linked = False

    def __init__(
        self,
        view: View,
        machine: str,
        word: int,
        sections: Sequence[MemorySection],
        symbols: Sequence[MemorySymbol],
        *,
        is_windows: bool,
        slots: frozenset[int] = frozenset(),
    ) -> None:
        self.slots = slots
        self.referred: set[int] = set()
        self._tables: dict[int, ObjectRelocations] = {}
        self._pointers: dict[int, dict[int, int]] = {}
        super().__init__(view, machine, word, sections, symbols, is_windows=is_windows)

    def relocations(self, section: MemorySection) -> ObjectRelocations:
        """Return what relocations make of the bytes of a section, in the order of their places."""
        if section.number not in self._tables:
            self._tables[section.number] = ObjectRelocations(list(self._rows(section)))
        return self._tables[section.number]

    def _rows(self, section: MemorySection) -> Iterable[Relocation]:
        raise NotImplementedError

    def pointers(self, section: MemorySection) -> Mapping[int, int]:
        """Return address → value of the pointers in a section."""
        if section.number not in self._pointers:
            found = {}
            for at, way, target, addend in self.relocations(section).rows:
                if way == POINTER:
                    stored = addend if addend is not None else self._stored(section, at)
                    found[section.address + at] = target + stored
            self._pointers[section.number] = found
        return self._pointers[section.number]

    def _variables(self, names: Set[str]) -> Iterable[MemorySymbol]:
        return (
            each
            for each in self.symbols
            if each.name in names and each.is_defined and not each.is_function and not each.is_weak
        )

    def _stored(self, section: MemorySection, at: int) -> int:
        return int.from_bytes(section.data.head(at, self.word), "little") if at < len(section.data) else 0
