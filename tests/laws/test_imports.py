"""Imports point to lower levels, there are no circles at run time, and small modules are part of their readers.

Each failure says what the test expects and what to do; ``docs/design/architecture.md`` says why.
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

#: Folders that must not import each other: `formats/cir`, `binary/elf`.
SEPARATE = {
    name.removeprefix("fatpack.").replace(".", "/")
    for name in (*formats.MODULES.values(), *(host.module for host in binary.MODULES.values()))
}


def _own_part(module: house.Module) -> str:
    return house.part(module.room, module.path)


def test_every_top_level_module_has_a_level() -> None:
    rooms = {module.room for module in EVERY.values()}
    new, gone = sorted(rooms - LEVEL.keys()), sorted(LEVEL.keys() - rooms)
    assert not new, f"{new} has no level: add it to LEVELS (tests/laws/house.py)"
    assert not gone, f"{gone} is in LEVELS (tests/laws/house.py) but not in src/fatpack: remove it there"


@each_module
def test_a_module_imports_only_from_lower_levels(path: str) -> None:
    module = EVERY[path]
    wrong = sorted(name for name in module.imports if _room(name) != module.room and not _is_below(name, module.room))
    assert not wrong, (
        f"{path}.py imports {', '.join(wrong)}, but a module imports only from its own level's folder and lower levels "
        f"({ORDER}). Move what is needed below {module.room}, or pass it as an argument."
    )


def _room(path: str) -> str:
    return path.partition("/")[0]


def _is_below(path: str, room: str) -> bool:
    return _room(path) in LEVEL and LEVEL[_room(path)] < LEVEL[room]


@pytest.mark.parametrize("path", sorted(path for path, module in EVERY.items() if _own_part(module) in SEPARATE))
def test_a_format_imports_no_other_format_and_a_host_no_other_host(path: str) -> None:
    module = EVERY[path]
    own = _own_part(module)
    others = {house.part(module.room, name) for name in module.imports if _room(name) == module.room}
    wrong = sorted(others & SEPARATE - {own, house.BUILT_ON.get(own, own)})
    assert not wrong, (
        f"{path}.py imports {', '.join(wrong)}: formats do not import each other, nor do hosts: each can be read "
        f"alone. Move what both need to {module.room}/<name>.py, or pass it as an argument."
    )


@each_folder
def test_imports_in_a_folder_have_no_circle(folder: str) -> None:
    """Modules and sub-folders, each sub-folder taken as one. So a circle anywhere shows in some folder."""
    graph = house.parts_of(folder, EVERY)
    around = house.circle(graph)
    assert not around, (
        f"in {folder}, imports form a circle: {' → '.join(house.names(around))}. Imports inside functions count, "
        f"imports for annotations do not. Move what both sides need into the lower of them, or into a module below "
        f"both; or pass it as an argument.\n" + "\n".join(house.arrows(around, EVERY))
    )


@pytest.mark.parametrize("folder", house.FLOORS)
def test_parts_of_a_folder_with_levels_import_only_from_lower_levels(folder: str) -> None:
    graph = house.parts_of(folder, EVERY)
    floors = {f"{folder}/{name}": number for number, names in enumerate(house.FLOORS[folder]) for name in names}
    assert floors.keys() == graph.keys(), f"FLOORS (tests/laws/house.py) and the modules of {folder} differ"
    wrong = [(part, other) for part in sorted(graph) for other in sorted(graph[part]) if floors[other] >= floors[part]]
    steps = [step for part, other in wrong for step in house.arrows([part, other], EVERY)]
    assert not wrong, (
        f"in {folder} a part imports from its own level or a higher one (FLOORS in tests/laws/house.py). Move what is "
        f"needed into a part below both, or pass it as an argument.\n" + "\n".join(steps)
    )


@pytest.mark.parametrize(("one", "other"), house.STRANGERS)
def test_strangers_do_not_import_each_other(one: str, other: str) -> None:
    wrong = [*house.arrows([one, other], EVERY), *house.arrows([other, one], EVERY)]
    for name in (one, other):
        assert name in FOLDERS or name in EVERY, f"{name} is in STRANGERS (tests/laws/house.py) but does not exist"
    assert not wrong, (
        f"{one} and {other} must not import each other: each can be changed without reading the other. "
        f"Move what both need into a module below both.\n" + "\n".join(wrong)
    )


def test_a_command_imports_only_the_commands_on_which_it_is_built() -> None:
    graph = {part.rpartition("/")[2]: others for part, others in house.parts_of("commands", EVERY).items()}
    found = {name: {other.rpartition("/")[2] for other in others} for name, others in graph.items()}
    found = {name: others for name, others in found.items() if others and name != "__init__"}
    assert found == house.BUILT_ON_COMMANDS, (
        "a command imports another one that BUILT_ON_COMMANDS (tests/laws/house.py) does not list, or no longer does. "
        "Move what several commands need below commands/: inputs, tabular, distributions, selectors."
    )


@pytest.mark.parametrize("path", sorted(path for path in EVERY if path.startswith("commands/")))
def test_a_command_does_not_call_another_one_through_the_package(path: str) -> None:
    """``from fatpack import explain`` imports no module that the laws above see."""
    public = house.public_names(path)
    assert not public, (
        f"{path}.py takes {', '.join(public)} from fatpack: import the module in which it is defined, so that a circle "
        f"between commands shows"
    )


def test_a_small_module_with_one_importer_beside_it_is_part_of_that_importer() -> None:
    found = dict(house.small_modules(EVERY))
    small = {path: into for path, into in found.items() if path not in house.STAYS_SMALL}
    assert not small, (
        f"{len(small)} modules have fewer than {house.FEWEST_LINES} lines of code and one importer, in their own "
        f"folder. Move each into its importer:\n"
        + "\n".join(f"  {path}.py → {into}.py" for path, into in small.items())
    )
    gone = sorted(house.STAYS_SMALL.keys() - found)
    assert not gone, f"{gone} need no exception any more: remove them from STAYS_SMALL (tests/laws/house.py)"


@each_folder
def test_every_folder_has_a_docstring(folder: str) -> None:
    interface = EVERY.get(f"{folder}/__init__")
    assert interface is not None, f"{folder} has no __init__.py: add one whose docstring says what the folder is for"
    assert interface.docstring, f"{interface.path}.py has no docstring, whose first line is printed in architecture.md"
