"""Stand-ins for tools of AMD's ROCm: one module per tool, and what they share."""

from __future__ import annotations

import sys

from fatpack.words_printable import printable


def print_stderr(line: str) -> None:
    """Print a line on stderr, behind what stdout has."""
    sys.stdout.flush()
    sys.stderr.write(printable(line) + "\n")
