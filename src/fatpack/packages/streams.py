"""Decompression of all methods of packages, forwards and in bounded memory.

Inflated bytes are charged to the command's budget before they are returned. Exceptions of libraries are converted:
damage is a BadValue with the position in the stream.

How we know: RFC 1951 and 1952 (deflate, gzip), RFC 8878 (zstd), the .xz file format 1.2.1, lz4_Frame_format.md 1.6.4;
bzip2 and the older .lzma follow the output of their programs.
"""

from __future__ import annotations

import zlib

from fatpack import limits, magic_numbers
from fatpack.codecs import inflation_limit_error, is_no_memory
from fatpack.errors import BadValue, FatpackError, LimitExceeded
from fatpack.findings import finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any, Protocol, TypeAlias

    import zstandard
    from typing_extensions import Buffer

    from fatpack.io.source import View
    from fatpack.model import Finding

    class Inflater(Protocol):
        """The interface of both decompressors."""

        @property
        def eof(self) -> bool: ...  # noqa: D102
        @property
        def unused_data(self) -> bytes: ...  # noqa: D102
        @property
        def unconsumed_tail(self) -> bytes: ...  # noqa: D102
        def decompress(self, data: Buffer, max_length: int = ..., /) -> bytes: ...  # noqa: D102

    StreamMethod: TypeAlias = "Callable[[InputBuffer, int | None], Iterator[bytes]]"


# Deflate and its checksum, by ISA-L if ``fatpack[fast]`` is installed: several times as fast as zlib, same bytes.
#
# isal (python-isal) has the interface of zlib. Its errors are classes of their own.


def _installed() -> Any:
    try:
        from isal import isal_zlib
    except ImportError:
        return zlib
    return isal_zlib


#: the module in use
_library = _installed()

#: exceptions for damaged data
ERRORS: tuple[type[Exception], ...] = (zlib.error, _library.error)


def make_inflater(wbits: int) -> Inflater:
    """Return a decompressor: ``wbits`` is -15 for bare deflate, 31 for gzip, which checks its own checksum."""
    found: Inflater = _library.decompressobj(wbits)
    return found


def crc32(data: Buffer, value: int = 0) -> int:
    """Return the CRC-32 of zip and gzip for ``data``, continuing from ``value``, the CRC-32 of the bytes before."""
    return int(_library.crc32(data, value))


# Input of decompressors: pieces of a view, small at first; a decompressor can return unused bytes.

#: Size of the first read, and of the pieces of later ones: listing only needs the beginning.
_FIRST, _STEP = 16 << 10, 64 << 10


_NOTHING = memoryview(b"")


