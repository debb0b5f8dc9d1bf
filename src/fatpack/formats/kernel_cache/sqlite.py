"""Tables of a database of SQLite, read from its pages: no SQL of the file is run, and nothing is written beside it.

A table is a tree of pages: inner ones (type 5) lead to leaves (type 13), whose cells are rows. A row that is too long
for its page goes on in a chain of overflow pages. Every page is used once, so that reading is linear in the file.

How we know: SQLite's "Database File Format", 1.3 (header), 1.6 (pages and cells), 2.1 (records).
"""

from __future__ import annotations

from fatpack.errors import pluralize
from fatpack.formats.kernel_cache.layout import cache_errors
from fatpack.io.source import PiecesSource, VirtualName
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View

#: types of pages of tables, and the bytes of their headers
_INNER, _LEAF = 5, 13
_INNER_HEADER, _LEAF_HEADER = 12, 8

#: the header of the file lies on its first page
_FILE_HEADER = 100

#: LIMIT: bytes of a text in a row, and of the statement that made a table
MOST_TEXT = 1 << 20

#: LIMIT: bytes of the header of a record, which has a number for each column
_MOST_HEADER = 1 << 16

#: serial type → bytes of an integer
_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}

#: LIMIT: levels of the tree of a table; a database of 100 TB has six
_LEVELS = 20

#: value of the header → encoding of texts
_ENCODINGS = {0: "utf-8", 1: "utf-8", 2: "utf-16-le", 3: "utf-16-be"}


class Row(Record):
    """A row: its number, the place of its cell in the file, and its columns as stored.

    A column is an integer, None for NULL, or the view of a text or of a blob.
    """

    number: int
    cell: View
    columns: tuple[int | View | None, ...]


