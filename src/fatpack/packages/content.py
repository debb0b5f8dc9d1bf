"""What a member of a package is read as."""

from __future__ import annotations

from fatpack.io.source import Source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.model import Finding

#: The most bytes that a file can have (off_t of systems, and what ``len`` can return).
MAX_FILE_SIZE = (1 << 63) - 1


class MemberSource(Source):
    """A file of its own, wherever its bytes lie: offsets count from the first of them.

    ``findings`` are what is unexpected about how they are stored, as far as they were read: those who have read ask.
    """

    is_file = True

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is unexpected about how the bytes are stored, as far as they were read."""
        return ()
