"""Packing: files and what is said about them → containers → one output, alone or inside a copy of a host."""

from __future__ import annotations

from fatpack.errors import UsageError
from fatpack.formats.offload_binary.image_option import image_from
from fatpack.io.sources.opening import open_source
from fatpack.ops.pack.offload_binary import pack_offload_binary
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from fatpack.formats.offload_binary.image_option import ImageOption
    from fatpack.io.source import Source, View
    from fatpack.model import Image
    from fatpack.ops.pack.fatbin import FatbinOptions
    from fatpack.ops.pack.packed import Packed


#: what --format and the library call a format → its JSON name
FORMATS = {
    "offload-binary": "llvm-offload-binary",
    "bundle": "clang-offload-bundle",
    "cir": "cir-offload-container",
    "fatbin": "cuda-fatbin",
}


def open_images(
    options: Iterable[ImageOption], opened: list[Source], make: Callable[[ImageOption, str, View], Image] = image_from
) -> Iterator[Image]:
    """Yield the images of the options; every file is appended to ``opened`` for the caller to close.

    ``make`` turns an option, one of its file names and the file's bytes into an image; offload binaries by default.
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
            yield make(option, name, source.view())
            source.rest()


def image_maker(format: str) -> Callable[[ImageOption, str, View], Image]:
    """Return what makes an image of a format (a key of :data:`FORMATS`) from an option, a file's name and its bytes."""
    if format not in FORMATS:
        raise UsageError(f"container format {format!r}", hint=f"known are {', '.join(FORMATS)}")
    if format == "bundle":
        from fatpack.ops.pack.bundle import image_from as bundle_image_from

        return bundle_image_from
    if format == "cir":
        from fatpack.ops.pack.cir import image_from as module_from

        return module_from
    if format == "fatbin":
        from fatpack.ops.pack.fatbin import image_from as entry_from

        return entry_from
    return image_from


class PackOptions(Record):
    """How a container is laid out and compressed; what is None is chosen as the format's own tool does.

    ``version`` is that of an offload binary or of a compressed bundle, ``compression`` (zlib, zstd) and its ``level``
    are for these two; ``type`` and ``align`` are for bundles (:func:`fatpack.ops.bundle.bundle`), ``form`` and ``ids``
    for CIR containers (:func:`fatpack.ops.cir.pack_cir`), ``fatbin`` for fat binaries.
    """

    version: int | None = None
    compression: str | None = None
    level: int | None = None
    type: str | None = None
    align: int | None = None
    form: str | None = None
    ids: Sequence[str] | None = None
    fatbin: FatbinOptions | None = None


def pack_as(format: str, stored: Sequence[Image], options: PackOptions) -> Packed:
    """Return the images as containers of a format (a key of :data:`FORMATS`).

    Raises UsageError for options that mean nothing for the format, and for images that it cannot hold.
    """
    image_maker(format)
    if format == "fatbin":
        from fatpack.ops.pack.fatbin import FatbinOptions, pack_fatbin

        if options.replace(fatbin=None) != PackOptions():
            hint = "how it is compressed is said with compress_mode and producer"
            raise UsageError("a fat binary has no version, no type and no alignment to choose", hint=hint)
        return pack_fatbin(stored, options.fatbin or FatbinOptions())
    if options.fatbin is not None and options.fatbin.chosen:
        name = next(iter(options.fatbin.chosen))
        raise UsageError(f"{name} means nothing for {format}", hint="it is for fat binaries")
    if options.ids is not None and format != "cir":
        raise UsageError(f"{format} takes bundle IDs from its images", hint="ids is for CIR containers")
    version, compression, level = options.version, options.compression, options.level
    if format == "bundle":
        from fatpack.ops.pack.bundle import bundle

        type, align = options.type or "bc", options.align or 1
        return bundle(stored, type=type, align=align, compression=compression, version=version, level=level)
    if options.type is not None or options.align is not None:
        raise UsageError(f"{format} knows no type and no alignment", hint="these are for bundles")
    if format == "cir":
        from fatpack.ops.pack.cir import pack_cir

        if version is not None or compression is not None:
            raise UsageError("CIR containers have no versions and no compression")
        return pack_cir(stored, form=options.form, ids=options.ids)
    if options.form is not None:
        raise UsageError(f"{format} has no forms", hint="these are for CIR containers")
    return pack_offload_binary(stored, version=version or 1, compression=compression, level=level)
