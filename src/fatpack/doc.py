"""What a room says about itself: the source of its page below ``docs/``."""

from __future__ import annotations

from fatpack.record import Record


class FormatInfo(Record):
    """The card of a format or host room.

    ``name`` is the name in JSON, ``title`` the one people use, ``description`` one paragraph: what it is for and who
    writes it. ``references`` are upstream files or documents with the revision or version they were read at.
    ``reads`` and ``writes`` name versions and variants. ``limitations`` are honest and never empty.
    """

    name: str
    title: str
    description: str
    references: tuple[str, ...]
    reads: str
    writes: str
    limitations: tuple[str, ...]
