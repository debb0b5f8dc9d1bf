"""The library's front door: what the command line does, for Python.

Every function takes a path, bytes or a binary file; that choice is made here and nowhere else.
"""

from __future__ import annotations

import errno
import os

from fatpack import formats
from fatpack.errors import UsageError
from fatpack.io.sink import write_file
from fatpack.io.source import open_source
from fatpack.model import Finding
from fatpack.record import Record
from fatpack.scan import Found, host_of
from fatpack.scan import scan as scan_view
from fatpack.scan import scan_input as scan

__all__ = ["File", "ImageFile", "convert", "embed", "extract", "open", "pack", "remove", "replace", "scan"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Any, BinaryIO, Self

    from typing_extensions import Buffer

    from fatpack.io.source import Input, Source, View
    from fatpack.model import Image, Piece
    from fatpack.ops.fatbin import FatbinOptions
    from fatpack.ops.pack import Packed
    from fatpack.ops.select import Selector
    from fatpack.scan import FoundImage


class File:
    """An opened file with the device code in it. A context manager; images can be read while it is open.

    ``path`` is what the file is called in messages, ``size`` its bytes, ``host`` what carries the containers
    (``raw``: the file is a container itself, or nothing we know).
    """

    def __init__(self, source: Source, *, deep: bool = False, view: View | None = None) -> None:
        self._source = source
        self._view = source.view() if view is None else view
        self._deep = deep
        self._items: tuple[Found | Finding, ...] | None = None
        self.path = source.name
        self.size = len(self._view)
        self.host = host_of(self._view)

    def _scanned(self) -> tuple[Found | Finding, ...]:
        if self._items is None:
            self._items = tuple(scan_view(self._view, deep=self._deep))
        return self._items

    @property
    def view(self) -> View:
        """The file's bytes, for the functions of the format and host rooms."""
        return self._view

    @property
    def containers(self) -> tuple[Found, ...]:
        """The containers in file order, scanned when first asked for; those inside images belong to the images."""
        return tuple(item for item in self._scanned() if isinstance(item, Found))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong or odd, in file order. Damaged input gives findings, not exceptions."""
        return tuple(item for item in self._scanned() if isinstance(item, Finding))

    def verify(self) -> tuple[Finding, ...]:
        """Check the content of large compressed bundles against their hashes; return what is wrong.

        Listing inflates no more than their tables. This inflates everything, in threads.
        """
        from fatpack.ops.verify import verify

        return tuple(verify(self._scanned()))

    def images(self, selector: Selector | None = None) -> Iterator[FoundImage]:
        """Yield the images of all containers, or the selected ones; nested images follow the image around them."""
        from fatpack.ops.select import Selector, select

        for _, _, image in select(self._scanned(), selector or Selector()):
            yield image

    def close(self) -> None:
        """Close the file; image data cannot be read any more."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open(data: Input, *, deep: bool = False, member: str = "") -> File:
    """Open a file, buffer or binary file object, or a member of an archive, to look at the device code in it.

    Nothing but headers is read, unless ``deep`` asks for containers outside the places known for them. ``member`` is
    ``a.o``, ``a.o:2`` (the second of that name), ``#3`` (the member of that number, from 0) or ``inner.a(a.o)``. Raises
    ``OSError`` for a file that cannot be read, UsageError for a member that is not there; damage is reported in
    :attr:`File.findings`.
    """
    source = open_source(data)
    if not member:
        return File(source, deep=deep)
    from fatpack.ops.address import Address, find

    try:
        return File(source, deep=deep, view=find(source.view(), Address(source.name, member)).view)
    except BaseException:
        source.close()
        raise


class ImageFile(Record):
    """A device image to be packed: its file (a path or bytes) and what it is for.

    ``offload`` is cuda, hip, openmp, sycl or none, in a bundle also host; there ``id`` can stand for triple, arch and
    offload. ``attrs`` are further keys to store in an offload binary, or ``kind`` (elf, ptx, nvvm, tileir), ``ident``,
    ``cmdline``, ``debug``, ``host`` and ``check`` for a fat binary. For bytes, ``name`` takes the place of the file
    name, whose extension decides the image kind that an offload binary stores (``.o .bc .cubin .fatbin .s``).
    """

    file: str | os.PathLike[str] | Buffer
    triple: str = ""
    arch: str = ""
    offload: str = "none"
    attrs: Mapping[str, str] = {}
    name: str = ""
    id: str = ""


def _options(fatbin: FatbinOptions | None) -> dict[str, Any]:
    """Return the options of fat binaries that are chosen, as arguments of ``ops.pack.pack_as``."""
    return {} if fatbin is None else {**fatbin.chosen}


def pack(
    images: Iterable[ImageFile],
    output: str | os.PathLike[str] | BinaryIO,
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

    ``format`` is ``offload-binary`` (``version`` 1, the default, makes one per image; 2 or 3 one for all) or
    ``bundle``, of a ``type`` as clang-offload-bundler has them (default ``bc``), with images at multiples of ``align``
    bytes. ``compression`` is ``zlib`` or ``zstd``, for offload binaries of version 3 and for bundles, where ``version``
    is that of the compressed bundle. Or it is ``fatbin``, a CUDA fat binary, made as ``fatbin`` says; of its images
    nothing but the file has to be given. With ``host`` the container goes into a copy of that relocatable object, which
    is verified before it gets its name; of a bundle of type ``o`` it becomes the host's image: a fat object.

    ``output`` is a path, refused if it exists unless ``force``, or a binary file open for writing. The bytes equal
    those of llvm-offload-binary 22 and clang-offload-bundler 22, and of fatbinary 13.0 if PTX is minified. Raises
    UsageError, HostError, FormatError and ``OSError``.
    """
    from fatpack.ops import edit
    from fatpack.ops.pack import FORMATS, pack_as

    opened: list[Source] = []
    try:
        stored = [_image(item, format, opened) for item in images]
        if not stored:
            raise UsageError("no image to pack")
        if host is not None and format == "bundle" and type == "o":
            from fatpack.ops.bundle import host_entry

            opened.append(open_source(host))
            stored.append(host_entry(stored, opened[-1].view()))
            host = None
        packed = pack_as(
            format,
            stored,
            version=version,
            compression=compression,
            level=level,
            type=type,
            align=align,
            **_options(fatbin),
        )
        views: list[View] = [image.data for image in stored]  # type: ignore[misc]
        if host is None:
            return _write_packed(output, packed, force=force, inputs=views)
        opened.append(open_source(host))
        edited = edit.embed(opened[-1].view(), packed.pieces, format=FORMATS[format])
        return _write_host(opened[-1].view(), edited, output, force=force, inputs=views)
    finally:
        for source in opened:
            source.close()


def _image(item: ImageFile, format: str, opened: list[Source]) -> Image:
    from fatpack.formats.offload_binary.image_option import OFFLOAD_WORDS, ImageOption
    from fatpack.ops.pack import image_maker

    make = image_maker(format)
    words = ["none", *OFFLOAD_WORDS, *(["host"] if format == "bundle" else [])]
    if item.offload not in words:
        raise UsageError(f"offload model {item.offload!r}", hint=f"known are {', '.join(words)}")
    source = open_source(item.file, name=item.name, resting=True)
    opened.append(source)
    if format == "fatbin" and item.offload not in ("none", "cuda"):
        raise UsageError(f"offload model {item.offload!r} in a fat binary", hint="it is for CUDA alone")
    is_unsaid = format == "fatbin" or (format == "bundle" and item.offload == "none")
    offload = "" if is_unsaid else item.offload
    given = {"file": source.name, "triple": item.triple, "arch": item.arch, "kind": offload, "id": item.id}
    pairs = tuple((key, value) for key, value in (given | {**item.attrs}).items() if value or key in item.attrs)
    image = make(ImageOption((source.name,), pairs, ",".join(map("=".join, pairs))), source.name, source.view())
    source.rest()
    return image


def convert(
    data: Input,
    output: str | os.PathLike[str] | BinaryIO,
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
    from fatpack.ops.convert import convert
    from fatpack.ops.select import Selector

    with open(data) as file:
        packing = {"version": version, "compression": compression, "level": level, "type": type, "align": align}
        conversion = convert(file._scanned(), selector or Selector(), format, **packing, **_options(fatbin))
        if conversion.losses and not lossy:
            raise UsageError(f"{len(conversion.losses)} things would be lost: {'; '.join(conversion.losses)}")
        return _write_packed(output, conversion.packed, force=force, inputs=[file.view])


def extract(
    data: Input, directory: str | os.PathLike[str], selector: Selector | None = None, *, force: bool = False
) -> list[str]:
    """Write the selected images (all by default) into a directory and return the paths, in file order.

    Names are made from the input's name, triple and arch, with a number that counts all images of the file. Existing
    files are refused unless ``force``, before anything is written, and so is a selector with a bundle ID that no image
    serves. Raises UsageError, FormatError, ``OSError``.
    """
    from fatpack.ops.by_id import missing, reason
    from fatpack.ops.extract import plan_images, write_plan
    from fatpack.ops.select import Selector, choices, present_ids

    selector = selector or Selector()
    with open(data) as file:
        items = file._scanned()
        lacking = missing(choices(items, selector), selector.ids) if selector.ids else []
        if lacking:
            hint = f"present are {', '.join(present_ids(items)) or 'none'}"
            raise UsageError(f"no image for the bundle ID {' nor '.join(lacking)}{reason(lacking)}", hint=hint)
        plan = plan_images(items, selector, file.path or "image")
        return write_plan(plan, os.fspath(directory), force=force, inputs=[file.view])


def embed(
    host: Input,
    container: Input,
    output: str | os.PathLike[str] | BinaryIO,
    *,
    member: str = "",
    force: bool = False,
) -> int:
    """Write a copy of a relocatable object with a finished container added; return the size in bytes.

    Of an archive, ``member`` is the object: ``a.o``, ``a.o:2`` (the second of that name), ``#3`` or ``inner.a(a.o)``.
    Only the tables that must change differ from the host. Raises HostError when the host cannot be edited safely.
    """
    from fatpack.ops import edit
    from fatpack.ops.address import Address, find

    with open_source(host) as into, open_source(container) as content:
        place = find(into.view(), Address(into.name, member))
        pieces = edit.embed(place.view, [content.view()], format=formats.sniff(content.view().head(0, 24)))
        return _write_host(into.view(), place.around(pieces), output, force=force, inputs=[content.view()])


def replace(
    host: Input,
    container: Input,
    output: str | os.PathLike[str] | BinaryIO,
    *,
    member: str = "",
    section: str | None = None,
    force: bool = False,
) -> int:
    """Write a copy of an object with the content of its section of device code exchanged; return the size in bytes.

    ``member`` is the object in an archive, as in :func:`embed`.
    """
    from fatpack.ops import edit
    from fatpack.ops.address import Address, find

    with open_source(host) as into, open_source(container) as content:
        place = find(into.view(), Address(into.name, member))
        pieces = edit.replace(place.view, content.view(), section=section)
        return _write_host(into.view(), place.around(pieces), output, force=force, inputs=[content.view()])


def remove(
    host: Input, output: str | os.PathLike[str] | BinaryIO, selector: Selector | None = None, *, force: bool = False
) -> int:
    """Write a copy of an object or archive without device code, or without the selected images; return its size.

    Raises UsageError when nothing is selected, FormatError when something there is damaged.
    """
    from fatpack.ops.removal import remove
    from fatpack.ops.select import Selector

    with open_source(host) as source:
        removal = remove(source.view(), selector or Selector())
        return _write_host(source.view(), removal.pieces, output, force=force)


def _write(
    output: str | os.PathLike[str] | BinaryIO, pieces: Iterable[Piece], *, force: bool, inputs: Sequence[View] = ()
) -> int:
    if isinstance(output, (str, os.PathLike)):
        return write_file(output, pieces, force=force, inputs=inputs)
    total = 0
    for piece in pieces:
        parts = [piece] if isinstance(piece, (bytes, bytearray, memoryview)) else piece.pieces()
        for part in parts:
            rest = memoryview(part)
            while rest:
                # An unbuffered file may take less than it is given (io.RawIOBase.write).
                taken = output.write(rest)
                if not taken:
                    raise BlockingIOError(errno.EAGAIN, "the output takes no more bytes")
                rest = rest[taken:]
        total += len(piece)
    return total


def _write_packed(
    output: str | os.PathLike[str] | BinaryIO, packed: Packed, *, force: bool, inputs: Sequence[View]
) -> int:
    if not isinstance(output, (str, os.PathLike)):
        return _write(output, packed.pieces, force=force)
    return write_file(output, packed.pieces, force=force, inputs=inputs, verify=packed.verify, mode=packed.mode)


def _write_host(
    host: View,
    pieces: Iterable[Piece],
    output: str | os.PathLike[str] | BinaryIO,
    *,
    force: bool,
    inputs: Sequence[View] = (),
) -> int:
    if not isinstance(output, (str, os.PathLike)):
        return _write(output, pieces, force=force)
    from fatpack.ops.edit import write_edited

    return write_edited(host, pieces, output, force=force, inputs=inputs)
