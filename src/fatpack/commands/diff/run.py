"""Comparison of the images and kernels of two releases.

Images of a library are compared within their architecture, form and programming model. Images with the same stored
bytes are the same, and are not read. Images that differ in stored bytes but inflate to the same bytes were repacked.
With kernels, images that have the same kernels and variables by their digests were built anew, and of what is left
kernels are compared by name. Unmatched images are lost or added; both directions give the same pairs.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import starmap, zip_longest

from fatpack.commands.diff.model import (
    NEEDS,
    ArchDiff,
    CodeSizes,
    DiffResult,
    KernelDiff,
    LibraryDiff,
    TraceDiff,
    UnreadFile,
)
from fatpack.demangling import demangle
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
    from typing import Literal, TypeVar

    from fatpack.commands.diff.release import ImageContent, ImageFacts, ImageKey, KernelFacts, LibraryFacts, Release

    T = TypeVar("T")

    # arch, form, offload
    Use = tuple[str, str, str]
    Contents = Mapping[tuple[str, ImageKey], ImageContent]


# Matching the libraries of two releases: by path, by content, by path without versions, by name alone.
#
# Wheels and packages write versions into paths: ``foo-1.2.dist-info``, ``libfoo.so.1.3``, ``libfoo-a1b2c3d4.so.1``
# (what auditwheel and delvewheel make of a library that they copy), ``cpython-312-x86_64-linux-gnu``. Where a name
# stands for several libraries of a side, images that are the same on both sides decide, then how much of the path is.

#: name-1.2.3+local.dist-info, name-1.2.3.data
_FOLDER = re.compile(r"^(.+?)-\d[^/]*\.(dist-info|data)$")

#: digits of versions after the extension, and before it
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

    Of several libraries with one key, the most similar pair is taken; equally similar libraries match none.
    """
    if len(old) == len(new) == 1 and len(old[0].parts) == len(new[0].parts) == 1:
        return [(old[0], new[0])]
    pairs: list[tuple[LibraryFacts | None, LibraryFacts | None]] = []
    left, right = dict(enumerate(old)), dict(enumerate(new))
    for key in (library_path, _content, _stem, _last):
        there, again = _by(left, key), _by(right, key)
        for name in there.keys() & again.keys():
            pairs += [(left.pop(one), right.pop(other)) for one, other in _paired(there[name], again[name])]
    pairs += [(library, None) for library in left.values()]
    pairs += [(None, library) for library in right.values()]
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
    libraries: Mapping[int, LibraryFacts], key: Callable[[LibraryFacts], Hashable]
) -> dict[Hashable, dict[int, LibraryFacts]]:
    """Return numbered libraries by a key; those without one are left out."""
    found: dict[Hashable, dict[int, LibraryFacts]] = {}
    for number, library in libraries.items():
        if (name := key(library)) is not None:
            found.setdefault(name, {})[number] = library
    return found


def _paired(old: Mapping[int, LibraryFacts], new: Mapping[int, LibraryFacts]) -> list[tuple[int, int]]:
    """Return pairs of libraries with a key in common, by number: the most alike first, none that is ambiguous."""
    if len(old) == len(new) == 1:
        return [(next(iter(old)), next(iter(new)))]
    if len(old) * len(new) > _COMPARED:
        return []
    ranks: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for one in sorted(old, key=lambda number: library_path(old[number])):
        for other in sorted(new, key=lambda number: library_path(new[number])):
            rank = _shared(old[one], new[other]), _common(old[one].parts, new[other].parts)
            ranks.setdefault(rank, []).append((one, other))
    pairs: dict[int, int] = {}
    taken: set[int] = set()
    for rank in sorted(ranks, reverse=True):
        left = [(one, other) for one, other in ranks[rank] if one not in pairs and other not in taken]
        choices_in_new: dict[int, set[Hashable]] = {}
        choices_in_old: dict[int, set[Hashable]] = {}
        for one, other in left:
            choices_in_new.setdefault(one, set()).add(_content(new[other]) or other)
            choices_in_old.setdefault(other, set()).add(_content(old[one]) or one)
        for one, other in left:
            # Copies of the same content are as good as each other.
            is_clear = len(choices_in_new[one]) == len(choices_in_old[other]) == 1
            if is_clear and one not in pairs and other not in taken:
                pairs[one] = other
                taken.add(other)
    return list(pairs.items())


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
    """Return a path without version numbers."""
    return "/".join(map(_without_version, library.parts))


