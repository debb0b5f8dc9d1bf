"""What the entries of a bundle say: the text and target of an ID, the image, and how images are aligned."""

from __future__ import annotations

from fatpack.formats.clang_bundle.bundle_id import parse_id
from fatpack.model import Image

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.formats.clang_bundle.clang_bundle_stored import BundleEntry
    from fatpack.io.source import View
    from fatpack.model import Target

#: How much of a bundle is read at once, which is all of most tables.
FRONT = 1024

#: The targets of IDs met last: a library has hundreds of bundles with the same dozen IDs.
_TARGETS: dict[str, Target] = {}
_MOST_TARGETS = 1000


def decode_id(stored: bytes) -> str:
    """Return a stored ID as text; bytes that are not UTF-8 survive as surrogates."""
    return stored.decode("utf-8", "surrogateescape")


def target_for_id(spelling: str) -> Target:
    """Return the target that an ID names."""
    target = _TARGETS.get(spelling)
    if target is None:
        if len(_TARGETS) >= _MOST_TARGETS:
            _TARGETS.clear()
        target = _TARGETS[spelling] = parse_id(spelling).target
    return target


def make_bundle_image(entry: BundleEntry, data: View) -> Image:
    """Return the image of an entry; what its bytes are is not stored in a bundle."""
    spelling = decode_id(entry.id)
    size = data.end - data.start
    return Image(target_for_id(spelling), "", data, size, size, data.span(), None, {"id": spelling}, entry)


def find_alignment(places: Sequence[tuple[int, int]], table_end: int) -> int:
    """Return the ``-bundle-align`` that gives these offsets: 1 if nothing is padded, else the largest that does.

    ``places`` are the offset and the size of each image in the order of the table.
    """
    offsets = [offset for offset, _ in places]
    shared = 0
    for offset in offsets:
        rest = offset
        while rest:  # math.gcd would load a library
            shared, rest = rest, shared % rest
    power_count = min((shared & -shared).bit_length(), 32)
    if _fits(places, table_end, 1):
        return 1
    for shift in range(power_count - 1, -1, -1):
        if _fits(places, table_end, 1 << shift):
            return 1 << shift
    return shared if 0 < shared < 1 << 32 and _fits(places, table_end, shared) else 1 << max(power_count - 1, 0)


def _fits(places: Sequence[tuple[int, int]], at: int, align: int) -> bool:
    for offset, size in places:
        at = -(-at // align) * align
        if offset != at:
            return False
        at += size
    return True
