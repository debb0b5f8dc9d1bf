"""The part of ``docs/design/architecture.md`` that the source knows better: rooms, their order, their folders.

The order is the one that ``tests/laws/test_imports.py`` holds; what a room or folder is for stands in its docstring.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.laws import house
from tools.docs.markdown import table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.laws.house import Module


def rooms() -> str:
    """Return the rooms, floor by floor."""
    every = house.modules()
    rows = [
        [str(floor), f"`{name}{'' if name in every else '/'}`", _purpose(name, every)]
        for floor, names in enumerate(house.LEVELS, 1)
        for name in sorted(names)
    ]
    return "\n".join(table(["floor", "room", "what it is for"], rows))


def folders() -> str:
    """Return the folders inside the rooms: of a folder's parts, each imports only from those before it."""
    every = house.modules()
    tops = (room for names in house.LEVELS for room in sorted(names) if room not in every)
    rows = [[f"`{folder}/`", _purpose(folder, every)] for room in tops for folder in _below(room, every)]
    return "\n".join(table(["folder", "what is done there"], rows))


def _below(folder: str, every: Mapping[str, Module]) -> Iterator[str]:
    """Yield all folders below a folder; of its own ones, each imports only from those before it."""
    for part in house.lowest_first(house.parts_of(folder, every)):
        if part not in every:
            yield part
            yield from _below(part, every)


def _purpose(name: str, every: Mapping[str, Module]) -> str:
    """Return the first sentences of the docstring of a module or folder, as Markdown."""
    docstring = (every.get(name) or every[f"{name}/__init__"]).docstring
    text = " ".join(docstring.partition("\n\n")[0].split()).rstrip(".")
    return re.sub(r"(?::\w+:`|``)~?([^`]*)`+", r"`\1`", text)
