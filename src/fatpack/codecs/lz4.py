"""An LZ4 block in pieces: LZ4's own library inflates a block whole, which takes the memory of all that is in it.

A large block is walked by its sequences. So many of them as make a piece are given to the library as a block of their
own, with the 64 KiB before them as its dictionary: a match reaches no further back. What one sequence makes has no
bound, so long ones are made here. ``lz4_Block_format.md`` of LZ4 1.10.
"""

from __future__ import annotations

from fatpack.codecs.lz4_block import LENGTH_CONTINUES, MIN_MATCH, LZ4BlockError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View

__all__ = ["LZ4BlockError", "inflate_block_pieces"]

#: How far back a match reaches, at most.
_REACH = 64 << 10

#: Bytes that are made at a time, and stored bytes that are read at a time: any sequence that is not long is in them.
_PIECE = 256 << 10
_READ = 256 << 10

#: Literals or a match of so many bytes and more are made here, not by the library.
_LONG = 64 << 10

#: A last sequence of eight literals: the library wants a block to end in five, and the step before it to end earlier.
_END = b"\x80" + bytes(8)
_END_SIZE = 8

#: What the library is allowed beyond the bytes that come out: it checks how far they are from the end of its buffer.
_SLACK = 64


def inflate_block_pieces(block: View) -> Iterator[bytes]:
    """Yield what a block inflates to, in pieces of about 256 KiB. Raises LZ4BlockError for a damaged one."""
    at, past = 0, b""
    while at < len(block):
        read = block.head(at, _READ)
        end, size = _walked(read)
        if size:
            piece = _decoded(read[:end], size, past)
            yield piece
            past = _last(past, piece)
            at += end
            continue
        token, at = read[0], at + 1
        count, at = _count(block, at, token >> 4)
        if at + count > len(block):
            raise LZ4BlockError("it ends in the middle of a sequence")
        for stored in block.slice(at, count).pieces():
            piece = bytes(stored)
            yield piece
            past = _last(past, piece)
        at += count
        if at == len(block):
            return
        distance = int.from_bytes(block.head(at, 2), "little")
        count, at = _count(block, at + 2, token & LENGTH_CONTINUES)
        for piece in _match(past, distance, count + MIN_MATCH):
            yield piece
            past = _last(past, piece)
    raise LZ4BlockError("it ends in the middle of a sequence")


def _walked(read: bytes) -> tuple[int, int]:
    """Return where short sequences end that are here whole, and how many bytes they make: up to about a piece."""
    at = start = made = 0
    try:
        while made < _PIECE:
            token = read[at]
            at += 1
            literals = token >> 4
            if literals == LENGTH_CONTINUES:
                more = 255
                while more == 255 and literals < _LONG:
                    more = read[at]
                    literals += more
                    at += 1
            at += literals + 2
            match = token & LENGTH_CONTINUES
            if match == LENGTH_CONTINUES:
                more = 255
                while more == 255 and match < _LONG:
                    more = read[at]
                    match += more
                    at += 1
            if at > len(read) or literals >= _LONG or match >= _LONG:
                break
            start = at
            made += literals + match + MIN_MATCH
    except IndexError:
        pass  # the last one is not here whole
    return start, made


def _decoded(sequences: bytes, size: int, past: bytes) -> bytes:
    """Return the ``size`` bytes that sequences make behind those that came before."""
    import lz4.block

    try:
        made = lz4.block.decompress(sequences + _END, uncompressed_size=size + _END_SIZE + _SLACK, dict=past)
    except lz4.block.LZ4BlockError as error:
        raise LZ4BlockError("a match starts before it does") from error
    return bytes(made[:size])


def _last(past: bytes, piece: bytes) -> bytes:
    """Return what a match behind a piece can reach."""
    return piece[-_REACH:] if len(piece) >= _REACH else (past + piece)[-_REACH:]


def _count(block: View, at: int, count: int) -> tuple[int, int]:
    """Return a count whose first part a token has, and where the rest of it ends."""
    more = count == LENGTH_CONTINUES
    while more:
        read = block.head(at, _READ)
        if not read:
            raise LZ4BlockError("it ends in the middle of a sequence")
        full = len(read) - len(read.lstrip(b"\xff"))
        more = full == len(read)
        count += 255 * full + (0 if more else read[full])
        at += full + (not more)
    return count, at


def _match(past: bytes, distance: int, count: int) -> Iterator[bytes]:
    """Yield the bytes of a match; it may reach into the bytes that it makes: they repeat what is there."""
    if not 0 < distance <= len(past):
        raise LZ4BlockError("a match starts before it does")
    unit = past[len(past) - distance :]
    unit *= min(max(_PIECE // distance, 1), -(-count // distance))
    for at in range(0, count, len(unit)):
        yield unit[: count - at]
