"""Messages of a stand-in for failures that its module does not handle, in the form of its original.

A full disk behind standard output, an output that is a device, an input that goes away while it is read: each fails
where it is met, and ends here. Sources: what the originals print and exit with on ``/dev/full`` (LLVM 22 and 23, ROCm's
scripts); NVIDIA's tools exit 0 then, and DPC++'s are linked with LLVM's library.
"""

from __future__ import annotations

import os
import sys

from fatpack.exit_codes import error_message
from fatpack.printable import printable

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

#: The message of LLVM's library for a failed write to a stream.
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
        pass  # stderr is closed; only the exit code is left
    return 1


def give_up_stdout() -> None:
    """Keep the interpreter from writing, when it ends, what could not be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


# Recognising fatpack in a program on PATH: a link to its command, a copy of its launcher, a script that calls it.
#
# None of them may be taken for the original of a stand-in.

#: Bytes in every launcher of ``fatpack``, whichever installer wrote it.
_CALL = b"fatpack.main"

#: LIMIT: bytes. Launchers have about 100 kB; a larger file is another program.
_LARGEST_LAUNCHER = 1 << 20

#: LIMIT: bytes at the beginning of a script that are looked at.
_SCRIPT = 4096


def is_command(path: str) -> bool:
    """Return whether a path is a link to a command ``fatpack``, also one that is gone, or a copy of its launcher."""
    try:
        if os.path.islink(path):
            return program_stem(os.path.basename(os.readlink(path))) == "fatpack"
        if not os.path.isfile(path) or os.path.getsize(path) > _LARGEST_LAUNCHER:
            return False
        with open(path, "rb") as file:
            return _CALL in file.read(_LARGEST_LAUNCHER)
    except OSError:
        return False


def is_script(path: str) -> bool:
    """Return whether a file is a script that calls ``fatpack tool``. Only regular files are opened."""
    if not os.path.isfile(path):
        return False  # a pipe would be waited for
    try:
        with open(path, "rb") as file:
            text = file.read(_SCRIPT)
    except OSError:
        return False
    return text.startswith((b"#!", b"@")) and b"fatpack tool" in text


def program_stem(name: str) -> str:
    """Return the name of a program without the ``.exe`` that Windows has after it."""
    return name[:-4] if name.lower().endswith(".exe") else name
