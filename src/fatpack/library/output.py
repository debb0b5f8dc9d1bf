"""Where a result goes: into a file of a given name, whole or not at all, or into a file that is open already."""

from __future__ import annotations

import errno
import os

from fatpack.budget import output_budget
from fatpack.edit import editor
from fatpack.io.atomic_write import write_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import BinaryIO, TypeAlias

    from fatpack.budget import Budget
    from fatpack.commands.pack.packed import PackedContainers
    from fatpack.io.source import Piece, View

    Output: TypeAlias = str | os.PathLike[str] | BinaryIO
    """A path, or a binary file open for writing."""


def write_packed(
    output: Output, packed: PackedContainers, *, force: bool, inputs: Sequence[View], budget: Budget
) -> int:
    """Write a container, or the copy of a host that it went into, and return the size in bytes.

    A path that exists is refused unless ``force``, and in any case if it is one of the ``inputs``.
    """
    if not isinstance(output, (str, os.PathLike)):
        return _write_open(output, packed.pieces, budget)
    return write_file(
        output, packed.pieces, force=force, inputs=inputs, verify=packed.verify, mode=packed.mode, budget=budget
    )


def write_pieces_to(output: Output, pieces: Iterable[Piece], *, force: bool) -> int:
    """Write what was made of no single file, and return the size in bytes; a path that exists is refused."""
    if not isinstance(output, (str, os.PathLike)):
        return _write_open(output, pieces, output_budget())
    return write_file(output, pieces, force=force)


def write_edited(
    host: View,
    pieces: Iterable[Piece],
    output: Output,
    *,
    force: bool,
    inputs: Sequence[View] = (),
    check: editor.EditCheck | None = None,
) -> int:
    """Write an edited copy of a host and return the size in bytes; under a path's name it is verified before."""
    if not isinstance(output, (str, os.PathLike)):
        return _write_open(output, pieces, host.source.budget)
    return editor.write_edited(host, pieces, output, force=force, inputs=inputs, check=check)


def _write_open(output: BinaryIO, pieces: Iterable[Piece], budget: Budget) -> int:
    if not hasattr(output, "write"):
        raise TypeError(f"output must be a path or a binary file open for writing, got {type(output).__name__}")
    total = 0
    if isinstance(pieces, (list, tuple)):
        budget.check_output(sum(map(len, pieces)))
    for piece in pieces:
        budget.write(len(piece))
        for part in [piece] if isinstance(piece, (bytes, bytearray, memoryview)) else piece.pieces():
            rest = memoryview(part)
            while rest:
                # An unbuffered file may take less than it is given (io.RawIOBase.write).
                taken = output.write(rest)
                if not taken:
                    raise BlockingIOError(errno.EAGAIN, "the output takes no more bytes")
                rest = rest[taken:]
        total += len(piece)
    return total