class InputBuffer:
    """The bytes of ``data`` from its start on. ``at`` is the position after the bytes taken and not returned."""

    def __init__(self, data: View) -> None:
        self._data = data
        #: bytes that were read, the index of the next, and the position after all of them
        self._block = memoryview(b"")
        self._next = 0
        self._block_end = 0
        self._pieces: Iterator[memoryview] | None = None

    @property
    def at(self) -> int:
        """The position of the next byte."""
        return self._block_end - len(self._block) + self._next

    @property
    def is_over(self) -> bool:
        """True if nothing is left."""
        return self.at >= len(self._data)

    def take(self, most: int = _STEP) -> memoryview:
        """Return up to ``most`` next bytes; none at the end."""
        if self._next >= len(self._block):
            self._block, self._next = self._read(), 0
        piece = self._block[self._next : self._next + most]
        self._next += len(piece)
        return piece

    def _read(self) -> memoryview:
        """Return the next block, copied if its memory is reused."""
        if self._pieces is None:
            self._pieces = self._cut(self._block_end)
        piece = next(self._pieces, _NOTHING)
        self._block_end += len(piece)
        return piece if isinstance(piece.obj, bytes) else memoryview(bytes(piece))

    def _cut(self, start: int) -> Iterator[memoryview]:
        first = self._data.head(start, _FIRST)
        yield memoryview(first)
        start += len(first)
        if start < len(self._data):
            for piece in self._data.slice(start, len(self._data) - start).read_once():
                for at in range(0, len(piece), _STEP):
                    yield piece[at : at + _STEP]

    def give_back(self, size: int) -> None:
        """Put back the last ``size`` of the bytes taken last."""
        self._next -= size

    def exactly(self, size: int) -> bytes:
        """Return the next ``size`` bytes, fewer at the end; they are few."""
        parts, left = [], size
        while left and (piece := self.take(left)):
            parts.append(piece)
            left -= len(piece)
        return b"".join(parts)

    def peek(self, size: int) -> bytes:
        """Return the next ``size`` bytes, fewer at the end, and leave them there."""
        while len(self._block) - self._next < size and (more := self._read()):
            self._block, self._next = memoryview(bytes(self._block[self._next :]) + bytes(more)), 0
        return bytes(self._block[self._next : self._next + size])

    def skip(self, size: int) -> None:
        """Skip bytes, fewer at the end."""
        if size <= len(self._block) - self._next:
            self._next += size
            return
        self._block_end = min(self.at + size, len(self._data))
        self._block, self._next, self._pieces = _NOTHING, 0, None

    def starts_with(self, magic: bytes, *, skip_zeros: bool = False) -> bool:
        """Return whether these bytes come next; zeros before them are skipped on request."""
        if skip_zeros:
            start = self._data.skip_zeros(self.at)
            if self._data.head(start, len(magic)) != magic:
                return False
            self.skip(start - self.at)
        return self.peek(len(magic)) == magic


# Bytes of a stream, read forwards only.


class ForwardStream:
    """The bytes that ``pieces`` yields. ``at`` is the number of bytes taken or skipped."""

    def __init__(self, pieces: Iterator[bytes | memoryview]) -> None:
        self._pieces = pieces
        self._piece: bytes | memoryview = b""
        self._failure: FatpackError | None = None
        self.at = 0

    def take(self, most: int) -> bytes | memoryview:
        """Return up to ``most`` next bytes, none at the end. Raises the stream's errors."""
        piece = self._piece
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        while not piece:
            try:
                following = next(self._pieces, None)
            except FatpackError as error:
                self._failure = error  # a generator that raised has ended, so its error is kept
                raise
            if following is None:
                return b""
            piece = memoryview(following)
        self._piece = piece[most:]
        piece = piece[:most]
        self.at += len(piece)
        return piece

    def read(self, size: int) -> bytes:
        """Return the next ``size`` bytes, fewer at the end."""
        parts, left = [], size
        while left and (piece := self.take(left)):
            parts.append(bytes(piece))  # the memory may be reused for the next
            left -= len(piece)
        return b"".join(parts)

    def skip_to(self, place: int) -> None:
        """Skip bytes until ``at`` is ``place``, or the end."""
        while self.at < place and self.take(place - self.at):
            pass

    def pieces(self, size: int) -> Iterator[bytes | memoryview]:
        """Yield the next ``size`` bytes in pieces, fewer at the end."""
        while size and (piece := self.take(size)):
            size -= len(piece)
            yield piece


#: Bytes inflated at a time, at first and at most: reading the beginning inflates little more than that.
_LEAST, _MOST = 16 << 10, 256 << 10

#: Bytes of the first input to a stream: its unused rest is copied, and a file may have a million short streams.
_TASTE = 512


class StreamError(Exception):
    """An error of a decompression library, with its message; the original is the cause."""


class WindowTooLarge(Exception):
    """The window of a stream is larger than the limit allows."""


