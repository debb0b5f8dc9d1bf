"""Sources of package members: inflated on demand, read from a stream, or a range of the package.

Listing a package reads the first bytes of each member, and few members whole. Inflated bytes are kept: small members in
memory, others in an unnamed temporary file (in the folder ``TMPDIR``). An ELF file has its tables at both ends, and
inflating it again for each jump would take many times as long.
"""

from __future__ import annotations

import os
import weakref
from _thread import allocate_lock

from fatpack import limits
from fatpack.concurrency import system
from fatpack.errors import BadValue, FormatError, Truncated, UsageError
from fatpack.io.file import FileSource
from fatpack.io.source import BytesSource, Source
from fatpack.packages import MemberSource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fatpack.io.source import View
    from fatpack.limits import Budget
    from fatpack.model import Finding
    from fatpack.packages.streams import ForwardStream


#: LIMIT: bytes of one member that stay in memory; larger members go to a file.
MAX_IN_MEMORY = 8 << 20

#: First bytes of a larger member that stay in memory until more is requested.
_BEGINNING = 256 << 10


class LazyInflatedMember(MemberSource):
    """A member whose bytes ``stream()`` yields in pieces; it is read on demand, and its bytes are kept.

    ``size`` is the expected size; None inflates everything when the size is first requested. If the stream has fewer or
    more bytes, or its end shows damage, reading the last byte raises FormatError. ``findings`` are about the part of
    the stream read so far. A fork may read it too, and another process if ``stream`` can be pickled: it starts again
    there. ``origin`` is the source of the compressed bytes: it may have checksums too.
    """

    def __init__(
        self,
        stream: Callable[[], Iterator[bytes | memoryview]],
        size: int | None,
        name: str,
        *,
        present: int,
        budget: Budget,
        findings: Callable[[], tuple[Finding, ...]] | None = None,
        origin: Source | None = None,
    ) -> None:
        self.name = name
        self.present = present
        self.budget = budget
        self._stream = stream
        self._size = size
        self._read_findings = findings
        self._origin = origin
        self._begin()

    def _begin(self) -> None:
        self._remaining: Iterator[bytes | memoryview] | None = None
        self._kept = bytearray()
        self._have = 0
        self._fd = -1
        self._whole: Source | None = None
        self._failure: BaseException | None = None
        self._is_closed = False
        self._lock = allocate_lock()

    def __getstate__(self) -> dict[str, object]:
        """Return the state needed to start the stream again, without inflated bytes."""
        fleeting = ("_left", "_kept", "_have", "_fd", "_whole", "_failure", "_is_closed", "_lock")
        return {name: value for name, value in super().__getstate__().items() if name not in fleeting}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._begin()

    @property
    def size(self) -> int:  # type: ignore[override]  # the size of some streams is only known after reading
        """The size in bytes. Raises FormatError if it is only known after inflating, and that fails."""
        if self._size is None:
            self.complete()
        assert self._size is not None
        return self._size

    @property
    def is_complete(self) -> bool:
        """True if everything is inflated: reading it no longer needs the package."""
        return self._whole is not None

    @property
    def is_closed(self) -> bool:
        """True if it was closed: it will not be read again."""
        return self._is_closed

    @property
    def is_concurrent(self) -> bool:  # type: ignore[override]  # changes when the member is complete
        """True if several threads may read at once: after everything is inflated."""
        return self._whole is not None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings about the stored form of the bytes read so far."""
        return self._read_findings() if self._read_findings is not None else ()

    def beginning(self, size: int) -> bytes:
        """Return up to ``size`` first bytes, and inflate little more. Raises FormatError if the stream has none of
        them."""
        with self._lock:
            self._reach(size if self._size is None else min(size, self._size))
        return self.read(0, min(size, self._have))

    def complete(self) -> None:
        """Inflate everything. Raises FormatError if that is not possible."""
        with self._lock:
            self._reach(None)

    def check(self) -> None:
        """Inflate and thus check everything, and check its origin. Raises FormatError for damaged bytes."""
        self.complete()
        if self._origin is not None:
            self._origin.check()

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes at ``offset``. Raises FormatError if the stream does not have them."""
        if self._whole is None:
            with self._lock:
                self._reach(offset + size)
                if self._whole is None:
                    if self._fd < 0:
                        return bytes(self._kept[offset : offset + size])
                    return system.read_at(self._fd, size, offset)
        return self._whole.read(offset, size)

    def pieces(self, offset: int, size: int) -> Iterator[memoryview]:
        """Yield the range in pieces that are inflated on demand."""
        while size and self._whole is None:
            part = self.read(offset, min(size, limits.CHUNK >> 2))
            yield memoryview(part)
            offset += len(part)
            size -= len(part)
        if size:
            assert self._whole is not None
            yield from self._whole.pieces(offset, size)

    def skip_zeros(self, start: int, end: int) -> int:
        """Return the first offset from ``start`` on that holds something else than zero, at most ``end``."""
        return super().skip_zeros(start, end) if self._whole is None else self._whole.skip_zeros(start, end)

    def fileno(self) -> int | None:
        """Return the descriptor of the temporary file if everything is in one."""
        return None if self._whole is None else self._whole.fileno()

    def duplicate(self) -> Source | None:
        """Return a source of the same inflated bytes that outlives this one; None if not all are in a temporary file.

        The caller closes it: the file takes room on the disk until then.
        """
        number = self.fileno()
        if number is None:
            return None
        made = FileSource(os.dup(number), self.name)
        made.budget = self.budget
        return made

    def _reach(self, end: int | None) -> None:
        """Inflate until ``end`` bytes are kept, or as many as there are: all for None."""
        if self._whole is not None:
            return
        if self._is_closed:
            raise ValueError(f"{self.name} is closed")
        if self._failure is not None and (end is None or end >= self._have):
            raise self._failure.with_traceback(None)
        if self._remaining is None:
            self._remaining = self._stream()
        try:
            # The check of a stream, a checksum or a size, follows its last byte.
            while end is None or self._have < end or self._have == self._size == end:
                piece = next((piece for piece in self._remaining if piece), None)
                if piece is None:
                    self._finish()
                    return
                if self._size is not None and self._have + len(piece) > self._size:
                    raise self._other_size(f"more than {self._size}")
                self._keep(piece)
        except BaseException as error:
            # A piece is lost, so nothing can follow; later reads do not inflate up to here again.
            self._failure, self._remaining = error, None
            raise

    def _finish(self) -> None:
        if self._size is not None and self._have != self._size:
            raise self._other_size(str(self._have))
        self._size = self._have
        self._remaining = None
        if self._fd < 0:
            self._whole = BytesSource(self._kept, self.name)
        else:
            self._whole, self._fd = FileSource(self._fd, self.name), -1

    def _other_size(self, found: str) -> BadValue:
        text = "the content has another size than the package states"
        return BadValue(text, field="size", expected=str(self._size), found=found, chain=(self.name,))

    def _keep(self, piece: bytes | memoryview) -> None:
        size = len(piece)
        most = MAX_IN_MEMORY if self._size is None or self._size <= MAX_IN_MEMORY else min(_BEGINNING, MAX_IN_MEMORY)
        if self._fd < 0 and self._have + size > most:
            self._fd = _temporary(self._kept)
            self._kept = bytearray()
        if self._fd < 0:
            self._kept += piece
        else:
            _write(self._fd, piece, self._have)
        self._have += size

    def close(self) -> None:
        """Release all inflated bytes."""
        super().close()
        self._remaining, self._kept, self._is_closed = None, bytearray(), True
        if self._whole is not None:
            self._whole.close()
            self._whole = None
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)