def _last(library: LibraryFacts) -> str:
    return _without_version(library.parts[-1])


def _without_version(name: str) -> str:
    name = _FOLDER.sub(r"\1.\2", name)
    for pattern in (_COPIED, _PYTHON):
        name = pattern.sub("", name)
    return _BEFORE.sub("", _BEHIND.sub(r"\1", name))


# Names of kernels in a comparison as people write them.


def with_demangled_kernels(diff: DiffResult) -> DiffResult:
    """Return a comparison whose kernels have their demangled names. Raises Unsupported where nothing demangles."""
    archs = (arch for library in diff.libraries for arch in library.archs)
    names = demangle(kernel.name for arch in archs for kernel in arch.kernels or ())
    libraries = (
        library.replace(archs=tuple(_renamed(arch, names) for arch in library.archs)) for library in diff.libraries
    )
    return diff.replace(libraries=tuple(libraries))


def _renamed(arch: ArchDiff, names: dict[str, str]) -> ArchDiff:
    if not arch.kernels:
        return arch
    kernels = (kernel.replace(demangled=names.get(kernel.name)) for kernel in arch.kernels)
    return arch.replace(kernels=tuple(kernels))


class _Group(Record):
    """The images of a library for one place (arch, form, offload): all, and the unmatched ones."""

    place: Use
    old: tuple[ImageFacts, ...]
    new: tuple[ImageFacts, ...]
    old_left: tuple[ImageFacts, ...]
    new_left: tuple[ImageFacts, ...]


class _Pair(Record):
    """A library of both sides, or of one, with its groups."""

    old: LibraryFacts | None
    new: LibraryFacts | None
    groups: tuple[_Group, ...]


def compare_releases(old: Release, new: Release, *, kernels: bool = False) -> DiffResult:
    """Return what differs. Raises FatpackError and OSError for a name that cannot be opened; files in it are unread."""
    sides = old.libraries(), new.libraries()
    unread = [
        UnreadFile(side, item.path, item.problem, item.exit_code)
        for side, libraries in zip(_SIDES, sides, strict=True)
        for item in libraries
        if item.problem
    ]
    # If one side could not be read, the pair is left out: it is not known what was lost.
    pairs = [
        _Pair(left, right, _groups(left, right))
        for left, right in starmap(_formed, match_libraries(*sides))
        if all(item is None or item.images for item in (left, right))
    ]
    names = kernels or _are_small(sides)
    contents_old = old.contents(_wanted(pairs, "old", names), kernels=names)
    contents_new = new.contents(_wanted(pairs, "new", names), kernels=names)
    packed_old, packed_new = old.packed_sizes(), new.packed_sizes()
    libraries = tuple(
        LibraryDiff(
            "added" if pair.old is None else "lost" if pair.new is None else "both",
            pair_name(pair.old, pair.new),
            pair.old.path if pair.old else None,
            pair.new.path if pair.new else None,
            pair.old.size if pair.old else None,
            pair.new.size if pair.new else None,
            packed_old.get(pair.old.path) if pair.old else None,
            packed_new.get(pair.new.path) if pair.new else None,
            archs,
            _moved(pair, archs, contents_old, contents_new),
            library_path(pair.old) if pair.old else None,
        )
        for pair in pairs
        for archs in (
            tuple(
                _arch(pair, group, contents_old, contents_new, kernels=kernels, names=names) for group in pair.groups
            ),
        )
    )
    return DiffResult(old.name, new.name, libraries, tuple(unread), kernels, old.unlooked, new.unlooked)


#: LIMIT: bytes of a file whose kernels are read by name without --kernels, if one file is compared with one other.
_NAMED = 64 << 20