class InflatedStream:
    """The inflated content of compressed bytes, from its beginning each time it is called.

    ``method`` is a key of ``METHODS``, ``format`` and ``field`` are for errors. ``expected`` is the size of the
    content, needed by streams without an end marker (LZMA in zip), and unused by others. ``findings`` reports bytes
    after the last stream, once a reader has reached them.
    """

    def __init__(self, data: View, method: str, *, format: str, field: str = "", expected: int | None = None) -> None:
        self._data = data
        self._method = method
        self._format = format
        self._field = field
        self._expected = expected
        self._rest: int | None = None

    def __call__(self) -> Iterator[bytes]:
        """Yield the content in pieces. Raises BadValue, LimitExceeded, and the errors of reading the compressed
        bytes."""
        data, size = self._data, 0
        feed = InputBuffer(data)
        try:
            for piece in METHODS[self._method](feed, self._expected):
                size += len(piece)
                if not data.source.charge(data.start, size):
                    raise inflation_limit_error(data, None, format=self._format)
                yield piece
        except StreamError as error:
            raise self._damaged(str(error), feed.at, size) from error.__cause__
        except WindowTooLarge as error:
            raise self._too_large() from error.__cause__
        rest = data.skip_zeros(feed.at)
        self._rest = feed.at if rest < len(data) else None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The finding about bytes after the content, if there are some."""
        if self._rest is None:
            return ()
        size = len(self._data) - self._rest
        text = f"{size} bytes after the {self._method} data belong to nothing"
        hint = "they are not read; if they belong to the file, it was damaged or assembled wrongly"
        return (finding("FP1706", self._data.span(self._rest, size), text, hint, field=self._field),)

    def read_findings(self) -> tuple[Finding, ...]:
        """Return :attr:`findings`, as a function for later calls."""
        return self.findings

    def _damaged(self, problem: str, at: int, size: int) -> BadValue:
        is_cut = problem == _EARLY
        return BadValue(
            f"the {self._method} data {problem}, after {size} inflated bytes",
            format=self._format,
            offset=self._data.offset(at),
            field=self._field,
            hint="the file looks cut short: get it again" if is_cut else "get the file again",
            chain=self._data.chain,
        )

    def _too_large(self) -> LimitExceeded:
        return LimitExceeded(
            f"the {self._method} data needs more memory to be inflated than the limit allows",
            format=self._format,
            offset=self._data.offset(0),
            field=self._field,
            expected=f"a window of at most {limits.WINDOW} bytes",
            hint=limits.advice("WINDOW"),
            chain=self._data.chain,
        )


_EARLY = "ends early"


def inflate_stream_beginning(data: View, method: str, size: int) -> bytes:
    """Return the first ``size`` inflated bytes, fewer if there are fewer or they are damaged.

    At most ``limits.CHUNK`` compressed bytes are read for them, and nothing is charged to the budget.
    """
    found = b""
    try:
        for piece in METHODS[method](InputBuffer(data.slice(0, min(len(data), limits.CHUNK))), size):
            found += piece
            if len(found) >= size:
                break
    except (StreamError, WindowTooLarge, FatpackError):
        pass
    return found[:size]


def _deflate(feed: InputBuffer, _expected: int | None) -> Iterator[bytes]:
    yield from _zlib(feed, -15)


def _gzip(feed: InputBuffer, _expected: int | None) -> Iterator[bytes]:
    yield from _zlib(feed, 31)
    while feed.starts_with(magic_numbers.GZIP):
        yield from _zlib(feed, 31)


def _zlib(feed: InputBuffer, wbits: int) -> Iterator[bytes]:
    """Yield the content of one stream of zlib's kinds."""

    stream, most, step = make_inflater(wbits), _LEAST, _TASTE
    left: bytes | memoryview = b""
    is_full = False  # then it may have more output without any input
    while not stream.eof:
        if not left and not is_full:
            if not (left := feed.take(step)):
                raise StreamError(_EARLY)
            step *= 4
        try:
            made = stream.decompress(left, most)
        except ERRORS as error:
            raise StreamError(f"is damaged ({_words(error)})") from error
        left = stream.unconsumed_tail
        yield made
        is_full = len(made) >= most
        most = _grown(most, made)
    feed.give_back(len(stream.unused_data))


