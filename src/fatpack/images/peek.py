"""Identification of a compressed image from its first bytes, without inflating the rest.

A library has thousands of images, and inflating all of them takes many times as long as listing them. The header of an
ELF image states the machine and the processor, a text its first directives. The variant of a cubin (``sm_90a``) may be
only in its notes, so a label with a variant is not contradicted by a header without one.
"""

from __future__ import annotations

from fatpack import codecs, images, magic_numbers
from fatpack.binary.elf.quick_header import read_quick_header
from fatpack.io.source import BytesSource, Source, View
from fatpack.model import is_not_inflated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.images.identification import ImageInfo
    from fatpack.model import Image

#: First bytes that are inflated separately; a read after them inflates the whole image.
_MOST = 64 << 10

#: ELF headers without positions and sizes of tables → the result; a library has thousands of equal ones
_HEADERS: dict[bytes, ImageInfo] = {}
_MOST_HEADERS = 1000


def identify_by_head(image: Image, holder: Source) -> ImageInfo:
    """Identify an image by its first bytes; ``holder`` is the source of its span.

    Only the header of an ELF image is read. Raises FormatError if the bytes do not inflate, Unsupported if no
    decompressor is installed.
    """
    if image.size <= images.HEAD_SIZE or not (is_not_inflated(image) or not image.data.start):
        return images.identify_image(image.data)  # one of several in a stream that is inflated for the first of them
    # Span and compression are enough to inflate the first bytes; computing the image's data takes as long again.
    span = image.span
    packed = View(holder, span.start, span.end, span.source) if is_not_inflated(image) else None
    head = _HeadSource(image, packed)
    start = head.read(0, images.HEAD_SIZE)
    if start[:4] != magic_numbers.ELF:
        return images.identify_image(View(head, 0, image.size, span.source))
    recognised = _of_header(start, span.source)
    stored = image.target.arch
    is_variant = stored[:-1] == recognised.arch and stored[-1:] in ("a", "f")
    return recognised.replace(arch=stored) if is_variant else recognised


def _of_header(start: bytes, chain: tuple[str, ...]) -> ImageInfo:
    """Identify an ELF header; the view ends after it, so that no tables are read."""
    is_usual = start[4:6] == b"\2\1"
    # without e_entry, e_phoff, e_shoff, e_phnum and e_shnum
    key = start[:24] + start[48:56] + start[58:60] if is_usual else start
    known = _HEADERS.get(key)
    if known is None:
        if len(_HEADERS) >= _MOST_HEADERS:
            _HEADERS.clear()
        known = _HEADERS[key] = images.identify_image(View(BytesSource(start), 0, len(start), chain))
    if not is_usual:
        return known
    elf = read_quick_header(View(BytesSource(start), 0, len(start), chain), start)
    if elf is None:
        return known
    # No table is there to be read, so the end is that of the tables, if they have entries of the usual size.
    programs, sections = elf.shape.segment.size * elf.phnum, elf.shape.extent.size * elf.shnum
    end = max(elf.phoff + programs if programs else 0, elf.shoff + sections if sections else 0, 64)
    return known if known.size == end else known.replace(size=end)


class _HeadSource(Source):
    """The bytes of an image, the first of which are inflated separately."""

    def __init__(self, image: Image, packed: View | None) -> None:
        self.name = "image"
        self.size = image.size
        self.present = image.size
        self._image, self._packed = image, packed
        self._known = b""

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes at ``offset``."""
        end = offset + size
        if len(self._known) < end <= _MOST:
            self._known = self._beginning(end)
        if len(self._known) < end:  # far from the start, or a truncated stream, which the full read reports
            return self._image.data.source.read(offset, size)
        return self._known[offset:end]

    def _beginning(self, size: int) -> bytes:
        if self._packed is None:
            return self._image.data.source.beginning(size)
        return codecs.inflate_beginning(self._packed, size, method=self._image.compression or "", format="image")

    def pieces(self, offset: int, size: int) -> Iterator[memoryview]:
        """Yield the range."""
        yield memoryview(self.read(offset, size))
