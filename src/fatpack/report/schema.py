"""The JSON schema of ``inspect --json``, shipped beside this module."""

from __future__ import annotations

import os


def text() -> str:
    """Return the schema of ``fatpack.inspect/1`` as JSON text."""
    with open(os.path.join(os.path.dirname(__file__), "inspect.schema.json"), encoding="utf-8") as file:
        return file.read()
