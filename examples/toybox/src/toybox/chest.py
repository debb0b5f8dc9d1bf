"""Toychest: a file that carries one container behind a header. All integers are little-endian.

The door is that of ``fatpack.binary``: it says where device code lies, and fatpack finds out what it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fatpack.binary import CodeSection
from fatpack.errors import Truncated
from fatpack.layout import Field, FormatInfo, Layout
from fatpack.model import Label

if TYPE_CHECKING:
    from fatpack.io.source import View

NAME = "toychest"
STARTS = (b"TOYCHEST",)

HEADER = Layout(
    NAME,
    "header",
    (Field("magic", "bytes[8]", "`TOYCHEST`"), Field("size", "u32", "bytes of device code behind this header")),
)
LAYOUTS = (HEADER,)

DOC = FormatInfo(
    name=NAME,
    title="Toychest",
    description="The host of this example.",
    references=("this file",),
    reads="all there are",
    writes="nothing",
    limitations=("Files are only read.",),
)

REFUSAL = ("toychests are not edited: this is an example", "make a new one")


def detect(view: View) -> bool:
    return view.head(0, 8) == STARTS[0]


def locate(view: View) -> Iterator[CodeSection]:
    yield CodeSection(view.slice(HEADER.size, _size(view)), section="toys", index=0)


def labels(view: View) -> Iterator[Label]:
    yield from HEADER.labels(view, 0)
    size = _size(view)
    if size:
        yield Label(view.span(HEADER.size, size), "toys", kind="data")
    end = HEADER.size + size
    if end < len(view):
        yield Label(view.span(end, len(view) - end), "behind the toys", kind="unknown")


def _size(view: View) -> int:
    (_, size) = HEADER.read(view, 0)
    left = len(view) - HEADER.size
    if size > left:
        raise Truncated(needed=size, left=left, format=NAME, offset=view.offset(8), field="size", chain=view.chain)
    return size
