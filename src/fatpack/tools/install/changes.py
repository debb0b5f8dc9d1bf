"""Changes in a folder that are all made, or all taken back: when one fails, and when the user stops it half-way.

Going back takes no space: what is needed for it is made before the step, beside the file, and a rename does the rest.
"""

from __future__ import annotations

import os

from fatpack.errors import UsageError
from fatpack.words_printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self


class FolderTransaction:
    """Changes that last if the ``with`` block ends well::

        with Changes("placed") as changes:
            changes.make_folder(folder)
            changes.make(path, lambda to: os.symlink(target, to))

    Else they are taken back, newest first, and the error says so: ``OSError``, UsageError for a file that came
    meanwhile, ``KeyboardInterrupt``. What cannot be taken back is named.
    """

    def __init__(self, done: str) -> None:
        """Take the word for what is done, as messages have it: ``placed``."""
        self._done = done
        self._back: list[tuple[Callable[[], None], str]] = []
        self._spare: list[str] = []

    def make_folder(self, folder: str) -> None:
        """Make a folder with those around it, as far as they are missing."""
        missing = []
        while folder and not os.path.lexists(folder):
            missing.append(folder)
            folder = os.path.dirname(folder.rstrip(os.sep))
        for each in reversed(missing):
            try:
                os.mkdir(each)
            except FileExistsError:
                if not os.path.isdir(each):
                    raise
                continue  # another run made it meanwhile, and may need it
            self._back.append((_then(os.rmdir, each), each))

    def make(self, path: str, write: Callable[[str], None]) -> None:
        """Make a file that is not there. ``write`` raises ``FileExistsError`` if it is there meanwhile."""
        write(path)
        self._back.append((_then(os.unlink, path), path))

    def replace(self, path: str, write: Callable[[str], None], keep: Callable[[str], None]) -> None:
        """Put another file in the place of one, in one step; ``keep`` makes a copy of the old one."""
        new, old = _beside(path, "new"), _beside(path, "old")
        for name, how in ((new, write), (old, keep)):
            how(name)
            self._spare.append(name)
        os.replace(new, path)
        self._back.append((_then(os.replace, old, path), path))

    def remove(self, path: str) -> None:
        """Take a file away. It stays under another name until all else is done."""
        aside = _beside(path, "old")
        os.rename(path, aside)
        self._spare.append(aside)
        self._back.append((_then(os.rename, aside, path), path))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is None:
            self._back.clear()
        try:
            left = self._end()
        except KeyboardInterrupt:  # which comes once: the next signal ends the process
            left = self._end()
            if kind is None:
                raise
        if isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt(f"stopped; {self._outcome(left)}") from error
        if isinstance(error, FileExistsError):
            name = error.filename2 or error.filename
            raise UsageError(f"{name}: came meanwhile, and is not fatpack; {self._outcome(left)}") from error
        if isinstance(error, OSError):
            text = f"{error.strerror}; {self._outcome(left)}"
            raise type(error)(error.errno, text, error.filename2 or error.filename) from error
        if left:
            raise OSError(None, f"could not be removed: {', '.join(map(printable, left))}")

    def _end(self) -> list[str]:
        """Take back what is to be taken back, and remove what was set aside; return what is left of either."""
        left: list[str] = []
        while self._back:
            step, path = self._back[-1]
            if not _did(step):
                left.append(path)
            self._back.pop()
        while self._spare:
            if not _did(_then(os.unlink, self._spare[-1])) and not left:
                left.append(self._spare[-1])
            self._spare.pop()
        return left

    def _outcome(self, left: list[str]) -> str:
        if not left:
            return f"nothing was {self._done}"
        return f"this could not be taken back: {', '.join(left)}"


def _then(call: Callable[..., None], *words: str) -> Callable[[], None]:
    return lambda: call(*words)


def _did(step: Callable[[], None]) -> bool:
    """Do a step, and return whether it is done; it may have been done before."""
    try:
        step()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _beside(path: str, what: str) -> str:
    return f"{path}.{os.getpid()}.{what}.fatpack"
