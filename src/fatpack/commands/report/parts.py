"""What sections are made of: a section, a table, a chip in the colour of an architecture, a bar."""

from __future__ import annotations

from fatpack.commands.report.colours import family_with_colour
from fatpack.commands.report.words import shorten_name
from fatpack.printable import format_size
from fatpack.text.markup import Markup, element, join_markup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def page_section(name: str, title: str, lead: str, *content: str) -> Markup:
    """Return a section: ``name`` is where links lead, ``lead`` a sentence below the title."""
    words = [element("h2", title)]
    if lead:
        words.append(element("p", lead, class_="lead"))
    return element("section", *words, *content, id=name)


def arch_chip(label: str, family: str) -> Markup:
    """Return the name of an architecture with its colour."""
    return element("span", element("i", class_=f"dot f-{family_with_colour(family)}"), label, class_="chip")


def name_element(text: str, most: int = 160) -> Markup:
    """Return a name from a file: in the font of code, cut in its middle if it is very long, whatever way it is read."""
    if len(text) <= most:
        return element("bdi", text, class_="name")
    return element("bdi", shorten_name(text, most), class_="name", title=shorten_name(text))


def size_cell(size: int | None) -> Markup:
    """Return a cell with a size, and the number by which it is sorted."""
    if size is None:
        return element("td", "–", class_="n soft", data_v=-1)
    return element("td", format_size(size), class_="n", data_v=size)


def count_cell(count: int | None) -> Markup:
    """Return a cell with a number."""
    if count is None:
        return element("td", "–", class_="n soft", data_v=-1)
    return element("td", f"{count:,}", class_="n", data_v=count)


def table_element(name: str, heads: Sequence[tuple[str, bool]], rows: Iterable[str], *, finds: str = "") -> Markup:
    """Return a table; ``heads`` are the words above each column, and whether it is of numbers.

    With ``finds``, what a filter looks for in words, a script puts a filter above it, and lets columns be sorted.
    """
    cells = [element("th", words, scope="col", class_="n" if is_number else None) for words, is_number in heads]
    head = element("thead", element("tr", *cells))
    body = element("tbody", Markup("\n".join(rows)))
    made = element("div", element("table", head, body, id=name, class_="sorted" if finds else None), class_="scroll")
    if not finds:
        return made
    box = element("input", type="search", data_for=name, placeholder=finds, aria_label=finds)
    count = element("output", data_of=name)
    return join_markup((element("p", box, " ", count, class_="filter", hidden=True), made))
