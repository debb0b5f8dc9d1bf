"""Several containers → their pieces, on all cores where they have to be compressed."""

from __future__ import annotations

from fatpack import formats
from fatpack.errors import UsageError
from fatpack.io.sources.streamed import StreamedSource
from fatpack.parallel import Tasks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from fatpack.io.source import Piece
    from fatpack.model import Container, Image
    from fatpack.scanner import Found


def write_all(containers: Sequence[Container]) -> list[list[Piece]]:
    """Return the pieces of each container, in order. What is compressed is in memory then, inflated bytes are not.

    Raises what writing raises, for the first container that cannot be written.
    """
    are_compressed = any("compression" in container.attrs for container in containers)
    with Tasks([_task(container) for container in containers], threads=None if are_compressed else 1) as tasks:
        return list(tasks)


def _task(container: Container) -> Callable[[], list[Piece]]:
    def run() -> list[Piece]:
        is_as_read = getattr(container.record, "images", None) == container.images
        own = container if is_as_read else container.replace(images=separated(container.images))
        return list(formats.room(container.format).write(own))

    return run


def separated(images: Iterable[Image]) -> tuple[Image, ...]:
    """Return images whose bytes are inflated for these alone: no two threads may read one stream."""
    sources: dict[int, StreamedSource] = {}
    found = []
    for image in images:
        view = image.data
        source = view.source
        if isinstance(source, StreamedSource):
            own = sources.setdefault(id(source), source.separate())
            found.append(image.replace(data=view.replace(source=own)))
        else:
            found.append(image)
    return tuple(found)


def emptied(found: Found) -> list[Piece]:
    """Return the bytes of a container without any image. Raises UsageError if its format needs one."""
    hint = "select fewer images"
    try:
        pieces = write_all([found.container.replace(images=())])[0]
    except UsageError as error:
        raise UsageError(error.problem, hint=hint, chain=error.chain) from error
    if not any(map(len, pieces)):
        raise UsageError(f"a {found.container.format} of this kind holds nothing but its images", hint=hint)
    return pieces


def without(found: Sequence[Found], meant: Collection[int]) -> list[Sequence[Piece] | None]:
    """Return the bytes of every container without the images that are meant; None for one that has no others.

    ``meant`` are the ``id()`` of images as they were found. What does not change comes out as it is stored.
    """
    lefts = [tuple(image.as_stored for image in item.images if id(image) not in meant) for item in found]
    changed = [
        item.container.replace(images=left)
        for item, left in zip(found, lefts, strict=True)
        if left and len(left) < len(item.images)
    ]
    written = iter(write_all(changed))
    kept: list[Sequence[Piece] | None] = []
    for item, left in zip(found, lefts, strict=True):
        if len(left) == len(item.images):
            kept.append([item.view])
        else:
            kept.append(next(written) if left else None)
    return kept
