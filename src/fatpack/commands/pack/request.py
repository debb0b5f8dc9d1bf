"""The request and the run of ``fatpack pack`` and ``fatpack.pack``: images → containers, or a host with them."""

from __future__ import annotations

import os

from fatpack.commands.pack.formats import (
    PackedContainers,
    add_image_target,
    format_named,
    name_for,
    pack_as,
    pack_warnings,
)
from fatpack.errors import UsageError, cli_or_api
from fatpack.formats.offload_binary.image_option import OFFLOAD_WORDS, ImageOption
from fatpack.record import Record
from fatpack.writer_options import BundleOptions, Options

__all__ = ["ImageFile", "pack"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import TypeAlias

    from typing_extensions import Buffer

    from fatpack.io.open import Input
    from fatpack.io.source import Source, View
    from fatpack.library.arguments import Output
    from fatpack.limits import Budget
    from fatpack.literals import Format, Offload
    from fatpack.model import Image
    from fatpack.selectors.address import Location

    #: the file of a host, and the place of the object in it
    HostFile: TypeAlias = tuple[View, Location]


class PackRequest(Record):
    """Images to pack, each opened when it is its turn, with what is stated about it; and the options of the container.

    ``open_host`` opens the file with the object that the container goes into; None where there is no such object.
    """

    images: Iterable[tuple[ImageOption, Source]]
    options: Options
    open_host: Callable[[], HostFile] | None = None

    def read(self) -> ImagesToPack:
        """Return the images as the container stores them, each with the target that it states itself if none is given.

        In a bundle of type ``o`` the host is one of them. Raises UsageError for images that the container cannot
        hold and if there are none, HostError for a host of no known machine, FormatError and ``OSError``.
        """
        name = name_for(self.options)
        packer = format_named(name).packer
        stated: list[ImageOption] = []
        notes: list[str] = []
        stored: list[Image] = []
        for option, source in self.images:
            own, note = add_image_target(name, option, source.view())
            stored.append(packer.image_from(own, own.files[0], source.view()))
            source.release_buffers()
            stated.append(own)
            notes += [note] if note else []
        if not stored:
            raise no_images()
        open_host = self.open_host
        if open_host is not None and isinstance(self.options, BundleOptions) and self.options.type == "o":
            from fatpack.commands.pack.bundle import host_entry

            stored.append(host_entry(stored, open_host()[1].view))
            open_host = None
        mistakes = pack_warnings(stated if name == "offload-binary" else [], stored)
        return ImagesToPack(tuple(stored), self.options, open_host, tuple(notes), tuple(mistakes))


class ImagesToPack(Record):
    """The images of a container; ``notes`` tell what was added to their targets, ``mistakes`` what is likely wrong."""

    images: tuple[Image, ...]
    options: Options
    open_host: Callable[[], HostFile] | None
    notes: tuple[str, ...]
    mistakes: tuple[str, ...]

    def pack(self) -> PackedContainers:
        """Return the images as containers. Raises what :func:`~fatpack.commands.pack.formats.pack_as` raises."""
        return pack_as(self.images, self.options)

    def embed(self, packed: PackedContainers) -> tuple[PackedContainers, View | None]:
        """Return containers inside a copy of the host, and the host; without one the containers as they are.

        Raises HostError for a host that cannot be edited, FormatError and ``OSError``.
        """
        if self.open_host is None:
            return packed, None
        from fatpack.edit.embed import embed_container

        file, place = self.open_host()
        edited = embed_container(place.view, packed.pieces, format=format_named(name_for(self.options)).json_name)
        return packed.replace(pieces=tuple(place.around(edited))), file


class ImageFile(Record):
    """A device image to be packed: its file (a path or bytes) and what it is for.

    ``offload`` is cuda, hip, openmp, sycl or none, in a bundle or CIR container also host; there ``id`` can replace
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
    from fatpack.library.arguments import (
        check_bools,
        issue_warnings,
        make_budget,
        open_input,
        write_edited,
        write_packed_to,
    )
    from fatpack.selectors.address import Location

    check_bools(overwrite=overwrite)
    options = options_for(format or (None if options else "offload-binary"), options)
    budget = make_budget(max_output=max_output)
    opened: list[Source] = []

    def open_host(file: Input) -> HostFile:
        opened.append(open_input("host", file, budget=budget))
        view = opened[-1].view()
        return view, Location(view, opened[-1].name)

    try:
        stated = _open_image_files(_check_images(images), name_for(options), opened, budget)
        request = PackRequest(stated, options, None if host is None else lambda: open_host(host))
        to_pack = request.read()
        issue_warnings((*to_pack.notes, *to_pack.mistakes))
        packed = to_pack.pack()
        issue_warnings(finding.text for finding in packed.findings if finding.severity != "note")
        packed, edited = to_pack.embed(packed)
        views = [image.data for image in to_pack.images]
        if edited is None:
            return write_packed_to(output, packed, overwrite=overwrite, inputs=views, budget=budget)
        return write_edited(edited, packed.pieces, output, overwrite=overwrite, inputs=views)
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
    from fatpack.library.arguments import check_options, check_type

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

    from fatpack.library.arguments import check_type

    if isinstance(images, (ImageFile, str, bytes, os.PathLike)) or not isinstance(images, Iterable):
        raise TypeError(f"images must be several fatpack.ImageFile in a list, got {type(images).__name__}")
    found = list(images)
    for number, item in enumerate(found):
        check_type(f"images[{number}]", item, ImageFile, "a fatpack.ImageFile")
    return found


def _open_image_files(
    images: Iterable[ImageFile], format: str, opened: list[Source], budget: Budget
) -> Iterator[tuple[ImageOption, Source]]:
    """Yield images with what is stated about them, each file opened, and added to ``opened`` to be closed."""
    from fatpack.library.arguments import open_input

    row = format_named(format)
    models = ["none", *OFFLOAD_WORDS, *(["host"] if row.has_host else [])]
    for item in images:
        if item.offload not in models:
            raise UsageError(f"offload model {item.offload!r}", hint=f"choose from {', '.join(models)}")
        source = open_input("file", item.file, name=item.name, may_close=True, budget=budget)
        opened.append(source)
        if format == "fatbin" and item.offload not in ("none", "cuda"):
            raise UsageError(f"offload model {item.offload!r} in a fat binary", hint="it is for CUDA alone")
        is_unstated = format == "fatbin" or (row.has_host and item.offload == "none")
        yield option_for(item, source, "" if is_unstated else item.offload), source


def option_for(item: ImageFile, source: Source, offload: str) -> ImageOption:
    """Return what is stated about an image whose file was opened, as ``--image=`` would state it."""
    given = {"file": source.name, "triple": item.triple, "arch": item.arch, "kind": offload, "id": item.id}
    pairs = tuple((key, value) for key, value in (given | {**item.attrs}).items() if value or key in item.attrs)
    return ImageOption((source.name,), pairs, f"image {source.name or 'in memory'}")
