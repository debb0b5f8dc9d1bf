"""What a kpack archive stores beyond the common model, kept so that a rewrite loses nothing."""

from __future__ import annotations

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View


class KpackHeader(Record):
    """What header and table of contents say of the whole archive; kept in ``Container.record``.

    ``toc_offset`` is where the table is, from the magic, and ``size`` the bytes of the archive. ``archs`` are the
    architectures that the table lists, and ``served`` those that it had images for, which may be others. ``further``
    are pairs that no field of this version names: keys, and values as they are stored. ``data_offset`` is where zstd
    frames begin, 0 if there are none.
    """

    version: int
    toc_offset: int
    size: int
    archs: tuple[str, ...]
    served: frozenset[str]
    further: tuple[tuple[bytes, bytes], ...] = ()
    data_offset: int = 0


class KpackEntry(Record):
    """One code object as the table has it: which blob it is, the bytes as they are stored, its further pairs.

    ``ordinal`` is below zero for an image that comes from elsewhere. ``at`` and ``end`` are where its key and value
    stand in the archive, from the magic.
    """

    ordinal: int
    stored: View
    further: tuple[tuple[bytes, bytes], ...] = ()
    at: int = 0
    end: int = 0
