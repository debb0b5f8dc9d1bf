"""The first bytes of an image: what tells a cubin's architecture, without inflating the rest of it."""

from __future__ import annotations

from fatpack import codec
from fatpack.formats.cuda_fatbin.layout import FORMAT, method_of
from fatpack.formats.cuda_fatbin.reading.inflate import is_refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.formats.cuda_fatbin.stored import Entry


def beginning(entry: Entry, size: int) -> bytes:
    """Return the first ``size`` bytes of an entry's image, fewer if it has fewer.

    Of a member of a group the whole group is inflated. Raises what reading the image raises.
    """
    data = entry.data
    method = None if entry.group is not None or is_refused(data) else method_of(entry.head.flags)
    if method is None or data.source.is_at_hand:
        return data.head(0, size)
    return codec.beginning(entry.packed, min(size, len(data)), method=method, format=FORMAT)
