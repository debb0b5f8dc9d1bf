"""A linked program for code analysis, independent of its format: imports, functions, constructors.

Large libraries have a hundred thousand functions, and a handful of their names matter: functions are kept as sorted
addresses, and names are looked up on request.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right

from fatpack.binary.memory import LONGEST, Constructor, HostMemory, MemoryFunction
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fatpack.binary.memory import MemorySection
    from fatpack.io.source import View


#: LIMIT: bytes of a cached section of strings. Sections with device code are larger, and have none of the names.
_MAX_STRING_SECTION = 1 << 26

_ADDRESS_MASK = (1 << 64) - 1


class LinkedProgram(HostMemory):
    """A program or library, with the functions of the runtimes by address.

    ``imports`` are the names of runtime functions by address: of pointer slots, of the stubs that jump through one, and
    of functions that the program defines itself. ``slots`` are the addresses of the pointers among these, and
    ``jumped`` are the slots that only stubs use. ``dynamic`` are the names that other files define. With ``is_movable``
    it may be loaded at any address, so no instruction holds an address as such.
    """

    def __init__(
        self,
        view: View,
        machine: str,
        word: int,
        sections: Sequence[MemorySection],
        *,
        is_windows: bool,
        is_movable: bool = False,
    ) -> None:
        super().__init__(view, machine, word, sections, (), is_windows=is_windows)
        self.is_movable = is_movable
        self.imports: dict[int, str] = {}
        self.slots: set[int] = set()
        self.jumped: set[int] = set()
        self.dynamic: frozenset[str] = frozenset()
        self._begins: Sequence[int] = ()
        self._values: dict[int, int] = {}

    def pointers(self, section: MemorySection) -> Mapping[int, int]:
        """Return address → value of the pointers of the whole program that relocations hold.

        A copy for every section would take time and memory quadratic in the file's size if sections overlap.
        """
        return self._values

    def pointer_at(self, address: int) -> int | None:
        """Return the pointer at an address, None if the file has no bytes there."""
        value = self._values.get(address)
        if value is not None:
            return value
        section = self.section_at(address)
        if section is None or address - section.address + self.word > len(section.data):
            return None
        return int.from_bytes(section.data.head(address - section.address, self.word), "little")

    def set_starts(self, starts: Iterable[int]) -> None:
        """Set the addresses at which functions start."""
        self._begins = sorted(set(starts))

    def begins(self) -> Sequence[int]:
        """Return the starts of all functions, in order."""
        return self._begins

    def start_of(self, address: int) -> int:
        """Return the start of the function around an address, 0 if there is none."""
        index = bisect_right(self._begins, address) - 1
        return self._begins[index] if index >= 0 else 0

    def bounds(self, address: int) -> tuple[int, int]:
        """Return the starts of the function around an address and of the next one; zeros if there is none."""
        index = bisect_right(self._begins, address)
        end = self._begins[index] if index < len(self._begins) else address + 1
        return (self._begins[index - 1], end) if index else (0, 0)

    def is_start(self, address: int) -> bool:
        """Return whether a function starts at an address."""
        index = bisect_right(self._begins, address) - 1
        return index >= 0 and self._begins[index] == address

    def function_at(self, address: int) -> MemoryFunction | None:
        """Return the function around an address: it ends at the start of the next one."""
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
        """Return the value that code loads from a constant address: the slot itself for imports."""
        if address in self.imports:
            return address
        section = self.section_at(address)
        if section is None or not section.name.startswith((".got", ".data.rel.ro", ".plt.got", ".rodata", ".rdata")):
            return None
        return self.pointer_at(address)

    def string_at(self, address: int) -> str:
        """Return the string at an address of data, "" if it cannot be a name."""
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


# Values of registers and stack places while the code of a function is followed.
#
# Values are addresses and numbers that the code itself makes. Places of the stack have addresses of their own, far
# above those of programs, so pointers to them are values like others. At a join, only the values on which all paths
# agree are kept.

#: a nominal address for the stack, and the distance between frames after it was aligned
STACK, FRAME = 1 << 72, 1 << 40

#: bytes below the initial stack pointer of a function that it may reach
_DEEPEST = 1 << 36

_REGISTER_MASK = (1 << 64) - 1

#: bytes after an address passed to a function that it may change
_HANDED = 64

#: LIMIT: places of the stack that are kept, and values that are kept for jumps of one function. Stubs that were not
#: optimised have some dozen places; functions of some thousand jumps keep less than a tenth of that many values.
_PLACES, _MAX_JUMP_VALUES = 256, 1 << 20


class FollowedCall(Record):
    """A call or jump: its address, its target (None: unknown), and the values of the argument registers."""

    at: int
    target: int | None
    arguments: tuple[int | None, ...]


class RegisterState:
    """The known values on one path through a function; ``changed`` are the registers that a call may change."""

    def __init__(self, arguments: Sequence[int], changed: Sequence[int], stack: int) -> None:
        self._arguments, self._changed, self._stack = arguments, changed, stack
        self.registers: dict[int, int] = {stack: STACK + _DEEPEST}
        self.places: dict[int, tuple[int, int]] = {}
        self._waiting: dict[int, tuple[dict[int, int], dict[int, tuple[int, int]]]] = {}
        self._is_reached = True
        self._frames = 0
        self._left = _MAX_JUMP_VALUES
        self.calls: list[FollowedCall] = []
        #: the jumps inside the function, those over what is never executed, and whether one leads to an unknown place
        self._jumps: list[tuple[int, int]] = []
        self._skips: list[tuple[int, int]] = []
        self._is_wild = False
        self._equal = -1

    def arrive(self, at: int) -> None:
        """Start an instruction: join the values of the jumps to it."""
        waiting = self._waiting.pop(at, None) if self._waiting else None
        if waiting is None:
            if not self._is_reached:  # reached only by backward jumps or tables
                self._is_reached = True
                self.registers, self.places = self._frame(), {}
            return
        if self._is_reached:
            self.registers = dict(self.registers.items() & waiting[0].items())
            self.places = dict(self.places.items() & waiting[1].items())
        else:
            self.registers, self.places = waiting
        self._is_reached = True

    def _frame(self) -> dict[int, int]:
        """Return the values that are known at any place: pointers to the stack do not change within a function."""
        return {number: value for number, value in self.registers.items() if value >= STACK and self.is_kept(number)}

    def is_kept(self, number: int) -> bool:
        """Return whether called functions preserve a register."""
        return number not in self._changed

    def branch(self, at: int, target: int | None) -> None:
        """Execute a conditional jump; backward jumps do not change the known values."""
        if target is not None:
            self._jumps.append((at, target))
        if target is None or target <= at:
            return
        self._left -= len(self.registers) + len(self.places)
        before = self._waiting.get(target)
        if self._left < 0:
            self._waiting[target] = {}, {}
        elif before is None:
            self._waiting[target] = dict(self.registers), dict(self.places)
        else:
            self._waiting[target] = (
                dict(self.registers.items() & before[0].items()),
                dict(self.places.items() & before[1].items()),
            )

    def compare(self, after: int, one: int | None, other: int | None) -> None:
        """Execute a comparison of two values; ``after`` is the address of the next instruction."""
        self._equal = after if one is not None and one == other else -1

    def skip_if_equal(self, at: int, target: int) -> None:
        """Execute a jump that is taken if the values compared right before it are equal: always, if they are constants.

        So begins the linker wrapper's loop over a table of entries: it compares the start of the table with its end.
        """
        self.branch(at, target)
        if at == self._equal and target > at:
            self._skips.append((at, target))
            self.leave()

    def drop_skipped(self) -> list[FollowedCall]:
        """Remove the calls that no path reaches, and return them."""
        skips = [] if self._is_wild else self._skips
        skips = [
            (low, high)
            for low, high in skips
            if not any(low < to < high and not low < at < high for at, to in self._jumps)
        ]
        dropped = [each for each in self.calls if any(low < each.at < high for low, high in skips)]
        self.calls = [each for each in self.calls if each not in dropped]
        return dropped

    def leave(self) -> None:
        """Execute an unconditional jump or a return."""
        self._is_reached = False

    def call(self, at: int, target: int | None, *, returns: bool) -> None:
        """Execute a call, or a jump to another function."""
        held = self.registers
        values = [held.get(number) for number in self._arguments]
        self.calls.append(
            FollowedCall(at, target, tuple(None if value and value >= STACK else value for value in values))
        )
        if not returns:
            self._is_wild = self._is_wild or target is None
            return
        for value in values:
            if value is not None and value >= STACK:
                self._forget(value, _HANDED)
        for number in self._changed:
            held.pop(number, None)

    def put(self, register: int, value: int | None) -> None:
        """Set a register to a value, None for an unknown one."""
        if value is None:
            self.registers.pop(register, None)
        else:
            self.registers[register] = value if value >= STACK else value & _REGISTER_MASK

    def get(self, register: int) -> int | None:
        """Return the value of a register, None if unknown."""
        return self.registers.get(register)

    def align(self) -> None:
        """Align the stack pointer: the distance is unknown."""
        self._frames += 1
        self.registers[self._stack] = STACK + _DEEPEST + self._frames * FRAME

    def move(self, distance: int) -> int | None:
        """Move the stack pointer, and return its value."""
        value = self.registers.get(self._stack)
        if value is not None:
            self.registers[self._stack] = value = value + distance
        return value

    def store(self, address: int | None, size: int, value: int | None) -> None:
        """Store a value at an address; only places of the stack are kept."""
        if address is None or address < STACK:
            return
        self._forget(address, size)
        if value is not None and len(self.places) < _PLACES:
            self.places[address] = size, value if value >= STACK else value & (1 << 8 * size) - 1

    def load(self, address: int | None, size: int) -> int | None:
        """Return the value of a stack place."""
        stored, value = self.places.get(address or 0, (0, None))
        return value if stored == size else None

    def _forget(self, address: int, size: int) -> None:
        if size > 64:
            for place in [place for place in self.places if address - 16 < place < address + size]:
                del self.places[place]
            return
        for place in range(address - 15, address + size):
            found = self.places.get(place)
            if found is not None and place + found[0] > address:
                del self.places[place]
