"""Packing LLVM offload binaries: one for each image, or one for all of them."""

from __future__ import annotations

from fatpack import formats, images
from fatpack.commands.pack.formats import PackedContainers
from fatpack.errors import UsageError
from fatpack.formats.offload_binary.image_option import image_from
from fatpack.formats.offload_binary.layout import OFFLOAD_BINARY_FORMAT
from fatpack.images.container_mismatch import mismatch_findings
from fatpack.io.source import Span
from fatpack.model import Container

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.io.source import Piece
    from fatpack.model import Finding, Image
    from fatpack.writer_options import OffloadBinaryOptions

__all__ = ["image_from", "pack"]


def pack(stored: Sequence[Image], options: OffloadBinaryOptions) -> PackedContainers:
    """Return offload binaries that hold the images: one each for version 1, one for all of them for 2 and 3.

    Images whose bytes contradict what is stated about them give findings; nothing is read of them but headers.
    """
    version = options.version
    if version not in (1, 2, 3):
        raise UsageError(f"container version {version}", hint="offload binaries have versions 1, 2 and 3")
    if options.compression is not None and version != 3:
        raise UsageError("only container version 3 can be compressed", hint="give version=3")
    if options.level is not None and options.compression is None:
        raise UsageError(
            f"level {options.level} of a compressor, without compression", hint="compress too, or leave out the level"
        )
    groups = [(image,) for image in stored] if version == 1 else [tuple(stored)] if stored else []
    pieces: list[Piece] = []
    for group in groups:
        pieces += formats.get_format(OFFLOAD_BINARY_FORMAT).write(
            Container(OFFLOAD_BINARY_FORMAT, version, group, Span(0, 0)), options
        )
    findings: list[Finding] = []
    for image in stored:
        findings += mismatch_findings(image, images.identify_image(image.data))
        image.data.source.release_buffers()
    return PackedContainers(tuple(pieces), tuple(findings))