def _temporary(data: bytearray) -> int:
    """Return the descriptor of an unnamed temporary file that starts with the data."""
    import tempfile

    with tempfile.TemporaryFile(buffering=0) as file:
        _write(file.fileno(), data, 0)
        return os.dup(file.fileno())


def _write(fd: int, data: bytes | bytearray | memoryview, at: int) -> None:
    """Write at an offset: a fork with the same file writes the same bytes there."""
    with memoryview(data) as left:
        done = 0
        while done < len(left):
            done += system.write_at(fd, left[done:], at + done)


# A member of a package that is read forwards only: kept if it is opened before the stream passes it.


class StreamMemberOpener:
    """Opens the ``size`` bytes at ``start`` of a stream; used as ``PackageMember.open``.

    The file is read on demand. Before the stream advances, the rest is buffered, unless the caller has dropped the
    source. Opening it twice returns the same source.
    """

    def __init__(self, forward: ForwardStream, start: int, size: int, name: str, view: View) -> None:
        self._forward = forward
        self._start = start
        self._size = size
        self._name = name
        self._view = view
        self._is_left = False
        self._opened: weakref.ref[LazyInflatedMember] | None = None

    def __call__(self) -> LazyInflatedMember:
        """Return a source of the file. Raises UsageError if the stream has passed it."""
        opened = self._opened() if self._opened is not None else None
        if opened is not None and not opened.is_closed:
            return opened
        if self._is_left or self._forward.at > self._start:
            raise UsageError(
                f"{self._name} was passed in a package that is read forwards only",
                hint="open each file before requesting the next",
            )
        package = self._view.source
        source = LazyInflatedMember(
            self._pieces, self._size, self._name, present=package.present, budget=package.budget, origin=package
        )
        self._opened = weakref.ref(source)
        return source

    def _pieces(self) -> Iterator[bytes | memoryview]:
        """Yield the bytes. Raises Truncated if the stream ends before them, and the stream's own errors."""
        forward = self._forward
        forward.skip_to(self._start)
        yield from forward.pieces(self._size)
        left = self._start + self._size - forward.at
        if left > 0:
            raise Truncated(
                needed=self._size,
                left=self._size - left,
                offset=self._start,
                field="content",
                chain=(self._name,),
            )

    def leave(self) -> None:
        """Buffer an open file before the stream advances. Errors are raised when the damaged bytes are read."""
        self._is_left = True
        opened = self._opened() if self._opened is not None else None
        if opened is None or opened.is_closed:
            return
        try:
            opened.complete()
        except FormatError:
            return


