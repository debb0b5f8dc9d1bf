"""Images that share bytes: written one by one they could fill a disk from a small file."""

from __future__ import annotations

from fatpack import limits
from fatpack.errors import Unsupported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from fatpack.io.source import View


def refuse_shared_bytes(views: Iterable[View]) -> None:
    """Raise Unsupported if views add up to much more than twice the bytes that they are views of.

    Of what is compressed the inflated bytes count.
    """
    views = list(views)
    total = shared_size(views)
    if total:
        raise Unsupported(
            f"the images share their bytes; written separately they would take {total} bytes",
            hint="extract the image you need and pack it again",
            chain=views[-1].chain,
        )


def shared_size(views: Iterable[View]) -> int:
    """Return the bytes of all views if they are much more than twice those that they are views of, else 0."""
    total, present = 0, {}
    for view in views:
        total += len(view)
        present[id(view.source)] = view.source.size
    return total if total > 2 * sum(present.values()) + limits.CHUNK else 0
