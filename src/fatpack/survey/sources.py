"""What users name to files: paths, folders, patterns, URLs, lists of them.

Folders are walked without following links: what a link in them leads to is in them too, or lies outside.
"""

from __future__ import annotations

import os
import stat

from fatpack.errors import UsageError
from fatpack.io.sources.opening import located
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

#: Characters that make a name a pattern, if there is no file of that name.
_MAGIC = "*?["


class Place(Record):
    """A file that was named or met: its absolute path, its size, what changes when it does; or why it cannot be read.

    ``identity`` is "" where only opening tells: of a URL, whose ``path`` is what may be shown of it, and ``given`` all.
    """

    path: str
    size: int = 0
    identity: str = ""
    problem: str = ""
    given: str = ""


class Walk:
    """The files that some names mean; an iterator over places. Afterwards it knows what it passed over.

    ``links`` counts links in folders, ``special`` counts pipes, sockets and devices there, ``unmatched`` are patterns
    that no file has. The folder ``output`` is not walked.
    """

    def __init__(self, names: Iterable[str], output: str) -> None:
        self._names = names
        self._output = os.path.abspath(output)
        self.links = self.special = 0
        self.unmatched: list[str] = []

    def __iter__(self) -> Iterator[Place]:
        for text in self._names:
            try:
                name = located(text)
            except UsageError as error:  # a line of a list; what is typed was looked at before
                from fatpack.io.sources.url import shown

                yield Place(shown(text), problem=error.problem)
                continue
            if hasattr(name, "given"):
                yield Place(str(name), given=name.given)
            elif any(char in name for char in _MAGIC) and not os.path.lexists(name):
                yield from self._pattern(os.path.abspath(name), name)
            else:
                yield from self._named(os.path.abspath(name))

    def _named(self, path: str) -> Iterator[Place]:
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
            yield Place(path, problem="this is no file: pipes and devices are not surveyed")

    def _pattern(self, pattern: str, name: str) -> Iterator[Place]:
        """Yield the files that a pattern means; ``**`` stands for any folders, also none."""
        parts = pattern.split(os.sep)
        fixed = next(number for number, part in enumerate(parts) if any(char in part for char in _MAGIC))
        base = os.sep.join(parts[:fixed]) or os.sep
        rest = parts[fixed:]
        is_met = False
        for place in self._folder(base, None if "**" in rest else len(rest)):
            if place.path == base or _matches(rest, os.path.relpath(place.path, base).split(os.sep)):
                is_met = is_met or not place.problem
                yield place
        if not is_met:
            self.unmatched.append(name)

    def _folder(self, folder: str, depth: int | None = None) -> Iterator[Place]:
        """Yield the files below a folder, in order of their names, as far down as ``depth`` allows."""
        waiting = [(folder, depth)]
        while waiting:
            path, left = waiting.pop()
            if path == self._output:
                continue
            try:
                with os.scandir(path) as found:
                    entries = sorted(found, key=lambda entry: entry.name)
            except OSError as error:
                yield _unreadable(path, error)
                continue
            below: list[tuple[str, int | None]] = []
            for entry in entries:
                if entry.is_symlink():
                    self.links += 1
                elif entry.is_dir(follow_symlinks=False):
                    if left is None or left > 1:
                        below.append((entry.path, None if left is None else left - 1))
                elif entry.is_file(follow_symlinks=False):
                    yield from _met(entry)
                else:
                    self.special += 1
            waiting += reversed(below)


def _met(entry: os.DirEntry[str]) -> Iterator[Place]:
    try:
        yield _place(entry.path, entry.stat(follow_symlinks=False))
    except OSError as error:
        yield _unreadable(entry.path, error)


def _place(path: str, status: os.stat_result) -> Place:
    return Place(path, status.st_size, f"{status.st_size}:{status.st_mtime_ns}")


def _unreadable(path: str, error: OSError | ValueError) -> Place:
    return Place(path, problem=error.strerror or str(error) if isinstance(error, OSError) else str(error))


def _matches(pattern: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether the parts of a path match those of a pattern, one each; ``**`` matches any number of them."""
    from fnmatch import fnmatchcase

    if not pattern:
        return not names
    if pattern[0] == "**":
        return any(_matches(pattern[1:], names[number:]) for number in range(len(names) + 1))
    return bool(names) and fnmatchcase(names[0], pattern[0]) and _matches(pattern[1:], names[1:])


def listed(path: str) -> Iterator[str]:
    """Yield the names in a list, one on each line ("-" is standard input); empty lines and ``#`` comments are none."""
    descriptor: int | str = 0 if path == "-" else path
    with open(descriptor, encoding="utf-8", errors="surrogateescape", closefd=path != "-") as lines:
        for line in lines:
            name = line.rstrip("\r\n")
            if name and not name.startswith("#"):
                yield name
