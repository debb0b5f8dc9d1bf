"""Version 2 on the way out: entries of an offload binary, with the strings that DPC++ gives them."""

from __future__ import annotations

from fatpack.errors import UsageError
from fatpack.formats import offload_binary
from fatpack.formats.offload_binary.layout import OFFLOAD_BINARY_FORMAT as OUTER
from fatpack.formats.offload_binary.stored import OffloadBinaryEntry as OuterEntry
from fatpack.formats.syclbin.stored import SyclbinEntry
from fatpack.formats.syclbin.syclbin_layout import (
    AM_METADATA,
    GLOBAL_METADATA,
    IMAGE_KINDS,
    IR,
    OFFLOAD_KIND,
    PAYLOAD,
    VERSION_2,
)
from fatpack.formats.syclbin.writer import group_by_module, ir_type, make_parts
from fatpack.io.pieces import PiecesSource
from fatpack.io.source import Span
from fatpack.model import Container, Image, Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fatpack.formats.syclbin.stored import SyclbinHeader
    from fatpack.formats.syclbin.writer import SyclbinPart
    from fatpack.io.source import Piece

#: The version of the offload binary that is written: what LLVM 23 reads.
_OUTER_VERSION = 2

#: Keys of an entry that stand where DPC++ has them, not where the attributes of its image do.
_PLACED = ("role", "am_index", "ir_type", "arch", "triple", "sycl_format_version")


def write_version2(parts: Sequence[SyclbinPart], modules: Sequence[Piece], global_text: Piece) -> Iterator[Piece]:
    """Yield the pieces of a file: global metadata, then of each abstract module its metadata and its images."""
    images = [_entry(GLOBAL_METADATA, {}, [global_text])]
    groups = group_by_module(parts)
    for number, metadata in enumerate(modules):
        images += _of_module(number, metadata, groups.get(number, ()))
    return offload_binary.write(Container(OUTER, _OUTER_VERSION, tuple(images), Span(0, 0)))


def rewrite_version2(
    container: Container, stored: SyclbinHeader, outer: Container, global_text: Piece
) -> Iterator[Piece]:
    """Yield the pieces of a file that was read, in stored order, without images that are not among those to write.

    Images from elsewhere come last, each with an abstract module of its own.
    """
    own = {id(image) for image in outer.images}
    kept = {id(_outer(image)) for image in container.images}
    new = [image for image in container.images if id(_outer(image)) not in own]
    numbers = [module.number for module in stored.modules]
    images = []
    for image in outer.images:
        if image.attrs.get("role") == GLOBAL_METADATA and image.data is stored.global_metadata:
            images.append(image if global_text is stored.global_metadata else _with_data(image, global_text))
        elif id(image) in kept or image.attrs.get("role") in (GLOBAL_METADATA, AM_METADATA):
            images.append(image)
    alone = [
        image.replace(attrs={key: text for key, text in image.attrs.items() if key != "am_index"}) for image in new
    ]
    for part in make_parts(alone, max(numbers, default=-1) + 1):
        if part.module is not None:
            images += _of_module(part.module, b"", [part])
    return offload_binary.write(outer.replace(images=tuple(images)))


def _alone(image: Image) -> Image:
    return image.replace(attrs={key: text for key, text in image.attrs.items() if key != "am_index"})


def _outer(image: Image) -> Image | None:
    return image.record.outer if isinstance(image.record, SyclbinEntry) else None


def _with_data(image: Image, data: Piece) -> Image:
    view = PiecesSource([data]).view()
    return image.replace(data=view, size=len(view), stored_size=len(view), span=view.span())


def _of_module(number: int, metadata: Piece, parts: Sequence[SyclbinPart]) -> Iterator[Image]:
    """Yield the entries of an abstract module: its metadata, and each image behind its own."""
    yield _entry(AM_METADATA, {"am_index": str(number)}, [metadata])
    for part in parts:
        image = part.image
        strings = {"am_index": str(number)}
        if part.role == IR:
            strings["ir_type"] = str(ir_type(image))
        else:
            strings["arch"] = image.target.arch
        strings["triple"] = image.target.triple
        strings |= {key: value for key, value in image.attrs.items() if key not in _PLACED}
        yield _entry(part.role, strings, [PAYLOAD.pack(len(part.metadata)), part.metadata, image.data])


def _entry(role: str, strings: Mapping[str, str], pieces: Sequence[Piece]) -> Image:
    pairs = {"sycl_format_version": VERSION_2, "role": role, **strings}
    try:
        stored = tuple((_encoded(key), _encoded(value)) for key, value in pairs.items())
    except UnicodeEncodeError as error:
        raise UsageError(f"{error.object!r} is no text that a file can hold", hint="give it in UTF-8") from None
    view = PiecesSource(pieces).view()
    record = OuterEntry(IMAGE_KINDS[0], OFFLOAD_KIND, 0, stored)
    return Image(Target(), "syclbin", view, len(view), len(view), view.span(), record=record)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
