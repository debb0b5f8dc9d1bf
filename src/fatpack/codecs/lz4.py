"""LZ4 blocks in pieces: the LZ4 library decompresses only whole blocks, in memory for all of their content.

A large block is split at its sequences. Sequences for about one piece are passed to the library as a block of their
own, with the 64 KiB before them as a dictionary: a match reaches no further back. A sequence can produce any number of
bytes, so long ones are decoded here. ``lz4_Block_format.md`` of LZ4 1.10.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View


# A block is a list of sequences: a token, literal bytes, and a match, which is a length and a distance back. The last
# sequence has no match.

#: Length of a match whose token says 0.
MIN_MATCH = 4

#: A length in a token that continues in the following bytes.
LENGTH_CONTINUES = 15


class LZ4BlockError(Exception):
    """An error in a block, in words."""


def inflate_block_beginning(block: bytes, size: int) -> bytes:
    """Return the first ``size`` decompressed bytes of a block, fewer if it ends before or is truncated.

    Raises LZ4BlockError for a match that starts before the block.
    """
    out = bytearray()
    at = 0
    try:
        while len(out) < size:
            token = block[at]
            at += 1
            count = token >> 4
            if count == LENGTH_CONTINUES:
                count, at = _extended_count(block, at)
            out += block[at : at + count]
            at += count
            if len(out) >= size:
                break
            distance = block[at] | block[at + 1] << 8
            at += 2
            count = token & LENGTH_CONTINUES
            if count == LENGTH_CONTINUES:
                count, at = _extended_count(block, at)
            start = len(out) - distance
            if start < 0 or not distance:
                raise LZ4BlockError("a match starts before it does")
            count = min(count + MIN_MATCH, size - len(out))
            # A match may overlap its own output, which then repeats.
            out += (out[start : start + count] * (count // distance + 1))[:count]
    except IndexError:
        pass  # the block is truncated
    return bytes(out[:size])


def _extended_count(block: bytes, at: int) -> tuple[int, int]:
    """Return a length that continues in bytes, and the position after them."""
    count, more = LENGTH_CONTINUES, 255
    while more == 255:
        more = block[at]
        count += more
        at += 1
    return count, at


__all__ = ["LZ4BlockError", "inflate_block_pieces"]

#: Largest distance of a match.
_REACH = 64 << 10

#: Bytes that are decompressed, and compressed bytes that are read, at a time; larger than any short sequence.
_PIECE = 256 << 10
_READ = 256 << 10

#: Literals and matches of at least this size are copied here, not by the library.
_LONG = 64 << 10

#: A last sequence of eight literals: the library requires a block to end with five literals.
_END = b"\x80" + bytes(8)
_END_SIZE = 8

#: Additional output space for the library, which checks its distance from the end of the buffer.
_SLACK = 64


def inflate_block_pieces(block: View) -> Iterator[bytes]:
    """Yield the content of a block in pieces of about 256 KiB. Raises LZ4BlockError for a damaged block."""
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
    """Return the end of the short sequences that were read completely, and their decompressed size, up to a piece."""
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
        pass  # the last sequence was not read completely
    return start, made


def _decoded(sequences: bytes, size: int, past: bytes) -> bytes:
    """Return the ``size`` bytes of sequences; ``past`` is the output before them."""
    import lz4.block

    try:
        made = lz4.block.decompress(sequences + _END, uncompressed_size=size + _END_SIZE + _SLACK, dict=past)
    except lz4.block.LZ4BlockError as error:
        raise LZ4BlockError("a match starts before it does") from error
    return bytes(made[:size])


def _last(past: bytes, piece: bytes) -> bytes:
    """Return the output that a match after a piece can reach."""
    return piece[-_REACH:] if len(piece) >= _REACH else (past + piece)[-_REACH:]


def _count(block: View, at: int, count: int) -> tuple[int, int]:
    """Return a length whose first part is in a token, and the position after its remaining bytes."""
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
    """Yield the bytes of a match, which may overlap its own output and then repeats it."""
    if not 0 < distance <= len(past):
        raise LZ4BlockError("a match starts before it does")
    unit = past[len(past) - distance :]
    unit *= min(max(_PIECE // distance, 1), -(-count // distance))
    for at in range(0, count, len(unit)):
        yield unit[: count - at]