def _are_small(sides: Sequence[Sequence[LibraryFacts]]) -> bool:
    """Return whether each side is one file, as an object, whose kernels are soon read."""
    return all(len(libraries) == 1 and libraries[0].size <= _NAMED for libraries in sides)


_SIDES: tuple[Literal["old", "new"], ...] = ("old", "new")


def _formed(old: LibraryFacts | None, new: LibraryFacts | None) -> tuple[LibraryFacts | None, LibraryFacts | None]:
    """Return two libraries in which images of no known form have the one that others for their target have.

    Large compressed containers are listed without being inflated, small ones are inflated: the form of an image is
    known on one side only, and it is no other image for that.
    """
    forms: dict[tuple[str, str], set[str]] = {}
    for library in filter(None, (old, new)):
        for image in library.images:
            forms.setdefault((image.arch, image.offload), set()).add(image.form)
    known = {target: max(found) for target, found in forms.items() if "" in found and len(found) == 2}
    if not known:
        return old, new
    left, right = (library and library.replace(images=tuple(_with_form(library, known))) for library in (old, new))
    return left, right


def _with_form(library: LibraryFacts, known: Mapping[tuple[str, str], str]) -> Iterator[ImageFacts]:
    for image in library.images:
        form = image.form or known.get((image.arch, image.offload), "")
        yield image if form == image.form else image.replace(form=form)


def _groups(old: LibraryFacts | None, new: LibraryFacts | None) -> tuple[_Group, ...]:
    left, right = _by_place(old), _by_place(new)
    is_same = old is not None and new is not None and old.whole is not None and old.whole == new.whole
    return tuple(
        _group(place, left.get(place, ()), right.get(place, ()), is_same=is_same)
        for place in sorted(left.keys() | right.keys(), key=_natural)
    )


def _group(place: Use, old: Sequence[ImageFacts], new: Sequence[ImageFacts], *, is_same: bool) -> _Group:
    if is_same:
        return _Group(place, tuple(old), tuple(new), (), ())
    old_left, new_left = _without_twins(old, new, lambda image: image.digest and (image.function, image.digest))
    return _Group(place, tuple(old), tuple(new), tuple(old_left), tuple(new_left))


def _by_place(library: LibraryFacts | None) -> dict[Use, list[ImageFacts]]:
    found: dict[Use, list[ImageFacts]] = {}
    for image in library.images if library else ():
        found.setdefault((image.arch, image.form, image.offload), []).append(image)
    return found


def _moved(pair: _Pair, archs: Iterable[ArchDiff], old: Contents, new: Contents) -> bool:
    """Return whether the same images, however packed, are in other containers, or in another order in one."""
    if pair.old is None or pair.new is None or any(_is_other(arch) for arch in archs):
        return False
    if pair.old.whole is not None and pair.old.whole == pair.new.whole:
        return False
    return _containers(pair.old, old) != _containers(pair.new, new)


def _is_other(arch: ArchDiff) -> bool:
    """Return whether images of an architecture were lost, added, changed or rebuilt."""
    return bool(arch.lost or arch.added or arch.changed or arch.rebuilt)


def _containers(library: LibraryFacts, contents: Contents) -> Counter[Hashable]:
    """Return the images of each container in their order, as often as there is such a container.

    Each image is known by its content where that was read, else by its stored bytes.
    """
    read = {image.digest: content.digest for image in library.images if (content := contents.get(_key(library, image)))}
    read.pop(None, None)
    found: dict[str, list[tuple[Hashable, ...]]] = {}
    for image in library.images:
        if image.position:
            inside = contents.get(_key(library, image))
            known = inside.digest if inside else read.get(image.digest, image.digest)
            found.setdefault(image.position.rpartition(".")[0], []).append(
                (image.arch, image.form, image.function, known)
            )
    # Metal finds functions by name: their order decides nothing.
    return Counter(
        frozenset(Counter(images).items()) if any(image[2] for image in images) else tuple(images)
        for images in found.values()
    )


def _key(library: LibraryFacts, image: ImageFacts) -> tuple[str, ImageKey]:
    return library.path, image.place


