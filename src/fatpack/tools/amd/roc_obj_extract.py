"""``fatpack tool roc-obj-extract``: writes what URIs name of files, as roc-obj-extract of ROCm 5 to 7 does."""

from __future__ import annotations

import os
import stat
import sys

from fatpack.printable import printable
from fatpack.tools.amd import code_objects
from fatpack.tools.amd.code_objects import print_stderr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_HELP = """\
Usage: roc-obj-extract [-o|v|h] URI...
Write the code object of each URI (without URIs, of each line of standard input) to
<name of the file>-offset<number>-size<number>.co

Options:
  -o <path> \tWrite into this folder; to standard output for "-".
  -v        \tPrint the files that are read and written.
  -h        \tShow this help.

A URI is file://PATH with characters of the path as %XX where they mean something else, and after # or ? what
to write of the file: offset=NUMBER and size=NUMBER with & between them. Numbers are decimal, 0x and hexadecimal,
or 0 and octal. Without an offset it is 0, without a size all that follows.
"""

#: The exit code of Perl's ``die`` if errno is 0.
_NO_ERROR = 255


class _UriError(Exception):
    """An error of one URI; the others are still written."""


def main(program: str, arguments: Sequence[str]) -> int:
    """Run the tool; return the number of URIs that failed, 255 at most, or of the error for what is no folder."""
    options, texts = code_objects.parse_options(arguments, "vho:")
    if code_objects.print_if_asked(options, "roc-obj-extract", _HELP):
        return 0
    folder = options.get("o", "")
    if "o" in options and folder != "-" and (code := _why_no_folder(folder)):
        print_stderr(f"Error: Path '{folder}' cannot be found.")
        return code
    if not texts and not sys.stdin.isatty():
        texts = os.fsdecode(sys.stdin.buffer.read()).splitlines()
    if not texts:
        print_stderr("Error: No arguments.")
        sys.stdout.write(_HELP)
        return 1
    errors = 0
    for text in texts:
        try:
            _extract(text, folder, is_verbose="v" in options)
        except _UriError as error:
            print_stderr(f"Error: {error}")
            errors += 1
    return min(errors, 255)


def _why_no_folder(path: str) -> int:
    """Return what Perl's ``die`` exits with: the number of the system's error, 255 for what is none; 0 for a folder."""
    try:
        return 0 if stat.S_ISDIR(os.stat(path).st_mode) else _NO_ERROR
    except OSError as error:
        return error.errno or _NO_ERROR


def _extract(text: str, folder: str, *, is_verbose: bool) -> None:
    from fatpack.errors import FatpackError
    from fatpack.io.open import open_source

    named = code_objects.parse_uri(text)
    if named.protocol.lower() == "memory":
        raise _UriError(f"memory of processes is not read by fatpack, only files: {text}")
    if named.protocol.lower() != "file":
        raise _UriError(f"'{named.protocol}' is not recognized as a supported code object URI.")
    path = code_objects.decode_path(named.path)
    if not os.path.exists(path):
        raise _UriError(f"can't find file: {path}")
    try:
        with open_source(path) as source:
            view = source.view()
            offset_text = named.offset or "0"
            offset = _number(offset_text, text)
            size_text = str(max(len(view) - offset, 0)) if named.size is None else named.size
            size = _number(size_text, text)
            if not size:
                if is_verbose:
                    _tell(f"Warning: trying to extract from {named.path} at offset={offset_text} with size=0.  ")
                    _tell("Nothing to extract.\n")
                return
            if is_verbose:
                _tell(f'Reading input file "{named.path}" ...\n')
            if offset + size > len(view):
                raise _UriError(
                    f"requested offset({offset_text}) + size({size_text}) exceeds file size({len(view)}) for file "
                    f'"{path}".'
                )
            _write(folder, f"{os.path.basename(path)}-offset{offset_text}-size{size_text}.co", view.slice(offset, size))
    except OSError as error:
        if error.filename is None:
            raise  # standard output takes no more
        raise _UriError(f"{error.filename}: {error.strerror}") from error
    except FatpackError as error:
        raise _UriError(f"{path}: {error}") from error
    if is_verbose:
        _tell(f"Extract request:  file: {named.path} offset: {offset_text} size: {size_text}\n")


def _tell(text: str) -> None:
    sys.stdout.write(printable(text.rstrip("\n")) + "\n" * text.count("\n"))


def _number(text: str, whole: str) -> int:
    try:
        return code_objects.parse_number(text)
    except ValueError:
        raise _UriError(f"'{text}' is no number: {whole}") from None


def _write(folder: str, name: str, part: object) -> None:
    from fatpack.io.atomic_write import write_file
    from fatpack.io.write import write_pieces

    if folder == "-":
        sys.stdout.flush()
        write_pieces(1, [part])  # type: ignore[list-item]
    else:
        write_file(os.path.join(folder, name), [part], force=True)  # type: ignore[list-item]
