"""What both wrappers do: read files, have them registered as they are, and write LLVM IR."""

from __future__ import annotations

import sys

from fatpack.commands.wrap.run import wrap_passthrough
from fatpack.errors import FatpackError
from fatpack.io.atomic_write import write_file
from fatpack.io.open import open_source
from fatpack.record import Record
from fatpack.tools.llvm.failure import ToolError, strerror
from fatpack.words_printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fatpack.io.source import Piece, Source


class WrapperRequest(Record):
    """What a command line asks for: a kind, files, the host's triple, and the version of LLVM that is followed."""

    kind: str
    files: Sequence[str]
    host_triple: str
    llvm: int
    is_relocatable: bool = False


def run_wrapper(program: str, request: WrapperRequest, write: Callable[[Sequence[Piece]], None]) -> int:
    """Hand the LLVM IR of a request to ``write``; print what fails, and return the exit code."""
    opened: list[Source] = []
    try:
        _wrap(program, request, opened, write)
    except ToolError as error:
        sys.stderr.write(printable(f"{program}: error: {error}") + "\n")
        return 1
    finally:
        for source in opened:
            source.close()
    return 0


def _wrap(
    program: str, request: WrapperRequest, opened: list[Source], write: Callable[[Sequence[Piece]], None]
) -> None:
    given = []
    for name in request.files:
        try:
            opened.append(open_source(name))
        except OSError as error:
            raise ToolError(f"'{name}': {strerror(error)}") from error
        given.append((name, opened[-1].view()))
    if len(given) > 1 and request.kind in ("cuda", "hip"):
        raise ToolError("CUDA / HIP offloading uses a single fatbinary or offload bundle")
    try:
        pieces, doubts = wrap_passthrough(
            request.kind,
            given,
            host_triple=request.host_triple,
            llvm=request.llvm,
            is_relocatable=request.is_relocatable,
        )
    except FatpackError as error:
        raise ToolError(str(error)) from error
    for doubt in doubts:
        sys.stderr.write(printable(f"{program}: warning: {doubt}") + "\n")
    write(pieces)


def write_to_file(name: str, pieces: Sequence[Piece], *, names_itself: bool) -> None:
    """Write a file. Raises Failure, which ``names_itself`` has say which file it was."""
    try:
        if not name:
            raise FileNotFoundError(2, "No such file or directory")
        write_file(name, pieces, force=True)
    except OSError as error:
        raise ToolError(f"'{name}': {strerror(error)}" if names_itself else strerror(error)) from error


def write_to_stdout(pieces: Sequence[Piece]) -> None:
    """Write to standard output."""
    from fatpack.io.write import write_pieces

    sys.stdout.flush()
    write_pieces(1, pieces)


def host_triple() -> str:
    """Return the triple of this machine, as an LLVM that was built on it has it by default."""
    import os

    if not hasattr(os, "uname"):
        return "x86_64-pc-windows-msvc"
    system = os.uname()
    if system.sysname == "Darwin":
        return f"{system.machine}-apple-darwin{system.release}"
    return f"{system.machine}-{'pc' if system.machine == 'x86_64' else 'unknown'}-linux-gnu"