def _natural(place: Use) -> tuple[object, ...]:
    """Return what sorts sm_90 before sm_100."""
    import re

    arch, *others = place
    words = re.split(r"(\d+)", arch)
    return ([(word.isdigit(), int(word) if word.isdigit() else 0, word) for word in words], *others)


def _without_twins(old: Sequence[T], new: Sequence[T], key: Callable[[T], Hashable]) -> tuple[list[T], list[T]]:
    """Return the rest of two lists without pairs of items that have a key in common.

    Items with the key None are not paired.
    """
    left_keys, right_keys = [key(item) for item in old], [key(item) for item in new]
    both = Counter(each for each in left_keys if each is not None) & Counter(right_keys)
    kept: list[list[T]] = []
    for items, keys in ((old, left_keys), (new, right_keys)):
        budget = both.copy()
        rest: list[T] = []
        for item, each in zip(items, keys, strict=True):
            if each is not None and budget[each] > 0:
                budget[each] -= 1
            else:
                rest.append(item)
        kept.append(rest)
    return kept[0], kept[1]


def _wanted(pairs: Iterable[_Pair], side: Literal["old", "new"], kernels: bool) -> dict[str, frozenset[str]]:
    """Return the positions of images that have to be read, by the path of their library."""
    wanted: dict[str, set[str]] = {}
    for pair in pairs:
        library = pair.old if side == "old" else pair.new
        for group in pair.groups:
            if library is None or not group.old_left or not group.new_left:
                continue
            here, there = (group.old_left, group.new_left)[:: 1 if side == "old" else -1]
            # Of different sizes, contents differ: only kernels tell more.
            sizes = {image.size for image in there}
            positions = {
                image.position
                for image in here
                if (image.digest is None if image.function else kernels or image.size in sizes)
            }
            if positions:
                wanted.setdefault(library.path, set()).update(positions)
    return {path: frozenset(positions) for path, positions in wanted.items()}


def _arch(pair: _Pair, group: _Group, old: Contents, new: Contents, *, kernels: bool, names: bool) -> ArchDiff:
    arch, form, offload = group.place
    differ = (*group.old_left, *group.new_left)
    if pair.old and pair.new and differ and all(image.function for image in differ):
        return _function_arch(pair, group, old, new)
    left = _contents(pair.old, group.old_left, old)
    right = _contents(pair.new, group.new_left, new)
    count = len(left)
    left, right = _without_twins(left, right, lambda item: item.digest if item else None)
    # Inside something compressed, how an image itself is stored is not to be seen.
    is_seen = all(image.digest for image in (*group.old_left, *group.new_left))
    repacked = count - len(left) if is_seen else 0
    rebuilt, variables = 0, False
    traces: tuple[TraceDiff, ...] = ()
    differing: tuple[KernelDiff, ...] | None = None
    if kernels and left and right:
        before = left, right
        left, right = _without_twins(left, right, _code)
        rebuilt = len(before[0]) - len(left)
        if rebuilt:
            traces = _traces(before, (left, right))
        if None not in left and None not in right:
            differing = _kernels(left, right)
            data = [Counter(item.variables for item in side if item) for side in (left, right)]
            variables = data[0] != data[1]
            is_told = all(map(_is_told, (*left, *right)))
            if is_told and len(left) == len(right) > 1 and not differing and not variables:
                # Kernels went from one image to another.
                rebuilt, left, right = rebuilt + len(left), [], []
    elif kernels:
        differing = ()
    elif names and left and right and None not in left and None not in right:
        differing = tuple(item for item in _kernels(left, right) if item.kind != "changed") or None
    changed = min(len(left), len(right))
    return ArchDiff(
        arch,
        form,
        offload,
        len(group.old),
        len(group.new),
        len(left) - changed,
        len(right) - changed,
        changed,
        repacked,
        rebuilt,
        _sizes(group.old),
        _sizes(group.new),
        variables,
        differing,
        traces,
    )


