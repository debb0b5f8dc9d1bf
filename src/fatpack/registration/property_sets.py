"""The property sets that a program's records have for its images: what SYCL's runtime is told of device code.

::

    set       0x00  pointers: name, begin and end of the properties
    property  0x00  pointers: name, value   0x10  type u32: 1 a number, 2 bytes, 3 text; then padding
              0x18  size of the value u64, or the number itself

In front of bytes, eight of them say how many bits they have. (``_pi_device_binary_property_set_struct`` of DPC++'s
``clang-offload-wrapper`` and of its runtime's ``compiler.hpp``.) LLVM's own wrapper writes none. As text the same sets
stand in SYCLBIN files, and are shown alike: :mod:`fatpack.formats.syclbin.properties`.
"""

from __future__ import annotations

from fatpack import limits
from fatpack.binary.open import open_pointers
from fatpack.binary.pointers import INSIDE, NULL
from fatpack.formats.syclbin.properties import BYTES, NUMBER, to_plain_value
from fatpack.record import Record
from fatpack.registration import sycl_images

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.binary.pointers import Pointer, PointerReader
    from fatpack.io.source import View

#: SYCL has 64-bit hosts only.
_WORD = 8

_SET_SIZE, _PROPERTY_SIZE = 24, 32

#: Bytes in front of an array that say how many bits it has.
_BITS = 8

#: The type of a property that is text.
_TEXT = 3

#: LIMIT: bytes of a name. Names of kernels are mangled C++.
_NAME = 1 << 16


class PropertySets(Record):
    """The property sets of the images in a section of a host, read when they are asked for.

    ``start`` is where the container starts in the section.
    """

    view: View
    host: str
    section: int
    data: View
    start: int

    def __call__(self) -> dict[int, dict[str, object]]:
        """Return, by where an image is in its container, its sets in ``properties``: name → property → plain value.

        ``properties_unread`` says why some are missing. Raises ``OSError`` when reading fails.
        """
        reader = open_pointers(self.view, self.host)
        if reader.word != _WORD:
            return {}
        found, _ = sycl_images.find_image_pointers(reader, self.section, self.data)
        found = [place for place in found if sycl_images.target_pointer_address(reader, place.address) is not None]
        # Behind begin and end of the image are those of its entries, then those of its sets.
        bounds = reader.held([place.address + step * _WORD for place in found for step in (4, 5)])
        reading = _PropertySetReader(reader)
        sets = reading.sets(bounds)
        return {
            place.offset - self.start: facts
            for place, facts in zip(found, sets, strict=True)
            if facts and place.offset >= self.start
        }


class _PropertySetReader:
    """The sets of all images of a section: tables may share their bytes, so what is read of them all is bounded."""

    def __init__(self, reader: PointerReader) -> None:
        self._reader = reader
        self._rows = limits.IMAGES
        self._bytes = max(limits.STRING_FLOOR, limits.STRING_RATIO * len(reader.view))

    def sets(self, bounds: Sequence[Pointer]) -> list[dict[str, object]]:
        """Return the sets of each image, of which the pointers to the first and behind the last follow each other."""
        wrong: list[set[str]] = [set() for _ in bounds[::2]]
        made: list[dict[str, dict[str, object]]] = [{} for _ in bounds[::2]]
        heads = [
            (number, row)
            for number, pair in enumerate(zip(bounds[::2], bounds[1::2], strict=True))
            for row in self._table(*pair, _SET_SIZE, wrong[number])
        ]
        pointers = self._reader.held([row + step * _WORD for _, row in heads for step in range(3)])
        properties = []
        for at, (number, _) in enumerate(heads):
            called, begin, end = pointers[3 * at : 3 * at + 3]
            name = self._text(called, wrong[number])
            if name is not None:
                content = made[number].setdefault(name, {})
                rows = self._table(begin, end, _PROPERTY_SIZE, wrong[number])
                properties += [(number, content, row) for row in rows]
        pointers = self._reader.held([row + step * _WORD for *_, row in properties for step in range(2)])
        for at, (number, content, row) in enumerate(properties):
            name = self._text(pointers[2 * at], wrong[number])
            if name is not None:
                value = self._value(row, pointers[2 * at + 1], wrong[number])
                if value is not None:
                    content[name] = value
        return [
            {**({"properties": sets} if sets else {}), **({"properties_unread": "; ".join(sorted(why))} if why else {})}
            for sets, why in zip(made, wrong, strict=True)
        ]

    def _table(self, begin: Pointer, end: Pointer, size: int, wrong: set[str]) -> Iterator[int]:
        """Yield the addresses of the records in a table."""
        if begin.kind == NULL:
            return
        length = end.address - begin.address
        if begin.kind != INSIDE or not 0 <= length <= begin.room or length % size:
            wrong.add("a table of properties does not lie in the file")
            return
        for row in range(begin.address, end.address, size):
            if not self._rows:
                wrong.add(f"more than {limits.IMAGES} properties")
                return
            self._rows -= 1
            yield row

    def _text(self, pointer: Pointer, wrong: set[str]) -> str | None:
        if pointer.kind != INSIDE:
            wrong.add("a name does not lie in the file")
            return None
        size = min(_NAME, pointer.room)
        text = self._reader.view.head(pointer.position, size).partition(b"\0")[0]
        if len(text) == size:
            wrong.add("a name does not end")
            return None
        return text.decode("utf-8", "backslashreplace") if self._takes(len(text), wrong) else None

    def _takes(self, size: int, wrong: set[str]) -> bool:
        """Return whether so many bytes more may be read."""
        if size > self._bytes:
            wrong.add("the properties share their bytes, and are many times the size of the file")
            return False
        self._bytes -= size
        return True

    def _value(self, row: int, pointer: Pointer, wrong: set[str]) -> object:
        """Return the value of a property as plain data; None if it cannot be read."""
        view = self._reader.view
        record = view.read(self._reader.at(row).position, _PROPERTY_SIZE)
        order = self._reader.order
        kind, size = int.from_bytes(record[16:20], order), int.from_bytes(record[24:32], order)
        if kind == NUMBER:
            return size & 0xFFFFFFFF
        if kind not in (BYTES, _TEXT):
            wrong.add(f"a property of type {kind}")
            return None
        if pointer.kind != INSIDE or size > pointer.room or (kind == BYTES and size < _BITS):
            wrong.add("a value does not lie in the file")
            return None
        if not self._takes(size, wrong):
            return None
        stored = view.read(pointer.position, size)
        return to_plain_value(bytes(stored[_BITS:] if kind == BYTES else stored.rstrip(b"\0")))
