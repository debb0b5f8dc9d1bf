"""Outputs that LLVM makes by ``FileOutputBuffer``: a file, or standard output for ``-``."""

from __future__ import annotations

import sys

from fatpack.io.atomic_write import write_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.io.source import Piece


def write_output(name: str, pieces: Sequence[Piece]) -> None:
    """Write a file, whatever is there, or standard output."""
    if name != "-":
        write_file(name, pieces, force=True)
        return
    from fatpack.io.write import write_pieces

    sys.stdout.flush()
    write_pieces(1, pieces)
