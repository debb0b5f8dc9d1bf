"""Whether a program that others find is fatpack: a link to its command, a copy of its launcher, a script that calls it.

None of them may be taken for the original of a stand-in.
"""

from __future__ import annotations

import os

#: What every launcher of ``fatpack`` has in it, whoever made it.
_CALL = b"fatpack.main"

#: LIMIT: bytes. Launchers have about 100 kB; what is larger is somebody's program.
_LARGEST_LAUNCHER = 1 << 20

#: LIMIT: bytes at the beginning of a script that are looked at.
_SCRIPT = 4096


def is_command(path: str) -> bool:
    """Return whether a path is a link to a command ``fatpack``, also one that is gone, or a copy of its launcher."""
    try:
        if os.path.islink(path):
            return program_stem(os.path.basename(os.readlink(path))) == "fatpack"
        if not os.path.isfile(path) or os.path.getsize(path) > _LARGEST_LAUNCHER:
            return False
        with open(path, "rb") as file:
            return _CALL in file.read(_LARGEST_LAUNCHER)
    except OSError:
        return False


def is_script(path: str) -> bool:
    """Return whether a file is a script that calls ``fatpack tool``. What is no regular file is not opened."""
    if not os.path.isfile(path):
        return False  # a pipe would be waited for
    try:
        with open(path, "rb") as file:
            text = file.read(_SCRIPT)
    except OSError:
        return False
    return text.startswith((b"#!", b"@")) and b"fatpack tool" in text


def program_stem(name: str) -> str:
    """Return the name of a program without the ``.exe`` that Windows has behind it."""
    return name[:-4] if name.lower().endswith(".exe") else name
