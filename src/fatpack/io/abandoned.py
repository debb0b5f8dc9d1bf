"""What killed runs left: a process that is ended outright cannot remove its temporary file.

The next command that writes to the folder names it and says how to remove it; nothing is deleted unasked.
"""

from __future__ import annotations

import os
import stat
import time

from fatpack.io.atomic_write import TEMPORARY

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
