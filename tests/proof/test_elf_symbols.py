"""Symbols of an edited library: those of device code follow it, in a table of cases, and no other one changes."""

from __future__ import annotations

import struct
from typing import NamedTuple

import pytest
from tests.proof.elf_forgeries import LIBRARY, REDUCED, SHRUNK, WHOLE, patched

from fatpack.io.source import BytesSource
from fatpack.proof import prove

#: a symbol of 64 bits: name, type and binding, visibility, number of the section, value, size
ROW = struct.Struct("<IBBHQQ")

#: types of symbols, and numbers of sections
OBJECT, SECTION, FILE, TLS = 1, 3, 4, 6
FATBIN, RELOCATIONS, UNDEFINED, ABSOLUTE = 6, 5, 0, 0xFFF1

#: the second container, which moves: old place and size, new place and size; and the first one, which shrinks
OLD, SIZE, NEW, LESS = LIBRARY.containers[1], len(WHOLE[1]), LIBRARY.containers[0] + len(REDUCED[0]), len(REDUCED[1])
FIRST, FIRST_SIZE, FIRST_LESS = LIBRARY.containers[0], len(WHOLE[0]), len(REDUCED[0])

#: note and hash table make room for a program header, behind the containers
NOTE, NOTE_SIZE = LIBRARY.places[".note.gnu.build-id"]
HASH, HASH_SIZE = LIBRARY.places[".gnu.hash"]
NEW_NOTE = NEW + LESS
NEW_HASH = NEW_NOTE + NOTE_SIZE

Place = tuple[int, int]


class Symbol(NamedTuple):
    """A symbol by its fields; ``place`` is its value and size."""

    place: Place
    type: int = OBJECT
    section: int = FATBIN
    name: int = 6
    visibility: int = 0

    def row(self) -> bytes:
        return ROW.pack(self.name, self.type, self.visibility, self.section, *self.place)


def is_right(was: Symbol, now: Symbol) -> bool:
    """Return whether an edited library is proved in which one symbol became another."""
    at = LIBRARY.places[".symtab"][0] + 3 * ROW.size
    new_at = at - (len(LIBRARY.data) - len(SHRUNK))
    before = patched(LIBRARY.data, at, was.row())
    after = patched(SHRUNK, new_at, now.row())
    found = prove(BytesSource(before, "a.so").view(), BytesSource(after, "b.so").view()).differences
    assert [(each.what, each.offset) for each in found] in ([], [("symbol", new_at)])
    return not found


#: value and size before, and those of which it may have one after
FOLLOWED: list[tuple[Place, set[Place]]] = [
    # the container as a whole, and its begin
    ((OLD, SIZE), {(NEW, LESS), (NEW, SIZE)}),
    ((OLD, 0), {(NEW, 0)}),
    ((OLD, 4), {(NEW, 4)}),
    ((OLD, LESS + 1), {(NEW, LESS), (NEW, LESS + 1)}),
    # what is in it ends at its end
    ((OLD + 8, 4), {(NEW + 8, 4)}),
    ((OLD + 8, LESS - 8), {(NEW + 8, LESS - 8)}),
    ((OLD + 8, LESS - 7), {(NEW + 8, LESS - 8)}),
    ((OLD + 8, SIZE - 8), {(NEW + 8, LESS - 8)}),
    ((OLD + LESS - 1, 10), {(NEW + LESS - 1, 1)}),
    ((OLD + LESS, 10), {(NEW + LESS, 0)}),
    ((OLD + LESS + 1, 0), {(NEW + LESS, 0)}),
    ((OLD + SIZE - 1, 1), {(NEW + LESS, 0)}),
    # what lies beside it stays
    ((OLD + SIZE, 0), {(OLD + SIZE, 0)}),
    ((OLD + SIZE, 8), {(OLD + SIZE, 8)}),
    # a container that begins where it did
    ((FIRST, FIRST_SIZE), {(FIRST, FIRST_LESS), (FIRST, FIRST_SIZE)}),
    ((FIRST + 8, 4), {(FIRST + 8, 4)}),
    ((FIRST + FIRST_LESS + 8, 4), {(FIRST + FIRST_LESS, 0), (FIRST + FIRST_LESS + 8, 4)}),
    ((FIRST - 1, 4), {(FIRST - 1, 4)}),
    # tables that make room for a program header: debuggers do without their symbols
    ((NOTE, NOTE_SIZE), {(NEW_NOTE, NOTE_SIZE), (NOTE, NOTE_SIZE)}),
    ((NOTE + 4, 0), {(NEW_NOTE + 4, 0), (NOTE + 4, 0)}),
    ((HASH - 1, 1), {(NEW_HASH - 1, 1), (HASH - 1, 1)}),
    ((HASH + HASH_SIZE - 1, 1), {(NEW_HASH + HASH_SIZE - 1, 1), (HASH + HASH_SIZE - 1, 1)}),
    ((HASH + HASH_SIZE, 1), {(HASH + HASH_SIZE, 1)}),
    ((NOTE - 1, 1), {(NOTE - 1, 1)}),
]


@pytest.mark.parametrize(("was", "allowed"), FOLLOWED)
def test_a_symbol_follows_what_it_names(was: Place, allowed: set[Place]) -> None:
    values = {value + step for value, _ in (was, *allowed) for step in (-1, 0, 1)} | {NEW + was[0] - OLD}
    sizes = {max(size + step, 0) for _, size in (was, *allowed) for step in (-1, 0, 1)}
    tried = {(value, size) for value in values if value >= 0 for size in sizes}
    assert {now for now in tried if is_right(Symbol(was), Symbol(now))} == allowed


@pytest.mark.parametrize(
    ("kind", "section", "follows"),
    [
        (OBJECT, FATBIN, True),
        (0x10 | OBJECT, FATBIN, True),
        (0x20, FATBIN, True),
        (0x12, FATBIN, True),
        (5, FATBIN, True),
        (10, FATBIN, True),
        (SECTION, FATBIN, False),
        (0x10 | SECTION, FATBIN, False),
        (FILE, FATBIN, False),
        (TLS, FATBIN, False),
        (0x10 | TLS, FATBIN, False),
        (OBJECT, UNDEFINED, False),
        (OBJECT, RELOCATIONS, False),
        (OBJECT, FATBIN + 1, False),
        (OBJECT, len(LIBRARY.places) + 1, False),
        (OBJECT, 0xFEFF, False),
        (OBJECT, ABSOLUTE, False),
    ],
)
def test_a_symbol_without_an_address_in_its_section_stays(kind: int, section: int, follows: bool) -> None:
    was = Symbol((OLD, SIZE), kind, section)
    assert is_right(was, was) != follows
    assert is_right(was, was._replace(place=(NEW, LESS))) == follows


def test_nothing_but_value_and_size_of_a_symbol_may_differ() -> None:
    was = Symbol((OLD, SIZE))
    now = was._replace(place=(NEW, LESS))
    assert is_right(was, now)
    others = [now._replace(type=2), now._replace(section=FATBIN + 1), now._replace(name=1), now._replace(visibility=2)]
    assert not any(is_right(was, other) for other in others)
