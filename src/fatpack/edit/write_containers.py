"""Several containers → their pieces, on all cores where they have to be compressed."""

from __future__ import annotations

from fatpack.errors import FormatError, HostError, Unsupported, UsageError
from fatpack.findings import code_for_error, finding
from fatpack.io.inflated import StreamedSource
from fatpack.io.source import View
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from fatpack.io.source import Piece, Span
    from fatpack.model import Container, Finding, Image
    from fatpack.scanner import FoundContainer

    #: ``id()`` of an image, as it was found → the images in its place: none, another, or several
    ImageChanges = Mapping[int, Sequence[Image]]


# Images that are listed and cannot be taken out: which one, where, and why. Each is left out alone.
#
# What is damaged, and what this version cannot do, takes nothing away from its neighbours: extracting and converting
# leave it out, report it, and do the rest.

#: Errors that keep one image from being taken out, and no other.
PER_IMAGE_ERRORS = (FormatError, HostError, Unsupported)


class UnreadableImage(Record):
    """An image that was left out: in words which one, where it lies, and the error that says why."""

    what: str
    span: Span
    error: FormatError | HostError | Unsupported

    @property
    def finding(self) -> Finding:
        """The finding: damage where the error says it is, or what this version cannot do with the image."""
        error, span = self.error, self.span
        if not isinstance(error, FormatError):
            return finding("FP1008", span, f"{self.what}: {error.problem}", error.hint)
        if error.offset is not None and error.chain == span.source:
            span = span.replace(start=error.offset, end=max(span.end, error.offset))
        return finding(
            code_for_error("FP1001", error), span, f"{self.what}: {error.describe()}", error.hint, field=error.field
        )


def read_error(pieces: Iterable[Piece]) -> FormatError | HostError | Unsupported | None:
    """Return the error that keeps some of the pieces from being read, None if all of them can be."""
    try:
        for piece in pieces:
            if isinstance(piece, View):
                for _ in piece.source.read_once(piece.start, len(piece)):
                    pass
    except PER_IMAGE_ERRORS as error:
        return error
    return None


def write_all(containers: Sequence[Container]) -> list[list[Piece]]:
    """Return the pieces of each container, in order. What is compressed is in memory then, inflated bytes are not.

    Raises what writing raises, for the first container that cannot be written.
    """
    from fatpack.concurrency.threads import ThreadTasks

    are_compressed = any("compression" in container.attrs for container in containers)
    with ThreadTasks([_task(container) for container in containers], threads=None if are_compressed else 1) as tasks:
        return list(tasks)


def _task(container: Container) -> Callable[[], list[Piece]]:
    from fatpack import formats

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
