"""What the tool fails with."""

from __future__ import annotations


class ToolError(Exception):
    """An error with LLVM's words; printed as ``<program>: error: <text>``, exit code 1."""


def strerror(error: OSError) -> str:
    """Return what the system says of a failed call, as LLVM prints it."""
    return error.strerror or str(error)
