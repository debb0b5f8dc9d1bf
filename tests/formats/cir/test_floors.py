"""The floors of this room: a folder imports only from those below it; combining and reading do not know each other."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from fatpack.formats import cir

ROOM = Path(cir.__file__).parent

#: Lowest first. Those of one line do not know each other.
FLOORS = [
    {"words", "bundle_id"},
    {"text"},
    {"bytecode"},
    {"modules"},
    {"rules"},
    {"gpu_binary", "combine"},
    {"container"},
    {"__init__"},
]
FLOOR = {name: number for number, names in enumerate(FLOORS) for name in names}


@pytest.mark.parametrize("path", sorted(ROOM.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOM)))
def test_a_folder_imports_only_from_below(path: Path) -> None:
    own = path.relative_to(ROOM).with_suffix("").parts[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if not (isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("fatpack.formats.cir")):
            continue
        inner = node.module.split(".")[3:]
        for other in [inner[0]] if inner else [alias.name for alias in node.names]:
            assert other == own or FLOOR[other] < FLOOR[own], f"{path.name} in {own} imports {other}, a floor above"
            assert {own, other} != {"container", "combine"}, "what reads containers and what combines do not meet"
