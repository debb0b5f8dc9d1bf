"""Is there a container in these bytes? A bounded look, with the lexer and not for a substring."""

from __future__ import annotations

import re

from fatpack.formats.cir.modules.outline import Outliner
from fatpack.formats.cir.words import CONTAINER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View

#: LIMIT: how much is looked at: the first operation, as far as its marker is expected; and no more than the last number
#: where a file begins with many alias definitions (the locations of arguments come first).
_WINDOW = 64 << 10
_REACH = 32 << 10
_DEFINITIONS = 64 << 20

#: LIMIT: how often the marker is looked at in a text that has it, and where it means nothing.
_MARKERS = 1000
_BEHIND_REGION = re.compile(rb'\}[ \t\r\n]*\)[ \t\r\n]*\{(?:[^{}"/]|"[^"\\\n]*")*\Z')

_DEFINITION = re.compile(rb"[#!][\w$.-]+[ \t]*=(?!=)|\{-#")

#: What textual MLIR can start with, behind blanks and comments.
_STARTS = frozenset(b'#!"{%') | frozenset(range(65, 91)) | frozenset(range(97, 123)) | {95}


class _Marked(Exception):
    """Not an error: the search is over."""


class _Detector(Outliner):
    def marked(self) -> None:
        raise _Marked


def is_container(view: View) -> bool:
    """Return whether a text is a container, or AMD's other representation of one."""
    if not _may_be_mlir(view.head(0, _WINDOW)):
        return False
    size = _WINDOW
    while True:
        detector = _Detector(view.slice(0, min(size, len(view))))
        try:
            damage = detector.outline().damage
        except _Marked:
            return True
        if size >= len(view):
            # Damage before the first operation hides what follows: the parser is to say so.
            hides = damage is not None and detector.first_operation is None and _begins(view.head(0, _WINDOW))
            return hides and view.find(CONTAINER) >= 0
        if detector.has_generic_module:
            # The attributes of a module in generic form stand behind it, which may be far.
            return _has_marker_behind_region(view)
        first = detector.first_operation
        if (first is not None and first + _REACH <= size) or size >= _DEFINITIONS:
            return False
        size *= 8


def _has_marker_behind_region(view: View) -> bool:
    """Return whether the marker stands in a dictionary behind a region; whether it counts is for the parser to say."""
    at = view.find(CONTAINER)
    for _ in range(_MARKERS):
        if at < 0:
            return False
        if _BEHIND_REGION.search(view.read(max(at - 4096, 0), min(at, 4096))):
            return True
        at = view.find(CONTAINER, at + 1)
    return False


def _may_be_mlir(head: bytes) -> bool:
    if b"\0" in head[:256]:
        return False
    text = _behind_comments(head)
    return bool(text) and text[0] in _STARTS


def _begins(head: bytes) -> bool:
    """Return whether a text begins as only MLIR does: with an alias definition, right or wrong, or with metadata."""
    return _DEFINITION.match(_behind_comments(head)) is not None


def _behind_comments(head: bytes) -> bytes:
    text = head.lstrip(b" \t\r\n")
    while text.startswith(b"//"):
        text = text.partition(b"\n")[2].lstrip(b" \t\r\n")
    return text
