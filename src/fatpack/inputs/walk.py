"""Find the files of paths, folders, patterns, URLs, and lists of them.

Links in folders are not followed: the target of a link is in the folder too, or outside of it.
"""

from __future__ import annotations

import os
import stat

from fatpack.errors import UsageError
from fatpack.io.open import PATTERN_CHARACTERS, is_pattern, resolve_url
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


# Files skipped by name. Most files of a package are source code, tables and pictures, and reading the first bytes of
# each costs a request to a server, or decompression. ``--deep`` reads them all.

#: Suffixes of source code, documents, and code of interpreters. Texts that fatpack reads are not included (``.ptx``,
#: ``.s``, ``.ll``, ``.mlir``, ``.i``, ``.ii``, ``.cui``, ``.hipi``), nor is ``.hip``, which is used for both. C files
#: with images as numbers, written by xxd, are source code: fatpack does not read these.
SUFFIXES = frozenset(
    (
        *("py", "pyc", "pyo", "pyi", "pyx", "pxd", "typed", "ipynb"),
        *("c", "cc", "cpp", "cxx", "cu", "cuh", "h", "hh", "hpp", "hxx", "inc", "inl", "f90", "rs", "go", "java"),
        *("txt", "md", "rst", "tex", "pdf", "html", "htm", "css", "js", "mjs", "ts", "map", "ipp", "tpp"),
        *("json", "yaml", "yml", "toml", "cfg", "ini", "xml", "csv", "tsv", "proto", "sql", "lock"),
        *("png", "jpg", "jpeg", "gif", "svg", "ico", "webp", "bmp", "ttf", "otf", "woff", "woff2", "eot", "wav", "mp4"),
        *("sh", "bat", "ps1", "cmake", "pc", "la", "mk", "in", "mo", "po", "pot", "pem", "crt", "asc", "sig"),
    )
)

#: nvcc's suffix of the C file that embeds a fat binary: it is not read, but reported
_EMBEDDED = ".fatbin.c"


def is_skipped(name: str) -> bool:
    """Return whether a file of this name is assumed to have no compiled device code."""
    stem, _, suffix = name.rpartition(".")
    return bool(stem) and suffix.lower() in SUFFIXES and not name.endswith(_EMBEDDED)


class ExcludePatterns:
    """Patterns of excluded files and folders. A pattern without ``/`` matches names, any other one paths from the root.

    A ``/`` at the end is ignored. An excluded folder excludes everything in it. ``**`` matches any number of folders,
    also none. ``used`` receives the patterns that excluded something.
    """

    def __init__(self, patterns: Sequence[str], used: set[str] | None = None) -> None:
        #: the pattern as typed, whether it matches paths, and its parts
        self._patterns = [(text, "/" in text.rstrip("/"), text.strip("/").split("/")) for text in patterns]
        self._used = set() if used is None else used

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def has(self, parts: Sequence[str]) -> bool:
        """Return whether the file or folder at a path is excluded; the caller has checked the folders around it."""
        found = [
            text
            for text, is_path, pattern in self._patterns
            if parts and path_matches(pattern, parts if is_path else parts[-1:])
        ]
        self._used.update(found)
        return bool(found)

    def has_any(self, parts: Sequence[str]) -> bool:
        """Return whether a file is excluded, or a folder around it."""
        return bool(self._patterns) and any(self.has(parts[:end]) for end in range(1, len(parts) + 1))


