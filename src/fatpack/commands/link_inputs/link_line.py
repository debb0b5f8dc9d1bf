"""Link lines: files, libraries and where they are looked for, in the order in which a linker is given them.

Options are read as clang-linker-wrapper reads them: every ``-L`` counts for every ``-l``, wherever
it is written; ``--whole-archive`` counts for the files after it, until ``--no-whole-archive``. Of all else on a line it
knows nothing: the value of an option that it does not know is a file for it, which is passed by where there is none.

QUIRK(LLVM 22, 23): ``--library=NAME`` and ``--library NAME``, which linkers take for ``-l``, are passed by.
Libraries that no ``-L`` has are looked for in the system's folders, too: compilers add these to a line as ``-L`` before
clang-linker-wrapper sees it, which ends with an error for a library that it does not find.

QUIRK(LLVM 22): ``-lNAME.lib`` is looked for without its first letter; this does as LLVM 23 does.

How we know: ``getDeviceInput`` and ``searchLibrary`` in ClangLinkerWrapper.cpp, and LinkerWrapperOpts.td, of
clang/tools/clang-linker-wrapper; every spelling was tried with 22.1 and 23.1.
"""

from __future__ import annotations

import os

from fatpack.errors import UsageError
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Options that linkers spell with one dash or two.
_WHOLE = {"whole-archive": True, "no-whole-archive": False}

#: Options of a link line for a folder, the system's root, an architecture: the value follows the word, or is the next.
_FOLDERS = ("--library-path=", "-library-path=", "-libpath:")
_ROOT = "--sysroot="
_ASKED = "--should-extract="

#: The system's folders of libraries, below its root, in the order of ``ld --verbose`` on Debian and Fedora
_SYSTEM = ("usr/local/lib", "lib/*-linux-*", "usr/lib/*-linux-*", "lib64", "usr/lib64", "lib", "usr/lib")

#: Options whose value is no input
_OUTPUTS = ("-o", "--output")


class LinkWord(Record):
    """A file or a library on a line; ``is_whole``: all members of an archive are linked, whether needed or not.

    ``is_required`` tells that the line means a file: one that is missing is an error then, and passed by otherwise.
    """

    text: str
    is_library: bool
    is_whole: bool
    is_required: bool = True


class LinkLine(Record):
    """A link line: the inputs in order, the folders of libraries, the root of the system, and requested architectures.

    ``extract_archs`` are architectures whose images are taken from archives even if nothing else is for them,
    ``ignored_words`` words without a meaning for device code.
    """

    words: tuple[LinkWord, ...]
    folders: tuple[str, ...]
    root: str
    extract_archs: tuple[str, ...]
    ignored_words: tuple[str, ...]


def parse_link_line(words: Sequence[str], linker_words: Sequence[str] = ()) -> LinkLine:
    """Return the line that words make. Raises UsageError for an option that is none of a link line.

    ``linker_words`` are a linker's own, after the others: options that are not known there are passed by, and so are
    files that are missing, as clang-linker-wrapper does it.
    """
    line = _LinkLineParser()
    line.read(words, is_strict=True)
    line.read(linker_words, is_strict=False)
    return LinkLine(
        tuple(line.words), tuple(line.folders), line.root, tuple(line.extract_archs), tuple(line.ignored_words)
    )


class _LinkLineParser:
    """A line while it is read."""

    def __init__(self) -> None:
        self.words: list[LinkWord] = []
        self.folders: list[str] = []
        self.root = ""
        self.extract_archs: list[str] = []
        self.ignored_words: list[str] = []
        self._is_whole = False

    def read(self, words: Sequence[str], *, is_strict: bool) -> None:
        rest = iter(words)
        for word in rest:
            if word[:1] != "-" or word == "-":
                self.words.append(LinkWord(word, False, self._is_whole, is_strict))
            elif not self._option(word, rest):
                if is_strict:
                    raise UsageError(
                        f"{word} is no option of a link line",
                        hint="-L, -l, --whole-archive, --no-whole-archive are; write -- before the words of a linker",
                    )
                self.ignored_words.append(word)

    def _option(self, word: str, rest: Iterator[str]) -> bool:
        """Read an option, with the next word where it belongs to it; return whether it is known."""
        bare = word.lstrip("-")
        if bare in _WHOLE:
            self._is_whole = _WHOLE[bare]
        elif word.startswith("-L"):
            self.folders.append(word[2:] or _next(word, rest))
        elif word.startswith(_FOLDERS):
            self.folders.append(next(word[len(start) :] for start in _FOLDERS if word.startswith(start)))
        elif word.startswith(_ROOT):
            self.root = word[len(_ROOT) :]
        elif word.startswith(_ASKED):
            self.extract_archs.append(word[len(_ASKED) :])
        elif word in _OUTPUTS:
            self.ignored_words += [word, _next(word, rest)]
        elif word.startswith("-l"):
            self.words.append(LinkWord(word[2:] or _next(word, rest), True, self._is_whole))
        else:
            return False
        return True


def _next(word: str, rest: Iterator[str]) -> str:
    text = next(rest, None)
    if text is None:
        raise UsageError(f"{word} is the last word of the line, and needs another one after it")
    return text


def find_link_file(word: LinkWord, line: LinkLine) -> str:
    """Return the file that a word means. Raises UsageError for a library that no folder has, nor the system's."""
    if not word.is_library:
        return word.text
    name = word.text
    names = (
        [name[1:]] if name.startswith(":") else [name] if name.endswith(".lib") else [f"lib{name}.so", f"lib{name}.a"]
    )
    path = _in_folders([_rooted(folder, line.root) for folder in line.folders], names)
    if path is not None:
        return path
    system = _system_folders(line.root)
    path = _in_folders(system, names)
    if path is not None:
        return path
    where = f"in {', '.join(line.folders)}" if line.folders else "and no -L says where libraries are"
    others = f", nor in the system's folders ({', '.join(system)})" if system else ""
    problem = f"-l{name}: no {' and no '.join(names)} {where}{others}"
    raise UsageError(problem, hint="add -L FOLDER, or name the file itself")


def _in_folders(folders: Sequence[str], names: Sequence[str]) -> str | None:
    for folder in folders:
        for name in names:
            path = os.path.join(folder, name)
            if os.path.exists(path):
                return path
    return None


def _system_folders(root: str) -> list[str]:
    """Return the folders below a root ("" for that of this machine) in which linkers of Linux look by themselves.

    Several processors may have a folder (``/usr/lib/aarch64-linux-gnu``): that of this machine's comes first.
    """
    import glob  # with platform and re it takes a third of what a whole stand-in may; lines of compilers have -L
    import platform

    machine = platform.machine()
    folders: list[str] = []
    for pattern in _SYSTEM:
        found = glob.glob(os.path.join(glob.escape(root or "/"), pattern))
        folders += sorted(found, key=lambda folder: (not os.path.basename(folder).startswith(machine), folder))
    return folders


def _rooted(folder: str, root: str) -> str:
    """Return a folder, below the root of the system if it starts with ``=``."""
    if not folder.startswith("="):
        return folder
    return os.path.join(root, folder[1:].lstrip("/")) if root else folder[1:]