class Database:
    """A database. Raises Truncated and BadValue for damage, with absolute offsets."""

    def __init__(self, view: View) -> None:
        if len(view) < _FILE_HEADER:
            raise cache_errors.cut(view, 0, "header", _FILE_HEADER)
        size = int.from_bytes(view.read(16, 2), "big")
        size = 1 << 16 if size == 1 else size
        if size < 512 or size & size - 1:
            raise cache_errors.value(view, 16, "page_size", f"{size} is no power of two from 512 on")
        self.view, self.page_size = view, size
        self.usable = size - view.read(20, 1)[0]
        if self.usable < 480:
            raise cache_errors.value(view, 20, "reserved", f"{size - self.usable} bytes of each page are reserved")
        encoding = int.from_bytes(view.read(56, 4), "big")
        if encoding not in _ENCODINGS:
            raise cache_errors.value(view, 56, "text_encoding", f"{encoding} is no encoding", "1 to 3")
        self._encoding = _ENCODINGS[encoding]
        self._used: set[int] = set()

    def text(self, value: int | View | None) -> str:
        """Return a column as text. Raises BadValue for one that is none, LimitExceeded for one that is too long."""
        if not hasattr(value, "tobytes"):
            raise cache_errors.value(self.view, 0, "row", "a column is no text")
        assert value is not None and not isinstance(value, int)
        if len(value) > MOST_TEXT:
            raise cache_errors.limit(self.view, 0, "row", "a text is too long", f"at most {MOST_TEXT} bytes")
        return value.tobytes().decode(self._encoding, "backslashreplace")

    def rows(self, root: int) -> Iterator[Row]:
        """Yield the rows of the table with a root page, in the order of their numbers."""
        waiting = [(root, 0)]
        while waiting:
            number, depth = waiting.pop()
            page, at = self._page(number)
            kind = page.read(at, 1)[0]
            if kind not in (_INNER, _LEAF) or depth > _LEVELS:
                raise cache_errors.value(page, at, "page type", f"page {number} has type {kind}", "5 or 13, of a table")
            header = _INNER_HEADER if kind == _INNER else _LEAF_HEADER
            count = int.from_bytes(page.read(at + 3, 2), "big")
            if at + header + 2 * count > self.usable:
                raise cache_errors.value(page, at + 3, "cell count", f"{pluralize(count, 'cell')} on page {number}")
            pointers = page.read(at + header, 2 * count)
            places = [int.from_bytes(pointers[place : place + 2], "big") for place in range(0, 2 * count, 2)]
            if kind == _LEAF:
                for place in places:
                    yield self._row(page, place)
                continue
            children = [int.from_bytes(self._cell(page, place, 4), "big") for place in places]
            children.append(int.from_bytes(page.read(at + 8, 4), "big"))
            waiting += [(child, depth + 1) for child in reversed(children)]

    def _page(self, number: int) -> tuple[View, int]:
        """Return a page, which may be used once, and the position of its header."""
        start = (number - 1) * self.page_size
        if number < 1 or start + self.page_size > len(self.view):
            raise cache_errors.value(self.view, 0, "page number", f"page {number} is not in the file")
        if number in self._used:
            raise cache_errors.value(self.view, start, "page number", f"page {number} is used twice")
        self._used.add(number)
        return self.view.slice(start, self.page_size), _FILE_HEADER if number == 1 else 0

    def _cell(self, page: View, at: int, size: int) -> bytes:
        if at + size > self.usable:
            raise cache_errors.value(page, min(at, len(page) - 1), "cell", "a cell is past the end of its page")
        return page.read(at, size)

    def _number(self, page: View, at: int) -> tuple[int, int]:
        """Return a variable-length integer of a cell, and the position after it."""
        return _varint(page.head(at, 9), at, page)

    def _row(self, page: View, at: int) -> Row:
        start = at
        size, at = self._number(page, at)
        number, at = self._number(page, at)
        if size > len(self.view):
            raise cache_errors.value(page, start, "payload size", f"a row of {size} bytes is longer than the file")
        most = self.usable - 35
        local = size
        if size > most:
            least = (self.usable - 12) * 32 // 255 - 23
            local = least + (size - least) % (self.usable - 4)
            local = local if local <= most else least
        if at + local > self.usable:
            raise cache_errors.value(page, min(start, len(page) - 1), "cell", "a row is past the end of its page")
        pieces = [page.slice(at, local)]
        left, end = size - local, at + local
        if left:
            following = int.from_bytes(self._cell(page, end, 4), "big")
            end += 4
            while left:
                overflow, _ = self._page(following)
                part = min(left, self.usable - 4)
                pieces.append(overflow.slice(4, part))
                left -= part
                following = int.from_bytes(overflow.read(0, 4), "big")
        cell = page.slice(start, end - start)
        payload = pieces[0]
        if len(pieces) > 1:
            name = VirtualName(f"row {number}")
            payload = PiecesSource(pieces, name).view().replace(chain=(*self.view.chain, name))
        return Row(number, cell, tuple(_columns(payload, cell)))


def _varint(data: bytes, at: int, view: View) -> tuple[int, int]:
    value = 0
    for index, byte in enumerate(data[:9]):
        if index == 8:
            return value << 8 | byte, at + 9
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + index + 1
    raise cache_errors.value(view, min(at, max(len(view) - 1, 0)), "row", "a number is cut")


def _columns(payload: View, cell: View) -> Iterator[int | View | None]:
    size, at = _varint(payload.head(0, 9), 0, cell)
    if size > min(len(payload), _MOST_HEADER):
        raise cache_errors.value(cell, 0, "record header", f"it takes {size} bytes")
    place = size
    head = payload.read(0, size)
    while at < size:
        kind, at = _varint(head[at : at + 9], at, cell)
        length = _INTEGERS.get(kind, 8 if kind == 7 else (kind - 12) // 2 if kind >= 12 else 0)
        if place + length > len(payload) or kind in (10, 11):
            raise cache_errors.value(cell, 0, "record", f"a column of {length} bytes is past the end of its row")
        if kind in _INTEGERS:
            yield int.from_bytes(payload.read(place, length), "big", signed=True)
        elif kind >= 12:
            yield payload.slice(place, length)
        else:
            yield {8: 0, 9: 1}.get(kind)
        place += length
