"""Device images outside containers, in the data of a program: cubins, code objects, SPIR-V and Tile IR.

XLA, Triton's ahead-of-time compiler, ggml and many scripts write an image into an array of the program, and pass its
address to ``cuModuleLoadData``, ``hipModuleLoadData`` or ``clCreateProgramWithIL``. No record points to it, and no
section name shows it. Such images are searched in the data of programs and libraries, in the data of objects in which
nothing else was found, and with ``--deep`` everywhere.

The end of an image follows from its own tables: of an ELF file from its section table, of Tile IR from its last
section, of a SPIR-V module from its last function (:func:`fatpack.images.spirv.extent`). An image that extends beyond
the searched bytes is ignored, and is no damage: compilers have headers of device images as templates in their data.

An image is listed as the only image of a container of the format ``bare-image``, so that it is selected, extracted and
counted as all others are. That format exists in listings only.
"""

from __future__ import annotations

from fatpack import images, magic_numbers
from fatpack.findings import finding
from fatpack.model import Container, Image, Label, Target
from fatpack.scanner.carve import MagicSearcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from fatpack.binary.elf.quick_header import QuickHeader
    from fatpack.images import ImageInfo
    from fatpack.io.source import Piece, View
    from fatpack.model import Finding
    from fatpack.scanner.carve import PassedMagics

FORMAT = "bare-image"

#: first bytes of the images that are found
MAGICS = (magic_numbers.ELF, magic_numbers.SPIRV, magic_numbers.BIG_SPIRV, magic_numbers.TILE_IR)

#: LIMIT: false hits per file; compilers have some dozens. ELF files for other machines are not counted: only their
#: header is read.
_FALSE_HITS = 10_000

#: LIMIT: bytes of tables and instructions that are read for false hits: a multiple of the file's size, and a constant.
_FALSE_RATIO = 4
_FALSE_BYTES = 1 << 20

#: sh_type of a string table
_STRTAB = 3

#: Least size of an image that is not empty.
_LEAST = 20


def find_bare_images(
    view: View, ranges: Iterable[tuple[int, int]], passed: PassedMagics | None = None
) -> Iterator[tuple[Container, View] | Finding]:
    """Yield the images in some ranges of a view, each as a container of its own, with its bytes.

    The ranges are half open, relative to the view, in order, and do not overlap. An image at the first byte of the view
    is listed only if there are others. Yields a finding if the search ends at a limit. ``passed`` are the positions of
    :data:`MAGICS` that a search for containers met.
    """
    hits_left, bytes_left = _FALSE_HITS, _FALSE_RATIO * len(view) + _FALSE_BYTES
    own: tuple[Container, View] | None = None
    for start, end in ranges:
        if end - start < _LEAST:
            continue
        region = view.slice(start, end - start)
        known = passed.searcher(start, end) if passed is not None else None
        following = known or MagicSearcher(region, MAGICS)
        at = following.after(0)
        while at < len(region):
            recognised, size = _image_at(region.slice(at, len(region) - at))
            if recognised is not None:
                data = region.slice(at, size)
                if start + at == 0:
                    own = bare_image_container(data, recognised), data
                else:
                    if own is not None:
                        yield own
                        own = None
                    yield bare_image_container(data, recognised), data
                at = following.after(at + size)
                continue
            hits_left -= size > 0
            bytes_left -= size
            if hits_left < 0 or bytes_left < 0:
                many = f"more than {_FALSE_HITS}" if hits_left < 0 else "many large"
                text = f"{many} places start as a device image does and hold none; the rest is not searched for images"
                yield finding("FP1005", region.span(at), text)
                return
            at = following.after(at + 1)


def _image_at(view: View) -> tuple[ImageInfo | None, int]:
    """Return the image at the start of a view, and its size; None and the bytes read if there is none.

    0 bytes count as read if the first ones are certainly of something else.
    """
    head = view.head(0, 64)
    if head.startswith(magic_numbers.ELF):
        return _elf_at(view, head)
    if head.startswith(magic_numbers.TILE_IR):
        recognised = images.identify_image(view)
        return (recognised, recognised.size) if recognised.size else (None, len(head))
    from fatpack.images import spirv

    size, read = spirv.extent(view)
    return (images.identify_image(view.slice(0, size)), size) if size else (None, read)


def _elf_at(view: View, head: bytes) -> tuple[ImageInfo | None, int]:
    from fatpack.binary.elf.layout import AMDGPU, CUDA
    from fatpack.binary.elf.quick_header import FILE_TYPE_WORDS, read_quick_header

    elf = read_quick_header(view, head)
    if elf is None or elf.machine not in (CUDA, AMDGPU):
        return None, 0
    if elf.type not in FILE_TYPE_WORDS or not (elf.shnum or elf.phnum):
        return None, len(head)
    recognised = images.identify_image(view)
    size = recognised.size or 0
    # A header without its tables is a template.
    if elf.shape.header.size < size <= len(view) and (not elf.shnum or _has_names(elf)):
        return recognised, size
    return None, min(elf.section_count() * elf.shape.extent.size + elf.phnum * elf.shape.segment.size, len(view))


def _has_names(elf: QuickHeader) -> bool:
    """Return whether the section names are intact: a truncated image has other bytes in their place."""
    size = elf.shape.extent.size
    number = elf.shstrndx
    row = elf.view.head(elf.shoff + number * size, size)
    if number >= elf.section_count() or len(row) < size:
        return False
    kind, at, length = elf.shape.extent.unpack(row)
    if kind != _STRTAB or length < 2 or at + length > len(elf.view):
        return False
    return elf.view.read(at, 1) == elf.view.read(at + length - 1, 1) == b"\0"


def bare_image_container(data: View, recognised: ImageInfo | None = None, *, offload: str = "none") -> Container:
    """Return a container for a bare image; ``offload`` is the programming model of the record that points to it."""
    recognised = recognised or images.identify_image(data)
    target = Target(recognised.triple, recognised.arch, offload=offload)
    size = len(data)
    return Container(FORMAT, 0, (Image(target, recognised.form, data, size, size, data.span()),), data.span())


def describe(container: Container) -> Mapping[str, object]:
    """Return nothing: there is no container with fields of its own."""
    return {}


def labels(view: View, container: Container) -> Iterator[Label]:
    """Yield the one annotation of a bare image."""
    yield Label(container.span, "image", container.images[0].form, "the image, in no container", "data")


def write(container: Container, options: None = None) -> Iterator[Piece]:
    """Yield the bytes of the image."""
    for image in container.images:
        yield image.data
