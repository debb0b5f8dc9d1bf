"""Results of library functions: frozen records with a verdict, as plain data, JSON text, and a table in notebooks."""

from __future__ import annotations

from fatpack.printable import escape_html, printable
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

#: LIMIT: rows of a list in a notebook's table, depth of nested tables, and characters of a cell.
_ROWS, _DEPTH, _LETTERS = 20, 2, 200

#: lines about problems in the text of a result
MAX_PROBLEM_LINES = 5


class Result(Record):
    """The base class of results: ``verdict`` in a word; ``exit_code`` of the command; true if that is 0.

    A :class:`fatpack.DiffResult` has no truth value: write its ``differs``.

    ``to_dict`` is the output of the command with ``--json``; it always has ``schema`` and ``exit_code``. ``str`` has
    the important lines, ``repr`` the first of them.
    """

    @property
    def exit_code(self) -> int:
        """The exit code of the command."""
        return 0

    @property
    def verdict(self) -> str:
        """The outcome in a word."""
        return "failed" if self.exit_code else "fine"

    def __bool__(self) -> bool:
        return self.exit_code == 0

    def lines(self) -> Sequence[str]:
        """Return the important lines, the most important first."""
        return (self.verdict,)

    def __str__(self) -> str:
        return "\n".join(printable(line) for line in self.lines())

    def __repr__(self) -> str:
        first = printable(self.lines()[0])
        return f"<fatpack.{type(self).__name__} {first if len(first) <= _LETTERS else f'{first[:_LETTERS]}…'}>"

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain data: dictionaries, lists, strings, numbers, None."""
        data: dict[str, Any] = to_plain_data(self)
        return data

    def to_json(self) -> str:
        """Return the result as JSON text that ends with a line break."""
        from json import dumps

        return dumps(self.to_dict(), indent=1) + "\n"

    def _repr_html_(self) -> str:
        """Return the verdict and a small table for notebooks; everything else is folded.

        Everything is escaped, without scripts, and long lists are cut.
        """
        data = self.to_dict()
        title, *lines = self.lines()
        small = {str(number + 1): line for number, line in enumerate(lines[:_ROWS])}
        if not small:
            small = {name: value for name, value in data.items() if not isinstance(value, (dict, list))}
        rest = to_html_table(f"fatpack.{type(self).__name__}", data)
        return f"{to_html_table(title, small)}<details><summary>all of it</summary>{rest}</details>"


def to_plain_data(value: object) -> Any:
    """Return a record as a dictionary and tuples as lists, recursively, as for JSON.

    Fields whose names begin with an underscore are left out.
    """
    if isinstance(value, Record):
        return {name: to_plain_data(getattr(value, name)) for name in type(value)._fields if not name.startswith("_")}
    if isinstance(value, (tuple, list)):
        return [to_plain_data(item) for item in value]
    return value


def to_html_table(title: str, data: Mapping[str, Any]) -> str:
    """Return plain data as a small table with a title: a row for each key, nested tables for lists of dictionaries."""
    return "".join(["<table><caption>", _escaped(title), "</caption>", *_rows(data, _DEPTH), "</table>"])


def _rows(data: Mapping[str, Any], depth: int) -> Iterator[str]:
    for name, value in data.items():
        yield f'<tr><th style="text-align:left">{_escaped(name)}</th><td style="text-align:left">'
        yield from _cell(value, depth)
        yield "</td></tr>"


def _cell(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, dict):
        if value and depth:
            yield from ("<table>", *_rows(value, depth - 1), "</table>")
        else:
            yield f"{len(value)} more" if value else "-"
    elif isinstance(value, (list, tuple)):
        yield from _list(value, depth)
    elif value is None or value == "":
        yield "-"
    else:
        yield _escaped(f"{value:,}" if type(value) is int else str(value))


def _list(items: Sequence[Any], depth: int) -> Iterator[str]:
    """Yield a list: dictionaries with the same keys as a table with a header, anything else as text."""
    if not items:
        yield "-"
        return
    shown = items[:_ROWS]
    if not all(isinstance(item, dict) for item in shown):
        yield ", ".join(_escaped(str(item)) for item in shown)
    elif not depth:
        yield f"{len(items):,}"
        return
    else:
        keys = list(dict.fromkeys(key for item in shown for key in item))
        yield f"<table><tr>{''.join(f'<th>{_escaped(key)}</th>' for key in keys)}</tr>"
        for item in shown:
            yield "<tr>"
            for key in keys:
                yield "<td>"
                yield from _cell(item.get(key), depth - 1)
                yield "</td>"
            yield "</tr>"
        yield "</table>"
    if len(items) > len(shown):
        yield f" … {len(items) - len(shown):,} more"


def _escaped(text: str) -> str:
    """Return text from files, cut and escaped for HTML."""
    return escape_html(text if len(text) <= _LETTERS else f"{text[:_LETTERS]}…")
