"""Taking device code out: selected images, or all, of an object, a bare container, or the members of an archive."""

from __future__ import annotations

from fatpack.errors import FormatError, HostError, LimitExceeded, Unsupported, UsageError
from fatpack.formats.clang_bundle.sections.fat_object import stands_for_host
from fatpack.hosts import archive
from fatpack.io import limits
from fatpack.model import Finding
from fatpack.ops import writing
from fatpack.ops.choose.presence import NothingSelected, instead, unmatched, unseen
from fatpack.ops.choose.select import describe, select
from fatpack.ops.edit import bare, object_removal
from fatpack.ops.edit.editor import editor
from fatpack.ops.verify import content_findings
from fatpack.record import Record
from fatpack.scanner import Found, host_of, scan
from fatpack.scanner.foreign import kind_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from fatpack.io.source import Piece, View
    from fatpack.ops.choose.select import Selector
    from fatpack.scanner import FoundImage


#: formats whose compressed containers store a hash of their content
_HASHED = ("clang-offload-bundle",)


class Removal(Record):
    """A plan to take images out: the pieces of the new host, and in words what goes and what to know about the rest.

    ``unseen`` are findings about what was not read, and stays as it is; ``unmatched`` patterns that match nothing,
    ``damaged`` is the damage of members in which nothing is meant: they stay to the byte.
    """

    pieces: tuple[Piece, ...]
    removed: tuple[str, ...]
    notes: tuple[str, ...] = ()
    unseen: tuple[Finding, ...] = ()
    unmatched: tuple[str, ...] = ()
    damaged: tuple[Finding, ...] = ()


class _Part(Record):
    """A file and what is in it: of an archive its members with their numbers, of any other file what was found.

    ``title`` is the name of the member it is, "" for the whole file.
    """

    view: View
    title: str
    items: tuple[Found | Finding, ...]
    members: tuple[tuple[int, _Part], ...] = ()


def remove(host: View, selector: Selector, *, allow_empty: bool = False) -> Removal:
    """Return the host without the selected images (all by default); of an archive, without those of all its members.

    A section that loses everything in it goes. One that keeps something is written again: containers that lose some
    images are rewritten, all other bytes stay as they are, known or not. So it is with the host if it is a container
    itself, and then some image must stay; with ``allow_empty`` an empty container stays, there and in the sections that
    code refers to. A damaged container refuses the whole edit: what cannot be read cannot be kept safely. Members of
    archives in which nothing is meant stay as they are, damaged or not. Raises NothingSelected, with what is there, and
    HostError when it cannot be removed.
    """
    name = host_of(host)
    if name not in ("archive", "raw"):
        editor(host)
    whole = _part(host, "", limits.NESTING, is_member=name == "archive")
    parts = list(_parts(whole))
    items = [item for part in parts for item in part.items]
    if name == "archive" and not any(isinstance(item, Found) for item in items):
        whole = _part(host, "", limits.NESTING, is_member=False)
        parts = list(_parts(whole))
        items = [item for part in parts for item in part.items]
    chosen = list(select(items, selector))
    meant = {id(image): image for position, _, image in chosen if "/" not in position}
    damaged = list(_damaged(parts, meant, host))
    if name == "raw" and not any(isinstance(item, Found) for item in items):
        kind = kind_of(host)
        raise HostError(
            f"this is {kind}, which this version does not edit"
            if kind
            else "this is no container, no object file and no archive, so there is nothing to take out",
            hint="fatpack inspect FILE says what it is",
            chain=host.chain,
        )
    if not meant:
        raise _nothing(host, items, selector, [position for position, _, _ in chosen])
    if name == "archive":
        # A reason not to write it at all comes first: members of a thin archive are files to edit by themselves.
        archive.rewrite(host, {})
    # What keeps some images is written anew with a hash of its own, which would make damaged code look right.
    kept = [
        found for found in {id(found): found for _, found, _ in chosen}.values() if found.container.format in _HASHED
    ]
    for wrong in content_findings(kept):
        raise _nothing_removed(wrong, host)
    titles = {id(item): f"{part.title}: " if part.title else "" for part in parts for item in part.items}
    removed = [titles[id(found)] + _words(where, image) for where, found, image in chosen if id(image) in meant]
    notes = [titles[id(found)] + text for found, text in _hosts_alone(chosen, meant)]
    left = _without_meant(whole, meant, allow_empty=allow_empty)
    return Removal(
        tuple(left or ()),
        tuple(removed),
        tuple(notes),
        tuple(unseen(items)),
        tuple(unmatched(items, selector)),
        tuple(damaged),
    )


