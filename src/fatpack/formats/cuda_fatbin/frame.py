"""What compressed bytes say of themselves in their first bytes: whether they are of a method, and how long inside.

Nothing is inflated for it. RFC 8878 (zstd), RFC 1950 (zlib), ``lz4_Frame_format.md`` of LZ4 1.10.
"""

from __future__ import annotations

from fatpack import magic_numbers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: The longest beginning that is looked at: magic, descriptor, window, dictionary and content size of a zstd frame.
FRAME_HEAD_SIZE = 18


def has_method(method: str, head: bytes) -> bool:
    """Return whether a stream of that method may start with these bytes. An LZ4 block has no mark of its own."""
    if method == "zlib":
        return len(head) >= 2 and head[0] & 15 == 8 and int.from_bytes(head[:2], "big") % 31 == 0
    magic = {"zstd": magic_numbers.ZSTD, "lz4-frame": magic_numbers.LZ4}.get(method)
    return magic is None or head.startswith(magic) or _is_skippable(head)


def _is_skippable(head: bytes) -> bool:
    return head[1:4] == magic_numbers.SKIPPABLE and head[0] & 0xF0 == 0x50


def frame_content_size(method: str, head: bytes) -> int | None:
    """Return how many bytes the first frame says it inflates to; None where it says nothing."""
    reader = _SIZES.get(method)
    return reader(head) if reader and not _is_skippable(head) else None


def _zstd_size(head: bytes) -> int | None:
    descriptor = head[4] if len(head) > 4 else 0
    is_single = bool(descriptor & 0x20)
    size = (1 if is_single else 0, 2, 4, 8)[descriptor >> 6]
    at = 5 + (0 if is_single else 1) + (0, 1, 2, 4)[descriptor & 3]
    if not size or at + size > len(head):
        return None
    return int.from_bytes(head[at : at + size], "little") + (256 if size == 2 else 0)


def _lz4_size(head: bytes) -> int | None:
    has_size = len(head) >= 14 and head[4] & 8
    return int.from_bytes(head[6:14], "little") if has_size else None


_SIZES: Mapping[str, Callable[[bytes], int | None]] = {"zstd": _zstd_size, "lz4-frame": _lz4_size}
