"""What became of each image and kernel from one release to the next.

Images of a library are compared within their architecture, form and programming model. Those with the same stored
bytes are the same, and nothing of them is read. Of the others, those that inflate to the same bytes were packed anew.
With kernels, images that have the same kernels and variables by their digests were built anew, and of what is left
kernels are compared by name. What is left on one side alone is lost or added; both directions say the same.
"""

from __future__ import annotations

from collections import Counter
from itertools import starmap, zip_longest

from fatpack.commands.diff.matching import library_path, match_libraries, pair_name
from fatpack.commands.diff.model import NEEDS, ArchDiff, CodeSizes, DiffResult, KernelDiff, LibraryDiff, UnreadFile
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


class _Group(Record):
    """The images of a library for one place (arch, form, offload): all, and those without a twin on the other side."""

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
    # What could not be read stands for its counterpart, of which nobody knows whether it was lost.
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


#: LIMIT: bytes of a file whose kernels are read by name, where it is compared with one other, and nobody asked for it.
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
    old_left, new_left = _without_twins(old, new, lambda image: image.digest)
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
    """Return whether there are images with other bytes, of which nobody knows which is which."""
    return bool(arch.lost or arch.added or arch.changed or arch.rebuilt)


def _containers(library: LibraryFacts, contents: Contents) -> Counter[tuple[Hashable, ...]]:
    """Return the images of each container in their order, as often as there is such a container.

    Each image is known by its content where that was read, else by its stored bytes.
    """
    read = {image.digest: content.digest for image in library.images if (content := contents.get(_key(library, image)))}
    read.pop(None, None)
    found: dict[str, list[Hashable]] = {}
    for image in library.images:
        if image.position:
            inside = contents.get(_key(library, image))
            known = inside.digest if inside else read.get(image.digest, image.digest)
            found.setdefault(image.position.rpartition(".")[0], []).append((image.arch, image.form, known))
    return Counter(map(tuple, found.values()))


def _key(library: LibraryFacts, image: ImageFacts) -> tuple[str, ImageKey]:
    return library.path, image.place


def _natural(place: Use) -> tuple[object, ...]:
    """Return what sorts sm_90 before sm_100."""
    import re

    arch, *others = place
    words = re.split(r"(\d+)", arch)
    return ([(word.isdigit(), int(word) if word.isdigit() else 0, word) for word in words], *others)


def _without_twins(old: Sequence[T], new: Sequence[T], key: Callable[[T], Hashable]) -> tuple[list[T], list[T]]:
    """Return what is left of two lists without items that have a key in common, one for one.

    None is no key: what has it is left.
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
            positions = {image.position for image in here if kernels or image.size in sizes}
            if positions:
                wanted.setdefault(library.path, set()).update(positions)
    return {path: frozenset(positions) for path, positions in wanted.items()}


def _arch(pair: _Pair, group: _Group, old: Contents, new: Contents, *, kernels: bool, names: bool) -> ArchDiff:
    arch, form, offload = group.place
    left = _contents(pair.old, group.old_left, old)
    right = _contents(pair.new, group.new_left, new)
    count = len(left)
    left, right = _without_twins(left, right, lambda item: item.digest if item else None)
    # Inside something compressed, how an image itself is stored is not to be seen.
    is_seen = all(image.digest for image in (*group.old_left, *group.new_left))
    repacked = count - len(left) if is_seen else 0
    rebuilt, variables = 0, False
    differing: tuple[KernelDiff, ...] | None = None
    if kernels and left and right:
        before = len(left)
        left, right = _without_twins(left, right, _does)
        rebuilt = before - len(left)
        if None not in left and None not in right:
            differing = _kernels(left, right)
            data = [Counter(item.variables for item in side if item) for side in (left, right)]
            variables = data[0] != data[1]
            is_told = all(map(_is_told, (*left, *right)))
            if is_told and len(left) == len(right) and not differing and not variables:
                # Kernels went from one image to another, or only their order is new.
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


def _does(content: ImageContent | None) -> Hashable:
    """Return what an image does, as its digests say it; None where they do not."""
    if content is None or not _is_told(content):
        return None
    return content.variables, tuple(sorted((item.plain, item.digest or b"") for item in content.kernels))


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
