"""Checks of file names in packages: unsafe names and duplicates; and detection of compressed files.

Nothing is unpacked by name here; the findings warn users who do it with other tools.
"""

from __future__ import annotations

from array import array

from fatpack import magic_numbers
from fatpack.findings import finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fatpack.io.source import Span, View
    from fatpack.model import Finding


# Detection of compressed files from a bounded number of first bytes.

#: reserved bits of gzip's flags (RFC 1952, 2.3.1), and the largest level of bzip2
_RESERVED, _LEVELS = 0xE0, b"123456789"

#: LIMIT: frames skipped at the beginning. pzstd and some writers of seekable files put one there.
_PASSED = 4

#: The first bytes of .lzma: the usual properties, a dictionary of a power of two, a size that is known or unknown.
_USUAL, _UNKNOWN, _LARGEST = 0x5D, (1 << 64) - 1, 1 << 38


def detect_compression(view: View) -> str | None:
    """Return the method with which a file is compressed as a whole (:mod:`fatpack.packages.streams`), or None.

    LZMA from before xz has no magic: the caller has to check that the inflated bytes make sense.
    """
    head = view.head(0, 16)
    if head.startswith(magic_numbers.GZIP) and len(head) > 9 and not head[3] & _RESERVED:
        return "gzip"
    if head.startswith(magic_numbers.XZ):
        return "xz"
    is_bzip2 = head.startswith(magic_numbers.BZIP2) and head[3:4] in _LEVELS and len(head) > 4
    if is_bzip2 and head.startswith((magic_numbers.BZIP2_BLOCK, magic_numbers.BZIP2_END), 4):
        return "bzip2"
    if method := _framed(view):
        return method
    if len(head) >= 13 and head[0] == _USUAL and _is_power(int.from_bytes(head[1:5], "little")):
        size = int.from_bytes(head[5:13], "little")
        return "lzma" if size == _UNKNOWN or size < _LARGEST else None
    return None


def _is_power(number: int) -> bool:
    return number >= 4096 and number & (number - 1) == 0


def _framed(view: View) -> str | None:
    """Return ``zstd`` or ``lz4``, whose frames may follow skippable ones; None for neither."""
    at = 0
    for _ in range(_PASSED):
        head = view.head(at, 8)
        if head.startswith(magic_numbers.ZSTD):
            return "zstd"
        if head.startswith(magic_numbers.LZ4):
            return "lz4"
        if len(head) < 8 or head[0] & 0xF0 != 0x50 or head[1:4] != magic_numbers.SKIPPABLE:
            return None
        at += 8 + int.from_bytes(head[4:8], "little")
    return None


def without_dot_prefix(name: str) -> str:
    """Return a name without the ``./`` that tar and cpio write before it."""
    start = 0
    while name.startswith("./", start):
        start += 2
        while name.startswith("/", start):
            start += 1
    return name[start:]


def name_problem(name: str) -> str:
    """Return the problem of a name that has to stay in one folder; "" if it does."""
    if "\0" in name:
        return "it contains NUL, where many readers end it"
    if name.startswith("/"):
        return "it is absolute"
    if "\\" in name:
        return "it contains a backslash, which separates folders on Windows"
    if name[1:2] == ":" and name[0].isalpha():
        return "it names a drive"
    return "`..` leads out of the folder it is unpacked to" if escapes_folder(name) else ""


def escapes_folder(path: str) -> bool:
    """Return whether a path leaves its starting folder."""
    depth = 0
    for part in path.split("/"):
        if part == "..":
            depth -= 1
        elif part not in ("", "."):
            depth += 1
        if depth < 0:
            return True
    return path.startswith("/")


#: LIMIT: characters of the name of a link that is remembered, and of its target: the longest path of common systems.
_LONGEST = 4096

#: LIMIT: parts of the name of a link that is remembered. Real ones have twenty.
_PARTS = 256

#: LIMIT: bytes that all remembered links may take, and the overhead of a part of a name.
_MEMORY, _PART = 32 << 20, 300


class NameChecker:
    """The names of a package so far. ``check`` returns the findings about the next one.

    Eight bytes of each name are kept, in an open hash table: a package of a million files has names of 100 MB. Links
    that lead out are kept by name up to a memory limit; names through later links are not detected.
    """

    def __init__(self) -> None:
        self._table = array("Q", [0]) * 1024
        self._count = 0
        #: folder by folder: the next part of a name → its contents; "" → the target of a link
        self._links: dict[str, Any] = {}
        self._budget = _MEMORY

    def check(self, name: str, span: Span) -> tuple[Finding, ...]:
        """Return the findings about a file's name, and remember it."""
        found = []
        problem = name_problem(name)
        if problem:
            hint = "unpack such a package only with a program that refuses such names"
            found.append(finding("FP1702", span, f"file {name!r}: {problem}", hint, field="name"))
        if not self._is_new(hash(name) & 0xFFFFFFFFFFFFFFFF or 1):
            text = f"file {name!r}: another one before it has the same name"
            found.append(finding("FP1703", span, text, field="name"))
        if self._links:
            found += self._through(name, span)
        return tuple(found)

    def link(self, name: str, target: str, span: Span, *, is_hard: bool = False) -> tuple[Finding, ...]:
        """Return the findings about a link, and remember it if it leads out. Packages of systems have absolute ones."""
        found = list(self._through(name, span)) if self._links else []
        path = target if is_hard or target.startswith("/") else f"{name.rpartition('/')[0]}/{target}".lstrip("/")
        if escapes_folder(path):
            self._remember(name, target)
            if is_hard or not target.startswith("/"):
                text = f"link {name!r} leads out of the package, to {target!r}"
                found.append(finding("FP1707", span, text, field="link"))
        return tuple(found)

    def _remember(self, name: str, target: str) -> None:
        if max(len(name), len(target)) > _LONGEST:
            return
        parts = [part for part in name.split("/") if part]
        if len(parts) > _PARTS or self._budget < 0:
            return
        place = self._links
        for part in parts:
            if part not in place:
                place[part] = {}
                self._budget -= _PART + len(part)
            place = place[part]
        place[""] = target
        self._budget -= len(target)

    def _through(self, name: str, span: Span) -> list[Finding]:
        place = self._links
        parts = [part for part in name.split("/") if part]
        for number, part in enumerate(parts[:-1]):
            if part not in place:
                break
            place = place[part]
            if "" in place:
                link = "/".join(parts[: number + 1])
                text = f"file {name!r} goes through the link {link!r} to {place['']!r}"
                hint = "unpack such a package only with a program that refuses to follow links"
                return [finding("FP1708", span, text, hint, field="name")]
        return []

    def _is_new(self, key: int) -> bool:
        if 2 * self._count >= len(self._table):
            old, self._table, self._count = self._table, array("Q", [0]) * (2 * len(self._table)), 0
            for other in old:
                if other:
                    self._put(other)
        return self._put(key)

    def _put(self, key: int) -> bool:
        table, mask = self._table, len(self._table) - 1
        at = key & mask
        while table[at]:
            if table[at] == key:
                return False
            at = (at + 1) & mask
        table[at] = key
        self._count += 1
        return True