def _function_arch(pair: _Pair, group: _Group, old: Contents, new: Contents) -> ArchDiff:
    """Return what became of the functions of Metal libraries: each is one image, which its name tells from others."""
    sides: list[dict[str, list[str | None]]] = []
    for library, images, contents in ((pair.old, group.old_left, old), (pair.new, group.new_left, new)):
        found: dict[str, list[str | None]] = {}
        for image, content in zip(images, _contents(library, images, contents), strict=True):
            known = image.digest.hex() if image.digest else content.digest if content else None
            found.setdefault(image.function or "", []).append(known)
        sides.append(found)
    differing: list[KernelDiff] = []
    for name in sorted(sides[0].keys() | sides[1].keys()):
        left, right = _without_twins(sides[0].get(name, []), sides[1].get(name, []), lambda digest: digest)
        both = min(len(left), len(right))
        differing += [KernelDiff("changed", name)] * both
        differing += [KernelDiff("lost", name)] * (len(left) - both)
        differing += [KernelDiff("added", name)] * (len(right) - both)
    counts = Counter(item.kind for item in differing)
    return ArchDiff(
        *group.place,
        len(group.old),
        len(group.new),
        counts["lost"],
        counts["added"],
        counts["changed"],
        old=_sizes(group.old),
        new=_sizes(group.new),
        kernels=tuple(differing),
    )


def _contents(
    library: LibraryFacts | None, images: Sequence[ImageFacts], contents: Contents
) -> list[ImageContent | None]:
    return [contents.get((library.path, image.place)) if library else None for image in images]


def _sizes(images: Iterable[ImageFacts]) -> CodeSizes:
    return sum((CodeSizes(image.stored, image.size) for image in images), CodeSizes())


def _is_told(content: ImageContent | None) -> bool:
    """Return whether digests say all that an image does."""
    return content is not None and content.variables is not None and all(item.digest for item in content.kernels)


def _code(content: ImageContent | None) -> Hashable:
    """Return the canonical digest of an image; None where it has none."""
    return content.code if content else None


def _traces(
    before: tuple[Sequence[ImageContent | None], ...], after: tuple[Sequence[ImageContent | None], ...]
) -> tuple[TraceDiff, ...]:
    """Return what differs beside the code between images that were built anew."""
    sides: list[Counter[str]] = []
    for images, rest in zip(before, after, strict=True):
        left = list(map(id, rest))
        taken = [image for image in images if id(image) not in left]
        sides.append(Counter(trace for image in taken if image for trace in image.traces))
    by_kind: dict[str, tuple[list[str], list[str]]] = {}
    for side, found in enumerate((sides[0] - sides[1], sides[1] - sides[0])):
        for trace in sorted(found):
            what, _, value = trace.partition(": ")
            by_kind.setdefault(what, ([], []))[side].append(value)
    if not by_kind:
        return (TraceDiff("order or padding"),)
    return tuple(TraceDiff(what, tuple(old), tuple(new)) for what, (old, new) in sorted(by_kind.items()))


def _kernels(old: Sequence[ImageContent | None], new: Sequence[ImageContent | None]) -> tuple[KernelDiff, ...]:
    """Return the kernels that differ, in the order of their names; of several with one name, one for one as stored."""
    there, again = _by_name(old), _by_name(new)
    found: list[KernelDiff] = []
    for name in sorted(there.keys() | again.keys()):
        left, right = _without_twins(there.get(name, []), again.get(name, []), lambda item: item.digest)
        for one, other in zip_longest(left, right):
            if one is None:
                found.append(KernelDiff("added", other.name))
            elif other is None:
                found.append(KernelDiff("lost", one.name))
            elif one.digest != other.digest or one.needs != other.needs:  # of some forms, only names are known
                found.append(KernelDiff("changed", other.name, _needs(one, other)))
    return tuple(found)


def _by_name(contents: Iterable[ImageContent | None]) -> dict[str, list[KernelFacts]]:
    found: dict[str, list[KernelFacts]] = {}
    for content in contents:
        for kernel in content.kernels if content else ():
            found.setdefault(kernel.plain, []).append(kernel)
    return found


def _needs(old: KernelFacts, new: KernelFacts) -> tuple[tuple[str, int | None, int | None], ...]:
    rows = zip(NEEDS, old.needs, new.needs, strict=True)
    return tuple((field, before, now) for field, before, now in rows if before != now)
