"""The model of a container that is read, for all formats."""

from __future__ import annotations

from struct import Struct

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def construct_reader(declared: Any) -> Struct:
    """Return what reads a record that is declared in construct: little-endian numbers, and bytes.

    A library has tens of thousands of entries, and construct takes 65 µs for one, 15 µs as compiled; this takes 0.2 µs.
    """
    codes = []
    for field in declared.subcons:
        kind = field
        while hasattr(kind, "subcon"):  # its name and its meaning are wrapped around it
            kind = kind.subcon
        codes.append(kind.fmtstr.removeprefix("<") if hasattr(kind, "fmtstr") else f"{kind.sizeof()}s")
    return Struct(f"<{''.join(codes)}")


class ProofImage(Record):
    """An image of a container.

    ``title`` is what the container says it is; ``digest`` is the SHA-256 of its ``size`` bytes: as they are stored, or
    inflated (``is_inflated``) where the container is compressed as a whole. ``rest`` is all else that the container
    says of it. ``content`` inflates an image that is compressed by itself and returns size and digest of what it
    inflates to, with what the container says of it apart from the compression; None where that cannot be had.
    """

    title: str
    size: int
    digest: str
    rest: bytes
    is_inflated: bool = False
    content: Callable[[], tuple[int, str, bytes] | None] | None = None


class ProofContainer(Record):
    """A container: its ``kind``, the addresses ``[start, end)`` of its bytes, and its images in order.

    ``head`` is what it states beside images, sizes and places; an edit keeps it, except ``method``: how it is
    compressed as a whole. ``inner`` are the addresses at which its images begin, where they lie in it as they are.
    """

    kind: str
    start: int
    end: int
    images: tuple[ProofImage, ...]
    head: bytes
    method: str = ""
    inner: tuple[int, ...] = ()
