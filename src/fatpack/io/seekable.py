"""Ranges of a file object that can seek, and the way back: a view as such a file, for other people's readers."""

from __future__ import annotations

import io
import os
from _thread import allocate_lock

from fatpack.io.failures import as_os_error, foreign_errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

    from typing_extensions import Buffer

    from fatpack.io.source import View


def read_from_file(file: BinaryIO, size: int, name: str) -> bytes:
    """Return up to ``size`` bytes from where a file stands. Raises ``OSError``, and TypeError for a file of text."""
    try:
        block: object = file.read(size)
    except foreign_errors() as error:
        raise as_os_error(error, name) from error
    if isinstance(block, bytes):
        return block
    if isinstance(block, (bytearray, memoryview)):
        return bytes(block)
    raise TypeError(f"a path, bytes or a binary file, not one that reads {type(block).__name__}")


class SeekableReader:
    """``read_at`` of a file object that can seek: one thread after the other moves its position.

    With ``opens_again`` the object itself can be pickled, and opens the same file elsewhere.
    """

    def __init__(self, file: BinaryIO, name: str, *, opens_again: bool = False) -> None:
        self.name = name
        self._opens_again = opens_again
        self._file = file
        self._lock = allocate_lock()
        try:
            file.seek(0, os.SEEK_END)
            self.size = file.tell()
        except foreign_errors() as error:
            raise as_os_error(error, name) from error

    def rewind(self) -> None:
        """Go back to the first byte."""
        try:
            self._file.seek(0)
        except foreign_errors() as error:
            raise as_os_error(error, self.name) from error

    def read_at(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes at ``offset``, fewer where the file ends. Raises ``OSError``."""
        with self._lock:
            try:
                self._file.seek(offset)
            except foreign_errors() as error:
                raise as_os_error(error, self.name) from error
            data = read_from_file(self._file, size, self.name)
            while data and len(data) < size:
                more = read_from_file(self._file, size - len(data), self.name)
                if not more:
                    break
                data += more
        return data

    def close(self) -> None:
        """Close the file, which is called where it is no caller's."""
        self._file.close()

    def __getstate__(self) -> dict[str, object]:
        """Return what opens the file again elsewhere. Raises PicklingError for a file that only exists here."""
        from pickle import PicklingError

        if not self._opens_again:
            raise PicklingError("it was given as an open file; open it by its path, or read it as bytes")
        return {"name": self.name, "_file": self._file, "size": self.size, "_opens_again": True}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._lock = allocate_lock()


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

    def readinto(self, buffer: Buffer) -> int:
        """Fill a buffer as far as there are bytes, and return how many these are."""
        target = memoryview(buffer).cast("B")
        data = self.read(len(target))
        target[: len(data)] = data
        return len(data)
