"""Shrinking device code in linked files: the request to a host, and its result.

The sections of device code in a linked file are loaded at fixed addresses, and records point into them. A caller that
made containers smaller lays them out again from the section's start and states three things: the section's new bytes,
the containers that moved, and the new values of the pointers to them. The host does the rest: it removes or zeroes the
freed bytes, and keeps all addresses that code can use. It knows no format of containers.

All addresses are those in the file, without the base that a loader adds.
"""

from __future__ import annotations

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Literal, TypeAlias

    from fatpack.io.source import Piece

    ShrinkMode: TypeAlias = Literal["shrink", "zero", "auto"]
    """Treatment of freed bytes: removed from the file, zeroed, or removed if possible and else zeroed."""

#: the modes; ``ShrinkResult.mode`` is one of the first two
SHRINK: Literal["shrink"] = "shrink"
ZERO: Literal["zero"] = "zero"
AUTO: Literal["auto"] = "auto"


class NewSectionContent(Record):
    """The new bytes of one section from its start on, at most as many as before.

    ``index`` is the section's number in the host's table, as :attr:`fatpack.binary.CodeSection.index`. ``pieces`` are
    bytes, and views of the same file or of others. The rest of the section is freed.
    """

    index: int
    pieces: Sequence[Piece]


class ContainerMove(Record):
    """A container with another address or size: ``old`` and ``new`` addresses; sizes are in bytes.

    Symbols for linker and debugger with the old address get the new one and, if they had the old size, the new size. A
    container that other files can refer to by a symbol must not move.
    """

    old: int
    old_size: int
    new: int
    new_size: int


class ReplacedBytes(Record):
    """The new bytes of a loaded range that keeps its place and its size: from position ``start`` to ``end``.

    Positions are those in the file's view. What the pieces do not fill becomes zeros.
    """

    start: int
    end: int
    pieces: Sequence[Piece]


class ShrinkRequest(Record):
    """The change of a linked file.

    ``contents``: the sections with other bytes. ``moves``: the containers in them with another address or size.
    ``replaced``: ranges of other sections with other bytes. ``pointers``: address of each changed pointer
    → its new value. Pointers are in the sections of records, never in device code. ``drop_signature``: remove the
    certificates of a signed PE image, which any edit makes invalid; without it such an image is refused.
    """

    contents: Sequence[NewSectionContent]
    moves: Sequence[ContainerMove]
    pointers: Mapping[int, int]
    drop_signature: bool = False
    replaced: Sequence[ReplacedBytes] = ()


class ShrinkResult(Record):
    """The changed file as ``pieces``: bytes, and views of the old file.

    ``mode`` is the treatment of the freed bytes: "shrink" or "zero". ``cuts``: offset and size of the removed ranges of
    the old file, in order. ``why``: the reason why bytes were zeroed instead of removed, or "".
    """

    pieces: Sequence[Piece]
    mode: Literal["shrink", "zero"]
    cuts: Sequence[tuple[int, int]] = ()
    why: str = ""
