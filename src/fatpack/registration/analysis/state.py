"""What registers and places of the stack hold while the code of a function is followed.

Values are addresses and numbers that the code itself makes. Places of the stack have addresses of their own, far above
those of programs, so that pointers to them are values like others. Where ways meet, what all of them agree on is held.
"""

from __future__ import annotations

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: where the stack is, as far as this is concerned; how far apart its frames are once it has been aligned
STACK, FRAME = 1 << 72, 1 << 40

#: how far below the place where a function finds the stack it may reach
_DEEPEST = 1 << 36

_REGISTER_MASK = (1 << 64) - 1

#: bytes behind an address that a function which is handed it may change
_HANDED = 64

#: LIMIT: places of the stack that are held, and values that are kept for jumps of one function. Stubs that were not
#: optimised have some dozen places; functions of some thousand jumps keep less than a tenth of that many values.
_PLACES, _MAX_JUMP_VALUES = 256, 1 << 20


class FollowedCall(Record):
    """A call or jump: where, to which address (None: not known), and what the registers of arguments hold."""

    at: int
    target: int | None
    arguments: tuple[int | None, ...]


class RegisterState:
    """What is held on one way through a function. ``changed`` are the registers that a called function may change."""

    def __init__(self, arguments: Sequence[int], changed: Sequence[int], stack: int) -> None:
        self._arguments, self._changed, self._stack = arguments, changed, stack
        self.registers: dict[int, int] = {stack: STACK + _DEEPEST}
        self.places: dict[int, tuple[int, int]] = {}
        self._waiting: dict[int, tuple[dict[int, int], dict[int, tuple[int, int]]]] = {}
        self._is_reached = True
        self._frames = 0
        self._left = _MAX_JUMP_VALUES
        self.calls: list[FollowedCall] = []

    def arrive(self, at: int) -> None:
        """Take note that an instruction is next: jumps may lead to it too."""
        waiting = self._waiting.pop(at, None) if self._waiting else None
        if waiting is None:
            if not self._is_reached:  # only jumps back or tables lead here
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
        """Return what is held where nothing is known: pointers to the stack do not change within a function."""
        return {number: value for number, value in self.registers.items() if value >= STACK and self.is_kept(number)}

    def is_kept(self, number: int) -> bool:
        """Return whether called functions leave a register as it is."""
        return number not in self._changed

    def branch(self, at: int, target: int | None) -> None:
        """Take a jump that is taken or not; those back change nothing here."""
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

    def leave(self) -> None:
        """Take a jump or return that is always taken."""
        self._is_reached = False

    def call(self, at: int, target: int | None, *, returns: bool) -> None:
        """Take a call, or a jump to another function."""
        held = self.registers
        values = [held.get(number) for number in self._arguments]
        self.calls.append(
            FollowedCall(at, target, tuple(None if value and value >= STACK else value for value in values))
        )
        if not returns:
            return
        for value in values:
            if value is not None and value >= STACK:
                self._forget(value, _HANDED)
        for number in self._changed:
            held.pop(number, None)

    def put(self, register: int, value: int | None) -> None:
        """Let a register hold a value, or nothing that is known."""
        if value is None:
            self.registers.pop(register, None)
        else:
            self.registers[register] = value if value >= STACK else value & _REGISTER_MASK

    def get(self, register: int) -> int | None:
        """Return what a register holds."""
        return self.registers.get(register)

    def align(self) -> None:
        """Take an alignment of the stack pointer: by how much it moves is not known."""
        self._frames += 1
        self.registers[self._stack] = STACK + _DEEPEST + self._frames * FRAME

    def move(self, distance: int) -> int | None:
        """Move the stack pointer, and return where it leads to."""
        value = self.registers.get(self._stack)
        if value is not None:
            self.registers[self._stack] = value = value + distance
        return value

    def store(self, address: int | None, size: int, value: int | None) -> None:
        """Store a value at an address; only places of the stack are held."""
        if address is None or address < STACK:
            return
        self._forget(address, size)
        if value is not None and len(self.places) < _PLACES:
            self.places[address] = size, value if value >= STACK else value & (1 << 8 * size) - 1

    def load(self, address: int | None, size: int) -> int | None:
        """Return what a place of the stack holds."""
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
