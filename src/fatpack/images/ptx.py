"""PTX: NVIDIA's virtual assembly, as text. Its first directives state the target.

::

    // comments
    .version 9.0
    .target sm_90a, debug
    .address_size 64
    .visible .entry NAME( … )

CUDA 13 documentation, "PTX ISA", chapters on syntax and directives. Fat binaries store the text with a NUL at
its end and zero bytes up to a multiple of 8; the first NUL ends the text.
"""

from __future__ import annotations

from fatpack import limits
from fatpack.errors import LimitExceeded
from fatpack.images.identification import ImageInfo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fatpack.io.source import View


# PTX without comments and strings

#: Start of a comment or string → its end.
_CLOSERS = {b"//": b"\n", b"/*": b"*/", b'"': b'"'}


def strip_comments(pieces: Iterable[bytes | memoryview], unclosed: list[bytes] | None = None) -> Iterator[bytes]:
    """Yield a text in bounded parts, with a blank instead of each comment and string.

    Ends at the first NUL, where padding begins. Carriage returns become newlines. Comments are C's; strings end at
    ``"`` without a backslash before it. Both may cross pieces, and strings may cross lines (as fatbinary 13 reads PTX).
    ``unclosed`` gets the end that a comment or string lacks at the end of the text.
    """
    rest = closer = b""
    for block in _blocks(pieces):
        parts: list[bytes] = []
        closer, rest = _strip(rest + block, closer, parts)
        yield b"".join(parts)
    if not closer:
        yield rest
    elif unclosed is not None and closer != b"\n":
        unclosed.append(closer)


def _blocks(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    """Yield the pieces up to the first NUL, in blocks of bounded size."""
    for piece in pieces:
        for at in range(0, len(piece), limits.CHUNK):
            block, nul, _ = bytes(piece[at : at + limits.CHUNK]).partition(b"\0")
            yield block.replace(b"\r", b"\n")
            if nul:
                return


def _strip(text: bytes, closer: bytes, parts: list[bytes]) -> tuple[bytes, bytes]:
    """Append a block without its comments and strings to ``parts``.

    ``closer`` ends the comment or string in which the block begins, if any. Returns the closer at the block's end, and
    the last byte if its meaning depends on the next block. Each search starts where the last one stopped, so the time
    is linear for any text.
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


_BLANKS = b" \t\r\n\v\f"
_IDENTIFIER = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$%")

#: The three directives with version and target are among the first words.
_WORDS = 12

_ENTRY = b".entry"


#: first words of texts in the usual form → the result; a library has very many texts
_CLAIMS: dict[tuple[bytes, ...], ImageInfo] = {}
_MOST_CLAIMS = 1000


def identify_ptx_fast(text: bytes) -> ImageInfo | None:
    """Return the result of :func:`identify_ptx` for a text without leading comments; None if its first words are
    unusual."""
    words = tuple(text.split(None, 6)[:6])
    known = _CLAIMS.get(words)
    if known is not None:
        return known
    is_plain = words[::2] == (b".version", b".target", b".address_size") or (
        words[::2] == (b".version", b".target") and len(words) == 4
    )
    if not is_plain or any(byte in b'/",' for word in words for byte in word):
        return None
    if words[3].startswith(b"."):  # a directive instead of a target
        return None
    if len(_CLAIMS) >= _MOST_CLAIMS:
        _CLAIMS.clear()
    known = _CLAIMS[words] = identify_ptx(b" ".join(words))
    return known


def identify_ptx(text: bytes) -> ImageInfo:
    """Identify a PTX text, whose comments were removed, by its first directives."""
    words = [word.decode("ascii", "replace") for word in text.replace(b",", b" ").split(None, _WORDS)[:_WORDS]]
    version, target, bits = (_after(words, name) for name in (".version", ".target", ".address_size"))
    facts = [f"PTX {version}" if version.replace(".", "").isdecimal() else "PTX"]
    facts += [f"{bits}-bit"] if bits in ("32", "64") else []
    facts += ["debug"] if _after(words, target) == "debug" else []
    return ImageInfo(
        "ptx",
        target if target.isascii() and target.isidentifier() else "",
        "nvptx-nvidia-cuda" if bits == "32" else "nvptx64-nvidia-cuda",
        detail=", ".join(facts),
    )


def _after(words: list[str], name: str) -> str:
    """Return the word after a directive; "" if either is missing."""
    return words[words.index(name) + 1] if name in words[:-1] else ""


def kernels(view: View) -> tuple[str, ...]:
    """Return the names after ``.entry`` outside comments and strings. Raises LimitExceeded for names without end."""
    # Comments and strings become blanks, so a name that is not in the original text cannot appear.
    if len(view) <= limits.CHUNK and _ENTRY not in view.tobytes():
        return ()
    names: dict[str, None] = {}
    rest = b""
    for part in strip_comments(view.pieces()):
        rest = _entries(rest + part, names)
        if len(rest) > limits.PTX_NAME:
            raise LimitExceeded(
                "the name of a kernel does not end",
                format="ptx",
                offset=view.offset(0),
                field=".entry",
                expected=f"at most {limits.PTX_NAME} bytes",
                hint=limits.advice("PTX_NAME"),
                chain=view.chain,
            )
    _entries(rest + b"\n", names)
    return tuple(names)


def _entries(text: bytes, names: dict[str, None]) -> bytes:
    """Add the names of all kernels in ``text`` to ``names``; return the end, or the start of an incomplete one."""
    size, done = len(text), 0
    while (at := text.find(_ENTRY, done)) >= 0:
        start = at + len(_ENTRY)
        while start < size and text[start] in _BLANKS:
            start += 1
        end = start
        while end < size and text[end] in _IDENTIFIER:
            end += 1
        if end == size:
            return text[at:]
        done = at + len(_ENTRY)
        if done < start < end:
            names[text[start:end].decode("ascii")] = None
            done = end
    return text[max(done, size - len(_ENTRY) + 1) :]
