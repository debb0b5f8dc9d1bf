"""Is there a container in these bytes? Asked of the lexer, not of a search, and mostly answered by the first bytes."""

from __future__ import annotations

from fatpack.formats.cir.expressions import LazyExpression
from fatpack.formats.cir.modules.outline import Outliner
from fatpack.formats.cir.text.lexer import MARGIN
from fatpack.formats.cir.vocabulary import CONTAINER, OFFLOAD_MODULE, OFFLOAD_SYMBOL, PROTOTYPE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View

#: How much is looked at first. All is only gone through where that may be MLIR and a word of containers is somewhere.
_WINDOW = 64 << 10

#: What every container, or AMD's other representation of one, has somewhere.
_WORDS = (CONTAINER, PROTOTYPE, OFFLOAD_MODULE, OFFLOAD_SYMBOL.encode())

_DEFINITION = LazyExpression(rb"[#!][\w$.-]+[ \t]*=(?!=)|\{-#")

#: What textual MLIR can start with, behind blanks and comments.
_STARTS = frozenset(b'#!"{%') | frozenset(range(65, 91)) | frozenset(range(97, 123)) | {95}


_COMMENTS = LazyExpression(rb"(?:[ \t\r\n]++|//[^\r\n]*+)*+")


class _ContainerFound(Exception):
    """Not an error: the search is over."""


class _Detector(Outliner):
    def on_container(self) -> None:
        raise _ContainerFound


def is_text_container(view: View) -> bool:
    """Return whether a text is a container, or AMD's other representation of one."""
    head = view.head(0, _WINDOW)
    if not _may_be_mlir(head):
        return False
    if len(view) <= _WINDOW:
        return _is_marked(view)
    detector = _Detector(view.slice(0, _WINDOW))
    try:
        damage = detector.outline().damage
    except _ContainerFound:
        return True
    # Behind the end of the window anything may follow; damage that is not there is damage, whatever does.
    is_cut = damage is None or damage.offset is None or damage.offset - view.offset(0) > _WINDOW - MARGIN
    if not is_cut and not _begins(head):
        return False
    return any(view.find(word) >= 0 for word in _WORDS) and _is_marked(view)


def _is_marked(view: View) -> bool:
    """Return whether all of a text has a container where one counts."""
    detector = _Detector(view)
    try:
        damage = detector.outline().damage
    except _ContainerFound:
        return True
    # Damage before the first operation hides what follows: the parser is to say so.
    hides = damage is not None and detector.first_operation is None and _begins(view.head(0, _WINDOW))
    return hides and view.find(CONTAINER) >= 0


def _may_be_mlir(head: bytes) -> bool:
    if b"\0" in head[:256]:
        return False
    text = _behind_comments(head)
    if text in (b"", b"/"):  # nothing but comments so far
        return head.lstrip(b" \t\r\n\0").startswith(b"//")
    return text[0] in _STARTS


def _begins(head: bytes) -> bool:
    """Return whether a text begins as only MLIR does: with an alias definition, right or wrong, or with metadata."""
    return _DEFINITION.match(_behind_comments(head)) is not None


def _behind_comments(head: bytes) -> bytes:
    found = _COMMENTS.match(head)
    return head[found.end() :] if found else head
