"""The bytes of a constant, which start at any bit of the stream and may be packed: read as if they lay in a file."""

from __future__ import annotations

from fatpack import limits
from fatpack.codecs.bitstream import FORMAT, BitReader
from fatpack.errors import BadValue
from fatpack.io.inflated import InflatedSource, PicklableCall
from fatpack.io.source import Source, View, VirtualName

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.codecs.bitstream import ArrayRun


class ShiftedSource(Source):
    """Bytes that start between two bytes of a view: shifted into place when they are read, never held."""

    def __init__(self, view: View, first_bit: int, size: int, name: str) -> None:
        self.name = name
        self.size = size
        self.present = min(size, view.source.present)
        self.budget = view.source.budget
        self._view = view
        self._first = first_bit >> 3
        self._shift = first_bit & 7

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes at ``offset``, in memory a few times that for a moment."""
        if size > limits.CHUNK:
            return b"".join(bytes(piece) for piece in self.pieces(offset, size))
        stored = self._view.head(self._first + offset, size + 1)
        number = int.from_bytes(stored, "little") >> self._shift
        return (number & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def constant_view(stream: View, run: ArrayRun, has_nul: bool, name: str) -> View:
    """Return the bytes of a constant as a view; its chain says where in the stream they are.

    Bytes that are stored whole and start at a byte are a view of the file itself.
    """
    first, shift = run.at >> 3, run.at & 7
    if run.is_bytes and not has_nul and not shift:
        return stream.slice(first, run.count, name)
    size = run.count + has_nul
    label = f"{name} (from bit {shift} of byte {stream.offset(first):#x} on)"
    source: Source
    if run.is_bytes and not has_nul:
        source = ShiftedSource(stream, run.at, size, label)
    else:
        present = min(size, stream.source.present)
        source = InflatedSource(size, PicklableCall(_decoded, stream, run, has_nul), label, present=present)
        source.budget = stream.source.budget
    return View(source, 0, size, (*stream.chain, VirtualName(label)))


def _decoded(stream: View, run: ArrayRun, has_nul: bool) -> bytearray:
    """Return the bytes of an array in another encoding. Raises BadValue for a number that is no byte."""
    data = bytearray()
    for value in BitReader(stream).elements(run):
        if value > 0xFF:
            raise BadValue(
                "a string holds a number that is no byte",
                format=FORMAT,
                offset=stream.offset(run.at >> 3),
                field="constant",
                found=str(value),
                chain=stream.chain,
            )
        data.append(value)
    return data + bytes(has_nul)
