"""Libraries that select kernels by name: their file names, and the reason that more of their images must stay."""

from __future__ import annotations

import os
from importlib import import_module

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


class NameBasedLibrary(Record):
    """A line of ``data/libraries.toml``."""

    library: str
    files: tuple[str, ...]
    reason: str
    source: str


_loaded: list[tuple[NameBasedLibrary, ...]] = []


def name_based_libraries() -> tuple[NameBasedLibrary, ...]:
    """Return all lines of ``libraries.toml``; it is read by the first call."""
    if not _loaded:
        path = os.path.join(os.path.dirname(__file__), "data", "libraries.toml")
        with open(path, "rb") as file:
            data: Mapping[str, Any] = import_module("tomllib").load(file)
        rows = ({**row, "files": tuple(row["files"])} for row in data["libraries"])
        _loaded.append(tuple(NameBasedLibrary(**row) for row in rows))
    return _loaded[0]


def find_name_based_library(file_name: str) -> NameBasedLibrary | None:
    """Return the library with a file name, None for any other file.

    ``libcublasLt.so.13``, ``cublas64_12.dll`` and ``libcublas_static.a`` are cuBLAS.
    """
    stem = os.path.basename(file_name).lower().removeprefix("lib")
    word = stem.partition(".")[0]
    for row in name_based_libraries():
        for start in row.files:
            rest = word.removeprefix(start)
            if rest != word and not rest[:1].isalpha():
                return row
    return None
