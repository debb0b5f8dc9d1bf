"""The library's front door: what the command line does, for Python.

Every function takes a path, bytes or a binary file; that choice is made here and nowhere else.
"""

from __future__ import annotations

import errno
import os

from fatpack.errors import UsageError
from fatpack.io.sink import write_file
from fatpack.io.source import open_source
from fatpack.model import Finding
from fatpack.record import Record
from fatpack.scan import Found, host_of
from fatpack.scan import scan as scan_view
from fatpack.scan import scan_input as scan

__all__ = ["File", "ImageFile", "embed", "extract", "open", "pack", "remove", "replace", "scan"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import BinaryIO

    from typing_extensions import Buffer, Self

    from fatpack.io.source import Input, Source, View
    from fatpack.model import Image, Piece
    from fatpack.ops.select import Selector
    from fatpack.scan import FoundImage


class File:
    """An opened file with the device code in it. A context manager; images can be read while it is open.

    ``path`` is what the file is called in messages, ``size`` its bytes, ``host`` what carries the containers
    (``raw``: the file is a container itself, or nothing we know).
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._items: tuple[Found | Finding, ...] | None = None
        self.path = source.name
        self.size = source.size
        self.host = host_of(source.view())

    def _scanned(self) -> tuple[Found | Finding, ...]:
        if self._items is None:
            self._items = tuple(scan_view(self._source.view()))
        return self._items

    @property
    def view(self) -> View:
        """The file's bytes, for the functions of the format and host rooms."""
        return self._source.view()

    @property
    def containers(self) -> tuple[Found, ...]:
        """The containers in file order, scanned when first asked for; those inside images belong to the images."""
        return tuple(item for item in self._scanned() if isinstance(item, Found))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong or odd, in file order. Damaged input gives findings, not exceptions."""
        return tuple(item for item in self._scanned() if isinstance(item, Finding))

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


def open(data: Input) -> File:
    """Open a file, buffer or binary file object to look at the device code in it.

    Nothing but headers is read. Raises ``OSError`` for a file that cannot be read; damage in it is reported in
    :attr:`File.findings`.
    """
    return File(open_source(data))


class ImageFile(Record):
    """A device image to be packed: its file (a path or bytes) and what it is for.

    ``offload`` is cuda, hip, openmp, sycl or none. ``attrs`` are further keys to store. For bytes, ``name`` takes
    the place of the file name, whose extension decides the stored image kind (``.o .bc .cubin .fatbin .s``).
    """

    file: str | os.PathLike[str] | Buffer
    triple: str = ""
    arch: str = ""
    offload: str = "none"
    attrs: Mapping[str, str] = {}
    name: str = ""


def pack(
    images: Iterable[ImageFile],
    output: str | os.PathLike[str] | BinaryIO,
    *,
    host: Input | None = None,
    version: int = 1,
    compression: str | None = None,
    level: int | None = None,
    force: bool = False,
) -> int:
    """Pack images into LLVM offload binaries and return the number of bytes written.

    With ``host`` the containers go into a copy of that relocatable object, which is verified before it gets its
    name. ``version`` is 1 (one binary per image), 2 or 3; ``compression`` (version 3) is ``zlib`` or ``zstd``.
    ``output`` is a path, refused if it exists unless ``force``, or a binary file open for writing. The bytes equal
    those of llvm-offload-binary 22. Raises UsageError, HostError, FormatError, ``OSError``.
    """
    from fatpack.ops import edit
    from fatpack.ops import pack as packing

    opened: list[Source] = []
    try:
        stored = [_image(item, opened) for item in images]
        if not stored:
            raise UsageError("no image to pack")
        pieces: Iterable[Piece] = packing.pack(stored, version=version, compression=compression, level=level).pieces()
        if host is None:
            views: list[View] = [image.data for image in stored]  # type: ignore[misc]
            return _write(output, pieces, force=force, inputs=views)
        opened.append(open_source(host))
        return _write_host(opened[-1].view(), edit.embed(opened[-1].view(), list(pieces)), output, force=force)
    finally:
        for source in opened:
            source.close()


def _image(item: ImageFile, opened: list[Source]) -> Image:
    from fatpack.formats.offload_binary.image_option import OFFLOAD_WORDS, ImageOption, image_from

    if item.offload not in OFFLOAD_WORDS and item.offload != "none":
        raise UsageError(f"offload model {item.offload!r}", hint=f"known are none, {', '.join(OFFLOAD_WORDS)}")
    source = open_source(item.file, name=item.name, resting=True)
    opened.append(source)
    given = {"file": source.name, "triple": item.triple, "arch": item.arch, "kind": item.offload, **item.attrs}
    pairs = tuple((key, value) for key, value in given.items() if value or key in item.attrs)
    image = image_from(ImageOption((source.name,), pairs), source.name, source.view())
    source.rest()
    return image


def extract(
    data: Input, directory: str | os.PathLike[str], selector: Selector | None = None, *, force: bool = False
) -> list[str]:
    """Write the selected images (all by default) into a directory and return the paths, in file order.

    Names are made from the input's name, triple and arch, with a number that counts all images of the file. Existing
    files are refused unless ``force``, before anything is written. Raises UsageError, FormatError, ``OSError``.
    """
    from fatpack.ops.extract import plan_images, write_plan
    from fatpack.ops.select import Selector

    with open(data) as file:
        plan = plan_images(file._scanned(), selector or Selector(), file.path or "image")
        return write_plan(plan, os.fspath(directory), force=force)


def embed(host: Input, container: Input, output: str | os.PathLike[str] | BinaryIO, *, force: bool = False) -> int:
    """Write a copy of a relocatable object with a finished container added; return the size in bytes.

    Only the tables that must change differ from the host. Raises HostError when the host cannot be edited safely.
    """
    from fatpack.ops import edit

    with open_source(host) as into, open_source(container) as content:
        return _write_host(into.view(), edit.embed(into.view(), [content.view()]), output, force=force)


def replace(
    host: Input,
    container: Input,
    output: str | os.PathLike[str] | BinaryIO,
    *,
    section: str | None = None,
    force: bool = False,
) -> int:
    """Write a copy of an object with the content of its section of device code exchanged; return the size in bytes."""
    from fatpack.ops import edit

    with open_source(host) as into, open_source(container) as content:
        pieces = edit.replace(into.view(), content.view(), section=section)
        return _write_host(into.view(), pieces, output, force=force)


def remove(
    host: Input, output: str | os.PathLike[str] | BinaryIO, selector: Selector | None = None, *, force: bool = False
) -> int:
    """Write a copy of an object without its device code, or without the selected images; return the size in bytes.

    Raises HostError when nothing is selected, FormatError when something there is damaged.
    """
    from fatpack.ops import edit
    from fatpack.ops.select import Selector

    with open_source(host) as source:
        removal = edit.remove(source.view(), selector or Selector())
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


def _write_host(host: View, pieces: Iterable[Piece], output: str | os.PathLike[str] | BinaryIO, *, force: bool) -> int:
    if not isinstance(output, (str, os.PathLike)):
        return _write(output, pieces, force=force)
    from fatpack.ops.edit import write_edited

    return write_edited(host, pieces, output, force=force)
