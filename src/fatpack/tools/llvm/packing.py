"""Packing: the files of all ``--image`` options become one file.

LLVM 22 writes a binary of version 1 for every image, one behind the other; LLVM 23 one of version 2 with all of them.
"""

from __future__ import annotations

from fatpack.formats import offload_binary
from fatpack.formats.offload_binary.image_option import image_from
from fatpack.io.open import open_source
from fatpack.io.source import Span
from fatpack.model import Container
from fatpack.tools.llvm.failure import ToolError, strerror
from fatpack.tools.llvm.writing import write_output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.formats.offload_binary.image_option import ImageOption
    from fatpack.io.source import Piece, Source
    from fatpack.model import Image


def pack_images(output: str, options: Sequence[ImageOption], llvm: str) -> None:
    """Write the images of the options to a file, or to standard output. Raises Failure."""
    sources: list[Source] = []
    images: list[Image] = []
    try:
        for option in options:
            if not option.files:
                raise ToolError("'file' is a required image arguments")
            for name in option.files:
                sources.append(open_source(name, resting=True))
                images.append(image_from(option, name, sources[-1].view()))
                sources[-1].rest()
        pieces = _container(images, llvm)
        write_output(output, pieces)
    except OSError as error:
        raise ToolError(strerror(error)) from error
    finally:
        for source in sources:
            source.close()


def _container(images: Sequence[Image], llvm: str) -> list[Piece]:
    version, groups = (1, [(image,) for image in images]) if llvm == "22" else (2, [tuple(images)])
    pieces: list[Piece] = []
    for group in groups:
        pieces += offload_binary.write(Container(offload_binary.DOC.name, version, group, Span(0, 0)))
    return pieces
