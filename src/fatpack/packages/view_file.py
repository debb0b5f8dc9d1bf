"""A view as a file object, for other people's readers."""

from __future__ import annotations

import io
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View


class ViewFile(io.RawIOBase):
    """A view as a binary file."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._at = 0

    def readable(self) -> bool:
        """It can be read."""
        return True

    def seekable(self) -> bool:
        """It has positions."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a position."""
        self._at = max(0, offset + (0, self._at, len(self._view))[whence])
        return self._at

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Return up to ``size`` bytes from the position on."""
        left = max(0, len(self._view) - self._at)
        data = self._view.head(self._at, left if size < 0 else min(size, left))
        self._at += len(data)
        return data
