"""The files that a thin archive names, opened beside it and never outside its directory.

A name in an archive is whatever somebody wrote there. It is followed only when the file it leads to, symbolic links
resolved, lies in the directory of the archive or below; anything else is named in a finding and left alone. Each file
is listed once, and a thin archive reached through a thin archive is not followed: both ``ar`` programs flatten those,
and a few hostile ones could otherwise name each other without end.
"""

from __future__ import annotations

import os
import stat

from fatpack.binary.archive.archive_layout import MAGIC_SIZE, THIN
from fatpack.binary.archive.reader import read_members
from fatpack.errors import FormatError
from fatpack.findings import finding
from fatpack.io.open import open_source
from fatpack.io.source import VirtualName

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.binary.archive.reader import ArchiveMember
    from fatpack.io.source import View
    from fatpack.model import Finding


class ThinArchiveFiles:
    """Opens the members of one thin archive."""

    def __init__(self, archive: View) -> None:
        self._archive = archive
        self._folder = _folder(archive)
        self._seen: set[tuple[int, int, int | None]] = set()
        self._nested: dict[str, dict[int, tuple[str, View]]] = {}

    def open(self, member: ArchiveMember) -> tuple[str, View] | Finding:
        """Return a member's name and bytes, or the reason why they are not to be had."""
        path = self._resolve(member)
        if not isinstance(path, str):
            return path
        try:
            status = os.stat(path)
            if not stat.S_ISREG(status.st_mode):
                # Opening a pipe would wait for a writer, opening a device can do anything.
                return self._finding("FP2103", member, "not a regular file")
            key = (status.st_dev, status.st_ino, member.origin)
            if key in self._seen:
                return self._finding("FP2106", member, "the same file as an earlier member")
            self._seen.add(key)
            if member.origin is not None:
                return self._open_nested(member, path)
            return member.title, self._open(path, member)
        except (OSError, FormatError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            return self._finding("FP2103", member, reason or "cannot be read")

    def _resolve(self, member: ArchiveMember) -> str | Finding:
        """Return the real path of the file a member names, if it may be followed."""
        if self._folder is None:
            return self._finding(
                "FP2103", member, "this archive is not a file of its own, so there is no directory to look in"
            )
        if not member.name or b"\0" in member.name:
            return self._finding("FP2103", member, "no file can have this name")
        name = os.fsdecode(member.name)
        real = os.path.realpath(os.path.join(self._folder, name))
        if os.path.isabs(name) or os.path.commonpath((self._folder, real)) != self._folder:
            hint = "make a regular archive of these files to have them read"
            return self._finding("FP2104", member, "an absolute path, or one out of the archive's directory", hint)
        return real

    def _open(self, path: str, member: ArchiveMember) -> View:
        # Named after the archive, not by its path: a thin archive in there finds no directory and is not followed.
        around = self._archive.source
        name = VirtualName(f"{around.name}({member.title})")
        return open_source(path, name=name, resting=True, budget=around.budget).view()

    def _open_nested(self, member: ArchiveMember, path: str) -> tuple[str, View] | Finding:
        if path not in self._nested:
            nested = self._open(path, member)
            if nested.head(0, MAGIC_SIZE) == THIN:
                return self._finding("FP2106", member, "a thin archive named by a thin archive")
            self._nested[path] = {
                inner.header_at: (f"{member.title}({inner.title})", nested.slice(inner.data_at, inner.size))
                for inner in read_members(nested)
                if inner.kind == "file"
            }
        found = self._nested[path].get(member.origin or 0)
        return found or self._finding("FP2103", member, f"that archive has no member at offset {member.origin}")

    def _finding(self, code: str, member: ArchiveMember, problem: str, hint: str = "") -> Finding:
        span = self._archive.span(member.header_at, member.end - member.header_at)
        return finding(code, span, f"member {member.title}: {problem}", hint)


def _folder(archive: View) -> str | None:
    """Return the real path of the directory an archive lies in; None when it is not a file we know the path of."""
    source = archive.source
    descriptor = source.fileno()
    if descriptor is None or not source.name:
        return None
    try:
        # A source may be called anything ("<stdin>"): the name counts only if it leads to this very file.
        if not os.path.samestat(os.stat(source.name), os.fstat(descriptor)):
            return None
    except (OSError, ValueError):
        return None
    return os.path.realpath(os.path.dirname(source.name))
