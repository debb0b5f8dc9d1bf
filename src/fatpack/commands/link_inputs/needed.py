"""Which images in archives a link needs, by their symbols: the rule of clang-linker-wrapper 19 and before.

An image joins a group if it defines a symbol that the group wants and no weak reference is satisfied without, or one
that the group does not know and programs can look up: a kernel, a variable of the host. Each that joins may bring wants
of its own, so those before it are asked again. Which comes first is the order of the link line.

QUIRK(clang-linker-wrapper 19): what a group knows of a symbol is what it saw of it first: definitions are not noted,
and a want stays one when it is satisfied.
QUIRK(clang-linker-wrapper 19): an image that the last of several groups does not need is asked again whenever another
one joined, and joins the others again; here it joins each once.

How we know: ``getDeviceInput`` in ClangLinkerWrapper.cpp, LLVM 19, and the tool itself on generated link lines.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from fatpack.binary.linking import link_symbols

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.binary.linking import LinkSymbol
    from fatpack.commands.link_inputs.groups import GroupBuilder, Key
    from fatpack.commands.link_inputs.input_files import LinkImage

#: What a group knows of a symbol
_WANTED, _WEAK = 1, 2


def join_needed(lazy: Sequence[LinkImage], groups: GroupBuilder) -> list[LinkImage]:
    """Add the images of archives that groups need, and return the others.

    Raises FormatError for damaged tables of symbols, Unsupported for bitcode that has none.
    """
    return _LazyImageJoin(lazy, groups).run()


class _LazyImageJoin:
    """Images of archives while they join: each is asked again only if a group wants something more that it defines."""

    def __init__(self, lazy: Sequence[LinkImage], groups: GroupBuilder) -> None:
        self._lazy = lazy
        self._groups = groups
        self._symbols = [_symbols(each) for each in lazy]
        self._known: dict[Key, dict[bytes, int]] = {}
        for key, members in groups.members():
            self._known[key] = {}
            for device in members:
                self._learn(key, _symbols(device))
        self._keys = [groups.taking(each) for each in lazy]
        self._joined: list[set[Key]] = [set() for _ in lazy]
        self._definers: dict[bytes, list[int]] = {}
        for number, symbols in enumerate(self._symbols):
            for symbol in symbols:
                if symbol.is_defined:
                    self._definers.setdefault(symbol.name, []).append(number)

    def run(self) -> list[LinkImage]:
        waiting = [number for number, keys in enumerate(self._keys) if keys]
        heapify(waiting)
        is_waiting = set(waiting)
        next_round: set[int] = set()  # numbers up to the one that is asked
        while waiting:
            number = heappop(waiting)
            is_waiting.discard(number)
            is_last_joined = False
            again: set[int] = set()
            for key in self._keys[number]:
                is_last_joined = key in self._joined[number] or self._is_needed(number, key)
                if is_last_joined and key not in self._joined[number]:
                    self._joined[number].add(key)
                    self._groups.put(self._lazy[number], [key])
                    for name in self._learn(key, self._symbols[number]):
                        # Those behind this one are asked in this round, those before it when the next one starts.
                        for other in self._definers.get(name, ()):
                            (again if other > number else next_round).add(other)
            if is_last_joined:
                again |= next_round
                next_round = set()
            for other in again - is_waiting:
                if len(self._joined[other]) < len(self._keys[other]):
                    heappush(waiting, other)
                    is_waiting.add(other)
        return [device for device, joined in zip(self._lazy, self._joined, strict=True) if not joined]

    def _is_needed(self, number: int, key: Key) -> bool:
        known = self._known[key]
        is_launched = self._lazy[number].image.target.offload != "none"
        for symbol in self._symbols[number]:
            if not symbol.is_defined:
                continue
            before = known.get(symbol.name)
            if before == _WANTED or (is_launched and symbol.is_visible and before is None):
                return True
        return False

    def _learn(self, key: Key, symbols: Sequence[LinkSymbol]) -> list[bytes]:
        """Take note of what an image wants; return the names that are wanted now and were not before."""
        known, new = self._known[key], dict[bytes, int]()
        for symbol in symbols:
            if symbol.name in known:
                continue
            if symbol.is_weak:
                new[symbol.name] = _WEAK
            elif not symbol.is_defined:
                new[symbol.name] = _WANTED
        known.update(new)
        return [name for name, what in new.items() if what == _WANTED]


def _symbols(device: LinkImage) -> list[LinkSymbol]:
    found = link_symbols(device.image.data)
    return [] if found is None else list(found)
