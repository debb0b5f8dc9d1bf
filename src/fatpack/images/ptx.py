"""PTX: NVIDIA's virtual assembly, as text. What it is made for is in its first directives.

::

    // comments
    .version 9.0
    .target sm_90a, debug
    .address_size 64
    .visible .entry NAME( … )

CUDA 13 documentation, "PTX ISA", chapters on syntax and directives. Fat binaries store the text with a NUL at
its end and zero bytes up to a multiple of 8; everything from the first NUL on is no text.
"""

from __future__ import annotations

from fatpack import limits
from fatpack.errors import LimitExceeded
from fatpack.images.identification import ImageInfo
from fatpack.images.ptx_code import strip_comments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View

_BLANKS = b" \t\r\n\v\f"
_IDENTIFIER = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$%")

#: The three directives that say what the text is for stand among its first words.
_WORDS = 12

_ENTRY = b".entry"


#: the first words of texts that begin as compilers write them → what they claim; a library has very many texts
_CLAIMS: dict[tuple[bytes, ...], ImageInfo] = {}
_MOST_CLAIMS = 1000


def identify_ptx_fast(text: bytes) -> ImageInfo | None:
    """Return what :func:`claim` does, of a text without comments ahead; None if its first words are not the usual."""
    words = tuple(text.split(None, 6)[:6])
    known = _CLAIMS.get(words)
    if known is not None:
        return known
    is_plain = words[::2] == (b".version", b".target", b".address_size") or (
        words[::2] == (b".version", b".target") and len(words) == 4
    )
    if not is_plain or any(byte in b'/",' for word in words for byte in word):
        return None
    if words[3].startswith(b"."):  # a directive in the place of a target
        return None
    if len(_CLAIMS) >= _MOST_CLAIMS:
        _CLAIMS.clear()
    known = _CLAIMS[words] = identify_ptx(b" ".join(words))
    return known


def identify_ptx(text: bytes) -> ImageInfo:
    """Return what the first directives of a PTX text say; its comments are gone already."""
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
    """Return the word that follows a directive; "" without either."""
    return words[words.index(name) + 1] if name in words[:-1] else ""


def kernels(view: View) -> tuple[str, ...]:
    """Return the names behind ``.entry``, outside of comments and strings. Raises LimitExceeded for endless names."""
    # Comments and strings that are left out become blanks: what is not there before is not there afterwards.
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
    """Add the names of all kernels in ``text`` to ``names``; return the end, where one may have begun."""
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
