"""What a stand-in says where something fails that its module has no words for: in the form of its original.

A full disk behind standard output, an output that is a device, an input that goes away while it is read: each fails
where it is met, and ends here. Sources: what the originals print and exit with on ``/dev/full`` (LLVM 22 and 23, ROCm's
scripts); NVIDIA's tools exit 0 then, and DPC++'s are linked with LLVM's library.
"""

from __future__ import annotations

import os
import sys

from fatpack.exit_codes import error_message
from fatpack.words_printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.errors import FatpackError

#: family or name of a stand-in → how its failures begin; names count before families
_BEGINNINGS = {
    "llvm": "{program}: error: ",
    "intel": "{program}: error: ",
    "nvidia": "{name} fatal   : ",
    "amd": "Error: ",
    "cir-offload-merge": "error: ",
    "clang-offload-extract": "error     ",
    "file-table-tform": "error: ",
    "llvm-foreach": "{program}: ",
}

#: What LLVM's library says of a stream that takes no more.
_STREAM = "LLVM ERROR: IO failure on output stream: "


def print_failure(name: str, family: str, program: str, error: FatpackError | OSError | MemoryError) -> int:
    """Print a failure as the original of a stand-in begins its own, and return the exit code: 1 for all of them."""
    beginning = _BEGINNINGS.get(name, _BEGINNINGS[family]).format(name=name, program=program)
    try:
        sys.stdout.flush()
    except OSError:
        give_up_stdout()
    if isinstance(error, MemoryError):
        text = "not enough memory"
    elif isinstance(error, OSError) and error.filename is None:
        is_llvm = family in ("llvm", "intel")
        beginning = _STREAM if is_llvm else f"{beginning}standard output: "
        text = error.strerror or str(error)
    else:
        text = error_message(error)
    try:
        sys.stderr.write(printable(beginning + text) + "\n")
        sys.stderr.flush()
    except OSError:
        pass  # nobody listens; the exit code is what is left
    return 1


def give_up_stdout() -> None:
    """Keep the interpreter from writing, when it ends, what could not be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
