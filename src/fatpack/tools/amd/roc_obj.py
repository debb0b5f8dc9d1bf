"""``fatpack tool roc-obj``: extracts code objects, and runs commands on each, as roc-obj of ROCm 5 to 7 does."""

from __future__ import annotations

import os
import sys

from fatpack.tools.amd.code_objects import print_stderr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_HELP = """\
Usage: roc-obj [-h] [-t REGEXP] [-o OUTDIR] [-I REPLACE-STRING|-i] [-d]
               EXECUTABLE... [: [SUFFIX COMMAND [ARGS...] ;]...]

Write the code objects in each EXECUTABLE to files named EXECUTABLE:BUNDLE.TARGET-ID, and run each COMMAND with each
of them as standard input. Standard output goes to the file's name with SUFFIX after it, nowhere for SUFFIX "!",
and where it went for SUFFIX "-".

Options:
  -h, --help              Show this help.
  -t, --target-id         Only those whose ID the regular expression REGEXP is found in.
  -o, --outdir            Write into this folder, which is made.
  -I, --replace-string    What ARGS have in place of the name of the extracted file.
  -i, --replace           The same as -I{}.
  -d, --disassemble       The same as : .s llvm-objdump -d - \\;
"""

#: option → its letter, and the options that have a value
_LONG = {
    "help": "h",
    "target-id": "t",
    "outdir": "o",
    "replace-string": "I",
    "replace": "i",
    "disassemble": "d",
}
_VALUED = "toI"

#: what shells exit with for a program that is not there, and one that a signal ended
_NOT_FOUND, _SIGNAL = 127, 128


class _ToolError(Exception):
    """The last word, and an exit code."""

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.code = code


def main(program: str, arguments: Sequence[str]) -> int:
    """Run the tool; return 0, 1 for what cannot be read or written, or the exit code of a command that fails."""
    try:
        options, words = _parse(list(arguments))
        if "h" in options:
            sys.stdout.write(_HELP)
            return 0
        return _run(options, words)
    except _ToolError as error:
        if str(error):
            print_stderr(f"error: {error}")
        return error.code


def _parse(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """Return the options by their letters, and the words after them. Raises _Failed."""
    options: dict[str, str] = {}
    while words and len(words[0]) > 1 and words[0].startswith("-"):
        word = words.pop(0)
        if word == "--":
            break
        name, equals, value = word[2:].partition("=") if word.startswith("--") else ("", "", "")
        letters = _LONG.get(name, "") if name else word[1:]
        if not letters:
            raise _ToolError(f"unrecognized option '{word}'")
        while letters:
            letter, letters = letters[0], letters[1:]
            if letter not in _LONG.values():
                raise _ToolError(f"invalid option -- '{letter}'")
            if letter not in _VALUED:
                options[letter] = "1"
            elif equals or letters or words:
                options[letter], letters = value if equals else letters or words.pop(0), ""
            else:
                raise _ToolError(f"option requires an argument -- '{letter}'")
    return options, words


def _run(options: dict[str, str], words: list[str]) -> int:
    end = words.index(":") if ":" in words else len(words)
    is_wanted = _selection(options.get("t", ""))
    folder = options.get("o", "")
    if folder:
        os.makedirs(folder, exist_ok=True)
    extraction = _Extraction(folder, is_wanted)
    inputs = [path for file in words[:end] for path in extraction.written(file)]
    if not inputs:
        raise _ToolError("no code object was extracted" if end else "no executables specified")
    mark = "{}" if "i" in options else options.get("I", "")
    for suffix, command in _commands(words[end + 1 :]):
        _execute(suffix, command, mark, inputs)
    if "d" in options:
        _execute(".s", [_disassembler(), "-d", "-"], "", inputs)
    return extraction.code


def _selection(expression: str) -> Callable[[str], object]:
    """Return a function that says by its ID if a code object is selected. Raises _Failed for an invalid expression."""
    if not expression:
        return lambda _id: True
    import re  # it takes as long as everything else here

    try:
        return re.compile(expression).search
    except re.error as error:
        raise _ToolError(f"-t {expression}: {error}") from None


class _Extraction:
    """Code objects of files, written into a folder; ``code`` is 1 once something could not be read."""

    def __init__(self, folder: str, is_wanted: Callable[[str], object]) -> None:
        self.code = 0
        self._folder, self._is_wanted = folder, is_wanted

    def written(self, file: str) -> Iterator[str]:
        """Write the code objects of a file, and yield their paths."""
        from fatpack.errors import FatpackError
        from fatpack.io.atomic_write import write_file
        from fatpack.io.open import open_source
        from fatpack.tools.amd.code_objects import HipBundle, list_bundles

        number = 0
        try:
            with open_source("./-" if file == "-" else file) as source:
                view = source.view()
                for item in list_bundles(view):
                    if not isinstance(item, HipBundle):
                        self._fail(f"{item.code} at {item.span.start:#x}: {item.text}")
                        continue
                    number += 1
                    for name, data in item.images:
                        if not len(data) or not self._is_wanted(name):
                            continue
                        # The name is the file's own: it chooses no folder.
                        stored = f"{os.path.basename(file)}:{number}.{name.replace('/', '_')}"
                        path = os.path.join(self._folder, stored)
                        write_file(path, [data], force=True, inputs=[view])
                        yield path
        except OSError as error:
            self._fail(f"{error.filename or file}: {error.strerror}")
        except FatpackError as error:
            self._fail(f"{file}: {error}")

    def _fail(self, text: str) -> None:
        print_stderr(f"error: {text}")
        self.code = 1


def _commands(words: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield suffixes and command lines: words up to each ``;``."""
    group: list[str] = []
    for word in (*words, ";"):
        if word != ";":
            group.append(word)
            continue
        if len(group) == 1:
            raise _ToolError(f"no command after the suffix {group[0]!r}")
        if group:
            yield group[0], group[1:]
        group = []


def _execute(suffix: str, command: Sequence[str], mark: str, inputs: Sequence[str]) -> None:
    """Run a command on each file. Raises _Failed with the exit code of the first that fails."""
    import subprocess

    for path in inputs:
        words = [command[0], *(word.replace(mark, path) if mark else word for word in command[1:])]
        sys.stdout.flush()
        with open(path, "rb") as given, open(os.devnull if suffix in "!-" else path + suffix, "wb") as taken:
            try:
                done = subprocess.run(words, stdin=given, stdout=None if suffix == "-" else taken, check=False)
            except OSError as error:
                raise _ToolError(f"{words[0]}: {error.strerror}", _NOT_FOUND) from None
        if done.returncode:
            raise _ToolError("", done.returncode if done.returncode > 0 else _SIGNAL - done.returncode)


def _disassembler() -> str:
    """Return llvm-objdump: of the folder that ``HIP_CLANG_PATH`` names, or what PATH has."""
    path = os.path.join(os.environ.get("HIP_CLANG_PATH", ""), "llvm-objdump")
    return path if os.environ.get("HIP_CLANG_PATH") and os.access(path, os.X_OK) else "llvm-objdump"
