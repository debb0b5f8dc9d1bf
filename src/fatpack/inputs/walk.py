"""What users name to files: paths, folders, patterns, URLs, lists of them.

Folders are walked without following links: what a link in them leads to is in them too, or lies outside.
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


# Files that are not looked into because of their names: those that never hold compiled device code, and excluded ones.
#
# Most files of a package are source code, its tables and its pictures. Reading the first bytes of each takes a request
# of a server, and inflating of what is compressed. Whoever wants to be sure looks into everything (``--deep``).

#: Suffixes of what people write, and of what is made of that for people and interpreters. Not here are those of texts
#: that fatpack reads (``.ptx``, ``.s``, ``.ll``, ``.mlir``, ``.i``, ``.ii``, ``.cui``, ``.hipi``) and ``.hip``, which
#: names both. C files in which xxd stored images as numbers are source code: no room reads these.
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

#: what nvcc calls the C file that embeds a fat binary: it is not read, and named
_EMBEDDED = ".fatbin.c"


def is_skipped(name: str) -> bool:
    """Return whether a file of this name holds no compiled device code, whatever is in it."""
    stem, _, suffix = name.rpartition(".")
    return bool(stem) and suffix.lower() in SUFFIXES and not name.endswith(_EMBEDDED)


class ExcludePatterns:
    """The files and folders that patterns exclude. One without ``/`` is for names, any other for paths from the root,
    as are those that begin with one; a ``/`` at the end means nothing.

    A folder that is excluded takes all with it that is in it. ``**`` stands for any folders, also none. ``used`` takes
    up the patterns that excluded something.
    """

    def __init__(self, patterns: Sequence[str], used: set[str] | None = None) -> None:
        #: what was typed, whether it is for paths, and its parts
        self._patterns = [(text, "/" in text.rstrip("/"), text.strip("/").split("/")) for text in patterns]
        self._used = set() if used is None else used

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def has(self, parts: Sequence[str]) -> bool:
        """Return whether the file or folder at a path is excluded; folders around it were asked about before."""
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

    # The states of the pattern that the names so far lead to: a pattern of many ``**`` stays linear in the path.
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
    """Return states with those that are reached where ``**`` stands for nothing."""
    found = set(states)
    for number, part in enumerate(pattern):
        if number in found and part == "**":
            found.add(number + 1)
    return found


class TreeFile(Record):
    """A file that was named or met: its path, its size, what changes when it does; or why it cannot be read.

    ``parts`` lead to it from what was named: folders and its own name; a file that was named itself has its name alone.
    ``error`` is what the system said. ``identity`` is "" where only opening tells: of a URL, whose ``path`` is what may
    be shown of it, and ``name_given`` all.
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
        """Whether it was found in a folder, or by a pattern, and not named itself."""
        return bool(self.parts)


class TreeWalk:
    """The files that some names mean; an iterator over places. Afterwards it knows what it passed over.

    ``links`` counts links in folders, ``special`` counts pipes, sockets and devices there, ``passed`` and ``excluded``
    files there (and excluded folders) that were left out by their names, ``unmatched`` are patterns that no file has,
    ``used`` those of ``exclude`` that left something out. The folder ``output`` is not walked. Paths are absolute, or
    ``as_named``: they begin as what was named does. ``passes`` leaves files out whose names say that no device code is
    in them.
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
            except UsageError as error:  # a line of a list; what is typed was looked at before
                from fatpack.io.url import redact_url

                yield TreeFile(redact_url(text), problem=error.problem, error=error)
                continue
            if hasattr(name, "given"):
                yield TreeFile(str(name), name_given=name.given)
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
        """Yield the files that a pattern means; ``**`` stands for any folders, also none."""
        parts = name.split(os.sep)
        fixed = next(number for number, part in enumerate(parts) if any(char in part for char in PATTERN_CHARACTERS))
        base = os.sep.join(parts[:fixed]) or (os.sep if fixed else "")
        rest = parts[fixed:]
        if not self._as_named:
            base = os.path.abspath(base)  # the names of the folders around may look like patterns, and are none
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
        """Yield the files below a folder, in order of their names, as far down as ``depth`` allows.

        With a ``pattern``, those whose paths from the folder match it, and folders that cannot be read.
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
        """Return whether a file in a folder is meant; count it if it is left out."""
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
    """Yield the names in a list, one on each line ("-" is standard input); empty lines and ``#`` comments are none."""
    descriptor: int | str = 0 if path == "-" else path
    with open(descriptor, encoding="utf-8", errors="surrogateescape", closefd=path != "-") as lines:
        for line in lines:
            name = line.rstrip("\r\n")
            if name and not name.startswith("#"):
                yield name
