"""A linked program whose code can be followed, whatever file it is: what it imports, its functions, its constructors.

Large libraries have a hundred thousand functions, and a handful of their names matter: functions are kept as sorted
addresses, and their names are looked up when they are asked for.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right

from fatpack.binary.memory import LONGEST, Constructor, HostMemory, MemoryFunction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fatpack.binary.memory import MemorySection
    from fatpack.io.source import View

#: LIMIT: bytes of a section of strings that are kept. Those with device code are larger, and have none of the names.
_MAX_STRING_SECTION = 1 << 26

_ADDRESS_MASK = (1 << 64) - 1


class LinkedProgram(HostMemory):
    """A program or library. ``imports`` are the names of the runtimes' functions by the address of what leads to them:
    slots of pointers, stubs that jump through one, and the functions where the program has them itself.

    ``slots`` are those that are pointers, ``jumped`` those of them that only stubs use. ``dynamic`` are the names that
    other files define.
    """

    def __init__(
        self, view: View, machine: str, word: int, sections: Sequence[MemorySection], *, is_windows: bool
    ) -> None:
        super().__init__(view, machine, word, sections, (), is_windows=is_windows)
        self.is_windows = is_windows
        self.imports: dict[int, str] = {}
        self.slots: set[int] = set()
        self.jumped: set[int] = set()
        self.dynamic: frozenset[str] = frozenset()
        self._begins: Sequence[int] = ()
        self._values: dict[int, int] = {}

    def pointers(self, section: MemorySection) -> Mapping[int, int]:
        """Return address → value of the pointers that relocations hold: those of the program, asked by address.

        A copy for every section would cost the square of the file, where sections lie over each other.
        """
        return self._values

    def pointer_at(self, address: int) -> int | None:
        """Return the pointer at an address, None where the file has no bytes."""
        value = self._values.get(address)
        if value is not None:
            return value
        section = self.section_at(address)
        if section is None or address - section.address + self.word > len(section.data):
            return None
        return int.from_bytes(section.data.head(address - section.address, self.word), "little")

    def set_starts(self, starts: Iterable[int]) -> None:
        """Take the addresses at which functions start."""
        self._begins = sorted(set(starts))

    def begins(self) -> Sequence[int]:
        """Return where all functions start, in order."""
        return self._begins

    def start_of(self, address: int) -> int:
        """Return where the function starts that an address lies in, 0 if there is none."""
        index = bisect_right(self._begins, address) - 1
        return self._begins[index] if index >= 0 else 0

    def bounds(self, address: int) -> tuple[int, int]:
        """Return where the function around an address starts, and where the next one does; zeros if there is none."""
        index = bisect_right(self._begins, address)
        end = self._begins[index] if index < len(self._begins) else address + 1
        return (self._begins[index - 1], end) if index else (0, 0)

    def is_start(self, address: int) -> bool:
        """Return whether a function starts at an address."""
        index = bisect_right(self._begins, address) - 1
        return index >= 0 and self._begins[index] == address

    def function_at(self, address: int) -> MemoryFunction | None:
        """Return the function that an address lies in: it ends where the next one starts."""
        index = bisect_right(self._begins, address) - 1
        section = self.section_at(address) if index >= 0 else None
        if section is None or not section.is_code or self._begins[index] < section.address:
            return None
        start = self._begins[index]
        end = self._begins[index + 1] if index + 1 < len(self._begins) else section.end
        return MemoryFunction(start, min(end, section.end), self.name_of(start))

    def name_of(self, start: int) -> str:
        """Return the name of the function that starts at an address, "" if the file has none."""
        return ""

    def function_pointers(self) -> dict[int, int]:
        """Return address → value of the pointers to functions in data that does not change."""
        found = {place: value for place, value in self._values.items() if self.is_start(value)}
        for section in self.sections:
            if (
                section.name.startswith((".data.rel.ro", ".rodata", ".rdata"))
                and len(section.data) <= _MAX_STRING_SECTION
            ):
                data = self.content(section)
                words = array("Q", data[: len(data) - len(data) % 8])
                begins = set(self._begins)
                found |= {section.address + 8 * at: word for at, word in enumerate(words) if word in begins}
        return found

    def stubs(self) -> Mapping[int, str]:
        """Return address → name of the stubs of kernels."""
        return {}

    def constructors(self) -> list[Constructor]:
        """Return the functions that run before main."""
        raise NotImplementedError

    def loaded(self, address: int) -> int | None:
        """Return what code finds at an address that does not change: the slot itself for what another file defines."""
        if address in self.imports:
            return address
        section = self.section_at(address)
        if section is None or not section.name.startswith((".got", ".data.rel.ro", ".plt.got", ".rodata", ".rdata")):
            return None
        return self.pointer_at(address)

    def string_at(self, address: int) -> str:
        """Return the string at an address of data, "" if there is none that could be a name."""
        section = self.section_at(address)
        if section is None or section.is_code or address in self._values:
            return ""
        if len(section.data) > _MAX_STRING_SECTION:
            return super().string_at(address)
        text, at = self.content(section), address - section.address
        end = text.find(b"\0", at, at + LONGEST)
        found = text[at : max(end, at)]
        if not found.isascii():
            return ""
        name = found.decode()
        return name if name.isprintable() else ""
