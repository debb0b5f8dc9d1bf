"""One image that is one zstd frame: inflated when it is asked for, and of its first bytes no more than their block.

Programs hold thousands of such images, and listing them takes the first bytes of each, one image after the other.
"""

from __future__ import annotations

from fatpack.codecs import decompress, inflate_beginning
from fatpack.codecs import inflate_pieces as in_pieces
from fatpack.errors import format_hex
from fatpack.formats.clang_bundle.layout import BUNDLE_FORMAT
from fatpack.io.inflated import InflatedSource, PicklableCall
from fatpack.io.source import VirtualName

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View

#: What is inflated of the beginning: the header of any image, and the preamble of SPIR-V with some of its kernels.
_BEGINNING = 4096


class BeginningCache:
    """The beginning of the image read last, which is all that is kept of beginnings: one for a whole section."""

    def __init__(self) -> None:
        self.owner: InflatedSource | None = None
        self.data = b""


class _FrameSource(InflatedSource):
    """The content of a frame; ``frame`` are its bytes as stored."""

    def __init__(self, frame: View, size: int, name: str, latest: BeginningCache) -> None:
        present = min(len(frame), frame.source.present)
        stream = PicklableCall(_frame_pieces, frame, size)
        super().__init__(
            size, PicklableCall(_inflate_frame, frame, size), name, present=present, origin=frame.source, stream=stream
        )
        self._frame = frame
        self._latest = latest

    def read(self, offset: int, size: int) -> bytes:
        """Return a copy of ``size`` inflated bytes at ``offset``."""
        if self._data is None and offset + size <= _BEGINNING:
            latest = self._latest
            if latest.owner is not self:
                latest.owner, latest.data = None, b""
                latest.data = inflate_beginning(self._frame, min(_BEGINNING, self.size), format=BUNDLE_FORMAT)
                latest.owner = self
            if offset + size <= len(latest.data):
                return latest.data[offset : offset + size]
        return super().read(offset, size)


def _inflate_frame(frame: View, size: int) -> bytes | bytearray:
    return decompress(frame, "zstd", size, format=BUNDLE_FORMAT)


def _frame_pieces(frame: View, size: int) -> Iterator[bytes]:
    return in_pieces(frame, "zstd", size, format=BUNDLE_FORMAT)


def frame_view(frame: View, size: int, latest: BeginningCache) -> View:
    """Return the ``size`` bytes that a zstd frame inflates to; reading them raises BadValue where it does not."""
    name = VirtualName(f"inflated zstd at {format_hex(frame.start)}")
    return _FrameSource(frame, size, name, latest).view().replace(chain=(*frame.chain, name))
