"""The beginning of an LZ4 block, without the rest: LZ4's own library inflates a block whole or not at all.

A block is a row of sequences: a token, literal bytes, and a match, so many bytes from so far back (the last sequence
has no match). ``lz4_Block_format.md`` of LZ4 1.10.
"""

from __future__ import annotations

#: A match has this many bytes, and what its token says.
MIN_MATCH = 4

#: A count in a token that goes on behind it.
LENGTH_CONTINUES = 15


class LZ4BlockError(Exception):
    """What is wrong with a block, in words."""


def inflate_block_beginning(block: bytes, size: int) -> bytes:
    """Return the first ``size`` bytes that a block inflates to, fewer if it ends before or is cut short.

    Raises LZ4BlockError for a match that starts before the block does.
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
            if len(out) >= size or at >= len(block):
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
            # A match may reach into the bytes that it makes: they repeat what is there.
            repeated = out[start:] if distance < count else out[start : start + count]
            out += (repeated * (count // distance + 1))[:count] if distance < count else repeated
    except IndexError:
        pass  # it is cut short
    return bytes(out[:size])


def _extended_count(block: bytes, at: int) -> tuple[int, int]:
    """Return a count that goes on in bytes, and where these end."""
    count, more = LENGTH_CONTINUES, 255
    while more == 255:
        more = block[at]
        count += more
        at += 1
    return count, at
