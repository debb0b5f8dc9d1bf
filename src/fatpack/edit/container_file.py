"""Bare container files: rewriting their containers, and verifying the result."""

from __future__ import annotations

from fatpack import formats, limits
from fatpack.errors import FormatError, HostError, Unsupported, UsageError, cli_or_api
from fatpack.model import Finding
from fatpack.scanner import scan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.io.source import Piece, View
    from fatpack.model import Image
    from fatpack.scanner import FoundContainer

#: LIMIT: the largest alignment that is kept; HIP's bundles are aligned to a page, and no loader needs more
_LARGEST_ALIGN = 4096

#: compressed offload binaries do not count up to this many zeros in their size; more zeros have no known purpose
_END_ALIGN = 8


def _extract() -> str:
    """Return how to extract a container as a whole."""
    return cli_or_api("extract it with --containers", "take the view of one of File.containers")


def rewrite_containers(
    view: View, inside: Sequence[FoundContainer], kept: Sequence[Sequence[Piece] | None]
) -> list[Piece]:
    """Return the file with new bytes for its containers; ``kept`` has None for each container to leave out.

    Zeros before a container are removed with it. If sizes change, there are as many zeros as its alignment requires;
    other bytes between containers stay. Raises UsageError if nothing would stay, HostError for a container that is not
    stored in the file as such.
    """
    _refuse_others(view, inside)
    if not any(content is not None for content in kept):
        raise UsageError(
            "all images are selected, and nothing would be left of the container",
            hint=f"select fewer, or leave an empty container with {cli_or_api('--allow-empty', 'allow_empty=True')}",
            chain=view.chain,
        )
    pieces: list[Piece] = []
    at = size = 0
    for found, content in zip(inside, kept, strict=True):
        if found.view.source is not view.source or found.host != "raw":
            raise HostError(
                "the container is a string in a text, which is not edited",
                hint=f"{_extract()}, and edit that",
                chain=view.chain,
            )
        start = found.view.start - view.start
        if start < at:
            raise FormatError("two containers overlap", offset=found.view.offset(0), chain=view.chain)
        gap: Piece = view.slice(at, start - at)
        if view.is_zero(at, start - at):
            gap = b"" if content is None else bytes(_padding(size, start, start - at, _LARGEST_ALIGN))
        own = content or ()
        pieces += [gap, *own]
        size += len(gap) + sum(map(len, own))
        at = found.view.end - view.start
    tail: Piece = view.slice(at, len(view) - at)
    if view.is_zero(at):
        tail = b"" if kept[-1] is None else bytes(_padding(size, len(view), len(view) - at, _END_ALIGN))
    return [*pieces, tail]


def _refuse_others(view: View, inside: Sequence[FoundContainer]) -> None:
    """Raise HostError if the file is another file that contains containers: it may depend on their sizes."""
    if formats.format_by_magic(view.head(0, 24)) or formats.find_text_format(view):
        return
    for found in inside:
        if found.host == "raw":
            from fatpack.scanner.unsupported_files import unsupported_kind

            kind = unsupported_kind(view) or "a file of an unknown format"
            at = found.container.span.start
            raise HostError(
                f"this is {kind}; the {found.container.format} at {at:#x} in it is not edited",
                hint=f"its other bytes may depend on that offset; {_extract()}, and edit that",
                chain=view.chain,
            )


def _padding(at: int, start: int, gap: int, largest: int) -> int:
    """Return the number of zeros before content that moves from ``start`` to ``at``, and had ``gap`` zeros before it.

    The alignment stays the same if the zeros were there for it: then they are fewer than the alignment.
    """
    align = min(start & -start, largest)
    return -at % align if 0 < gap < align else gap if at else 0


def verify_containers(before: View, after: View) -> None:
    """Raise HostError unless every image of the container afterwards is one from before, in the same order.

    A file without containers must be unchanged, or hold an empty container. Content is compared too, except modules of
    CIR containers, whose text is written again. Raises FormatError for an image that cannot be read, in either.
    """
    try:
        _compare(before, after)
    except FormatError:
        _read(before)  # damage that was there before is reported with the original file's chain
        raise


def _compare(before: View, after: View) -> None:
    kept = (pair for found in _containers(before) for pair in _images(before, found))
    is_empty = True
    for found in _containers(after):
        is_empty = False
        for image, view in _images(after, found):
            if not any(_is_same(image, view, *other) for other in kept):
                what = image.target.spelling or image.target.canonical or "without a target"
                raise HostError(f"the image {what} differs from the one in the container before", chain=after.chain)
    if is_empty and not has_same_bytes(before, after):
        raise HostError("no container is left", chain=after.chain)


def _read(whole: View) -> None:
    """Read all images of a file to their last byte. Raises FormatError for one that is damaged."""
    for found in _containers(whole):
        for _, view in _images(whole, found):
            for _ in view.read_once() if view is not None else ():
                pass


def _containers(whole: View) -> Iterator[FoundContainer]:
    """Yield the containers of a file. Raises HostError for damage, except containers of unsupported versions."""
    for item in scan(whole):
        if not isinstance(item, Finding):
            yield item
        elif item.severity == "error" and item.code != "FP1008":
            raise HostError(f"the container cannot be read: {item.message}", chain=whole.chain)


def _images(whole: View, found: FoundContainer) -> Iterator[tuple[Image, View | None]]:
    """Yield the images of a container with their bytes, None for text."""
    is_text = found.container.format == "cir-offload-container"
    return ((image, None if is_text else _bytes(whole, image)) for image in found.container.images)


def _bytes(whole: View, image: Image) -> View:
    """Return the bytes of an image, as they are stored if they cannot be inflated."""
    data = image.data
    try:
        data.head(0, 1)
    except Unsupported:
        return whole.slice(image.span.start - whole.start, image.span.size)
    return data


def _is_same(image: Image, view: View | None, other: Image, old: View | None) -> bool:
    if image.target != other.target or view is None or old is None:
        return image.target == other.target
    return has_same_bytes(view, old)


def has_same_bytes(first: View, second: View) -> bool:
    """Return whether two views hold the same bytes, block by block; parts of ``first`` that are those of ``second``, at
    the same place of the same file, are not read."""
    if len(first) != len(second):
        return False
    at = 0
    for part in first.parts():
        other = second.slice(at, len(part))
        at += len(part)
        if part.source is other.source and part.start == other.start:
            continue
        blocks = range(0, len(part), limits.CHUNK)
        if any(part.head(block, limits.CHUNK) != other.head(block, limits.CHUNK) for block in blocks):
            return False
    return True