def _grown(most: int, made: bytes) -> int:
    return min(4 * most, _MOST) if made else most


def _words(error: Exception) -> str:
    """Return the message of a library: ``invalid code lengths set`` of ``Error -3 while decompressing data: …``.

    For the same error zlib has "incorrect data check" and ISA-L "Error -6 Incorrect checksum found".
    """
    if any(words in str(error) for words in ("incorrect data check", "Incorrect checksum")):
        return "the checksum after it differs"
    return str(error).rpartition(": ")[2].rstrip(".") or type(error).__name__


def _pushed(feed: InputBuffer, start: Callable[[], Any], errors: tuple[type[Exception], ...]) -> Iterator[bytes]:
    """Yield the content of one stream, with a decompressor that has the interface of ``bz2.BZ2Decompressor``."""
    try:
        stream = start()
        most, step = _LEAST, _TASTE
        while not stream.eof:
            block: bytes | memoryview = b""
            if stream.needs_input:
                if not (block := feed.take(step)):
                    raise StreamError(_EARLY)
                step *= 4
            made = stream.decompress(block, max_length=most)
            if made:
                yield made
                most = _grown(most, made)
    except errors as error:
        if "emory usage limit" in str(error):
            raise WindowTooLarge from error
        if is_no_memory(error):
            raise MemoryError(str(error)) from error
        raise StreamError(f"is damaged ({_words(error)})") from error
    feed.give_back(len(stream.unused_data or b""))


def _bzip2(feed: InputBuffer, _expected: int | None) -> Iterator[bytes]:
    import bz2

    yield from _pushed(feed, bz2.BZ2Decompressor, (OSError, ValueError, EOFError))
    while feed.starts_with(magic_numbers.BZIP2):
        yield from _pushed(feed, bz2.BZ2Decompressor, (OSError, ValueError, EOFError))


def _xz(feed: InputBuffer, _expected: int | None) -> Iterator[bytes]:
    """Yield the content of all streams; zeros between them are a multiple of four bytes (2.2 Stream Padding)."""
    import lzma

    def start() -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=limits.WINDOW + _BESIDE)

    yield from _pushed(feed, start, (lzma.LZMAError, EOFError))
    while feed.starts_with(magic_numbers.XZ, skip_zeros=True):
        yield from _pushed(feed, start, (lzma.LZMAError, EOFError))


#: Memory of liblzma in addition to the dictionary: tables, and the maximum for a block's header.
_BESIDE = 4 << 20


def _lzma(feed: InputBuffer, _expected: int | None) -> Iterator[bytes]:
    import lzma

    def start() -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(lzma.FORMAT_ALONE, memlimit=limits.WINDOW + _BESIDE)

    yield from _pushed(feed, start, (lzma.LZMAError, EOFError))


def _zip_lzma(feed: InputBuffer, expected: int | None) -> Iterator[bytes]:
    """Yield the content of LZMA in zip (APPNOTE 5.8.8): a version, the size of the properties, these, bare LZMA."""
    import lzma

    head = feed.exactly(9)
    properties, dictionary = head[4:5], int.from_bytes(head[5:9], "little")
    if len(head) < 9 or head[2:4] != b"\5\0" or properties[0] >= 225:
        raise StreamError("starts with properties that are none of LZMA")
    if dictionary > limits.WINDOW:
        raise WindowTooLarge
    packed, lc = divmod(properties[0], 9)
    pb, lp = divmod(packed, 5)
    if lc + lp > 4:
        raise StreamError("starts with properties that are none of LZMA")
    chain = [{"id": lzma.FILTER_LZMA1, "dict_size": max(dictionary, 4096), "lc": lc, "lp": lp, "pb": pb}]
    try:
        # It ends with the size, or with a marker.
        stream, left, most = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=chain), expected, _LEAST
        while not stream.eof and (left is None or left > 0):
            block = feed.take() if stream.needs_input else b""
            if stream.needs_input and not block:
                raise StreamError(_EARLY)
            made = stream.decompress(block, max_length=most if left is None else min(most, left))
            if made:
                yield made
                left = None if left is None else left - len(made)
                most = _grown(most, made)
    except (lzma.LZMAError, EOFError) as error:
        raise StreamError(f"is damaged ({_words(error)})") from error
    feed.skip(1 << 62)  # the rest of it may be the marker


