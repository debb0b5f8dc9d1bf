"""What a slimmed file holds, by digests: the file as it will be, and every image that stays in it."""

from __future__ import annotations

from fatpack.commands.slim.plan import SlimPlan, plan_slim
from fatpack.commands.slim.result import verifier_for
from fatpack.commands.slim.rows import arch_label, is_host
from fatpack.io.pieces import sha256_of_pieces
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.commands.slim.rows import SlimImage
    from fatpack.commands.slim.wishes import SlimOptions
    from fatpack.io.source import Piece, View


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

    Both are empty where nobody asked for them.
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
        """Whether the file is another one then."""
        return self.plan.is_changed

    def verify(self, before: View, after: View) -> None:
        """Raise HostError unless a file is what the plan makes of the one before."""
        verifier_for(self.plan)(before, after)


def plan_with_digests(view: View, wishes: SlimOptions, *, digests: bool = False) -> SlimmedFile:
    """Return how a file is slimmed; with ``digests``, also what will be in it, which takes reading all of it.

    Raises what :func:`fatpack.commands.slim.plan.plan_slim` does.
    """
    made = plan_slim(view, wishes)
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