def _nothing_removed(wrong: Finding, host: View) -> FormatError:
    hint = "; ".join(filter(None, (wrong.hint, "nothing was removed")))
    return FormatError(wrong.message, offset=wrong.span.start, hint=hint, chain=wrong.span.source or host.chain)


def _damaged(parts: Sequence[_Part], meant: Collection[int], host: View) -> Iterator[Finding]:
    """Yield the damage of members that stay as they are, to the byte, because nothing in them is meant.

    Raises FormatError for any other: what cannot be read cannot be kept safely.
    """
    for part in parts:
        wrong = [
            item
            for item in part.items
            if isinstance(item, Finding) and item.severity == "error" and item.code != "FP1008"
        ]
        found = [item for item in part.items if isinstance(item, Found)]
        stays = bool(meant and part.title) and host_of(part.view) != "archive"
        if wrong and (not stays or any(id(image) in meant for item in found for image in item.images)):
            raise _nothing_removed(wrong[0], host)
        yield from wrong


def _words(position: str, image: FoundImage) -> str:
    """Return what goes, in words; of a fat object's host that is not the object, but a byte that stands for it."""
    is_marker = stands_for_host(image.as_stored)
    return f"{position} the marker of the host, which stays" if is_marker else describe(position, image)


def _hosts_alone(
    chosen: Sequence[tuple[str, Found, FoundImage]], meant: Collection[int]
) -> Iterator[tuple[Found, str]]:
    """Yield the containers that keep an image for their host and nothing else, each once, with words about it."""
    for position, found in {
        id(found): (position, found) for position, found, _ in chosen if "/" not in position
    }.values():
        left = [image.as_stored for image in found.images if id(image) not in meant]
        if left and all(image.target.offload == "host" for image in left):
            number = position.partition(".")[0]
            ids = ", ".join(image.attrs.get("id") or image.target.triple for image in left)
            yield found, f"container {number} has no device code left, only the image for its host ({ids})"


def _part(view: View, title: str, depth: int, *, is_member: bool) -> _Part:
    """Return a file with everything in it, archives in archives too."""
    if host_of(view) != "archive":
        return _Part(view, title, tuple(scan(view, is_member=is_member)))
    if depth <= 0:
        hint = limits.advice("NESTING")
        raise LimitExceeded("archives are nested too deeply", offset=view.offset(0), hint=hint, chain=view.chain)
    findings, members = [], []
    for site in archive.locate(view):
        if isinstance(site, Finding):
            findings.append(site)
            continue
        inner = f"{title}({site.member})" if title else site.member or ""
        members.append((site.number, _part(site.data, inner, depth - 1, is_member=is_member)))
    return _Part(view, title, tuple(findings), tuple(members))


def _parts(part: _Part) -> Iterator[_Part]:
    """Yield a part and all parts in it, in file order, so that containers are counted as ``inspect`` does."""
    yield part
    for _, member in part.members:
        yield from _parts(member)


def _without_meant(part: _Part, meant: Collection[int], *, allow_empty: bool) -> Iterable[Piece] | None:
    """Return a file without the images that are meant; None if it has none of them. Raises HostError."""
    if part.members:
        edited = {number: _without_meant(member, meant, allow_empty=allow_empty) for number, member in part.members}
        changed = {number: list(pieces) for number, pieces in edited.items() if pieces is not None}
        return archive.rewrite(part.view, changed) if changed else None
    found = [item for item in part.items if isinstance(item, Found)]
    if not any(id(image) in meant for item in found for image in item.images):
        return None
    if host_of(part.view) == "raw":
        try:
            kept = writing.without(found, meant)
            if allow_empty and all(content is None for content in kept):
                kept[0] = writing.emptied(found[0])
        except (UsageError, Unsupported) as error:
            problem = f"what would be left cannot be written: {error.problem}"
            raise type(error)(problem, hint=error.hint, chain=error.chain or part.view.chain) from error
        return bare.without(part.view, found, kept)
    return object_removal.without(part.view, found, meant, allow_empty=allow_empty)


def _nothing(
    host: View, items: Sequence[Found | Finding], selector: Selector, nested: Sequence[str]
) -> NothingSelected:
    """Return the error for a selection that can remove nothing."""
    if nested:
        return NothingSelected(
            f"image {nested[0]} lies inside another image",
            hint="extract the image around it and edit that",
            chain=host.chain,
        )
    asked = f" that matches {selector.describe()}" if not selector.is_empty() else ""
    hint = "; ".join(filter(None, [instead(items, selector), *(item.message for item in unseen(items)[:1])]))
    return NothingSelected(f"no image to remove{asked}", hint=hint, chain=host.chain)
