"""Which library of one release is which of the other: by path, else without versions, else by name alone.

Wheels and packages write versions into paths: ``foo-1.2.dist-info``, ``libfoo.so.1.3``, ``libfoo-a1b2c3d4.so.1``
(what auditwheel and delvewheel make of a library that they copy), ``cpython-312-x86_64-linux-gnu``.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fatpack.answers.diff.reading import Library

#: name-1.2.3+local.dist-info, name-1.2.3.data
_FOLDER = re.compile(r"^(.+?)-\d[^/]*\.(dist-info|data)$")

#: digits of versions behind the extension, and before it
_BEHIND = re.compile(r"(\.so|\.dylib)(?:\.\d+)+$")
_BEFORE = re.compile(r"[-_.]v?\d+(?:\.\d+)*(?=\.(?:dll|so|dylib|pyd|lib|a)$)|(?<=\D)\d+(?=\.dll$)")
_COPIED = re.compile(r"-[0-9a-f]{8}(?:[0-9a-f]{24})?(?=\.)")
_PYTHON = re.compile(r"\.(?:cpython-\d+|cp\d+|abi3)(?:-[\w-]+)?(?=\.(?:so|pyd)$)")


def matched(old: Sequence[Library], new: Sequence[Library]) -> list[tuple[Library | None, Library | None]]:
    """Return pairs of libraries, with None for what one side lacks, in the order of their names.

    A key that several libraries of a side have matches none of them, except that the paths themselves are unique.
    """
    if len(old) == len(new) == 1 and len(old[0].parts) == len(new[0].parts) == 1:
        return [(old[0], new[0])]
    pairs: list[tuple[Library | None, Library | None]] = []
    left, right = list(old), list(new)
    for key in (_path, _stem, _last):
        there, again = _unique(left, key), _unique(right, key)
        both = there.keys() & again.keys()
        pairs += [(there[name], again[name]) for name in both]
        taken = {id(library) for name in both for library in (there[name], again[name])}
        left = [library for library in left if id(library) not in taken]
        right = [library for library in right if id(library) not in taken]
    pairs += [(library, None) for library in left]
    pairs += [(None, library) for library in right]
    return sorted(pairs, key=_order)


def name_of(old: Library | None, new: Library | None) -> str:
    """Return what a pair is called: its path in NEW, that in OLD where it is lost."""
    library = new or old
    assert library is not None
    return _path(library)


def _order(pair: tuple[Library | None, Library | None]) -> tuple[str, str]:
    # The same for both directions of a comparison.
    names = sorted(_path(library) for library in pair if library is not None)
    return names[0], names[-1]


def _unique(libraries: Sequence[Library], key: Callable[[Library], str]) -> dict[str, Library]:
    found: dict[str, list[Library]] = {}
    for library in libraries:
        found.setdefault(key(library), []).append(library)
    return {name: items[0] for name, items in found.items() if len(items) == 1}


def _path(library: Library) -> str:
    return "/".join(library.parts)


def _stem(library: Library) -> str:
    """Return the path without versions."""
    return "/".join(map(_without_version, library.parts))


def _last(library: Library) -> str:
    return _without_version(library.parts[-1])


def _without_version(name: str) -> str:
    name = _FOLDER.sub(r"\1.\2", name)
    for pattern in (_COPIED, _PYTHON):
        name = pattern.sub("", name)
    return _BEFORE.sub("", _BEHIND.sub(r"\1", name))
