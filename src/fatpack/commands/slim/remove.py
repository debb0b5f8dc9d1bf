"""Selected images, or all, taken out of a file: an object, a container, the members of an archive, a linked file.

A linked program or library keeps its addresses, so :func:`fatpack.commands.slim.plan.plan_slim` takes its images out.
All other files are written anew by :func:`fatpack.edit.selection.rewrite`.
"""

from __future__ import annotations

from fatpack.edit.editor import verify_edited
from fatpack.edit.selection import is_linked_program, rewrite, select_for_edit
from fatpack.record import Record
from fatpack.selectors.no_match import NothingSelected, unmatched_patterns, unread_findings
from fatpack.selectors.select import describe_image

__all__ = ["ImageRemoval", "NothingSelected", "remove_images"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.edit.editor import EditCheck
    from fatpack.edit.selection import EditSelection
    from fatpack.io.source import Piece, View
    from fatpack.model import Finding
    from fatpack.scanner import FoundContainer, FoundImage
    from fatpack.selectors.select import Selector


class ImageRemoval(Record):
    """A plan to take images out: the pieces of the new host, and in words what goes and what to know about the rest.

    ``unread`` are findings about what was not read, and stays as it is; ``unmatched`` patterns that match nothing,
    ``damaged`` is the damage of members in which nothing is selected: they stay to the byte. ``check`` raises HostError
    for a result that differs from the plan.
    """

    pieces: tuple[Piece, ...]
    removed: tuple[str, ...]
    notes: tuple[str, ...] = ()
    unread: tuple[Finding, ...] = ()
    unmatched: tuple[str, ...] = ()
    damaged: tuple[Finding, ...] = ()
    check: EditCheck = verify_edited


def remove_images(host: View, selector: Selector, *, allow_empty: bool = False) -> ImageRemoval:
    """Return the host without the selected images (all by default); of an archive, without those of all its members.

    Members of archives in which nothing is meant stay as they are, damaged or not. Raises NothingSelected, with what is
    there, HostError when it cannot be removed, and :class:`fatpack.commands.slim.SlimRefused` for a linked file
    of which a container would lose all code.
    """
    if is_linked_program(host):
        return _of_linked(host, selector, allow_empty)
    edit = select_for_edit(host, selector, "remove")
    removed = [edit.title(where) + _describe_removed(where, found, image) for where, found, image in edit.images]
    notes = list(_notes_on_host_only(edit))
    pieces = rewrite(edit, {id(image): () for _, _, image in edit.images}, allow_empty=allow_empty)
    return ImageRemoval(
        tuple(pieces),
        tuple(removed),
        tuple(notes),
        tuple(unread_findings(edit.items)),
        tuple(unmatched_patterns(edit.items, selector)),
        edit.damaged,
    )


def _of_linked(host: View, selector: Selector, allow_empty: bool) -> ImageRemoval:
    from fatpack.commands.slim.options import SlimOptions
    from fatpack.commands.slim.plan import plan_slim
    from fatpack.commands.slim.result import verifier_for

    slimmed = plan_slim(host, SlimOptions(selector=selector, allow_empty=allow_empty))
    items = list({row.number: row.found for row in (*slimmed.kept, *slimmed.dropped)}.values())
    return ImageRemoval(
        slimmed.pieces,
        tuple(describe_image(row.position, row.image) for row in slimmed.dropped),
        slimmed.notes,
        slimmed.unread,
        tuple(unmatched_patterns(items, selector)),
        slimmed.damaged,
        verifier_for(slimmed),
    )


def _describe_removed(position: str, found: FoundContainer, image: FoundImage) -> str:
    """Return the removed images in words; of a fat object's host the one-byte entry is removed, not the object."""
    if found.container.format == "clang-offload-bundle":
        from fatpack.formats.clang_bundle.fat_object import is_host_marker

        if is_host_marker(image.as_stored):
            return f"{position} the marker of the host, which stays"
    return describe_image(position, image)


def _notes_on_host_only(edit: EditSelection) -> Iterator[str]:
    """Yield a note about each container that keeps an image for its host and nothing else."""
    removed = {position for position, _, _ in edit.images}
    for number, found in {position.partition(".")[0]: found for position, found, _ in edit.images}.items():
        remaining = [image.as_stored for index, image in enumerate(found.images) if f"{number}.{index}" not in removed]
        if remaining and all(image.target.offload == "host" for image in remaining):
            ids = ", ".join(image.attrs.get("id") or image.target.triple for image in remaining)
            title = edit.titles[int(number)]
            yield f"{title}container {number} has no device code left, only the image for its host ({ids})"
