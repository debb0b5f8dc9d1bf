"""Regular expressions that every Python from 3.11 on matches alike.

Python 3.11.0 to 3.11.4 (Debian 12 has 3.11.2) go wrong where a group is repeated for good, ``(?:…)*+``, and something
in it goes back (CPython issue 106052). An atomic group around the same repeat means the same, and is right there too.
"""

from __future__ import annotations

import re
import sys

#: The first version that matches groups which are repeated for good as it should.
_MENDED = (3, 11, 5)

#: one character, an escaped one or a set of them: what no bracket in an expression is a part of
_ATOM = re.compile(rb"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)


def compiled(pattern: bytes) -> re.Pattern[bytes]:
    """Return an expression as ``re.compile`` does, in words that this Python matches as later ones do."""
    return re.compile(pattern if sys.version_info >= _MENDED else with_atomic_groups(pattern))


def with_atomic_groups(pattern: bytes) -> bytes:
    """Return an equal expression with ``(?>(…)*)`` in the place of each ``(…)*+``, also for ``+`` and ``?``."""
    parts: list[bytes] = []
    opened: list[int] = []
    atoms = _ATOM.findall(pattern)
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
