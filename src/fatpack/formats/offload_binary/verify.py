"""What only the whole content of a compressed binary can tell, and its tables cannot: whether all of it inflates."""

from __future__ import annotations

from fatpack.formats.offload_binary.stored import OffloadBinaryHeader
from fatpack.io.streamed import StreamedSource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.model import Container, Finding


def is_hashed(container: Container) -> bool:
    """Return whether a hash of its content is stored: in none."""
    return False


def is_unchecked(container: Container) -> bool:
    """Return whether a container is a compressed binary whose content was too large to be inflated when it was read."""
    return isinstance(container.record, OffloadBinaryHeader) and container.record.body.source.is_streamed


def verify(container: Container) -> list[Finding]:
    """Inflate all of an unchecked container, in bounded memory; there are no findings. Raises FormatError for damage.

    Nothing is shared with other readers of the container but the file: it may run in a thread of its own.
    """
    source = container.record.body.source if isinstance(container.record, OffloadBinaryHeader) else None
    if isinstance(source, StreamedSource):
        for _ in source.separate().pieces(0, source.size):
            pass
    return []
