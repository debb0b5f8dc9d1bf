"""What every picture is made of: the drawing itself, labels that fit, and a file of its own."""

from __future__ import annotations

from fatpack.commands.report.colours import PICTURE_STYLE, colour_style
from fatpack.text.markup import Markup, element

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: The width of a character of the labels, of 11 pixels, in the widest of the fonts (DejaVu Sans).
_WIDTH = 6.8


def svg_element(width: float, height: float, title: str, *content: str) -> Markup:
    """Return a drawing with a title for readers that see no pictures; it is as wide as there is room."""
    return element(
        "svg",
        *content,
        class_="pic",
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        aria_label=title,
        xmlns="http://www.w3.org/2000/svg",
    )


def standalone_svg(picture: Markup, families: Iterable[str]) -> str:
    """Return a drawing as a file of its own: with its style, and an XML declaration."""
    head, _, rest = picture.partition(">")
    _, _, box = head.partition('viewBox="0 0 ')
    width, height = box.partition('"')[0].split()
    sheet = f"<style>{colour_style(families)}{PICTURE_STYLE}svg.pic{{background:var(--paper)}}</style>"
    text = f'{head} width="{width}" height="{height}">{sheet}{rest}'
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def fit_text(text: str, width: float) -> str:
    """Return a label cut so that it fits into a width; nothing if there is no room for three characters."""
    room = int(width / _WIDTH)
    if room < 3:
        return ""
    return text if len(text) <= room else f"{text[: room - 1]}…"


def text_element(text: str, x: float, y: float, class_: str | None = None) -> Markup:
    """Return a text at a place."""
    return element("text", text, x=x, y=y, class_=class_)


def rect_element(x: float, y: float, width: float, height: float, class_: str, radius: float | None = None) -> Markup:
    """Return a rectangle."""
    return element("rect", x=x, y=y, width=width, height=height, class_=class_, rx=radius)
