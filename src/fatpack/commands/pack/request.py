"""``fatpack.pack``: device images as containers of any format that fatpack writes."""

from __future__ import annotations

import os

from fatpack.commands.pack.formats import add_image_target, format_named, name_for, pack_as, pack_warnings
from fatpack.edit.embed import embed_container
from fatpack.errors import UsageError, cli_or_api
from fatpack.formats.offload_binary.image_option import OFFLOAD_WORDS, ImageOption
from fatpack.library.arguments import (
    check_bools,
    check_options,
    check_type,
    issue_warnings,
    make_budget,
    open_input,
    write_edited,
    write_packed,
)
from fatpack.options import BundleOptions, Options
from fatpack.record import Record

__all__ = ["ImageFile", "pack"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from typing_extensions import Buffer

    from fatpack.io.open import Input
    from fatpack.io.source import Source
    from fatpack.library.arguments import Output
    from fatpack.limits import Budget
    from fatpack.literals import Format, Offload
    from fatpack.model import Image


class ImageFile(Record):
    """A device image to be packed: its file (a path or bytes) and what it is for.

    ``offload`` is cuda, hip, openmp, sycl or none, in a bundle or CIR container also host; there ``id`` can stand for
    triple, arch and offload. ``attrs`` are further keys to store in an offload binary, or ``kind`` (elf, ptx, nvvm,
    tileir), ``ident``, ``cmdline``, ``debug``, ``host`` and ``check`` for a fat binary. For bytes, ``name`` takes the
    place of the file name, whose extension decides the image kind that an offload binary stores (``.o .bc .cubin
    .fatbin .s``).
    """

    #: People make these: errors keep naming the fields (:class:`~fatpack.record.RecordType`).
    _generate_after = 1 << 62

    file: str | os.PathLike[str] | Buffer
    triple: str = ""
    arch: str = ""
    offload: Offload = "none"
    attrs: Mapping[str, str] = {}
    name: str = ""
    id: str = ""


def pack(
    images: Iterable[ImageFile],
    output: Output,
    *,
    format: Format | None = None,
    options: Options | None = None,
    host: Input | None = None,
    overwrite: bool = False,
    max_output: int | None = None,
) -> int:
    """Pack images into containers and return the number of bytes written.

    ``format`` is a name, ``options`` the record that states how such a container is made; one of them is enough, and
    without both it is an offload binary:

    * ``offload-binary``, :class:`OffloadBinaryOptions`: LLVM offload binaries, one for each image by default.
    * ``bundle``, :class:`BundleOptions`: a clang offload bundle.
    * ``fatbin``, :class:`FatbinOptions`: a CUDA fat binary; of its images nothing but the file has to be given.
    * ``kpack``, :class:`KpackOptions`: a kpack archive; ``attrs["binary"]`` of its images is the library of each.
    * ``syclbin``, :class:`SyclbinOptions`: a SYCLBIN file; ``attrs["properties"]`` names a file of property sets.
    * ``cir``, :class:`CirOptions`: a CIR container of a host module and device modules, all of them MLIR text.

    With ``host`` the container goes into a copy of that relocatable object, which is verified before it gets its name;
    of a bundle of type ``o`` it becomes the host's image: a fat object.

    ``output`` is a path, refused if it exists unless ``overwrite``, or a binary file open for writing; ``max_output``
    is as for :func:`fatpack.extract`. The bytes equal
    those of llvm-offload-binary 22 and clang-offload-bundler 22, and of fatbinary 13.0 if PTX is minified. What looks
    like a mistake is a Python warning. Raises UsageError, HostError, FormatError and ``OSError``.
    """
    check_bools(overwrite=overwrite)
    options = options_for(format or (None if options else "offload-binary"), options)
    name = name_for(options)
    budget = make_budget(max_output=max_output)
    opened: list[Source] = []
    try:
        items = _check_images(images)
        given = [_option(item, name, opened, budget) for item in items]
        completed = [add_image_target(name, option, file.view()) for option, file in zip(given, opened, strict=True)]
        issue_warnings(note for _, note in completed if note)
        given = [option for option, _ in completed]
        stored = [_image(name, option, source) for option, source in zip(given, opened, strict=True)]
        if not stored:
            raise no_images()
        issue_warnings(pack_warnings(given if name == "offload-binary" else [], stored))
        if host is not None and isinstance(options, BundleOptions) and options.type == "o":
            from fatpack.commands.pack.bundle import host_entry

            opened.append(open_input("host", host, budget=budget))
            stored.append(host_entry(stored, opened[-1].view()))
            host = None
        packed = pack_as(stored, options)
        issue_warnings(finding.text for finding in packed.findings if finding.severity != "note")
        views = [image.data for image in stored]
        if host is None:
            return write_packed(output, packed, overwrite=overwrite, inputs=views, budget=budget)
        opened.append(open_input("host", host, budget=budget))
        edited = embed_container(opened[-1].view(), packed.pieces, format=format_named(name).json_name)
        return write_edited(opened[-1].view(), edited, output, overwrite=overwrite, inputs=views)
    finally:
        for source in opened:
            source.close()


def no_images() -> UsageError:
    """Return the error for a container without images; both the command line and the library raise it."""
    example = cli_or_api(
        "--image=file=PATH,triple=TRIPLE,arch=ARCH,kind=KIND",
        "fatpack.ImageFile(PATH, triple=TRIPLE, arch=ARCH, offload=KIND)",
    )
    return UsageError("there is nothing to pack", hint=f"name images with {example}")


def options_for(format: Format | None, options: Options | None) -> Options:
    """Return the options that are given, or the defaults of the format. Raises UsageError if they contradict."""
    if options is None:
        if format is None:
            raise UsageError("no format", hint="give format= a name, or options= a record such as BundleOptions()")
        if isinstance(format, Options):
            raise TypeError(f"format is the name of a format; give options={type(format).__name__}(…)")
        return format_named(check_type("format", format, str, "the name of a format")).options()
    name = name_for(check_type("options", options, Options, "a record of options, such as fatpack.BundleOptions"))
    check_options(options)
    if format not in (None, name):
        raise UsageError(f"the options are for {name}, the format is {format}", hint="leave out format=")
    return options


def _check_images(images: Iterable[ImageFile]) -> list[ImageFile]:
    """Return images that were given, as a list. Raises TypeError for anything but ``ImageFile``s."""
    from collections.abc import Iterable

    if isinstance(images, (ImageFile, str, bytes, os.PathLike)) or not isinstance(images, Iterable):
        raise TypeError(f"images must be several fatpack.ImageFile in a list, got {type(images).__name__}")
    found = list(images)
    for number, item in enumerate(found):
        check_type(f"images[{number}]", item, ImageFile, "a fatpack.ImageFile")
    return found


def _option(item: ImageFile, format: str, opened: list[Source], budget: Budget) -> ImageOption:
    """Return what is stated about an image, whose file is opened."""
    row = format_named(format)
    models = ["none", *OFFLOAD_WORDS, *(["host"] if row.has_host else [])]
    if item.offload not in models:
        raise UsageError(f"offload model {item.offload!r}", hint=f"choose from {', '.join(models)}")
    source = open_input("file", item.file, name=item.name, may_close=True, budget=budget)
    opened.append(source)
    if format == "fatbin" and item.offload not in ("none", "cuda"):
        raise UsageError(f"offload model {item.offload!r} in a fat binary", hint="it is for CUDA alone")
    is_unstated = format == "fatbin" or (row.has_host and item.offload == "none")
    return option_for(item, source, "" if is_unstated else item.offload)


def option_for(item: ImageFile, source: Source, offload: str) -> ImageOption:
    """Return what is stated about an image whose file was opened, as ``--image=`` would state it."""
    given = {"file": source.name, "triple": item.triple, "arch": item.arch, "kind": offload, "id": item.id}
    pairs = tuple((key, value) for key, value in (given | {**item.attrs}).items() if value or key in item.attrs)
    return ImageOption((source.name,), pairs, f"image {source.name or 'in memory'}")


def _image(format: str, option: ImageOption, source: Source) -> Image:
    image = format_named(format).packer.image_from(option, source.name, source.view())
    source.release_buffers()
    return image
