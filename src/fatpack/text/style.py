"""Terminal output: colour for a few words, and tables that fit. Files and pipes get plain text.

A command decides once (``fatpack.command_line.terminal.get_style``) and hands the :class:`Style` to what renders.
Colour comes last, after the words are in their columns: code that measures text sees none of it.
"""

from __future__ import annotations

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any, TextIO


# Words for people: safe printing, aligned columns, lines of text. No colour, no width guessing.

#: LIMIT: cells are aligned up to this width, more than paths have; a longer one pushes its own line only: a name of
#: 64 KiB must not make all lines as long.
WIDEST = 240


def align_columns(rows: Sequence[Sequence[str]], right: Sequence[int] = (), indent: str = "") -> list[str]:
    """Return rows as lines with aligned columns two blanks apart; ``right`` are the columns aligned to the right."""
    return list(column_lines(rows, right, indent))


def column_lines(rows: Sequence[Sequence[str]], right: Sequence[int] = (), indent: str = "") -> Iterator[str]:
    """Yield the lines that :func:`align_columns` returns."""
    if len(rows) < 2:  # nothing to align: most places of an archive hold one image
        yield from ((indent + "  ".join(filter(None, row))).rstrip() for row in rows)
        return
    widths = [_width(list(map(len, column))) for column in zip(*rows, strict=True)]
    # One format for all rows; a column in which nothing is takes no place.
    cells = [f"{{{n}:{'>' if n in right else '<'}{width}}}" for n, width in enumerate(widths) if width]
    line = (indent.replace("{", "{{").replace("}", "}}") + "  ".join(cells)).format
    for row in rows:
        yield line(*row).rstrip()


def _width(lengths: Sequence[int]) -> int:
    """Return the length of the longest cell that others are aligned with; 0 if nothing is in any."""
    widest = max(lengths)
    if widest <= WIDEST:
        return widest
    return max((length for length in lengths if length <= WIDEST), default=0) or 1


def write_lines(lines: Iterable[str], out: TextIO) -> None:
    """Write lines to a stream of text; characters its encoding lacks are escaped."""
    for line in lines:
        try:
            out.write(f"{line}\n")
        except UnicodeEncodeError:
            encoding = out.encoding or "utf-8"
            out.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")


def is_fat_object(container: Mapping[str, Any]) -> bool:
    """Return :attr:`fatpack.model.Container.is_fat_object` of the container that a JSON record shows."""
    flavour: str = container["attrs"].get("flavour", "")
    return flavour == "object"


#: role → SGR parameters (ECMA-48, 8.3.117). Few: what is wrong, what is missing, what is good, and headings.
_CODES = {
    "error": "31",
    "warning": "33",
    "note": "36",
    "missing": "31",
    "good": "32",
    "heading": "1",
    "faint": "2",
}

_SEVERITIES = ("error", "warning", "note")

#: words in cells for a missing value, alone or after a number; and titles that have another role than headings
_MISSING = ("missing", "lost")
_TITLES = {"lost": "missing", "could not be read": "error"}

#: LIMIT: columns that a name which is shortened keeps at least.
NARROWEST = 16


class Style(Record):
    """Colour or none, and the number of columns; 0 if lines may have any length."""

    is_coloured: bool = False
    width: int = 0

    def painted(self, text: str, role: str) -> str:
        """Return text in the colour of a role; as it is without colour, and if it has no role."""
        code = _CODES.get(role) if self.is_coloured and text else None
        return f"\x1b[{code}m{text}\x1b[0m" if code else text


#: The style of files and pipes.
PLAIN = Style()


def colorize(lines: Iterable[str], style: Style) -> Iterable[str]:
    """Return finished lines as a terminal shows them: few words in colour, and long words without their middle.

    Severities have colour, and so has the text before the colon of a heading, a line that is not indented. Lines below
    a heading that are too wide lose the middle of long words at their end; findings stay.
    """
    return (_shown(line, style) for line in lines) if style.is_coloured or style.width else lines


def _shown(line: str, style: Style) -> str:
    bare = line.lstrip(" ")
    indent = line[: len(line) - len(bare)]
    before = "fatpack: " if bare.startswith("fatpack: ") else ""
    word, blank, rest = bare[len(before) :].partition(" ")
    severity = word.rstrip(":")
    if severity in _SEVERITIES:
        return f"{indent}{before}{style.painted(word, severity)}{blank}{rest}"
    if not indent:
        title, colon, rest = bare.partition(": ")
        role = _TITLES.get(title, "heading")
        return f"{style.painted(title, role)}{colon}{rest}" if colon and not before else line
    line = _narrowed(line, style.width) if style.width else line
    return _with_missing(line, style) if style.is_coloured else line


