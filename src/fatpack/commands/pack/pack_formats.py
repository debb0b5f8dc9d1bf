"""What can be packed: one table of formats, each with its options and the module that packs it."""

from __future__ import annotations

from fatpack.errors import UsageError
from fatpack.options import BundleOptions, CirOptions, FatbinOptions, KpackOptions, OffloadBinaryOptions, SyclbinOptions
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any, Protocol

    from fatpack.commands.pack.packed import PackedContainers
    from fatpack.formats.offload_binary.image_option import ImageOption
    from fatpack.io.source import Source, View
    from fatpack.model import Image
    from fatpack.options import Options

    class Packer(Protocol):
        """The module of a format."""

        def image_from(self, option: ImageOption, name: str, data: View) -> Image:
            """Return the image that one file of an ``--image=`` makes."""

        def pack(self, stored: Sequence[Image], options: Any) -> PackedContainers:
            """Return the images as containers, made as the options of the format say."""


class PackedFormat(Record):
    """A format that is packed: its JSON name, its record of options, and the extension of what was not named.

    ``has_host`` says that it holds an image for the host too, and an ID for each image.
    """

    json_name: str
    options: type[Options]
    module: str
    extension: str
    has_host: bool = False

    @property
    def packer(self) -> Packer:
        """The module that packs it, imported when it is asked for."""
        found: Packer = __import__(f"fatpack.commands.pack.pack_init.{self.module}", fromlist=["pack"])
        return found


#: what --format and the library call a format → how it is packed
FORMATS = {
    "offload-binary": PackedFormat("llvm-offload-binary", OffloadBinaryOptions, "offload_binary", "offload"),
    "bundle": PackedFormat("clang-offload-bundle", BundleOptions, "bundle", "bundle", has_host=True),
    "cir": PackedFormat("cir-offload-container", CirOptions, "cir", "cir", has_host=True),
    "fatbin": PackedFormat("cuda-fatbin", FatbinOptions, "fatbin", "fatbin"),
    "kpack": PackedFormat("rocm-kpack", KpackOptions, "kpack", "kpack"),
    "syclbin": PackedFormat("syclbin", SyclbinOptions, "syclbin", "syclbin"),
}


def format_named(format: str) -> PackedFormat:
    """Return a format by its name, a key of :data:`FORMATS`. Raises UsageError for any other."""
    if format not in FORMATS:
        raise UsageError(f"container format {format!r}", hint=f"choose from {', '.join(FORMATS)}")
    return FORMATS[format]


def name_for(options: Options) -> str:
    """Return the name of the format that options are for."""
    for name, format in FORMATS.items():
        if type(options) is format.options:
            return name
    known = ", ".join(format.options.__name__ for format in FORMATS.values())
    raise TypeError(f"options must be one of {known}, got {type(options).__name__}")


def open_images(format: str, options: Iterable[ImageOption], opened: list[Source]) -> Iterator[Image]:
    """Yield the images of ``--image=`` options; every file is appended to ``opened`` for the caller to close.

    Raises UsageError for an option without ``file``, ``OSError`` for a file that cannot be read.
    """
    from fatpack.formats.offload_binary.image_option import check_file_key
    from fatpack.io.open import open_source

    packer = format_named(format).packer
    for option in options:
        check_file_key(option)
        for name in option.files:
            source = open_source(name, resting=True)
            opened.append(source)
            yield packer.image_from(option, name, source.view())
            source.rest()


def pack_as(stored: Sequence[Image], options: Options) -> PackedContainers:
    """Return the images as containers of the format that the options are for.

    Raises UsageError for options that exclude each other, and for images that the format cannot hold.
    """
    return format_named(name_for(options)).packer.pack(stored, options)
