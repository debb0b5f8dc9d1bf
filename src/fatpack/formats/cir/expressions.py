"""Regular expressions that are compiled when they are first used, and that every Python from 3.11 on matches alike.

Reading MLIR takes 77 of them, and any one file few: compiling all takes as long as starting the interpreter 13 times.

Python 3.11.0 to 3.11.4 (Debian 12 has 3.11.2) go wrong where a group is repeated for good, ``(?:…)*+``, and something
in it goes back (CPython issue 106052). An atomic group around the same repeat means the same, and is right there too.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from re import Match
    from typing import Any

#: The first version that matches groups which are repeated for good as it should.
_MENDED = (3, 11, 5)


class LazyExpression:
    """A regular expression over bytes. Its methods are those of ``re.Pattern``, which they become when one is used.

    ``pattern`` is the text that it was made from.
    """

    # A slot without a value asks __getattr__; the next use finds the method itself, at no cost.
    __slots__ = ("findall", "finditer", "fullmatch", "match", "pattern", "search", "sub")

    findall: Callable[..., list[Any]]  # bytes, or tuples of them
    finditer: Callable[..., Iterator[Match[bytes]]]
    fullmatch: Callable[..., Match[bytes] | None]
    match: Callable[..., Match[bytes] | None]
    search: Callable[..., Match[bytes] | None]
    sub: Callable[..., bytes]

    def __init__(self, pattern: bytes) -> None:
        self.pattern = pattern

    def __getattr__(self, name: str) -> object:
        if name not in self.__slots__:
            raise AttributeError(name)
        import re  # with enum and functools, which it loads, 0.6 of a start of the interpreter

        made = re.compile(self.pattern if sys.version_info >= _MENDED else with_atomic_groups(self.pattern))
        for method in self.__slots__:
            if method != "pattern":
                setattr(self, method, getattr(made, method))
        return getattr(self, name)


#: one character, an escaped one or a set of them: what no bracket in an expression is a part of
_ATOM = rb"(?s:\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.)"


def with_atomic_groups(pattern: bytes) -> bytes:
    """Return an equal expression with ``(?>(…)*)`` in the place of each ``(…)*+``, also for ``+`` and ``?``."""
    import re

    parts: list[bytes] = []
    opened: list[int] = []
    atoms = re.findall(_ATOM, pattern)
    at = 0
    while at < len(atoms):
        parts.append(atoms[at])
        if atoms[at] == b"(":
            opened.append(len(parts) - 1)
        elif atoms[at] == b")":
            start = opened.pop()
            if at + 2 < len(atoms) and atoms[at + 1] in (b"*", b"+", b"?") and atoms[at + 2] == b"+":
                parts[start] = b"(?>("
                parts.append(atoms[at + 1] + b")")
                at += 2
        at += 1
    return b"".join(parts)
