"""The memory of a loaded program: the address of each byte that the loader maps.

Addresses are those in the file, without the base that a loader adds. Nothing is mapped or kept: bytes are read from the
file in windows.
"""

from __future__ import annotations

from bisect import bisect_right
from hashlib import sha256

from fatpack.errors import LimitExceeded
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Literal

    from fatpack.io.source import View

#: Bytes of each file that are compared at a time.
WINDOW = 1 << 20

#: LIMIT: bytes that segments load, and bytes of containers that are read, as a multiple of the file's size: parts of a
#: page are loaded twice, and a container is read once. Overlapping ones would be read again and again.
_MOST_TIMES, _FREE = 4, 64 << 20

#: LIMIT: images of a program. The largest libraries have some ten thousand.
_MOST_IMAGES = 1 << 18


class LoadedRange(Record):
    """Addresses of one segment or section: ``[start, end)``, with the rights ``flags``.

    The bytes up to ``filled`` are in the file from position ``at`` on; the bytes after them are zero.
    """

    start: int
    end: int
    at: int
    filled: int
    flags: str


class ProgramMemory:
    """A program's memory image. ``loaded_ranges`` are in order of their addresses and do not overlap.

    Raises LimitExceeded if they load the same bytes of the file many times.
    """

    def __init__(
        self,
        view: View,
        loaded_ranges: Sequence[LoadedRange],
        *,
        word: int,
        order: Literal["little", "big"],
        base: int = 0,
        is_fixed: bool = False,
    ) -> None:
        self.view = view
        self.loaded_ranges = loaded_ranges
        self.word, self.order = word, order
        #: the base that pointers in the program's data include, in addition to the addresses used here
        self.base = base
        #: whether the program is loaded at fixed addresses: then any word of its data may be a pointer
        self.is_fixed = is_fixed
        self._starts = [loaded.start for loaded in loaded_ranges]
        self._read = self._images = 0
        self._check(sum(loaded.filled - loaded.start for loaded in loaded_ranges), "bytes that are loaded")

    def charge(self, size: int) -> None:
        """Count an image of ``size`` bytes that is read. Raises LimitExceeded for an implausible total."""
        self._read += size
        self._images += 1
        self._check(self._read, "bytes of containers")
        if self._images > _MOST_IMAGES:
            raise LimitExceeded(
                f"more than {_MOST_IMAGES} images", expected=f"at most {_MOST_IMAGES}", chain=self.view.chain
            )

    def _check(self, size: int, what: str) -> None:
        most = _MOST_TIMES * len(self.view) + _FREE
        if size > most:
            found = f"{size} {what} in a file of {len(self.view)}"
            hint = "they overlap, which no linker produces"
            raise LimitExceeded(found, expected=f"at most {most}", hint=hint, chain=self.view.chain)

    def loaded_range(self, address: int) -> LoadedRange | None:
        """Return the loaded range around an address, None if nothing is loaded there."""
        number = bisect_right(self._starts, address) - 1
        if number < 0 or address >= self.loaded_ranges[number].end:
            return None
        return self.loaded_ranges[number]

    def read(self, address: int, size: int) -> bytes | None:
        """Return the bytes at an address as they are before relocation, None unless all of them are loaded."""
        parts = []
        while size > 0:
            loaded = self.loaded_range(address)
            if loaded is None:
                return None
            most = min(size, loaded.end - address)
            stored = max(0, min(most, loaded.filled - address))
            if stored:
                parts.append(self.view.read(loaded.at + address - loaded.start, stored))
            if most > stored:
                parts.append(bytes(most - stored))
            address += most
            size -= most
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def stored_size(self, address: int) -> int:
        """Return the number of contiguous bytes in the file from an address on."""
        loaded = self.loaded_range(address)
        return 0 if loaded is None else max(0, loaded.filled - address)

    def stored(self, address: int, size: int) -> View | None:
        """Return a view of bytes at an address; None unless all of them are contiguous in the file."""
        loaded = self.loaded_range(address)
        if loaded is None or size > self.stored_size(address):
            return None
        return self.view.slice(loaded.at + address - loaded.start, size)

    def number(self, address: int, size: int) -> int | None:
        """Return an unsigned number in the program's byte order, None if nothing is loaded there."""
        data = self.read(address, size)
        return None if data is None else int.from_bytes(data, self.order)

    def parts(self, start: int, end: int) -> Iterator[tuple[int, int, LoadedRange | None]]:
        """Yield the loaded ranges between two addresses in order: start, end, and the range, None for a gap."""
        while start < end:
            loaded = self.loaded_range(start)
            if loaded is None:
                number = bisect_right(self._starts, start)
                stop = self._starts[number] if number < len(self._starts) else end
            else:
                stop = loaded.end
            stop = min(stop, end)
            yield start, stop, loaded
            start = stop

    def windows(self, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """Yield the loaded bytes between two addresses that are in the file, at most a window at a time."""
        for low, high, loaded in self.parts(start, end):
            if loaded is not None:
                stop = min(high, loaded.filled)
                for address in range(low, stop, WINDOW):
                    size = min(WINDOW, stop - address)
                    yield address, self.view.read(loaded.at + address - loaded.start, size)

    def first_byte(self, start: int, end: int) -> int:
        """Return the first address from ``start`` on with a loaded byte other than zero, at most ``end``."""
        for low, high, loaded in self.parts(start, end):
            stop = min(high, loaded.filled) if loaded is not None else low
            if loaded is not None and stop > low:
                shift = loaded.at - loaded.start
                found = self.view.skip_zeros(low + shift, stop + shift) - shift
                if found < stop:
                    return found
        return end

    def digest(self, start: int, size: int) -> str:
        """Return the SHA-256 of loaded bytes in hexadecimal digits; the caller knows that all of them are loaded."""
        found = sha256()
        while size > 0:
            data = self.read(start, min(size, WINDOW))
            if data is None:
                return ""
            found.update(data)
            start += len(data)
            size -= len(data)
        return found.hexdigest()
