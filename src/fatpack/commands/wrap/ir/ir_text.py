"""How LLVM IR spells things: bytes, names and numbers of globals."""

from __future__ import annotations

from fatpack.io.source import piece_parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fatpack.io.source import Piece

#: byte → how it stands between quotes: as it is if it can be printed, but for the quote and the backslash
_SPELLED = [chr(byte) if 0x20 <= byte < 0x7F and byte not in b'"\\' else f"\\{byte:02X}" for byte in range(256)]

#: The type of an offload entry.
ENTRY_TYPE = "%struct.__tgt_offload_entry"


def quote_bytes(data: bytes) -> str:
    """Return bytes as they stand between quotes."""
    return "".join(map(_SPELLED.__getitem__, data))


def global_name(text: str) -> str:
    """Return the name of a global, in quotes where it has other characters than LLVM writes without them."""
    plain = text.replace("_", "").replace(".", "").replace("$", "").replace("-", "")
    data = text.encode("utf-8", "surrogateescape")
    is_plain = plain.isascii() and (plain.isalnum() or not plain) and not text[:1].isdigit()
    return f"@{text}" if is_plain else f'@"{quote_bytes(data)}"'


def constant_array(pieces: Iterable[Piece], size: int) -> Iterator[bytes]:
    """Yield the type and the bytes of a constant array, in parts."""
    yield f"[{size} x i8] ".encode()
    parts = [bytes(part) for part in piece_parts(pieces)]
    if not any(any(part) for part in parts):
        yield b"zeroinitializer"
        return
    yield b'c"'
    for part in parts:
        yield quote_bytes(part).encode()
    yield b'"'


def element_pointer(size: int, symbol: str, offset: int, element: str = "i8") -> str:
    """Return a pointer to an element of an array that a global holds: the global itself for the first."""
    if not offset:
        return f"ptr {symbol}"
    return f"ptr getelementptr ([{size} x {element}], ptr {symbol}, i64 0, i64 {offset})"
