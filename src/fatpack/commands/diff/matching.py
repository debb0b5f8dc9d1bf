"""Which library of one release is which of the other: by path, by content, without versions, by name alone.

Wheels and packages write versions into paths: ``foo-1.2.dist-info``, ``libfoo.so.1.3``, ``libfoo-a1b2c3d4.so.1``
(what auditwheel and delvewheel make of a library that they copy), ``cpython-312-x86_64-linux-gnu``. Where a name stands
for several libraries of a side, images that are the same on both sides decide, then how much of the path is.
"""

from __future__ import annotations

import re
from collections import Counter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from fatpack.commands.diff.release import LibraryFacts

#: name-1.2.3+local.dist-info, name-1.2.3.data
_FOLDER = re.compile(r"^(.+?)-\d[^/]*\.(dist-info|data)$")

#: digits of versions behind the extension, and before it
_BEHIND = re.compile(r"(\.so|\.dylib)(?:\.\d+)+$")
_BEFORE = re.compile(r"[-_.]v?\d+(?:\.\d+)*(?=\.(?:dll|so|dylib|pyd|lib|a)$)|(?<=\D)\d+(?=\.dll$)")
_COPIED = re.compile(r"-[0-9a-f]{8}(?:[0-9a-f]{24})?(?=\.)")
_PYTHON = re.compile(r"\.(?:cpython-\d+|cp\d+|abi3)(?:-[\w-]+)?(?=\.(?:so|pyd)$)")


#: LIMIT: pairs of libraries with one name that are compared; with more of them, none is matched by that name.
_COMPARED = 4096


def match_libraries(
    old: Sequence[LibraryFacts], new: Sequence[LibraryFacts]
) -> list[tuple[LibraryFacts | None, LibraryFacts | None]]:
    """Return pairs of libraries, with None for what one side lacks, in the order of their names.

    Of several libraries with one key the most alike are taken; those of which two are as much alike match none.
    """
    if len(old) == len(new) == 1 and len(old[0].parts) == len(new[0].parts) == 1:
        return [(old[0], new[0])]
    pairs: list[tuple[LibraryFacts | None, LibraryFacts | None]] = []
    left, right = list(old), list(new)
    for key in (library_path, _content, _stem, _last):
        there, again = _by(left, key), _by(right, key)
        found = [pair for name in there.keys() & again.keys() for pair in _paired(there[name], again[name])]
        pairs += found
        taken = {id(library) for pair in found for library in pair}
        left = [library for library in left if id(library) not in taken]
        right = [library for library in right if id(library) not in taken]
    pairs += [(library, None) for library in left]
    pairs += [(None, library) for library in right]
    return sorted(pairs, key=_order)


def pair_name(old: LibraryFacts | None, new: LibraryFacts | None) -> str:
    """Return what a pair is called: its path in NEW, that in OLD where it is lost."""
    library = new or old
    assert library is not None
    return library_path(library)


def _order(pair: tuple[LibraryFacts | None, LibraryFacts | None]) -> tuple[str, str]:
    # The same for both directions of a comparison.
    names = sorted(library_path(library) for library in pair if library is not None)
    return names[0], names[-1]


def _by(
    libraries: Sequence[LibraryFacts], key: Callable[[LibraryFacts], Hashable]
) -> dict[Hashable, list[LibraryFacts]]:
    found: dict[Hashable, list[LibraryFacts]] = {}
    for library in libraries:
        if (name := key(library)) is not None:
            found.setdefault(name, []).append(library)
    return found


def _paired(old: Sequence[LibraryFacts], new: Sequence[LibraryFacts]) -> list[tuple[LibraryFacts, LibraryFacts]]:
    """Return pairs of libraries that have a key in common: the most alike first, none where two are alike as much."""
    if len(old) == len(new) == 1:
        return [(old[0], new[0])]
    if len(old) * len(new) > _COMPARED:
        return []
    ranks: dict[tuple[int, int], list[tuple[LibraryFacts, LibraryFacts]]] = {}
    for one in sorted(old, key=library_path):
        for other in sorted(new, key=library_path):
            ranks.setdefault((_shared(one, other), _common(one.parts, other.parts)), []).append((one, other))
    pairs: list[tuple[LibraryFacts, LibraryFacts]] = []
    taken: set[int] = set()
    for rank in sorted(ranks, reverse=True):
        left = [pair for pair in ranks[rank] if taken.isdisjoint(map(id, pair))]
        choices: dict[int, set[Hashable]] = {}
        for one, other in left:
            choices.setdefault(id(one), set()).add(_content(other) or id(other))
            choices.setdefault(id(other), set()).add(_content(one) or id(one))
        for pair in left:
            # Copies of the same content are as good as each other.
            if taken.isdisjoint(map(id, pair)) and all(len(choices[id(library)]) == 1 for library in pair):
                pairs.append(pair)
                taken.update(map(id, pair))
    return pairs


def _shared(old: LibraryFacts, new: LibraryFacts) -> int:
    """Return how many images two libraries share by their stored bytes."""
    both = Counter(image.digest for image in old.images) & Counter(image.digest for image in new.images)
    return sum(count for digest, count in both.items() if digest is not None)


def _common(old: Sequence[str], new: Sequence[str]) -> int:
    """Return how many parts two paths have in common at their ends, without versions."""
    left, right = list(map(_without_version, old)), list(map(_without_version, new))
    most = min(len(left), len(right))
    first = next((at for at in range(most) if left[at] != right[at]), most)
    last = next((at for at in range(most) if left[-1 - at] != right[-1 - at]), most)
    return min(first + last, most)


def _content(library: LibraryFacts) -> Hashable:
    """Return what tells the device code of a library from that of others; None if that is not known."""
    if not library.images:
        return None
    if any(image.digest is None for image in library.images):
        return library.whole
    return tuple(sorted((image.arch, image.form, image.digest or b"") for image in library.images))


def library_path(library: LibraryFacts) -> str:
    """Return the path of a library below what was named."""
    return "/".join(library.parts)


def _stem(library: LibraryFacts) -> str:
    """Return the path without versions."""
    return "/".join(map(_without_version, library.parts))


def _last(library: LibraryFacts) -> str:
    return _without_version(library.parts[-1])


def _without_version(name: str) -> str:
    name = _FOLDER.sub(r"\1.\2", name)
    for pattern in (_COPIED, _PYTHON):
        name = pattern.sub("", name)
    return _BEFORE.sub("", _BEHIND.sub(r"\1", name))
