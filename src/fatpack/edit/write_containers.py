"""The pieces of several containers, compressed on all cores if necessary."""

from __future__ import annotations

from fatpack.errors import FormatError, HostError, Unsupported, UsageError
from fatpack.findings import code_for_error, finding
from fatpack.io.source import View
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from fatpack.io.inflated import StreamedSource
    from fatpack.io.source import Piece, Span
    from fatpack.model import Container, Finding, Image
    from fatpack.scanner import FoundContainer

    #: ``id()`` of a found image → the images in its place: none, another, or several. Positions would not do: archives
    #: are scanned member by member, and containers are written section by section. Comparing images would read them.
    #: The result of the scan holds the images as long as there are changes to them, so no ``id()`` is used again.
    ImageChanges = Mapping[int, Sequence[Image]]


# Images that are listed and cannot be extracted: each is left out on its own.
#
# A damaged or unsupported image does not affect its neighbours: extracting and converting leave it out, report it, and
# do the rest.

#: Errors that prevent the extraction of one image, and of no other.
PER_IMAGE_ERRORS = (FormatError, HostError, Unsupported)


class UnreadableImage(Record):
    """An image that was left out: its title, its span, and the error."""

    what: str
    span: Span
    error: FormatError | HostError | Unsupported

    @property
    def finding(self) -> Finding:
        """The finding: damage at the offset of the error, or a feature that this version does not support."""
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
    """Return the pieces of each container, in order. Compressed bytes are kept in memory, decompressed ones are not.

    Raises the errors of writing, for the first container that cannot be written.
    """
    tasks = [_task(container) for container in containers]
    if not any("compression" in container.attrs for container in containers):
        return [write() for write in tasks]
    from fatpack.concurrency.threads import ThreadTasks

    with ThreadTasks(tasks) as written:
        return list(written)


def _task(container: Container) -> Callable[[], list[Piece]]:
    from fatpack import formats

    def run() -> list[Piece]:
        # Comparing images decompresses all of them, so containers from which images were removed are not compared.
        read = getattr(container.record, "images", ())
        is_as_read = len(read) == len(container.images) and read == container.images
        own = container if is_as_read else container.replace(images=with_separate_streams(container.images))
        return list(formats.get_format(container.format).write(own))

    return run


def with_separate_streams(images: Iterable[Image]) -> tuple[Image, ...]:
    """Return images with a decompressed stream of their own: two threads must not read one stream."""
    sources: dict[int, StreamedSource] = {}
    found = []
    for image in images:
        view = image.data
        source = view.source
        if source.is_inflated and source.is_streamed:
            from fatpack.io.inflated import StreamedSource

            assert isinstance(source, StreamedSource)
            # Each object is a stream with a state of its own.
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
        raise UsageError(f"a {found.container.format} of this kind cannot be without images", hint=hint)
    return pieces


def changed_containers(found: Sequence[FoundContainer], changes: ImageChanges) -> list[Sequence[Piece] | None]:
    """Return the bytes of every container with its images changed; None for one that is left without any.

    Unchanged containers stay as stored. Offload binaries of version 1 hold one image each: several images become
    several binaries.
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
    """Return a container, or several if its format has no place for more than one image."""
    if container.format != "llvm-offload-binary" or container.version != 1:
        return [container]
    return [container.replace(images=(image,)) for image in container.images]