# A range of a package as a file of its own: offsets count from its first byte, and nothing is copied.


class SubRangeSource(MemberSource):
    """The bytes of a view as a source. The package must stay open; closing this does not close it."""

    def __init__(self, view: View, name: str) -> None:
        self.name = name
        self.size = self.present = len(view)
        self.budget = view.source.budget
        self._origin = view.source
        self._start = view.start

    @property
    def is_concurrent(self) -> bool:  # type: ignore[override]  # the package's own value
        """True if several threads may read at once: if they may read the package."""
        return self._origin.is_concurrent

    @property
    def is_streamed(self) -> bool:  # type: ignore[override]
        """True if reading also inflates the bytes before them."""
        return self._origin.is_streamed

    def check(self) -> None:
        """Check the package, which may be a file in another one."""
        self._origin.check()

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes at ``offset``."""
        return self._origin.read(self._start + offset, size)

    def pieces(self, offset: int, size: int) -> Iterator[memoryview]:
        """Yield the range in the package's pieces."""
        return self._origin.pieces(self._start + offset, size)

    def read_once(self, offset: int, size: int) -> Iterator[memoryview]:
        """Yield the range in the package's pieces, for reading once."""
        return self._origin.read_once(self._start + offset, size)

    def read_once_size(self, offset: int, size: int) -> int:
        """Return the maximum memory of :meth:`read_once` in bytes."""
        return self._origin.read_once_size(self._start + offset, size)

    def find(self, needle: bytes, start: int, end: int) -> int:
        """Return the first offset at or after ``start`` where all of ``needle`` is before ``end``, or -1."""
        found = self._origin.find(needle, self._start + start, self._start + end)
        return found - self._start if found >= 0 else -1

    def skip_hole(self, start: int, end: int) -> int:
        """Return the first offset from ``start`` on that may have a byte other than zero, at most ``end``."""
        return self._origin.skip_hole(self._start + start, self._start + end) - self._start

    def skip_zeros(self, start: int, end: int) -> int:
        """Return the first offset from ``start`` on that holds something else than zero, at most ``end``."""
        return self._origin.skip_zeros(self._start + start, self._start + end) - self._start
