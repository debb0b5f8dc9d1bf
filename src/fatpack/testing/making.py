"""Views of bytes, images of them, and what writers yield as bytes."""

from __future__ import annotations

from collections.abc import Iterable

from fatpack.io.memory import BytesSource
from fatpack.io.source import View
from fatpack.model import Image, Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import Piece


def make_view(data: bytes, name: str = "test") -> View:
    """Return a view of all of the bytes; ``name`` is what errors name first."""
    return BytesSource(data, name).view()


def join_pieces(pieces: Iterable[Piece]) -> bytes:
    """Return what a writer yields as one string."""
    return b"".join(piece.tobytes() if isinstance(piece, View) else bytes(piece) for piece in pieces)


def make_image(data: bytes, **facts: object) -> Image:
    """Return an image of these bytes, for a container that is to be written; ``facts`` are fields of the model."""
    view = make_view(data, "image")
    facts = {"target": Target(), "form": "object", **facts}
    return Image(data=view, size=len(data), stored_size=len(data), span=view.span(), **facts)  # type: ignore[arg-type]
