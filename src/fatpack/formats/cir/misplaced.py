"""Attributes of containers on operations that are no modules, which the verifier of the CIR dialect refuses."""

from __future__ import annotations

import re

from fatpack.formats.cir.patterns import OPERATION
from fatpack.formats.cir.text import BLANKS, STRING
from fatpack.formats.cir.verify import Breach
from fatpack.formats.cir.words import CONTAINER, KIND, MODULE_NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fatpack.formats.cir.stored import Module, Outline
    from fatpack.io.source import View

#: What both words start with: one search finds them.
_PREFIX = b"cir.offload."

#: LIMIT: occurrences of the words that are looked at, and bytes of a line before one.
_MOST = 10_000
_LINE = 1 << 16

_STRING = re.compile(STRING)


def misplaced(outline: Outline) -> Iterator[Breach]:
    """Yield a breach for every such attribute on an operation that is known, from its line, to be no module."""
    view = outline.text
    known = set(_keys(outline.modules))
    at = view.find(_PREFIX)
    for _ in range(_MOST):
        if at < 0:
            return
        head = view.head(at, len(CONTAINER))
        word = next((word for word in (CONTAINER, KIND) if head.startswith(word)), None)
        if word and at not in known and _is_attribute(view, at, len(word)):
            yield Breach("FP1502", at, f"expects '{word.decode()}' attribute to be attached to 'builtin.module'")
        at = view.find(_PREFIX, at + len(_PREFIX))


def _keys(modules: Iterable[Module]) -> Iterator[int]:
    for module in modules:
        yield from (attr.key[0] for attr in module.attrs)
        yield from _keys(module.modules)


def _is_attribute(view: View, at: int, size: int) -> bool:
    """Return whether the word at a position is the name of an attribute, and of what is no module."""
    if view.head(at + size, 64).lstrip(BLANKS)[:1] not in (b"=", b",", b"}"):
        return False
    before = view.read(max(at - _LINE, 0), min(at, _LINE))
    line = _STRING.sub(b'""', before[before.rfind(b"\n") + 1 :].strip(BLANKS))
    if line[-1:] not in (b"{", b",") or b"//" in line or line.count(b'"') % 2:
        return False
    found = OPERATION.match(before[before.rfind(b"\n") + 1 :].lstrip(BLANKS))
    if found is None or not found.lastindex:
        return False
    name = found[found.lastindex]
    return b"." in name and name not in MODULE_NAMES and name != CONTAINER
