"""The laws of imports: arrows between rooms point down, and nothing inside a room goes round in a circle.

Each failure says what the law wants and what to do; ``docs/design/architecture.md`` says why.
"""

from __future__ import annotations

import pytest
from tests.laws import house

from fatpack import binary, formats

EVERY = house.modules()
FOLDERS = house.folders(EVERY)
LEVEL = {room: number for number, rooms in enumerate(house.LEVELS) for room in rooms}
ORDER = " ← ".join(", ".join(sorted(rooms)) for rooms in house.LEVELS)
each_module = pytest.mark.parametrize("path", sorted(EVERY))
each_folder = pytest.mark.parametrize("folder", FOLDERS)

#: The doors of rooms that must not know each other: `formats/cir`, `hosts/elf`.
SEPARATE = {
    name.removeprefix("fatpack.").replace(".", "/")
    for name in (*formats.MODULES.values(), *(door.module for door in binary.MODULES.values()))
}


def _own_part(module: house.Module) -> str:
    return house.part(module.room, module.path)


def test_every_room_has_its_place_in_the_order() -> None:
    rooms = {module.room for module in EVERY.values()}
    new, gone = sorted(rooms - LEVEL.keys()), sorted(LEVEL.keys() - rooms)
    assert not new, f"{new} has no place in the order of rooms: give it a level in LEVELS (tests/laws/house.py)"
    assert not gone, f"{gone} stands in LEVELS (tests/laws/house.py) and is no room any more: take it out there"


@each_module
def test_a_module_imports_only_from_rooms_below_its_own(path: str) -> None:
    module = EVERY[path]
    wrong = sorted(name for name in module.imports if _room(name) != module.room and not _is_below(name, module.room))
    assert not wrong, (
        f"{path}.py imports {', '.join(wrong)}, and a module imports only from rooms below its own ({ORDER}). "
        f"Move what is needed into a room below {module.room}, or let the caller hand it in."
    )


def _room(path: str) -> str:
    return path.partition("/")[0]


def _is_below(path: str, room: str) -> bool:
    return _room(path) in LEVEL and LEVEL[_room(path)] < LEVEL[room]


@pytest.mark.parametrize("path", sorted(path for path, module in EVERY.items() if _own_part(module) in SEPARATE))
def test_a_format_knows_no_other_format_and_a_host_no_other_host(path: str) -> None:
    module = EVERY[path]
    own = _own_part(module)
    others = {house.part(module.room, name) for name in module.imports if _room(name) == module.room}
    wrong = sorted(others & SEPARATE - {own, house.BUILT_ON.get(own, own)})
    assert not wrong, (
        f"{path}.py imports {', '.join(wrong)}: rooms of one kind do not know each other, so that each can be read "
        f"alone. Move what both need beside them ({module.room}/<name>.py), or let the caller hand it in."
    )


@each_folder
def test_what_lies_in_a_folder_does_not_go_round_in_a_circle(folder: str) -> None:
    """Modules and sub-folders, each sub-folder taken as one. So a circle anywhere shows in some folder."""
    graph = house.parts_of(folder, EVERY)
    around = house.circle(graph)
    assert not around, (
        f"in {folder}, imports go round in a circle: {' → '.join(house.names(around))}. Imports inside functions "
        f"count, those for annotations do not. Move what both sides need into the lower of them, or into a module "
        f"below both; or let the caller hand it in.\n" + "\n".join(house.arrows(around, EVERY))
    )


@pytest.mark.parametrize("folder", house.FLOORS)
def test_in_a_folder_with_floors_each_part_imports_only_from_those_below(folder: str) -> None:
    graph = house.parts_of(folder, EVERY)
    floors = {f"{folder}/{name}": number for number, names in enumerate(house.FLOORS[folder]) for name in names}
    assert floors.keys() == graph.keys(), f"FLOORS (tests/laws/house.py) and what lies in {folder} differ"
    wrong = [(part, other) for part in sorted(graph) for other in sorted(graph[part]) if floors[other] >= floors[part]]
    steps = [step for part, other in wrong for step in house.arrows([part, other], EVERY)]
    assert not wrong, (
        f"in {folder} a part imports from its own floor or one above (FLOORS in tests/laws/house.py). Move what is "
        f"needed into a part below both, or let the caller hand it in.\n" + "\n".join(steps)
    )


@pytest.mark.parametrize(("one", "other"), house.STRANGERS)
def test_strangers_do_not_know_each_other(one: str, other: str) -> None:
    wrong = [*house.arrows([one, other], EVERY), *house.arrows([other, one], EVERY)]
    assert one in FOLDERS, f"{one} is named in STRANGERS (tests/laws/house.py) and is no folder"
    assert other in FOLDERS, f"{other} is named in STRANGERS (tests/laws/house.py) and is no folder"
    assert not wrong, (
        f"{one} and {other} must not know each other: each can be changed without reading the other. "
        f"Move what both need into a folder below both.\n" + "\n".join(wrong)
    )


@pytest.mark.skipif(not house.SMALL_MODULES_MOVE_IN, reason="SMALL_MODULES_MOVE_IN (tests/laws/house.py) is off")
def test_a_small_module_with_one_importer_beside_it_is_part_of_that_importer() -> None:
    small = house.small_modules(EVERY)
    assert not small, (
        f"{len(small)} modules have fewer than {house.FEWEST_LINES} lines of code and one importer, in their own "
        f"folder. Move each into its importer:\n" + "\n".join(f"  {path}.py → {into}.py" for path, into in small)
    )


@each_folder
def test_a_folder_says_in_a_sentence_what_it_is_for(folder: str) -> None:
    door = EVERY.get(f"{folder}/__init__")
    assert door is not None, f"{folder} has no __init__.py: add one whose docstring says what the folder is for"
    assert door.docstring, f"{door.path}.py has no docstring: docs/design/architecture.md prints its first sentence"
