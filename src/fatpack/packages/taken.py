"""A file of a package that is read forwards only: kept if somebody opens it while it goes by."""

from __future__ import annotations

import weakref

from fatpack.errors import FormatError, Truncated, UsageError
from fatpack.packages.members import LazyInflatedMember

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View
    from fatpack.packages.forward import ForwardStream


class StreamMemberOpener:
    """Opens the ``size`` bytes that a stream has at ``start``; what ``Member.open`` is.

    What is opened is read as far as somebody asks, and completed when the stream goes on, unless nobody has it any
    more. Opened twice, it is the same source.
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
        """Return a source of the file. Raises UsageError if the stream has gone on."""
        opened = self._opened() if self._opened is not None else None
        if opened is not None and not opened.is_closed:
            return opened
        if self._is_left or self._forward.at > self._start:
            raise UsageError(
                f"{self._name} was passed in a package that is read forwards only",
                hint="open each file before the next is asked for",
            )
        package = self._view.source
        source = LazyInflatedMember(
            self._pieces, self._size, self._name, present=package.present, budget=package.budget, origin=package
        )
        self._opened = weakref.ref(source)
        return source

    def _pieces(self) -> Iterator[bytes | memoryview]:
        """Yield the bytes. Raises Truncated where the stream ends before them, and what the stream does."""
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
        """Complete what is open: the stream goes on. An error is raised to whoever reads what is damaged."""
        self._is_left = True
        opened = self._opened() if self._opened is not None else None
        if opened is None or opened.is_closed:
            return
        try:
            opened.complete()
        except FormatError:
            return
