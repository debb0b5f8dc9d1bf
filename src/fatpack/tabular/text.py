"""Rows as text: JSON Lines, and CSV that a spreadsheet opens without running anything."""

from __future__ import annotations

from json.encoder import encode_basestring_ascii as quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from typing import Any

    from fatpack.tabular.columns import AnyRow, Row

#: Spreadsheets evaluate a cell that begins with one of these as a formula; names in files are untrusted.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")

#: Separators of list values in one cell, by column; the default is a blank, which names may contain.
_BETWEEN = {"chain": " → "}


def to_utf8(text: str) -> str:
    """Return text that can be encoded in UTF-8: other bytes of file names become escapes as in ``\\xff``."""
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def json_lines(rows: Iterable[AnyRow]) -> Iterator[str]:
    """Yield each row as a line of JSON."""
    for row in rows:
        yield f"{{{', '.join(f'{quoted(name)}: {_json(value)}' for name, value in row.to_dict().items())}}}\n"


def _json(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else "true" if value else "false"
    if isinstance(value, str):
        return quoted(to_utf8(value))
    if isinstance(value, list):
        return f"[{', '.join(map(_json, value))}]"
    return repr(value)


def csv_lines(rows: Iterable[AnyRow], kind: type[Row]) -> Iterator[str]:
    """Yield the names of the columns as one line, then each row.

    A text that a spreadsheet would evaluate as a formula gets an apostrophe in front. A list is one cell, its values
    separated by blanks, those of ``chain`` by arrows.
    """
    from csv import writer

    lines: list[str] = []
    write: Callable[[Iterable[object]], object] = writer(_Lines(lines), lineterminator="\n").writerow
    write(kind._fields)
    yield lines.pop()
    for row in rows:
        write(_cell(name, value) for name, value in row.to_dict().items())
        yield lines.pop()


class _Lines:
    """A file object for a writer of the csv module."""

    def __init__(self, lines: list[str]) -> None:
        self.write = lines.append


def _cell(name: str, value: Any) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = _BETWEEN.get(name, " ").join(value) if isinstance(value, list) else value
    if not isinstance(text, str):
        return text
    text = to_utf8(text)
    return f"'{text}" if text.startswith(_FORMULA) else text


def belongs_to_files(path: str, files: Collection[str]) -> bool:
    """Return whether the path of a row is one of these files, or in one of them that is a package."""
    at = len(path)
    while at >= 0:
        if path[:at] in files:
            return True
        at = path.rfind("!", 0, at)
    return False
