"""Images of a file that are meant to change, and the file with others in their place: what every such edit shares.

::

    host, selector ──► choose ──► Meant ──► changes: image → the images in its place ──► written ──► pieces
                                    │            (none: it is removed)
                                    └─► refused: nothing is meant, or damage that could not be kept safely
"""

from __future__ import annotations

from fatpack import limits
from fatpack.binary import archive
from fatpack.edit import container_file, objects, write_containers
from fatpack.edit.editor import editor_for
from fatpack.edit.verify import content_findings
from fatpack.errors import FormatError, HostError, LimitExceeded, Unsupported, UsageError
from fatpack.model import Finding
from fatpack.record import Record
from fatpack.scanner import FoundContainer, detect_host, scan
from fatpack.scanner.unsupported_files import unsupported_kind
from fatpack.selectors.no_match import NothingSelected, available_values, unread_findings
from fatpack.selectors.select import select_images

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from fatpack.edit.write_containers import ImageChanges
    from fatpack.io.source import Piece, View
    from fatpack.scanner import FoundImage
    from fatpack.selectors.select import Selector

#: formats whose compressed containers store a hash of their content
_HASHED = ("clang-offload-bundle",)


class FilePart(Record):
    """A file and what is in it: of an archive its members with their numbers, of any other file what was found.

    ``title`` is the name of the member it is, "" for the whole file.
    """

    view: View
    title: str
    items: tuple[FoundContainer | Finding, ...]
    members: tuple[tuple[int, FilePart], ...] = ()


class EditSelection(Record):
    """The images that a selector means, each with its position and its container, and all else that is in the file.

    ``titles`` are the names of members, by the ``id()`` of the containers in them, with a colon. ``damaged`` is the
    damage of members in which nothing is meant: they stay to the byte.
    """

    whole: FilePart
    items: tuple[FoundContainer | Finding, ...]
    images: tuple[tuple[str, FoundContainer, FoundImage], ...]
    titles: dict[int, str]
    damaged: tuple[Finding, ...] = ()


def select_for_edit(host: View, selector: Selector, verb: str, whole: FilePart | None = None) -> EditSelection:
    """Return the images of a file, or of all members of an archive, that a selector means; at least one.

    ``verb`` is what is to be done with them, for messages; ``whole`` is what :func:`look` returned, if it was asked. A
    damaged container refuses the whole edit: what cannot be read cannot be kept safely. Raises NothingSelected, with
    what is there, FormatError, and HostError for a host that is not edited.
    """
    name = detect_host(host)
    if name not in ("archive", "raw"):
        editor_for(host)
    whole = whole or scan_tree(host)
    items = all_items(whole)
    parts = list(_parts(whole))
    chosen = list(select_images(items, selector))
    images = tuple(row for row in chosen if "/" not in row[0])
    ids = {id(image) for _, _, image in images}
    damaged = tuple(_damaged(parts, ids, host, verb))
    if name == "raw" and not any(isinstance(item, FoundContainer) for item in items):
        kind = unsupported_kind(host)
        raise HostError(
            f"this is {kind}, which this version does not edit"
            if kind
            else f"this is no container, no object file and no archive, so there is nothing to {_INFINITIVES[verb]}",
            hint="fatpack inspect FILE says what it is",
            chain=host.chain,
        )
    if not images:
        raise _nothing(host, items, selector, [position for position, _, _ in chosen], verb)
    if name == "archive":
        # A reason not to write it at all comes first: members of a thin archive are files to edit by themselves.
        archive.rewrite(host, {})
    # What keeps some images is written anew with a hash of its own, which would make damaged code look right.
    kept = [
        found for found in {id(found): found for _, found, _ in chosen}.values() if found.container.format in _HASHED
    ]
    for wrong in content_findings(kept):
        raise _refusal(wrong, host, verb)
    titles = {id(item): f"{part.title}: " if part.title else "" for part in parts for item in part.items}
    return EditSelection(whole, tuple(items), images, titles, damaged)


#: verb of an edit → what a sentence says of it: to do it, and that it was not done
_INFINITIVES = {"remove": "take out", "replace": "replace", "map": "map", "slim": "slim"}
_NOT_DONE = {
    "remove": "nothing was removed",
    "replace": "nothing was replaced",
    "map": "nothing was run",
    "slim": "nothing was slimmed",
}


def _refusal(wrong: Finding, host: View, verb: str) -> FormatError:
    hint = "; ".join(filter(None, (wrong.hint, _NOT_DONE[verb])))
    return FormatError(wrong.message, offset=wrong.span.start, hint=hint, chain=wrong.span.source or host.chain)


