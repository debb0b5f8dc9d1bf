"""Command lines, read and not run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fatpack.commands import load_command


def parsed(name: str, words: Sequence[str]) -> dict[str, Any]:
    """Return the value of each parameter of a command. Raises click.UsageError for arguments that it refuses."""
    return dict(load_command(name).make_context(name, list(words), help_option_names=["-h", "--help"]).params)