def path_matches(pattern: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether the parts of a path match those of a pattern, one each; ``**`` matches any number of them."""
    from fnmatch import fnmatchcase

    # The set of states after each name: the time stays linear in the path for a pattern with many ``**``.
    states = _past_stars(pattern, {0})
    for name in names:
        following = set()
        for state in states:
            if state == len(pattern):
                continue
            if pattern[state] == "**":
                following.add(state)
            elif fnmatchcase(name, pattern[state]):
                following.add(state + 1)
        states = _past_stars(pattern, following)
    return len(pattern) in states


def _past_stars(pattern: Sequence[str], states: set[int]) -> set[int]:
    """Return the states, and the states after each ``**``, which may match nothing."""
    found = set(states)
    for number, part in enumerate(pattern):
        if number in found and part == "**":
            found.add(number + 1)
    return found


class TreeFile(Record):
    """A file that was named, or found in a folder: path, size and identity; or the reason that it cannot be read.

    ``parts``: the parts of its path below the name that the user typed; only the file name if the file was named.
    ``error``: the error of the system. ``identity``: changes if the file changes; "" for a URL, which must be opened
    for it. ``path`` of a URL is without secrets, ``name_given`` is the complete URL.
    """

    path: str
    size: int = 0
    identity: str = ""
    problem: str = ""
    name_given: str = ""
    parts: tuple[str, ...] = ()
    error: OSError | UsageError | None = None

    @property
    def is_met(self) -> bool:
        """True if it was found in a folder or by a pattern; false if it was named itself."""
        return bool(self.parts)


class TreeWalk:
    """Iterates over the files of some names, then has the counts of skipped ones.

    ``links``: links in folders. ``special``: pipes, sockets and devices there. ``passed``, ``excluded``: files (and
    folders) skipped by name, and by a pattern of ``exclude``. ``unmatched``: patterns that match no file. ``used``:
    patterns of ``exclude`` that matched.

    The folder ``output`` is not walked. Paths are absolute, or with ``as_named`` start with the typed name. ``passes``
    skips files whose names show that they have no device code.
    """

    def __init__(
        self,
        names: Iterable[str],
        output: str | None = None,
        *,
        as_named: bool = False,
        passes: bool = False,
        exclude: Sequence[str] = (),
    ) -> None:
        self._names = names
        self._output = None if output is None else os.path.abspath(output)
        self._as_named = as_named
        self._passes = passes
        self.used: set[str] = set()
        self._excluded = ExcludePatterns(exclude, self.used)
        self.links = self.special = self.passed = self.excluded = 0
        self.unmatched: list[str] = []

    def __iter__(self) -> Iterator[TreeFile]:
        for text in self._names:
            try:
                name = resolve_url(text)
            except UsageError as error:  # a line of a list; typed names were checked before
                from fatpack.io.url import redact_url

                yield TreeFile(redact_url(text), problem=error.problem, error=error)
                continue
            if hasattr(name, "full_url"):
                yield TreeFile(str(name), name_given=name.full_url)
                continue
            if is_pattern(name):
                yield from self._pattern(name)
            else:
                yield from self._named(name if self._as_named else os.path.abspath(name))

    def _named(self, path: str) -> Iterator[TreeFile]:
        try:
            status = os.stat(path)
        except (OSError, ValueError) as error:
            yield _unreadable(path, error)
            return
        if stat.S_ISDIR(status.st_mode):
            yield from self._folder(path)
        elif stat.S_ISREG(status.st_mode):
            yield _place(path, status)
        else:
            yield TreeFile(path, problem="this is no file: pipes and devices are not surveyed")

    def _pattern(self, name: str) -> Iterator[TreeFile]:
        """Yield the files that match a pattern; ``**`` matches any number of folders, also none."""
        parts = name.split(os.sep)
        fixed = next(number for number, part in enumerate(parts) if any(char in part for char in PATTERN_CHARACTERS))
        base = os.sep.join(parts[:fixed]) or (os.sep if fixed else "")
        rest = parts[fixed:]
        if not self._as_named:
            base = os.path.abspath(base)  # names of the folders around may have characters of patterns
            rest = [part for part in rest if part not in ("", os.curdir)]
        is_met, before = False, self.passed + self.excluded
        for place in self._folder(base, None if "**" in rest else len(rest), rest):
            is_met = is_met or not place.problem
            yield place
        if not is_met and self.passed + self.excluded == before:
            self.unmatched.append(name)

    def _folder(
        self, folder: str, depth: int | None = None, pattern: Sequence[str] | None = None
    ) -> Iterator[TreeFile]:
        """Yield the files below a folder, in order of their names, down to ``depth`` levels.

        With a ``pattern``, only files whose paths below the folder match it, and folders that cannot be read.
        """
        waiting: list[tuple[str, tuple[str, ...], int | None]] = [(folder, (), depth)]
        while waiting:
            path, parts, left = waiting.pop()
            if self._output is not None and os.path.abspath(path) == self._output:
                continue
            try:
                with os.scandir(path or os.curdir) as found:
                    entries = sorted(found, key=lambda entry: entry.name)
            except OSError as error:
                if pattern is None or not parts or _may_lead(pattern, parts):
                    yield _unreadable(path or os.curdir, error, parts)
                continue
            below: list[tuple[str, tuple[str, ...], int | None]] = []
            for entry in entries:
                inner, here = os.path.join(path, entry.name), (*parts, entry.name)
                if not entry.is_dir(follow_symlinks=False):
                    if self._is_meant(entry, here, pattern):
                        yield _met(entry, inner, here)
                elif self._excluded.has(here):
                    self.excluded += 1
                elif left is None or left > 1:
                    below.append((inner, here, None if left is None else left - 1))
            waiting += reversed(below)

    def _is_meant(self, entry: os.DirEntry[str], parts: tuple[str, ...], pattern: Sequence[str] | None) -> bool:
        """Return whether a file in a folder is selected; count it if it is skipped."""
        if pattern is not None and not path_matches(pattern, parts):
            self.links += entry.is_symlink() and _may_lead(pattern, parts)
        elif entry.is_symlink():
            self.links += 1
        elif not entry.is_file(follow_symlinks=False):
            self.special += 1
        elif self._excluded.has(parts):
            self.excluded += 1
        elif self._passes and is_skipped(entry.name):
            self.passed += 1
        else:
            return True
        return False


def _may_lead(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    """Return whether files below a folder may match a pattern."""
    return "**" in pattern or path_matches(pattern[: len(parts)], parts)


def _met(entry: os.DirEntry[str], path: str, parts: tuple[str, ...]) -> TreeFile:
    try:
        return _place(path, entry.stat(follow_symlinks=False), parts)
    except OSError as error:
        return _unreadable(path, error, parts)


def _place(path: str, status: os.stat_result, parts: tuple[str, ...] = ()) -> TreeFile:
    return TreeFile(path, status.st_size, f"{status.st_size}:{status.st_mtime_ns}", parts=parts)


def _unreadable(path: str, error: OSError | ValueError, parts: tuple[str, ...] = ()) -> TreeFile:
    if not isinstance(error, OSError):
        return TreeFile(path, problem=str(error), parts=parts, error=UsageError(str(error), chain=(path,)))
    return TreeFile(path, problem=error.strerror or str(error), parts=parts, error=error)


def read_list_file(path: str) -> Iterator[str]:
    """Yield the names in a list, one on each line ("-" is standard input), except empty lines and ``#`` comments."""
    descriptor: int | str = 0 if path == "-" else path
    with open(descriptor, encoding="utf-8", errors="surrogateescape", closefd=path != "-") as lines:
        for line in lines:
            name = line.rstrip("\r\n")
            if name and not name.startswith("#"):
                yield name
