"""The tables of ``docs/design/architecture.md``: top-level modules with their levels, and the folders in them.

The levels are those that ``tests/laws/test_imports.py`` checks; the purpose is the first line of each docstring.
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
    """Return the table of top-level modules and folders, lowest level first."""
    every = house.modules()
    rows = [
        [str(level), f"`{name}{'' if name in every else '/'}`", _purpose(name, every)]
        for level, names in enumerate(house.LEVELS, 1)
        for name in sorted(names)
    ]
    return "\n".join(table(["level", "module", "purpose"], rows))


def folders() -> str:
    """Return the table of the folders in each top-level folder, imported folders first."""
    every = house.modules()
    tops = (room for names in house.LEVELS for room in sorted(names) if room not in every)
    rows = [[f"`{room}/`", ", ".join(f"`{name}`" for name in house.names(_below(room, every)))] for room in tops]
    return "\n".join(table(["folder", "folders in it"], [row for row in rows if row[1]]))


def _below(folder: str, every: Mapping[str, Module]) -> Iterator[str]:
    """Yield the folders in a folder; each imports only from those before it."""
    for part in house.lowest_first(house.parts_of(folder, every)):
        if part not in every:
            yield part


def _purpose(name: str, every: Mapping[str, Module]) -> str:
    """Return the first paragraph of the docstring of a module or folder, as Markdown."""
    docstring = (every.get(name) or every[f"{name}/__init__"]).docstring
    text = " ".join(docstring.partition("\n\n")[0].split()).rstrip(".")
    return re.sub(r"(?::\w+:`|``)~?([^`]*)`+", r"`\1`", text)
