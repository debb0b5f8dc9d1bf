"""Text from files becomes markup that shows it and does nothing else."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from fatpack.printable import printable
from fatpack.text.markup import Markup, element, escape_markup, format_coordinate, join_markup


@given(st.text(st.characters(codec=None), max_size=40))
def test_any_text_comes_back_as_it_is_printed(text: str) -> None:
    made = element("p", text, title=text)
    node = ET.fromstring(made)
    lines = "\n".join(map(printable, text.split("\n")))
    assert (node.text or "") == lines
    assert ET.fromstring(element("p", data_x=text.replace("\n", ""))).get("data-x") == printable(text.replace("\n", ""))


def test_characters_that_turn_the_direction_are_shown_as_escapes() -> None:
    assert escape_markup("a\u202eb\x1b[31m\x00") == "a\\u202eb\\x1b[31m\\x00"


def test_markup_is_escaped_once() -> None:
    inner = element("b", "<&>")
    assert inner == "<b>&lt;&amp;&gt;</b>"
    assert join_markup((inner, "<")) == "<b>&lt;&amp;&gt;</b>&lt;"
    assert isinstance(escape_markup(inner), Markup)


def test_attributes_that_are_absent_are_left_out() -> None:
    assert (
        element("input", type="search", hidden=True, value=None, checked=False)
        == '<input type="search" hidden="hidden">'
    )
    assert element("td", data_v=0) == '<td data-v="0"></td>'


def test_coordinates_are_short() -> None:
    assert [format_coordinate(value) for value in (1.0, 0.26, 10.04)] == ["1", "0.3", "10"]
