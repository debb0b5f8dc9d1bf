"""The code of a PTX text: what is left without its comments and strings."""

from __future__ import annotations

from fatpack import limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Comments and strings → what ends them.
_CLOSERS = {b"//": b"\n", b"/*": b"*/", b'"': b'"'}


def strip_comments(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    """Yield a text in bounded parts without its comments and strings; each of those becomes a blank.

    Ends at the first NUL: what follows is padding. Carriage returns become newlines. Comments are C's, strings end
    at ``"`` unless a backslash is before it; both may cross pieces, and strings lines (as fatbinary 13 reads PTX).
    """
    rest = closer = b""
    for block in _blocks(pieces):
        parts: list[bytes] = []
        closer, rest = _strip(rest + block, closer, parts)
        yield b"".join(parts)
    if not closer:
        yield rest


def _blocks(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    """Yield the pieces up to the first NUL, in blocks of bounded size."""
    for piece in pieces:
        for at in range(0, len(piece), limits.CHUNK):
            block, nul, _ = bytes(piece[at : at + limits.CHUNK]).partition(b"\0")
            yield block.replace(b"\r", b"\n")
            if nul:
                return


def _strip(text: bytes, closer: bytes, parts: list[bytes]) -> tuple[bytes, bytes]:
    """Append the code of a block to ``parts``.

    ``closer`` is what ends the comment or string that the block begins in, or nothing. Returns the same for its
    end, and the last byte where the next block decides what it means. Each search runs from where the last one
    stopped, so the time is linear whatever the text.
    """
    size = len(text)
    at, slash, quote = 0, -1, -1
    while True:
        if closer:
            end = text.find(closer, at)
            while end > 0 and closer == b'"' and text[end - 1 : end] == b"\\":
                end = text.find(closer, end + 1)
            if end < 0:
                last = text[max(at, size - 1) :]
                return closer, last if last in (b"*", b"\\") else b""
            at = end + len(closer)
            closer = b""
        if slash < at:
            slash = text.find(b"/", at)
            slash = size if slash < 0 else slash
        if quote < at:
            quote = text.find(b'"', at)
            quote = size if quote < 0 else quote
        start = min(slash, quote)
        if start == size:
            parts.append(text[at:])
            return b"", b""
        opener = text[slash : slash + 2] if start == slash else b'"'
        if opener == b"/":
            parts.append(text[at:slash])
            return b"", opener
        if opener not in _CLOSERS:
            parts.append(text[at : slash + 1])
            at = slash + 1
            continue
        parts.append(text[at:start] + b"\n")
        closer = _CLOSERS[opener]
        at = start + len(opener)
