"""Laying device code down again in linked files: what a host is told, and what it answers.

A linked file's sections of device code are loaded at fixed addresses, and records point into them. Whoever makes the
containers in one smaller lays them down again from the section's start and says three things: the section's new
bytes, which containers moved, and what the pointers that lead to them shall hold. The host does the rest: it frees
the bytes behind, in the file or by zeros, and what code can reach keeps its address. It knows no format.

All addresses are those that the file states, without the base that a loader adds.
"""

from __future__ import annotations

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Literal, TypeAlias

    from fatpack.io.source import Piece

    ShrinkMode: TypeAlias = Literal["shrink", "zero", "auto"]
    """How freed bytes go: out of the file, to zeros, or out of the file where that is possible and else to zeros."""

#: the modes; ``Relayed.mode`` is one of the first two
SHRINK: Literal["shrink"] = "shrink"
ZERO: Literal["zero"] = "zero"
AUTO: Literal["auto"] = "auto"


class NewSectionContent(Record):
    """The new bytes of one section, from its start on: at most as many as it had.

    ``index`` is the section's number in the host's table, as :attr:`fatpack.binary.CodeSection.index` has it.
    ``pieces`` are bytes, and views of the same file or of others. What is behind them in the section is freed.
    """

    index: int
    pieces: Sequence[Piece]


class ContainerMove(Record):
    """A container that has another address or size now: ``old`` and ``new`` are its addresses, sizes are in bytes.

    Symbols of the table for the linker and debugger that have the old address get the new one and, where they had the
    old size, the new size. A container that other files can see by a symbol must not move.
    """

    old: int
    old_size: int
    new: int
    new_size: int


class ShrinkRequest(Record):
    """The whole change of a linked file.

    ``contents`` are the sections with other bytes, ``moves`` the containers in them that have other addresses or
    sizes, ``pointers`` the address of each pointer that changes, with the address that it shall hold. Pointers lie in
    the sections of records, never in the device code itself. ``drop_signature`` takes the certificates out of a signed
    PE image, which any edit makes invalid; without it such an image is refused.
    """

    contents: Sequence[NewSectionContent]
    moves: Sequence[ContainerMove]
    pointers: Mapping[int, int]
    drop_signature: bool = False


class ShrinkResult(Record):
    """The changed file, as ``pieces``: bytes, and views of the old file.

    ``mode`` says what became of the freed bytes: "shrink" or "zero". ``cuts`` are the ranges of the old file that the
    new one lacks: offset and size, in order. ``why`` says why the bytes became zeros although they were to go, or "".
    """

    pieces: Sequence[Piece]
    mode: Literal["shrink", "zero"]
    cuts: Sequence[tuple[int, int]] = ()
    why: str = ""
