"""Decompressed bytes as sources: inflated when they are read, and released again."""

from __future__ import annotations

from fatpack import limits
from fatpack.io.source import Source, View, sha256_of_pieces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from typing_extensions import Buffer

    from fatpack.errors import BadValue
    from fatpack.io.inflated_buffer import InflatedWindow


class PicklableCall:
    """A function with its arguments, to be called later; unlike a nested function, it can be pickled.

    ``functools.partial`` is the same, but importing its module takes as long as running a small command.
    """

    __slots__ = ("_arguments", "_function")

    def __init__(self, function: Callable[..., Any], *arguments: object) -> None:
        self._function = function
        self._arguments = arguments

    def __call__(self, *more: object) -> Any:
        """Call the function with the stored arguments, followed by ``more``."""
        return self._function(*self._arguments, *more)

    @property
    def view(self) -> View | None:
        """The bytes that the function is called with; None if there are none."""
        for value in self._arguments:
            found = value.view if isinstance(value, PicklableCall) else value
            if isinstance(found, View):
                return found
        return None

    def digest(self) -> bytes | None:
        """Return a SHA-256 that two calls share only if they return the same; None if that is not known.

        It covers the function's name, and the arguments: of views their bytes, which are read. A method's object is no
        argument, so that calls of methods are not known.
        """
        from hashlib import sha256
        from types import FunctionType

        if not isinstance(self._function, FunctionType):
            return None
        parts = [f"{self._function.__module__}.{self._function.__qualname__}".encode()]
        for value in self._arguments:
            if isinstance(value, View):
                part: bytes | None = sha256_of_pieces([value])
            elif isinstance(value, PicklableCall):
                part = value.digest()
            else:
                part = repr(value).encode() if value is None or isinstance(value, (str, int)) else None
            if part is None:
                return None
            parts.append(part)
        return sha256(b"".join(b"%d:%b" % (len(part), part) for part in parts)).digest()


