"""Packing: files and what is said about them → containers → one output, alone or inside a copy of a host."""

from __future__ import annotations

from fatpack import formats, images
from fatpack.errors import UsageError
from fatpack.formats.offload_binary.image_option import image_from
from fatpack.formats.offload_binary.layout import FORMAT
from fatpack.images.agreement import disagreements
from fatpack.io.source import open_source
from fatpack.model import Container, Span
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fatpack.formats.offload_binary.image_option import ImageOption
    from fatpack.io.source import Source, View
    from fatpack.model import Finding, Image, Piece


class Packed(Record):
    """Containers ready to be written, and what is odd about their images."""

    containers: tuple[Container, ...]
    findings: tuple[Finding, ...] = ()

    def pieces(self) -> list[Piece]:
        """Return the bytes of all containers, one after the other, as pieces; images are views of their files."""
        return [piece for container in self.containers for piece in formats.room(container.format).write(container)]


def open_images(options: Iterable[ImageOption], opened: list[Source]) -> Iterator[Image]:
    """Yield the images of the options; every file is appended to ``opened`` for the caller to close.

    Raises UsageError for an option without ``file``, ``OSError`` for a file that cannot be read.
    """
    for option in options:
        if not option.files:
            raise UsageError(
                f"--image={option.text} has no file=", hint="write --image=file=PATH,triple=TRIPLE,arch=ARCH"
            )
        for name in option.files:
            source = open_source(name, resting=True)
            opened.append(source)
            yield image_from(option, name, source.view())
            source.rest()


def pack(
    stored: Sequence[Image], *, version: int = 1, compression: str | None = None, level: int | None = None
) -> Packed:
    """Return offload binaries that hold the images: one each for version 1, one for all of them for 2 and 3.

    ``compression`` (version 3 only) is ``zlib`` or ``zstd``. Images whose bytes contradict what is said about them
    give findings; nothing is read of them but headers.
    """
    if version not in (1, 2, 3):
        raise UsageError(f"container version {version}", hint="offload binaries have versions 1, 2 and 3")
    if compression and version != 3:
        raise UsageError("only container version 3 can be compressed", hint="add --container-version=3")
    attrs = {"compression": compression} if compression else {}
    if compression and level is not None:
        attrs["compression_level"] = str(level)
    groups = [(image,) for image in stored] if version == 1 else [tuple(stored)] if stored else []
    containers = tuple(Container(FORMAT, version, group, Span(0, 0), attrs=attrs) for group in groups)
    findings: list[Finding] = []
    for image in stored:
        view: View = image.data  # type: ignore[assignment]
        findings += disagreements(image, images.recognise(view))
        view.source.rest()
    return Packed(containers, tuple(findings))