def _damaged(parts: Sequence[FilePart], meant: Collection[int], host: View, verb: str) -> Iterator[Finding]:
    """Yield the damage of members that stay as they are, to the byte, because nothing in them is meant.

    Raises FormatError for any other: what cannot be read cannot be kept safely.
    """
    for part in parts:
        wrong = [
            item
            for item in part.items
            if isinstance(item, Finding) and item.severity == "error" and item.code != "FP1008"
        ]
        found = [item for item in part.items if isinstance(item, FoundContainer)]
        stays = bool(meant and part.title) and detect_host(part.view) != "archive"
        if wrong and (not stays or any(id(image) in meant for item in found for image in item.images)):
            raise _refusal(wrong[0], host, verb)
        yield from wrong


def scan_tree(host: View, *, judges: bool = True) -> FilePart:
    """Return a file with everything in it; ``judges`` compares what objects register with what is there."""
    if detect_host(host) != "archive":
        return _part(host, "", limits.NESTING, is_member=False, judges=judges)
    whole = _part(host, "", limits.NESTING, is_member=True, judges=judges)
    is_found = any(isinstance(item, FoundContainer) for item in all_items(whole))
    return whole if is_found else _part(host, "", limits.NESTING, is_member=False, judges=judges)


def _part(view: View, title: str, depth: int, *, is_member: bool, judges: bool) -> FilePart:
    """Return a file with everything in it, archives in archives too."""
    if detect_host(view) != "archive":
        return FilePart(view, title, tuple(scan(view, is_member=is_member, judges=judges)))
    if depth <= 0:
        hint = limits.advice("NESTING")
        raise LimitExceeded("archives are nested too deeply", offset=view.offset(0), hint=hint, chain=view.chain)
    findings, members = [], []
    for site in archive.locate(view):
        if isinstance(site, Finding):
            findings.append(site)
            continue
        inner = f"{title}({site.member})" if title else site.member or ""
        members.append((site.number, _part(site.data, inner, depth - 1, is_member=is_member, judges=judges)))
    return FilePart(view, title, tuple(findings), tuple(members))


def all_items(whole: FilePart) -> list[FoundContainer | Finding]:
    """Return what is in a file and all its members, in file order: containers are counted as ``inspect`` does."""
    return [item for part in _parts(whole) for item in part.items]


def _parts(part: FilePart) -> Iterator[FilePart]:
    yield part
    for _, member in part.members:
        yield from _parts(member)


def rewrite(meant: EditSelection, changes: ImageChanges, *, allow_empty: bool = False) -> list[Piece]:
    """Return the file with other images in the place of some of those that are meant.

    A section that loses everything in it goes. One that keeps something is written again: containers in which an image
    changes are rewritten, all other bytes stay as they are, known or not. So it is with the file if it is a container
    itself, and then some image must stay; with ``allow_empty`` an empty container stays, there and in the sections that
    code refers to. Raises HostError, UsageError and Unsupported for what cannot be written.
    """
    return list(_written(meant.whole, changes, allow_empty=allow_empty) or ())


def _written(part: FilePart, changes: ImageChanges, *, allow_empty: bool) -> Iterable[Piece] | None:
    """Return a file with its changes; None if it has none."""
    if part.members:
        edited = {number: _written(member, changes, allow_empty=allow_empty) for number, member in part.members}
        pieces = {number: list(pieces) for number, pieces in edited.items() if pieces is not None}
        return archive.rewrite(part.view, pieces) if pieces else None
    found = [item for item in part.items if isinstance(item, FoundContainer)]
    if not any(id(image) in changes for item in found for image in item.images):
        return None
    if detect_host(part.view) == "raw":
        try:
            kept = write_containers.changed_containers(found, changes)
            if allow_empty and all(content is None for content in kept):
                kept[0] = write_containers.empty_container(found[0])
        except (UsageError, Unsupported) as error:
            problem = f"what would be left cannot be written: {error.problem}"
            raise type(error)(problem, hint=error.hint, chain=error.chain or part.view.chain) from error
        return container_file.rewrite_containers(part.view, found, kept)
    return objects.rewrite_object(part.view, found, changes, allow_empty=allow_empty)


def _nothing(
    host: View, items: Sequence[FoundContainer | Finding], selector: Selector, nested: Sequence[str], verb: str
) -> NothingSelected:
    """Return the error for a selection of nothing that can be edited."""
    if nested:
        return NothingSelected(
            f"image {nested[0]} lies inside another image",
            hint="extract the image around it and edit that",
            chain=host.chain,
        )
    asked = f" that matches {selector.describe()}" if not selector.is_empty() else ""
    hint = "; ".join(
        filter(None, [available_values(items, selector), *(item.message for item in unread_findings(items)[:1])])
    )
    return NothingSelected(f"no image to {verb}{asked}", hint=hint, chain=host.chain)
