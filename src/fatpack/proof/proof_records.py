"""The records that register containers, found by their magic wherever they are loaded.

::

    0x00  magic u32: 0x466243b1 (CUDA), 0x48495046 (HIP)   0x04  version u32   0x08  pointer to the container

(CUDA's ``fatbinary_section.h``; clang/lib/CodeGen/CGCUDANV.cpp, LLVM 22.1.) What looks so and leads to no container
is no record here, and so must stay as it is.
"""

from __future__ import annotations

from fatpack.errors import LimitExceeded
from fatpack.proof.containers import is_container_start
from fatpack.proof.ledger import subtract_ranges
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from fatpack.proof.ledger import Range
    from fatpack.proof.memory import ProgramMemory

    PointerResolver = Callable[[ProgramMemory, Collection[int]], Mapping[int, "RecordPointer"]]
    """Returns what the pointers at some addresses hold once the loader has relocated them."""

#: magic → versions
_MAGICS = {0x466243B1: (1, 2), 0x48495046: (1,)}

#: bytes of a container's start that are looked at
_START = 24

#: LIMIT: records of a program. The library with most that is known to us has 845.
_MAX_RECORDS = 1 << 16


class RecordPointer(Record):
    """A pointer: ``value`` is the address that it holds when the program runs, ``in_place`` the word in the file.

    ``addend`` is where the loader takes the value from if it is not that word: address and size in bytes. The value is
    None where it depends on other files or is not understood.
    """

    value: int | None
    in_place: int
    addend: tuple[int, int] | None = None


def find_records(memory: ProgramMemory, ranges: Sequence[Range], resolve: PointerResolver) -> dict[int, RecordPointer]:
    """Return the pointers of all records that lead to a container, by their addresses, in order.

    ``ranges`` hold device code, in which nothing is searched. Raises LimitExceeded for far too many.
    """
    found: set[int] = set()
    for stretch in memory.stretches:
        for start, end in subtract_ranges([(stretch.start, stretch.filled)], ranges):
            for magic, versions in _MAGICS.items():
                found.update(_marked(memory, start, end, magic, versions))
                if len(found) > _MAX_RECORDS:
                    raise LimitExceeded(
                        f"more than {_MAX_RECORDS} places look like records of device code",
                        offset=stretch.at,
                        expected=f"at most {_MAX_RECORDS}",
                        chain=memory.view.chain,
                    )
    pointers = resolve(memory, found)
    return {
        place: pointers[place]
        for place in sorted(found)
        if (value := pointers[place].value) is not None
        and is_container_start(memory.read(value, _START) or _few(memory, value))
    }


def _few(memory: ProgramMemory, address: int) -> bytes:
    """Return the start of what is loaded at an address, where less than the longest magic is."""
    stretch = memory.stretch(address)
    return b"" if stretch is None else memory.read(address, min(_START, stretch.end - address)) or b""


def _marked(memory: ProgramMemory, start: int, end: int, magic: int, versions: Sequence[int]) -> list[int]:
    """Return the addresses of pointers behind a magic and one of its versions."""
    word, found = memory.word, []
    stretch = memory.stretch(start)
    if stretch is None:
        return []
    for version in versions:
        head = magic.to_bytes(4, memory.order) + version.to_bytes(4, memory.order)
        shift = stretch.at - stretch.start
        part = memory.view.slice(start + shift, end - start)
        at = part.find(head)
        while at >= 0:
            if (start + at) % word == 0 and start + at + 8 + word <= end:
                found.append(start + at + 8)
            at = part.find(head, at + 4)
    return found
