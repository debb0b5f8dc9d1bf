"""A private folder for files that another program reads and writes: made with names of ours, and gone afterwards."""

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


# What killed runs left: a process that is ended outright cannot remove its temporary file.
#
# The next command that writes to the folder names it and says how to remove it; nothing is deleted unasked.

#: A file that nobody has written to for so many seconds belongs to no command that still runs: writing goes on all the
#: time, and checking what was written reads tables only.
STALE_SECONDS = 3600


def find_stale_temp_files(folder: str) -> list[tuple[str, int]]:
    """Return path and size of the temporary files in a folder that killed runs left there, largest first."""
    now, (start, end) = time.time(), TEMPORARY
    found = []
    try:
        with os.scandir(folder or os.curdir) as entries:
            for entry in entries:
                if entry.name.startswith(start) and entry.name.endswith(end):
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode) and now - status.st_mtime > STALE_SECONDS:
                        found.append((os.path.join(folder, entry.name), status.st_size))
    except OSError:
        return []  # a folder that can be written to and not read, or that changes meanwhile: no reason to fail
    return sorted(found, key=lambda item: (-item[1], item[0]))


class PrivateFolder:
    """A folder below that for temporary files which nobody else can enter; it goes at the end of the block."""

    def __enter__(self) -> Self:
        from tempfile import mkdtemp

        self.path = mkdtemp(prefix="fatpack.")
        return self

    def __exit__(self, *_: object) -> None:
        from shutil import rmtree

        rmtree(self.path, ignore_errors=True)

    def folder(self, name: str) -> str:
        """Make a folder in it and return its path; ``name`` is never one from a file."""
        path = os.path.join(self.path, name)
        os.mkdir(path, 0o700)
        return path


def write_for_reading(path: str, pieces: Iterable[Piece]) -> None:
    """Write a new file that its owner alone can read. It is no output of the command, so nothing counts its bytes."""
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
    """Return the size of what a program wrote under a name that it was given, or in words why that is no output.

    Nothing but a file with bytes is one: no link, no folder, no pipe.
    """
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return "it wrote no file with the name {out}"
    if not stat.S_ISREG(status.st_mode):
        return f"what has the name {{out}} is {_KINDS.get(stat.S_IFMT(status.st_mode), 'a device')}, and no file"
    return status.st_size or "the file that it wrote, {out}, is empty"
