"""What packing gives: the bytes of containers, ready to be written, and findings about them."""

from __future__ import annotations

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from fatpack.io.source import Piece, View
    from fatpack.model import Finding


class PackedContainers(Record):
    """A container, or several that follow each other, ready to be written, and findings about the images in them.

    ``pieces`` are the bytes in order; those of images are views of their files. ``is_text`` says that nothing can
    follow the container, since it reaches to the end of its file. ``mode`` are the mode bits of a copy of a host, and
    ``verify`` raises HostError unless what was written holds the images. ``notes`` are sentences about what was
    decided, and ``left_out`` is how many of the images that were given are not in it.
    """

    pieces: tuple[Piece, ...]
    findings: tuple[Finding, ...] = ()
    is_text: bool = False
    mode: int | None = None
    verify: Callable[[View], None] | None = None
    notes: tuple[str, ...] = ()
    left_out: int = 0
