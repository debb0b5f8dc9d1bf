"""What a slimmed file holds, by digests: the file as it will be, and every image that stays in it."""

from __future__ import annotations

from fatpack.io.sources.pieces import sha256
from fatpack.ops.slim.checking import check_of
from fatpack.ops.slim.choosing.rows import is_host, spelled
from fatpack.ops.slim.plan import Plan, plan
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.io.source import Piece, View
    from fatpack.ops.slim.choosing.rows import Row
    from fatpack.ops.slim.wishes import Wishes


class ImageFact(Record):
    """An image: its position as ``inspect`` prints it, what it is for, its size in bytes and SHA-256, both inflated."""

    position: str
    arch: str
    form: str
    offload: str
    size: int
    digest: str


class Described(Record):
    """A plan, with the SHA-256 of the file that it makes and facts about the images that stay.

    Both are empty where nobody asked for them.
    """

    plan: Plan
    digest: str = ""
    images: tuple[ImageFact, ...] = ()

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
        check_of(self.plan)(before, after)


def described(view: View, wishes: Wishes, *, digests: bool = False) -> Described:
    """Return how a file is slimmed; with ``digests``, also what will be in it, which takes reading all of it.

    Raises what :func:`fatpack.ops.slim.plan.plan` does.
    """
    made = plan(view, wishes)
    if not digests:
        return Described(made)
    images = tuple(_fact(row) for row in made.kept if not is_host(row.image))
    return Described(made, sha256(made.pieces).hex(), images)


def _fact(row: Row) -> ImageFact:
    image = row.image
    return ImageFact(
        row.position, spelled(image), image.form, image.target.offload, len(image.data), sha256([image.data]).hex()
    )