def _zstd(feed: InputBuffer, _expected: int | None) -> Iterator[bytes]:
    """Yield the content of all frames, block by block: no block has more than 128 KiB (RFC 8878, 3.1.1.2)."""
    import zstandard

    decompressor = zstandard.ZstdDecompressor(max_window_size=limits.WINDOW)
    while True:
        magic = feed.exactly(4)
        if magic != magic_numbers.ZSTD:
            if not _is_skippable(magic):
                raise StreamError(_EARLY if len(magic) < 4 else "has no frame")
            feed.skip(int.from_bytes(feed.exactly(4), "little"))
        else:
            yield from _zstd_frame(feed, decompressor)
        if not feed.starts_with(magic_numbers.ZSTD) and not _is_skippable(feed.peek(4)):
            return


def _is_skippable(magic: bytes) -> bool:
    """Return whether a frame is a skippable one of zstd or LZ4 (RFC 8878, 3.1.2)."""
    return len(magic) == 4 and magic[0] & 0xF0 == 0x50 and magic[1:] == magic_numbers.SKIPPABLE


def _zstd_frame(feed: InputBuffer, decompressor: zstandard.ZstdDecompressor) -> Iterator[bytes]:
    import zstandard

    descriptor = feed.exactly(1)
    flags = descriptor[0] if descriptor else 0
    is_single = flags >> 5 & 1
    size = 1 - is_single + (0, 1, 2, 4)[flags & 3] + (is_single, 2, 4, 8)[flags >> 6]
    block = magic_numbers.ZSTD + descriptor + feed.exactly(size)
    try:
        stream = decompressor.decompressobj()
        is_last = False
        while not is_last:
            head = feed.exactly(3)
            number = int.from_bytes(head, "little")
            is_last = bool(number & 1)
            content = feed.exactly(1 if number >> 1 & 3 == 1 else number >> 3)
            if is_last and flags & 4:
                content += feed.exactly(4)
            made = stream.decompress(block + head + content)
            if made:
                yield made
            if is_last and not stream.eof:
                raise StreamError(_EARLY)
            if len(head) < 3 or (feed.is_over and not is_last):
                raise StreamError(_EARLY)
            block = b""
    except zstandard.ZstdError as error:
        if "too much memory" in str(error):
            raise WindowTooLarge from error
        if is_no_memory(error):
            raise MemoryError(str(error)) from error
        raise StreamError(f"is damaged ({_words(error)})") from error


def _lz4(feed: InputBuffer, _expected: int | None) -> Iterator[bytes]:
    import lz4.frame

    while True:
        magic = feed.peek(4)
        if _is_skippable(magic):
            feed.exactly(4)
            feed.skip(int.from_bytes(feed.exactly(4), "little"))
        else:
            yield from _pushed(feed, lz4.frame.LZ4FrameDecompressor, (RuntimeError,))
        if not feed.starts_with(magic_numbers.LZ4) and not _is_skippable(feed.peek(4)):
            return


#: method → the content of a feed in pieces; it leaves the feed's position after the last stream
METHODS: Mapping[str, StreamMethod] = {
    "deflate": _deflate,
    "gzip": _gzip,
    "bzip2": _bzip2,
    "xz": _xz,
    "lzma": _lzma,
    "lzma in zip": _zip_lzma,
    "zstd": _zstd,
    "lz4": _lz4,
}
