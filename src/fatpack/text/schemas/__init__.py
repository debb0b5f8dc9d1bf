"""The JSON schemas of what commands print, which are shipped beside this module."""

from __future__ import annotations

import os

#: Names of the schemas of ``inspect`` and ``slim``, for commands that declare them without loading what prints them.
INSPECT = "fatpack.inspect/1"
SLIM = "fatpack.slim/1"


def schema_text(name: str) -> str:
    """Return the schema of an output as JSON text: ``inspect``, ``runtime``, ``sums``, ``rows``, ``targets``, …."""
    with open(os.path.join(os.path.dirname(__file__), f"{name}.schema.json"), encoding="utf-8") as file:
        return file.read()
