"""Temporary files: a private folder to exchange files with other programs, and the files that killed runs left."""

from __future__ import annotations

import os
import stat
import time

from fatpack.concurrency import system
from fatpack.io.atomic_write import TEMPORARY
from fatpack.io.write import write_pieces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    from fatpack.io.source import Piece


# A killed process cannot remove its temporary file. The next command that writes to the folder names the file and says
# how to remove it; nothing is deleted without being asked.

#: Seconds after the last write after which no running command can own a file: writing never pauses, and checking the
#: result reads tables only.
STALE_SECONDS = 3600


def find_stale_temp_files(folder: str, age: float = STALE_SECONDS) -> list[tuple[str, int]]:
    """Return path and size of the temporary files that killed runs left in a folder, largest first.

    Files that were written within the last ``age`` seconds may be those of a run that is at work.
    """
    now, (start, end) = time.time(), TEMPORARY
    found = []
    try:
        with os.scandir(folder or os.curdir) as entries:
            for entry in entries:
                if entry.name.startswith(start) and entry.name.endswith(end):
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode) and now - status.st_mtime >= age:
                        found.append((os.path.join(folder, entry.name), status.st_size))
    except OSError:
        return []  # the folder cannot be listed, or changes meanwhile: not a reason to fail
    return sorted(found, key=lambda item: (-item[1], item[0]))


class PrivateFolder:
    """A context manager for a folder, below the system's temporary one, that only its owner can enter."""

    def __enter__(self) -> Self:
        from tempfile import mkdtemp

        self.path = mkdtemp(prefix="fatpack.")
        return self

    def __exit__(self, *_: object) -> None:
        from shutil import rmtree

        rmtree(self.path, ignore_errors=True)

    def folder(self, name: str) -> str:
        """Create a folder in it and return its path; ``name`` never comes from a file."""
        path = os.path.join(self.path, name)
        os.mkdir(path, 0o700)
        return path


def write_for_reading(path: str, pieces: Iterable[Piece]) -> None:
    """Write a new file that only its owner can read. It is not an output of the command, so its bytes are not
    charged."""
    from fatpack.limits import UNCOUNTED

    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | system.PLAIN, 0o600)
    try:
        write_pieces(fd, pieces, budget=UNCOUNTED)
    finally:
        os.close(fd)


_KINDS = {
    stat.S_IFLNK: "a link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}


def size_or_problem(path: str) -> int | str:
    """Return the size of a file that a program wrote, or the reason why it is not an output.

    Only a regular file with bytes is an output: no link, folder or pipe.
    """
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return "it wrote no file with the name {out}"
    if not stat.S_ISREG(status.st_mode):
        return f"what has the name {{out}} is {_KINDS.get(stat.S_IFMT(status.st_mode), 'a device')}, and no file"
    return status.st_size or "the file that it wrote, {out}, is empty"
