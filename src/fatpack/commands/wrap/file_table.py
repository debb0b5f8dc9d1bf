"""File tables: which files belong to each device image, as the tools of DPC++ hand them on from step to step.

::

    [Code|Properties|Symbols]
    a_0.bc|a_0.prop|a_0.sym
    a_1.bc|a_1.prop|a_1.sym

The first line names the columns; without it they are called 0, 1, …. Empty lines count for nothing. Source:
``llvm/lib/Support/SimpleTable.cpp`` of intel/llvm, whose words the errors have.
"""

from __future__ import annotations

from fatpack.errors import BadValue, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.io.source import View

_FORMAT = "file table"
_SEPARATOR = "|"

#: LIMIT: bytes of a line. A name of a file has a few thousand at most, and a row a few names.
_LONGEST = 1 << 20


class FileTable:
    """A table that its operations change; ``titles`` are the names of the columns, ``rows`` have one cell for each."""

    def __init__(self, titles: Sequence[str] = (), rows: Sequence[Sequence[str]] = ()) -> None:
        self.titles = list(titles)
        self.rows = [list(row) for row in rows]

    def replace_column(self, name: str, other: FileTable, other_name: str) -> None:
        """Put the cells of another table's column in the place of one here; an only column goes by any name.

        Raises UsageError where the columns are not there, or differ in length.
        """
        if len(self.rows) != len(other.rows):
            raise UsageError(f"column length mismatch for '{name}' and '{other_name}'")
        if not self.titles and not other.titles:
            raise UsageError("empty table")
        here, there = self._of_several(name), other._of_several(other_name)
        for row, source in zip(self.rows, other.rows, strict=True):
            row[here] = source[there]

    def replace_cell(self, name: str, row: int, value: str) -> None:
        """Put a value into a cell; rows count from 0. Raises UsageError if it is not there."""
        if not self.titles:
            raise UsageError("empty table")
        if not 0 <= row < len(self.rows):
            raise UsageError("row index out of bounds")
        self.rows[row][self._column(name, "Column not found: ")] = value

    def rename_column(self, old: str, new: str) -> None:
        """Give a column another name. Raises UsageError if it is not there, or the new name is another's."""
        column = self._column(old, "column not found: ")
        if new in self.titles and new != old:
            raise UsageError(f"column already exists {new}")
        self.titles[column] = new

    def keep_columns(self, names: Sequence[str]) -> None:
        """Leave out all columns but these, which stay in the order of the table. Raises UsageError."""
        if len(set(names)) != len(names):
            raise UsageError("duplicated column names found")
        for name in sorted(names):
            self._column(name, "column not found ")
        wanted = set(names)
        kept = [number for number, title in enumerate(self.titles) if title in wanted]
        self.titles = [self.titles[number] for number in kept]
        self.rows = [[row[number] for number in kept] for row in self.rows]

    def append(self, other: FileTable) -> None:
        """Add the rows of another table, which has the same columns. Raises UsageError if it has others."""
        if len(self.titles) != len(other.titles):
            raise UsageError("different number of columns")
        if self.titles != other.titles:
            raise UsageError("different column names")
        self.rows += other.rows

    def column(self, name: str) -> list[str]:
        """Return a copy of the cells of a column. Raises UsageError if it is not there."""
        column = self._column(name, "Column not found: ")
        return [row[column] for row in self.rows]

    def text(self, *, with_titles: bool = True) -> bytes:
        """Return the text of the table for a file."""
        lines = [f"[{_SEPARATOR.join(self.titles)}]"] if with_titles else []
        lines += map(_SEPARATOR.join, self.rows)
        return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")

    def _column(self, name: str, complaint: str) -> int:
        if name not in self.titles:
            has = f"the table has {', '.join(self.titles)}" if self.titles else "the table has no columns"
            raise UsageError(complaint + name, hint=has)
        return self.titles.index(name)

    def _of_several(self, name: str) -> int:
        return self._column(name, "Column not found: ") if len(self.titles) > 1 else 0


def read_table(view: View) -> FileTable:
    """Return the table in a file. Raises BadValue where its lines do not make one."""
    table: FileTable | None = None
    for number, at, line in _lines(view):
        cells = line.split(_SEPARATOR)
        if table is None and line.startswith("["):
            if len(line) < 2 or not line.endswith("]"):
                raise _bad(view, at, "malformed title line", "a ] at its end", repr(line[-20:]))
            cells = line[1:-1].split(_SEPARATOR)
            table = FileTable(cells)
            if len(set(cells)) < len(cells):
                twice = _first_of_two(cells)
                raise _bad(view, at, f"column already exists {twice}", "names that differ", "one twice")
            continue
        if table is None:
            table = FileTable(list(map(str, range(len(cells)))))
        if len(cells) != len(table.titles):
            expected = f"{len(table.titles)} cells"
            raise _bad(view, at, f"row size mismatch at line {number}", expected, str(len(cells)))
        table.rows.append(cells)
    return table or FileTable()


def read_names(view: View) -> list[str]:
    """Return the names in a file that has one on each line. Raises BadValue for one with a NUL."""
    return [line for _, _, line in _lines(view)]


def _lines(view: View) -> Iterator[tuple[int, int, str]]:
    """Yield the number, place and text of every line that is not empty."""
    at, number = 0, 1
    rest = b""
    for block in _blocks(view):
        *lines, rest = (rest + block).split(b"\n")
        # The rest after the last line end is checked at once: a binary file may have no line end.
        for line in (*lines, *((rest,) if b"\0" in rest or not block else ())):
            text = line.removesuffix(b"\r")
            if b"\0" in text:
                raise _bad(view, at + text.index(b"\0"), f"a NUL at line {number}", "text", "a NUL")
            if text:
                yield number, at, text.decode("utf-8", "surrogateescape")
            at, number = at + len(line) + 1, number + 1
        if len(rest) > _LONGEST:
            raise _bad(view, at, f"line {number} is too long", f"a line of at most {_LONGEST} bytes", "more")


def _blocks(view: View) -> Iterator[bytes]:
    """Yield all bytes in parts, and no byte after the last."""
    yield from map(bytes, view.pieces())
    yield b""


def _first_of_two(cells: Sequence[str]) -> str:
    """Return the first cell that was there before."""
    seen: set[str] = set()
    for cell in cells:
        if cell in seen:
            return cell
        seen.add(cell)
    return ""


def _bad(view: View, at: int, problem: str, expected: str, found: str) -> BadValue:
    return BadValue(problem, format=_FORMAT, offset=view.offset(at), expected=expected, found=found, chain=view.chain)
