"""The parts of a relocatable object, before anyone says how a file stores them."""

from __future__ import annotations

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal, TypeAlias

    from fatpack.commands.wrap.code.template import LinkerFixup
    from fatpack.io.source import Piece

    SectionRole: TypeAlias = Literal[
        "code", "tables", "image", "offloading", "wrapper", "zeros", "run", "frames", "group"
    ]


class ObjectSection(Record):
    """A section: its name, what it is for, its alignment, its bytes, and the places that the linker fills in.

    ======== =================================================================================
    role      what it holds
    ======== =================================================================================
    code      instructions
    tables    records with pointers, which nobody writes once they are relocated
    image     bytes that nobody writes
    offloading the same, in a section that LLVM's tools look for
    wrapper   records that lead to the image
    zeros     ``reserved`` bytes of 0 that programs write
    run       addresses of functions that run at start or end
    frames    how functions unwind
    group     bytes of which a linker keeps one copy, by the name of the symbol that stands in them
    ======== =================================================================================
    """

    name: str
    role: SectionRole
    align: int
    pieces: tuple[Piece, ...] = ()
    fixups: tuple[LinkerFixup, ...] = ()
    reserved: int = 0

    @property
    def size(self) -> int:
        """The number of bytes, in memory."""
        return self.reserved + sum(map(len, self.pieces))


class ObjectSymbol(Record):
    """A name: ``section`` is where it stands, "" if it is defined elsewhere.

    ``scope`` is local, global (seen by other objects), hidden (of the same program), or weak (others may have it too).
    """

    name: str
    section: str = ""
    offset: int = 0
    size: int = 0
    is_function: bool = False
    scope: Literal["local", "global", "hidden", "weak"] = "local"


class ObjectParts(Record):
    """An object: sections in their order, and symbols, those that other objects define included."""

    sections: tuple[ObjectSection, ...]
    symbols: tuple[ObjectSymbol, ...]
