"""HTML and SVG made of elements. Text becomes markup in one place, where it is escaped."""

from __future__ import annotations

from fatpack.printable import escape_html

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: Elements of HTML that have no content and no end.
_EMPTY = frozenset(("br", "hr", "input", "meta", "link", "wbr"))


class Markup(str):
    """Text that is markup already, made by the functions of this module."""

    __slots__ = ()


def escape_markup(text: str) -> Markup:
    """Return text as markup that shows it: control characters, also bidirectional ones, as escapes."""
    if isinstance(text, Markup):
        return text
    if "\n" in text:  # lines of titles and lists are ours; names have no line of their own
        return Markup("\n".join(map(escape_markup, text.split("\n"))))
    return Markup(escape_html(text))


def element(tag: str, /, *content: str, **attributes: str | int | float | bool | None) -> Markup:
    """Return an element with its content; what is not :class:`Markup` is escaped.

    ``class_`` is ``class``, ``data_x`` is ``data-x``. An attribute that is None or False is left out, and one that is
    True has its name for a value, so that the markup is XML too.
    """
    words = "".join(
        _attribute(name, value) for name, value in attributes.items() if value is not None and value is not False
    )
    if tag in _EMPTY:
        return Markup(f"<{tag}{words}>")
    return Markup(f"<{tag}{words}>{join_markup(content)}</{tag}>")


def _attribute(name: str, value: object) -> str:
    name = name.rstrip("_").replace("_", "-")
    if value is True:
        return f' {name}="{name}"'
    if isinstance(value, float):
        value = format_coordinate(value)
    return f' {name}="{escape_markup(str(value))}"'


def join_markup(content: Iterable[str]) -> Markup:
    """Return several texts and elements as one."""
    return Markup("".join(map(escape_markup, content)))


def format_coordinate(value: float) -> str:
    """Return a coordinate with one digit after the point at most."""
    text = f"{value:.1f}"
    return text.removesuffix(".0")
