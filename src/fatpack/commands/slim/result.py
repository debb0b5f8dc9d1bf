"""Checking a slimmed file: it is read again like any other file, and compared with the plan."""

from __future__ import annotations

from fatpack.commands.slim.keep_for_device import arch_label, is_host
from fatpack.commands.slim.plan import SlimPlan, plan_slim
from fatpack.edit import editor
from fatpack.edit.container_file import has_same_bytes
from fatpack.edit.selection import all_items, is_linked_program, scan_tree
from fatpack.errors import HostError, pluralize
from fatpack.io.source import is_in_file, sha256_of_pieces
from fatpack.record import Record
from fatpack.scanner import FoundContainer, scan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.commands.slim.keep_for_device import SlimImage
    from fatpack.commands.slim.options import SlimOptions
    from fatpack.edit.editor import EditCheck
    from fatpack.io.source import Piece, View
    from fatpack.model import Image


def verifier_for(plan: SlimPlan) -> EditCheck:
    """Return what raises HostError unless a file is what a plan makes of the one before it.

    Every image that stays must be there, in order, with the bytes that were stored or what they inflate to, and no
    other. Objects, archives and containers must be sound edits by the rules of their hosts, too. Of linked files the
    rest is for a proof that needs nothing of the plan.
    """

    def check(before: View, after: View) -> None:
        if plan.mode == "edit":
            editor.verify_edited(before, after, in_containers=False)
        elif not plan.mode:
            return
        found = list(_images(after))
        kept = [(arch_label(row.image), row.image.as_stored, row.found.format) for row in plan.kept]
        if len(found) != len(kept):
            problem = f"{pluralize(len(found), 'image')} in the place of {len(kept)}"
            raise HostError(f"the slimmed file is wrong: {problem}", chain=after.chain)
        # Some formats sort what they hold; images for the same stay in order.
        pairs = zip(sorted(found, key=_name), sorted(kept, key=_name), strict=True)
        for (name, image), (expected, old, format) in pairs:
            if name != expected:
                raise HostError(f"the slimmed file is wrong: it has {name} for {expected}", chain=after.chain)
            if not _is_same(image, after, old, before, padding=_PADDING if format == "cuda-fatbin" else 0):
                raise HostError(f"the slimmed file is wrong: the bytes of {name} differ", chain=after.chain)
            for data in (image.data, old.data):
                if data.source.is_inflated:
                    data.source.release_buffers()

    return check


def prove_slimmed(before: View, after: View) -> None:
    """Raise HostError unless a linked file is proved to be another with less device code; nothing of other files.

    By readers that share nothing with what wrote it: for results that take the place of the only file there is. Raises
    FormatError, and Unsupported for a file of which nothing can be proved.
    """
    if not is_linked_program(before):
        return
    from fatpack import proof

    verdict = proof.prove(before, after)
    if not verdict.is_proved:
        raise HostError(
            f"the result is not proved to differ in device code alone: {verdict.differences[0].what}",
            hint="report this, with the file; a copy of the folder (-d DIR) is written unproved",
            chain=after.chain,
        )


def prove_left_out(name: str, before: View) -> None:
    """Raise HostError unless a file that goes as a whole is proved to have device code alone, or a table of it.

    Raises FormatError for one that is damaged.
    """
    from fatpack.proof.packages.left_out import find_objection

    objection = find_objection(name, before)
    if objection is not None:
        raise HostError(
            f"{name} is not proved to be a file of a kernel store: it has {objection[1]}, not {objection[0]}",
            hint="report this, with the file; a copy of the folder (-d DIR) leaves it out unproved",
            chain=before.chain,
        )


def _name(row: tuple[str, Image] | tuple[str, Image, str]) -> str:
    return row[0]


def _images(view: View) -> Iterator[tuple[str, Image]]:
    is_program = is_linked_program(view)
    if is_program:
        from fatpack.commands.slim import linked

        items = linked.drop_empty(list(scan(view, checks_registration=False)))
    else:
        items = all_items(scan_tree(view))
    for item in items:
        if isinstance(item, FoundContainer):
            for image in item.images:
                yield arch_label(image), image.as_stored


def _is_same(image: Image, after: View, old: Image, before: View, *, padding: int) -> bool:
    """Return whether two images have the same bytes: as they are stored, if that is in the same way.

    Up to ``padding`` zeros may follow in the file afterwards.
    """
    here, there = image.data, old.data
    if image.compression == old.compression is not None and image.stored_size == old.stored_size:
        if is_in_file(image.span.source) and is_in_file(old.span.source):
            here = after.slice(image.span.start - after.start, image.span.size)
            there = before.slice(old.span.start - before.start, old.span.size)
        if has_same_bytes(here, there):
            return True
        here, there = image.data, old.data
    # An uncompressed image of a fat binary is padded with zeros to 8 bytes, and text ends in a NUL.
    size = len(there)
    return size <= len(here) <= size + padding and here.is_zero(size) and has_same_bytes(here.slice(0, size), there)


#: bytes of zeros that a fat binary may put after an image, at most
_PADDING = 16


# Digests of a slimmed file: of the new file, and of every image that stays in it.


class ImageDigest(Record):
    """An image: its position as ``inspect`` prints it, what it is for, its size in bytes and SHA-256, both inflated."""

    position: str
    arch: str
    form: str
    offload: str
    size: int
    digest: str


class SlimmedFile(Record):
    """A plan, with the SHA-256 of the file that it makes and facts about the images that stay.

    Both are empty if they were not requested.
    """

    plan: SlimPlan
    digest: str = ""
    images: tuple[ImageDigest, ...] = ()

    @property
    def pieces(self) -> Sequence[Piece]:
        """The bytes of the slimmed file."""
        return self.plan.pieces

    @property
    def is_changed(self) -> bool:
        """True if the file changes."""
        return self.plan.is_changed

    def verify(self, before: View, after: View) -> None:
        """Raise HostError unless a file is what the plan makes of the one before."""
        verifier_for(self.plan)(before, after)


def plan_with_digests(view: View, options: SlimOptions, *, digests: bool = False) -> SlimmedFile:
    """Return how a file is slimmed; with ``digests``, also what will be in it, which takes reading all of it.

    Raises what :func:`fatpack.commands.slim.plan.plan_slim` does.
    """
    made = plan_slim(view, options)
    if not digests:
        return SlimmedFile(made)
    images = tuple(_fact(row) for row in made.kept if not is_host(row.image))
    return SlimmedFile(made, sha256_of_pieces(made.pieces).hex(), images)


def _fact(row: SlimImage) -> ImageDigest:
    image = row.image
    return ImageDigest(
        row.position,
        arch_label(image),
        image.form,
        image.target.offload,
        len(image.data),
        sha256_of_pieces([image.data]).hex(),
    )