def _with_missing(line: str, style: Style) -> str:
    """Return a line of a table whose cells that say that something is missing have their colour: ``2 lost``."""
    if not any(word in line for word in _MISSING):
        return line
    cells = line.split("  ")
    for at, cell in enumerate(cells):
        words = [style.painted(word, "missing") if _is_missing(word) else word for word in cell.split(", ")]
        cells[at] = ", ".join(words)
    return "  ".join(cells)


def _is_missing(text: str) -> bool:
    count, _, word = text.strip(" ").rpartition(" ")
    return word in _MISSING and (not count or count.isdecimal())


def _narrowed(line: str, width: int) -> str:
    """Return a line in whose last column the longest words lose their middle, until it fits or none is long.

    The columns before it are aligned, and their text stays.
    """
    over = len(line) - width
    if over <= 0:
        return line
    before, gap, last = line.rpartition("  ")
    words = last.split(" ")
    while over > 0:
        at = max(range(len(words)), key=lambda number: len(words[number]))
        length = len(words[at])
        if length <= NARROWEST:
            break
        words[at] = ellipsize(words[at], max(NARROWEST, length - over))
        over -= length - len(words[at])
    return before + gap + " ".join(words)


def wrap_lines(lines: Iterable[str], width: int) -> Iterator[str]:
    """Yield lines, those wider than ``width`` (0: any) in pieces cut at blanks: what is to be typed stays whole.

    Wrapped lines begin below the last column if that is in the left half, else a little further in.
    """
    for line in lines:
        yield from _wrapped(line, width) if 0 < width < len(line) else (line,)


def _wrapped(line: str, width: int) -> Iterator[str]:
    indent = len(line) - len(line.lstrip(" "))
    gap = line.rfind("  ", indent)
    margin = " " * (gap + 2 if 0 <= gap <= width // 2 - 2 else min(indent, width // 4) + 2)
    while len(line) > width:
        cut = line.rfind(" ", len(margin), width + 1)
        if cut < 0:
            cut = line.find(" ", width)
        if cut < 0 or not line[:cut].strip():
            break
        yield line[:cut].rstrip()
        line = margin + line[cut:].lstrip(" ")
    yield line


def ellipsize(text: str, width: int) -> str:
    """Return text in at most ``width`` columns: a longer one loses its middle, for names differ at their ends."""
    if len(text) <= width:
        return text
    head = (width - 1) // 2
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"


def table_lines(
    rows: Sequence[Sequence[str]],
    style: Style = PLAIN,
    *,
    right: Collection[int] = (),
    indent: str = "",
    names: Collection[int] = (),
    role: Callable[[int, int], str] | None = None,
) -> Iterator[str]:
    """Yield rows as lines with aligned columns two blanks apart; ``right`` are the columns aligned to the right.

    ``names`` are the columns whose cells may lose their middle where a line would be wider than the terminal.
    ``role`` returns that of a cell by its row and column, or ``""``: see :meth:`Style.painted`.
    """
    if not style.is_coloured and not style.width:
        yield from column_lines(rows, tuple(right), indent)
        return
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)] if rows else []
    if style.width:
        _narrow(widths, names, style.width - len(indent))
    for at, row in enumerate(rows):
        cells = []
        for column, (text, width) in enumerate(zip(row, widths, strict=True)):
            if not width:
                continue  # a column in which nothing is takes no place
            cell = ellipsize(text, width) if column in names else text
            padding = " " * (width - len(cell))
            cell = style.painted(cell, role(at, column)) if role else cell
            cells.append(padding + cell if column in right else cell + padding)
        yield (indent + "  ".join(cells)).rstrip()


def _narrow(widths: list[int], names: Collection[int], room: int) -> None:
    """Take columns away from the widest names until the lines fit, or no name can give any more."""
    over = sum(widths) + 2 * (sum(map(bool, widths)) - 1) - room
    while over > 0:
        widest = max((column for column in names if widths[column] > NARROWEST), key=widths.__getitem__, default=None)
        if widest is None:
            return
        next_one = max([NARROWEST, *(widths[column] for column in names if widths[column] < widths[widest])])
        less = min(over, max(1, widths[widest] - next_one))
        widths[widest] -= less
        over -= less
