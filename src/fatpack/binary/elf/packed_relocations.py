"""Relocations in Android's packed encoding, which ``ld.lld --pack-dyn-relocs=android`` writes.

::

    "APS2", count, first place ─► groups ─► relocations
    a group: size, flags, then the difference of places, the info and the difference of addends that all of it share

All numbers are signed LEB128. (``AndroidPackedRelocationSection`` in lld/ELF/SyntheticSections.cpp, LLVM 22.1; bionic's
linker/linker_reloc_iterators.h.)
"""

from __future__ import annotations

from array import array

from fatpack.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View

_MAGIC = b"APS2"

#: bits of the flags of a group: infos, distances or addends are the same in all of it, and there are addends
_SAME_INFO, _SAME_DISTANCE, _SAME_ADDEND, _HAS_ADDEND = 1, 2, 4, 8

_MASK = (1 << 64) - 1


def unpack_relocations(data: View, most: int) -> array[int]:
    """Return place, info and addend of up to ``most`` packed relocations, one after the other. Raises FormatError."""
    content = data.tobytes()
    if content[:4] != _MAGIC:
        raise _error(data, 0, "packed relocations of an unknown kind", "APS2", repr(content[:4])[1:])
    numbers = _Numbers(data, content)
    count, place = numbers.take(), numbers.take()
    if not 0 <= count <= most:
        raise _error(data, 4, "too many packed relocations", f"at most {most}", str(count))
    words = array("Q")
    info = addend = 0
    while count:
        size, flags = numbers.take(), numbers.take()
        if not 0 < size <= count:
            raise _error(data, numbers.at, "a group of packed relocations", f"1 to {count} of them", str(size))
        count -= size
        distance = numbers.take() if flags & _SAME_DISTANCE else 0
        info = numbers.take() if flags & _SAME_INFO else info
        is_same = flags & _SAME_ADDEND
        if not flags & _HAS_ADDEND:
            addend = 0
        elif is_same:
            addend += numbers.take()
        for _ in range(size):
            place += distance if flags & _SAME_DISTANCE else numbers.take()
            info = info if flags & _SAME_INFO else numbers.take()
            if flags & _HAS_ADDEND and not is_same:
                addend += numbers.take()
            words.extend((place & _MASK, info & _MASK, addend & _MASK))
    return words


class _Numbers:
    """Signed LEB128 numbers of a table."""

    def __init__(self, data: View, content: bytes) -> None:
        self._data, self._content, self.at = data, content, len(_MAGIC)

    def take(self) -> int:
        """Return the next number. Raises FormatError at the end of the table, and for a number of over 64 bits."""
        value, shift, content = 0, 0, self._content
        while self.at < len(content) and shift < 70:
            byte = content[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value - (1 << shift) if byte & 0x40 else value
        raise _error(self._data, self.at, "packed relocations end too early", "a number of LEB128", "the end")


def _error(data: View, at: int, problem: str, expected: str, found: str) -> FormatError:
    return FormatError(problem, format="elf", offset=data.offset(at), expected=expected, found=found, chain=data.chain)