class InflatedSource(Source):
    """Bytes that are decompressed when they are first read.

    They stay in memory until :meth:`release_buffers`, or until ``limits.INFLATED_KEPT`` bytes were inflated from the
    same ``origin`` (the source of the compressed bytes); the next read inflates them again.

    ``data``: the bytes, if they are known already. ``stream`` yields them in pieces: a reader that reads them once
    needs ``piece_size`` bytes of memory at a time. ``start`` returns a number of first bytes if that is cheaper than
    inflating everything (:meth:`beginning`). With a stream, more than ``limits.INFLATED_KEPT`` bytes are never in
    memory: parts are then read through a window. Views can be pickled if ``inflate`` and ``stream`` are a
    :class:`PicklableCall`.
    """

    is_inflated = True

    def __init__(
        self,
        size: int,
        inflate: Callable[[], Buffer],
        name: str = "",
        *,
        present: int,
        origin: Source | None = None,
        data: Buffer | None = None,
        stream: Callable[[], Iterator[bytes | bytearray | memoryview]] | None = None,
        piece_size: int | None = None,
        start: Callable[[int], bytes] | None = None,
    ) -> None:
        self.name = name
        self.size = size
        self.present = present
        self._inflate = inflate
        self._once = stream
        self._start = start
        self._piece_size = size if piece_size is None else piece_size
        self._origin = origin
        if origin is not None:
            self.budget = origin.budget
        self._window: InflatedWindow | None = None
        self._stored_digest: bytes | None = None
        self._data: memoryview | None = None
        if data is not None:
            self._take(data)

    def __getstate__(self) -> dict[str, object]:
        """Return the state that inflates the bytes again, without the bytes."""
        return super().__getstate__() | {"_data": None}

    def _checked(self, inflated: Buffer) -> memoryview:
        data = memoryview(inflated).cast("B")
        if len(data) != self.size:
            raise self._other_size(str(len(data)))
        return data

    def _other_size(self, found: str) -> BadValue:
        from fatpack.io.inflated_buffer import other_size

        return other_size(self.size, found, self.name)

    @property
    def _is_windowed(self) -> bool:
        """True if the bytes are too many to be kept in memory."""
        return self._once is not None and self.size > limits.INFLATED_KEPT

    def _through(self) -> InflatedWindow:
        """Return the window through which the bytes are read if they are too many to be kept."""
        if self._window is None:
            from fatpack.io.inflated_buffer import InflatedWindow

            assert self._once is not None
            self._window = InflatedWindow(self.size, self._once, self.name, self._origin)
        if self._origin is not None and (self._window.is_empty or not self._origin.is_kept(self)):
            self._origin.keep(self)
        return self._window

    def _take(self, inflated: Buffer) -> memoryview:
        self._data = data = self._checked(inflated)
        if self._origin is not None:
            self._origin.keep(self)
        return data

    def _bytes(self) -> memoryview:
        data = self._data  # read once: another thread may release it at any time
        return self._take(self._inflate()) if data is None else data

    @property
    def is_at_hand(self) -> bool:  # type: ignore[override]  # constant in all other sources
        """True if the bytes are in memory."""
        return self._data is not None

    def release_buffers(self) -> None:
        """Release the inflated bytes, and everything that was inflated from them."""
        self._data = None
        if self._window is not None:
            self._window.release_buffers()
        self.drop_cache()

    @property
    def stored(self) -> View | None:
        """The stored bytes that alone decide the inflated ones; None if that is not known."""
        return self._inflate.view if isinstance(self._inflate, PicklableCall) else None

    def stored_digest(self) -> bytes | None:
        """Return a SHA-256 that sources share only if their bytes are the same, from the stored bytes; None if unknown.

        Nothing is inflated for it.
        """
        if self._stored_digest is None and isinstance(self._inflate, PicklableCall):
            self._stored_digest = self._inflate.digest()
        return self._stored_digest

    def beginning(self, size: int) -> bytes:
        """Return up to ``size`` first bytes, without inflating the rest if the compression method allows that."""
        size = min(size, self.size)
        if self._data is None and self._start is not None:
            return self._start(size)
        return self.read(0, size)

    def read(self, offset: int, size: int) -> bytes:
        """Return a copy of ``size`` inflated bytes at ``offset``."""
        if self._is_windowed and self._data is None:
            return self._through().read(offset, size)
        return bytes(self._bytes()[offset : offset + size])

    def buffer(self, offset: int, size: int) -> memoryview:
        """Return a range of the inflated bytes themselves, or a copy if they are too many to be kept."""
        if self._is_windowed and self._data is None:
            return super().buffer(offset, size)
        return self._bytes()[offset : offset + size].toreadonly()

    def pieces(self, offset: int, size: int) -> Iterator[memoryview]:
        """Yield the range as one view of the inflated bytes, in pieces if they are too many to be kept."""
        if self._is_windowed and self._data is None:
            yield from self._through().pieces(offset, size)
        elif size:
            yield self._bytes()[offset : offset + size]

    @property
    def is_concurrent(self) -> bool:  # type: ignore[override]  # depends on the origin
        """True if several threads can read different sources of this origin with :meth:`read_once`."""
        return self._origin is not None and self._origin.is_at_hand and self._origin.is_concurrent

    def _is_passing(self, offset: int, size: int) -> bool:
        """Return whether a range is everything and is not in memory. Parts are kept, for readers of the other parts."""
        return self._data is None and not offset and size == self.size

    def read_once(self, offset: int, size: int) -> Iterator[memoryview]:
        """Yield the range. If it is everything, yield it while it is inflated and keep nothing."""
        if not self._is_passing(offset, size):
            yield from self.pieces(offset, size)
            return
        if self._once is None:
            yield self._checked(self._inflate())
            return
        for piece in self._once():
            if len(piece) > size:
                raise self._other_size(f"more than {self.size}")
            size -= len(piece)
            yield memoryview(piece)
        if size:
            raise self._other_size(str(self.size - size))

    def read_once_size(self, offset: int, size: int) -> int:
        """Return the number of bytes that are inflated at a time."""
        if self._is_passing(offset, size):
            return self._piece_size
        return min(size, limits.INFLATED_KEPT) if self._is_windowed else size


# A compressed bundle inflates to hundreds of megabytes. Readers need its table, the headers of its images in order, or
# all of it once: reading forwards costs one inflation and a bounded window of memory.


def _joined(stream: Callable[[], Iterator[bytes]]) -> bytes:
    return b"".join(stream())


class StreamedSource(InflatedSource):
    """``size`` bytes that ``stream`` yields in pieces each time it is called, read through a window.

    A read continues at the end of the previous one if it can (:class:`fatpack.io.inflated_buffer.InflatedWindow`).
    Threads that read at the same time wait for each other: give each of them a source from :meth:`separate`.
    """

    is_streamed = True
    is_concurrent = False

    def __init__(
        self,
        size: int,
        stream: Callable[[], Iterator[bytes]],
        name: str = "",
        *,
        present: int,
        origin: Source | None = None,
    ) -> None:
        super().__init__(size, PicklableCall(_joined, stream), name, present=present, origin=origin, stream=stream)
        self._stream = stream

    @property
    def _is_windowed(self) -> bool:
        return True

    def separate(self) -> StreamedSource:
        """Return a source of the same bytes that shares no state with this one, for another thread."""
        other = StreamedSource(self.size, self._stream, self.name, present=self.present)
        other.budget = self.budget
        return other

    def read_once(self, offset: int, size: int) -> Iterator[memoryview]:
        """Yield the range in the pieces in which it was inflated; they are kept for readers of the next bytes."""
        return self.pieces(offset, size)

    def read_once_size(self, offset: int, size: int) -> int:
        """Return the size of the window."""
        return min(self.size, limits.INFLATED_KEPT)
