"""Files that are not looked into because of their names: those that never hold compiled device code, and excluded ones.

Most files of a package are source code, its tables and its pictures. Reading the first bytes of each takes a request
of a server, and inflating of what is compressed. Whoever wants to be sure looks into everything (``--deep``).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

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
