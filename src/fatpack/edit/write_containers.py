"""Several containers → their pieces, on all cores where they have to be compressed."""

from __future__ import annotations

from fatpack import formats
from fatpack.concurrency.threads import ThreadTasks
from fatpack.errors import UsageError
from fatpack.io.streamed import StreamedSource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from fatpack.io.source import Piece
    from fatpack.model import Container, Image
    from fatpack.scanner import FoundContainer

    #: ``id()`` of an image, as it was found → the images in its place: none, another, or several
    ImageChanges = Mapping[int, Sequence[Image]]


def write_all(containers: Sequence[Container]) -> list[list[Piece]]:
    """Return the pieces of each container, in order. What is compressed is in memory then, inflated bytes are not.

    Raises what writing raises, for the first container that cannot be written.
    """
    are_compressed = any("compression" in container.attrs for container in containers)
    with ThreadTasks([_task(container) for container in containers], threads=None if are_compressed else 1) as tasks:
        return list(tasks)


def _task(container: Container) -> Callable[[], list[Piece]]:
    def run() -> list[Piece]:
        # Comparing images makes all of them, so containers with fewer than were read are not compared.
        read = getattr(container.record, "images", ())
        is_as_read = len(read) == len(container.images) and read == container.images
        own = container if is_as_read else container.replace(images=with_separate_streams(container.images))
        return list(formats.get_format(container.format).write(own))

    return run


def with_separate_streams(images: Iterable[Image]) -> tuple[Image, ...]:
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


def empty_container(found: FoundContainer) -> list[Piece]:
    """Return the bytes of a container without any image. Raises UsageError if its format needs one."""
    hint = "select fewer images"
    try:
        pieces = write_all([found.container.replace(images=())])[0]
    except UsageError as error:
        raise UsageError(error.problem, hint=hint, chain=error.chain) from error
    if not any(map(len, pieces)):
        raise UsageError(f"a {found.container.format} of this kind holds nothing but its images", hint=hint)
    return pieces


def changed_containers(found: Sequence[FoundContainer], changes: ImageChanges) -> list[Sequence[Piece] | None]:
    """Return the bytes of every container with its images changed; None for one that is left without any.

    What does not change comes out as it is stored. Offload binaries of version 1 hold one image each: where there are
    several now, several come out.
    """
    rewritten: list[Container] = []
    counts: list[int | None] = []
    for item in found:
        if not any(id(image) in changes for image in item.images):
            counts.append(None)
            continue
        left = tuple(new for image in item.images for new in changes.get(id(image), (image.as_stored,)))
        containers = _divided(item.container.replace(images=left)) if left else []
        counts.append(len(containers))
        rewritten += containers
    written = iter(write_all(rewritten))
    kept: list[Sequence[Piece] | None] = []
    for item, count in zip(found, counts, strict=True):
        if count is None:
            kept.append([item.view])
        else:
            kept.append([piece for _ in range(count) for piece in next(written)] or None)
    return kept


def _divided(container: Container) -> list[Container]:
    """Return a container, or several where its format has no place for more than one image."""
    if container.format != "llvm-offload-binary" or container.version != 1:
        return [container]
    return [container.replace(images=(image,)) for image in container.images]
