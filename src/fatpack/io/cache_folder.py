"""A folder in which commands keep what they read, for later commands: bounded, private, and safe against damage.

::

    FATPACK_CACHE=1      fatpack's folder among the user's caches: ~/.cache/fatpack, or below $XDG_CACHE_HOME
    FATPACK_CACHE=DIR    this folder
    (not set), 0         nothing is kept

    DIR/4f/0c2a…         a file for each key of 32 bytes, with records that are only ever appended:
                         magic, sizes of name and body, SHA-256 of key, name and body, name, body

A record that is cut, damaged, or lies under another key has another SHA-256: it is not used, and its file is removed.
Processes append whole records and share no lock; a file of which two of them wrote a part at once is damaged. The files
used last stay: those of a folder of keys are removed, oldest first, if they are more than its share of
:data:`MOST_BYTES`.
"""

from __future__ import annotations

import os
import stat
import sys
from hashlib import sha256
from struct import Struct

from fatpack.concurrency import system
from fatpack.errors import UsageError

#: LIMIT: bytes of all files. What is read of the 2,787 images of a library of 1 GB takes some tens of megabytes.
MOST_BYTES = 1 << 30
#: LIMIT: bytes of one file, of which a folder of keys must be able to keep some.
MOST_OF_FILE = 2 << 20
#: The number of folders of keys; each has an equal share of the bytes.
_FOLDERS = 256
#: The folder of keys of every such write is checked for its size.
_CHECKED = 16

_MAGIC = b"fpkc"
_HEAD = Struct("<4sII32s")

_ON, _OFF = ("1", "yes", "on", "true"), ("", "0", "no", "off", "false")
#: No link is followed, and a pipe, which is no file of the cache, is not waited for.
_FLAGS = getattr(os, "O_NOFOLLOW", 0) | system.PLAIN | system.AT_ONCE
#: bits of a folder's mode with which others may write to it
_OTHERS_WRITE = 0o022


def folder_from_environment() -> str | None:
    """Return the folder that ``FATPACK_CACHE`` names; None if nothing is to be kept. Raises UsageError."""
    word = os.environ.get("FATPACK_CACHE", "")
    if word.lower() in _OFF:
        return None
    if word.lower() in _ON:
        return os.path.join(_users_caches(), "fatpack")
    if not os.path.isabs(word):
        hint = "FATPACK_CACHE=1 means the user's folder of caches, FATPACK_CACHE=0 none"
        raise UsageError(f"FATPACK_CACHE: {word[:80]!r} is no absolute path", hint=hint)
    return word


def _users_caches() -> str:
    if os.name == "nt":
        return os.environ.get("LOCALAPPDATA") or os.path.expanduser("~")
    if sys.platform == "darwin":
        return os.path.expanduser("~/Library/Caches")
    named = os.environ.get("XDG_CACHE_HOME", "")
    return named if os.path.isabs(named) else os.path.expanduser("~/.cache")


class CacheFolder:
    """Records by key and name, in files that later processes read.

    Raises UsageError if there can be no such folder, or if it belongs to, or can be written by, somebody else.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            os.makedirs(path, 0o700, exist_ok=True)
            status = os.lstat(path)
        except OSError as error:
            if not isinstance(error, FileExistsError):
                raise UsageError(f"FATPACK_CACHE: {path}: {error.strerror}", hint=_HINT) from error
            status = os.lstat(path)  # a file, or a link that leads nowhere
        _refuse_shared(path, status)
        self._writes = 0
        self._is_writable = True

    def read(self, key: bytes) -> dict[bytes, bytes]:
        """Return the records of a key, name → body; a damaged file is removed, and has none."""
        path = self._path(key)
        try:
            fd = os.open(path, os.O_RDONLY | _FLAGS)
        except OSError:
            return {}  # nothing is kept, or it cannot be read: it is read from the image then
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_OF_FILE:
                return {}
            data = os.read(fd, status.st_size)
            if os.utime in os.supports_fd:
                os.utime(fd)  # used now: among the last to be removed
        except OSError:
            return {}
        finally:
            os.close(fd)
        records = _records(key, data)
        if records is None:
            self.forget(key)
        return records or {}

    def add(self, key: bytes, name: bytes, body: bytes) -> None:
        """Keep a record. After the first that cannot be written (a full disk) this process writes no more."""
        if not self._is_writable or _HEAD.size + len(name) + len(body) > MOST_OF_FILE:
            return
        path = self._path(key)
        record = _HEAD.pack(_MAGIC, len(name), len(body), _digest(key, name, body)) + name + body
        try:
            os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
            fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _FLAGS, 0o600)
            try:
                status = os.fstat(fd)
                if stat.S_ISREG(status.st_mode) and status.st_size + len(record) <= MOST_OF_FILE:
                    os.write(fd, record)  # of which a part, if the disk is full, is damage
            finally:
                os.close(fd)
            if self._writes % _CHECKED == 0:
                _remove_oldest(os.path.dirname(path), MOST_BYTES // _FOLDERS)
        except OSError:
            self._is_writable = False
        self._writes += 1

    def forget(self, key: bytes) -> None:
        """Remove the file of a key."""
        try:
            os.unlink(self._path(key))
        except OSError:
            pass  # another process has removed it, or the folder cannot be written: it stays unused

    def _path(self, key: bytes) -> str:
        name = key.hex()
        return os.path.join(self.path, name[:2], name[2:])


_HINT = "name a folder of your own, or unset FATPACK_CACHE"


def _refuse_shared(path: str, status: os.stat_result) -> None:
    """Raise UsageError for a folder that is not the user's alone: others could put any facts about images into it."""
    if not stat.S_ISDIR(status.st_mode):
        raise UsageError(f"FATPACK_CACHE: {path} is no folder", hint=_HINT)
    if os.name == "nt":
        return  # the folder's list of rights says who may write, not its mode
    if status.st_uid != os.geteuid():
        raise UsageError(f"FATPACK_CACHE: {path} belongs to another user", hint=_HINT)
    if status.st_mode & _OTHERS_WRITE:
        raise UsageError(f"FATPACK_CACHE: {path} can be written by others", hint=f"{_HINT}; chmod go-w allows this one")


def _digest(key: bytes, name: bytes, body: bytes) -> bytes:
    return sha256(b"%b%d:%b%b" % (key, len(name), name, body)).digest()


def _records(key: bytes, data: bytes) -> dict[bytes, bytes] | None:
    """Return the records in a file; None if any of it is damaged."""
    found: dict[bytes, bytes] = {}
    at = 0
    while at < len(data):
        body_at = at + _HEAD.size
        if body_at > len(data):
            return None
        magic, name_size, body_size, digest = _HEAD.unpack_from(data, at)
        at = body_at + name_size + body_size
        name, body = data[body_at : body_at + name_size], data[body_at + name_size : at]
        if magic != _MAGIC or at > len(data) or digest != _digest(key, name, body):
            return None
        found[name] = body
    return found


def _remove_oldest(folder: str, most: int) -> None:
    """Remove the files of a folder that were used longest ago until they are at most ``most`` bytes."""
    files = []
    with os.scandir(folder) as entries:
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            files.append((status.st_mtime, status.st_size, entry.path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= most:
            return
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass  # another process removes files, too
        total -= size
