"""What the first bytes of a compressed image say of it, without inflating the rest.

A library has thousands of images, and inflating them all takes many times as long as listing them. Of an ELF image the
header is enough for the kind of machine and the processor, of a text its first directives. Whether a cubin is for a
variant (``sm_90a``) may stand only in its notes, so where the header does not say so the label is not contradicted.
"""

from __future__ import annotations

from fatpack import codecs, images, magic_numbers
from fatpack.io.source import BytesSource, Source, View
from fatpack.model import is_not_inflated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.images.identification import ImageInfo
    from fatpack.model import Image

#: Bytes from the start of an image that are inflated alone; whoever asks for more has all of it inflated.
_MOST = 64 << 10

#: ELF headers without where and how large the tables are → what they claim; a library has thousands that are alike
_HEADERS: dict[bytes, ImageInfo] = {}
_MOST_HEADERS = 1000


def identify_by_head(image: Image, holder: Source) -> ImageInfo:
    """Return what an image is as far as its first bytes say; ``holder`` is the source that its span is of.

    Of an ELF image only its header is read. Raises FormatError where they do not inflate, Unsupported where nobody can
    inflate them.
    """
    if image.size <= images.HEAD_SIZE or not (is_not_inflated(image) or not image.data.start):
        return images.identify_image(image.data)  # one of several in a stream, which is inflated for the first of them
    # What is known of an image before its data are made is enough to inflate its first bytes: making takes as long.
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
    """Return what an ELF header claims: without a byte behind it nobody looks for tables."""
    is_usual = start[4:6] == b"\2\1"
    # e_entry, e_phoff and e_shoff; e_phnum and e_shnum
    key = start[:24] + start[48:56] + start[58:60] if is_usual else start
    known = _HEADERS.get(key)
    if known is None:
        if len(_HEADERS) >= _MOST_HEADERS:
            _HEADERS.clear()
        known = _HEADERS[key] = images.identify_image(View(BytesSource(start), 0, len(start), chain))
    if not is_usual:
        return known
    programs, sections = (int.from_bytes(start[at : at + 8], "little") for at in (32, 40))
    rows, count = (int.from_bytes(start[at : at + 2], "little") for at in (56, 60))
    end = max(programs + 56 * rows if rows else 0, sections + 64 * count if count else 0, 64)
    return known if known.size == end else known.replace(size=end)


class _HeadSource(Source):
    """The bytes of an image, of which the first are inflated alone."""

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
        if len(self._known) < end:  # far behind, or the stream has fewer, and inflating it says so
            return self._image.data.source.read(offset, size)
        return self._known[offset:end]

    def _beginning(self, size: int) -> bytes:
        if self._packed is None:
            return self._image.data.source.beginning(size)
        return codecs.inflate_beginning(self._packed, size, method=self._image.compression or "", format="image")

    def pieces(self, offset: int, size: int) -> Iterator[memoryview]:
        """Yield the range."""
        yield memoryview(self.read(offset, size))
