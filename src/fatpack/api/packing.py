"""Making containers: ``pack`` of device images, ``convert`` of other containers."""

from __future__ import annotations

import os

from fatpack.api.output import write_edited, write_packed
from fatpack.api.reading import open
from fatpack.errors import UsageError
from fatpack.formats.offload_binary.image_option import OFFLOAD_WORDS, ImageOption
from fatpack.io.sources.opening import open_source
from fatpack.ops.edit.embed import embed
from fatpack.ops.pack.formats import FORMATS, PackOptions, image_maker, pack_as
from fatpack.record import Record

__all__ = ["ImageFile", "convert", "pack"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from typing_extensions import Buffer

    from fatpack.api.output import Output
    from fatpack.io.source import Source
    from fatpack.io.sources.opening import Input
    from fatpack.model import Image
    from fatpack.ops.choose.select import Selector
    from fatpack.ops.pack.fatbin import FatbinOptions

#: formats that hold an image for the host too, and store for every image an ID that can be given as it is
_WITH_HOST = ("bundle", "cir")


class ImageFile(Record):
    """A device image to be packed: its file (a path or bytes) and what it is for.

    ``offload`` is cuda, hip, openmp, sycl or none, in a bundle or CIR container also host; there ``id`` can stand for
    triple, arch and offload. ``attrs`` are further keys to store in an offload binary, or ``kind`` (elf, ptx, nvvm,
    tileir), ``ident``, ``cmdline``, ``debug``, ``host`` and ``check`` for a fat binary. For bytes, ``name`` takes the
    place of the file name, whose extension decides the image kind that an offload binary stores (``.o .bc .cubin
    .fatbin .s``).
    """

    file: str | os.PathLike[str] | Buffer
    triple: str = ""
    arch: str = ""
    offload: str = "none"
    attrs: Mapping[str, str] = {}
    name: str = ""
    id: str = ""


def pack(
    images: Iterable[ImageFile],
    output: Output,
    *,
    format: str = "offload-binary",
    host: Input | None = None,
    version: int | None = None,
    compression: str | None = None,
    level: int | None = None,
    type: str | None = None,
    align: int | None = None,
    fatbin: FatbinOptions | None = None,
    force: bool = False,
) -> int:
    """Pack images into containers and return the number of bytes written.

    ``format`` is one of

    * ``offload-binary``: ``version`` 1, the default, makes one per image; 2 or 3 one for all.
    * ``bundle``, of a ``type`` as clang-offload-bundler has them (default ``bc``), with images at multiples of
      ``align`` bytes.
    * ``fatbin``, a CUDA fat binary, made as ``fatbin`` says; of its images nothing but the file has to be given.
    * ``cir``, of a host module and device modules, all of them MLIR text.

    ``compression`` is ``zlib`` or ``zstd``, for offload binaries of version 3 and for bundles, where ``version`` is
    that of the compressed bundle. With ``host`` the container goes into a copy of that relocatable object, which is
    verified before it gets its name; of a bundle of type ``o`` it becomes the host's image: a fat object.

    ``output`` is a path, refused if it exists unless ``force``, or a binary file open for writing. The bytes equal
    those of llvm-offload-binary 22 and clang-offload-bundler 22, and of fatbinary 13.0 if PTX is minified. Raises
    UsageError, HostError, FormatError and ``OSError``.
    """
    opened: list[Source] = []
    try:
        stored = [_image(item, format, opened) for item in images]
        if not stored:
            raise UsageError("no image to pack")
        if host is not None and format == "bundle" and type == "o":
            from fatpack.ops.pack.fat_object import host_entry

            opened.append(open_source(host))
            stored.append(host_entry(stored, opened[-1].view()))
            host = None
        options = PackOptions(version, compression, level, type, align, fatbin=fatbin)
        packed = pack_as(format, stored, options)
        views = [image.data for image in stored]
        if host is None:
            return write_packed(output, packed, force=force, inputs=views)
        opened.append(open_source(host))
        edited = embed(opened[-1].view(), packed.pieces, format=FORMATS[format])
        return write_edited(opened[-1].view(), edited, output, force=force, inputs=views)
    finally:
        for source in opened:
            source.close()


def _image(item: ImageFile, format: str, opened: list[Source]) -> Image:
    make = image_maker(format)
    words = ["none", *OFFLOAD_WORDS, *(["host"] if format in _WITH_HOST else [])]
    if item.offload not in words:
        raise UsageError(f"offload model {item.offload!r}", hint=f"known are {', '.join(words)}")
    source = open_source(item.file, name=item.name, resting=True)
    opened.append(source)
    if format == "fatbin" and item.offload not in ("none", "cuda"):
        raise UsageError(f"offload model {item.offload!r} in a fat binary", hint="it is for CUDA alone")
    is_unsaid = format == "fatbin" or (format in _WITH_HOST and item.offload == "none")
    offload = "" if is_unsaid else item.offload
    given = {"file": source.name, "triple": item.triple, "arch": item.arch, "kind": offload, "id": item.id}
    pairs = tuple((key, value) for key, value in (given | {**item.attrs}).items() if value or key in item.attrs)
    image = make(ImageOption((source.name,), pairs, ",".join(map("=".join, pairs))), source.name, source.view())
    source.rest()
    return image


def convert(
    data: Input,
    output: Output,
    *,
    format: str,
    selector: Selector | None = None,
    lossy: bool = False,
    version: int | None = None,
    compression: str | None = None,
    level: int | None = None,
    type: str | None = None,
    align: int | None = None,
    fatbin: FatbinOptions | None = None,
    force: bool = False,
) -> int:
    """Write the selected images (all by default) of a file as containers of another format; return the size in bytes.

    The arguments are those of :func:`pack`. Entries of fat binaries are copied into others as they are stored, unless
    ``fatbin`` says how to store them. What the format cannot say raises UsageError with the list of it, unless
    ``lossy``. Raises FormatError if something in the file is damaged, HostError, ``OSError``.
    """
    from fatpack.ops.choose.select import Selector
    from fatpack.ops.convert.convert import convert

    with open(data) as file:
        options = PackOptions(version, compression, level, type, align, fatbin=fatbin)
        conversion = convert(file.items, selector or Selector(), format, options)
        if conversion.losses and not lossy:
            raise UsageError(f"{len(conversion.losses)} things would be lost: {'; '.join(conversion.losses)}")
        return write_packed(output, conversion.packed, force=force, inputs=[file.view])
