"""Files without a name, where the system has them: what is left of one that is not finished is nothing.

Linux makes such a file in a folder (``O_TMPFILE``, open(2)) and gives it a name when it is complete (``linkat`` of its
entry in ``/proc``). That is one entry in the folder instead of two and a removal, and even a run that is killed leaves
nothing behind. File systems without it (NFS, FAT, older overlays) refuse; then a temporary name is needed.
"""

from __future__ import annotations

import os

from fatpack.concurrency import system

_TMPFILE = getattr(os, "O_TMPFILE", 0)

#: whether such files can be made and named here, until one could not
_works = bool(_TMPFILE)


def create_unnamed(path: str, mode: int) -> int | None:
    """Return a descriptor of a new file without a name in the folder of ``path``; None where there are none.

    Whatever is wrong with the folder is for the caller to find out in the way that every system has.
    """
    if not _works or not path:
        return None
    try:
        return os.open(os.path.dirname(path) or os.curdir, os.O_RDWR | _TMPFILE | system.PLAIN, mode)
    except OSError:
        return None


def give_name(fd: int, path: str) -> bool:
    """Give a file its name; return whether it could be done. Raises FileExistsError if somebody has the name."""
    global _works  # noqa: PLW0603  (what one file shows holds for the process: /proc is there or not)
    try:
        # Only with a descriptor of a folder the interpreter asks for links to be followed; the path is absolute.
        os.link(f"/proc/self/fd/{fd}", path, src_dir_fd=fd, follow_symlinks=True)
    except FileExistsError as error:
        raise FileExistsError(error.errno, error.strerror, path) from None
    except (OSError, NotImplementedError):
        _works = False
        return False
    return True
