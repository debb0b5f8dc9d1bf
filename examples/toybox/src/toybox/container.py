"""Toybox: a header, and one record in front of each image. All integers are little-endian.

The door is that of ``fatpack.formats``; ``tests/test_container.py`` holds its laws.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fatpack.errors import BadValue, Truncated
from fatpack.layout import Field, FormatInfo, Layout
from fatpack.model import Container, Image, Label, Target

if TYPE_CHECKING:
    from fatpack.io.source import Piece, View

NAME = "toybox"
MAGICS = (b"TOYBOX\x00\x01",)

HEADER = Layout(
    NAME,
    "header",
    (
        Field("magic", "bytes[8]", "`TOYBOX`, NUL, and the version 1"),
        Field("size", "u32", "size of the container in bytes, this header included"),
        Field("count", "u32", "number of images"),
    ),
)
RECORD = Layout(
    NAME,
    "record",
    (
        Field("size", "u32", "size of the image in bytes"),
        Field("arch", "bytes[12]", "architecture, padded with NUL"),
    ),
)
LAYOUTS = (HEADER, RECORD)

DOC = FormatInfo(
    name=NAME,
    title="Toybox",
    description="The container of this example.",
    references=("this file",),
    reads="version 1",
    writes="version 1",
    limitations=("An architecture has 12 bytes at most.",),
)


def detect(view: View, at: int = 0) -> bool:
    return view.head(at, 8) == MAGICS[0]


def extent(view: View, at: int = 0) -> int | None:
    if len(view) - at < HEADER.size:
        return None
    size = HEADER.read(view, at)[1]
    return size if HEADER.size <= size <= len(view) - at else None


def parse(view: View, at: int = 0) -> Container:
    magic, size, count = HEADER.read(view, at)
    chain = view.chain
    if magic != MAGICS[0]:
        raise BadValue("this is no toybox", format=NAME, offset=view.offset(at), field="magic", chain=chain)
    if not HEADER.size + count * RECORD.size <= size <= len(view) - at:
        raise Truncated(
            needed=size, left=len(view) - at, format=NAME, offset=view.offset(at + 8), field="size", chain=chain
        )
    images, place, end = [], at + HEADER.size, at + size
    for _ in range(count):
        room, arch = RECORD.read(view.slice(0, end), place)
        place += RECORD.size
        if room > end - place:
            raise Truncated(
                needed=room, left=end - place, format=NAME, offset=view.offset(place), field="image", chain=chain
            )
        data = view.slice(place, room)
        target = Target(arch=arch.rstrip(b"\0").decode("ascii", "replace"))
        images.append(Image(target, "", data, room, room, data.span()))
        place += room
    if place != end:
        raise BadValue(
            f"{end - place} bytes behind the last image",
            format=NAME,
            offset=view.offset(place),
            field="size",
            chain=chain,
        )
    return Container(NAME, 1, tuple(images), view.span(at, size))


def write(container: Container, options: object = None) -> Iterator[Piece]:
    size = HEADER.size + sum(RECORD.size + len(image.data) for image in container.images)
    yield HEADER.pack(MAGICS[0], size, len(container.images))
    for image in container.images:
        yield RECORD.pack(len(image.data), image.target.arch.encode("ascii"))
        yield image.data


def labels(view: View, container: Container) -> Iterator[Label]:
    start = container.span.start - view.start
    yield from HEADER.labels(view, start, "header")
    for number, image in enumerate(container.images):
        yield from RECORD.labels(view, image.span.start - view.start - RECORD.size, f"record[{number}]")
        if len(image.data):
            yield Label(image.span, f"image[{number}]", "", "the bytes of the image", kind="data")


def describe(container: Container) -> dict[str, object]:
    return {}
