"""Data flows one way: the import order of the rooms, read from the source."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from fatpack import formats, hosts

ROOT = Path(__file__).parents[2] / "src" / "fatpack"

#: Who may import whom: a module imports only from levels below its own (docs/design/architecture.md).
LEVELS = [
    {"record"},
    {"errors"},
    {"model", "doc", "parallel"},
    {"findings", "io"},
    {"bitstream", "byte_map", "codec", "elf", "layout", "target"},
    {"symbols"},
    {"images", "formats", "hosts"},
    {"deep", "runtime"},
    {"scanner"},
    {"ops"},
    {"report"},
    {"api"},
    {"cli"},
]
LEVEL = {name: number for number, names in enumerate(LEVELS) for name in names}

#: `from fatpack import __version__`, and the package's own lazy list of public names
NO_ROOM = {"__version__", ""}

#: Rooms of a kind do not know each other; modules beside them that are no rooms may be shared.
ROOMS = {*formats.ROOMS.values(), *hosts.ROOMS.values()}

MODULES = sorted(path for path in ROOT.rglob("*.py"))


def _imports(path: Path) -> set[str]:
    """Return the dotted names below fatpack that a module imports anywhere, type-checking blocks included."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "fatpack":
            inner = node.module.split(".")[1:]
            names |= {".".join([*inner, alias.name]) for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[2] for alias in node.names if alias.name.split(".")[0] == "fatpack"}
    return names - NO_ROOM


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_arrow_points_back(path: Path) -> None:
    parts = path.relative_to(ROOT).with_suffix("").parts
    if parts == ("__init__",):
        return
    room = parts[0]
    for name in _imports(path):
        other = name.split(".")[0]
        if other == room:
            neighbour = ".".join(["fatpack", *name.split(".")[:2]])
            own = ".".join(["fatpack", *parts[:2]])
            assert neighbour == own or neighbour not in ROOMS, f"{own} imports the room {neighbour} beside it"
            continue
        assert LEVEL[other] < LEVEL[room], f"{path.name} in {room} imports {name}"
