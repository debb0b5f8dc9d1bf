"""Edits in place: the file stays what it was beside its bytes, and a large one is not copied where it can grow.

A file that is written anew takes the old one's name by a rename, so other names of the old one (hard links) would keep
the old bytes. That is refused unless it is asked for, also where the file could grow: other names mean other users.
"""

from __future__ import annotations

import os
import stat

from fatpack.edit.editor import verify_edited
from fatpack.errors import UsageError, cli_or_api
from fatpack.io.atomic_write import write_file
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from fatpack.edit.editor import EditCheck
    from fatpack.io.source import Piece, View
    from fatpack.io.write import Progress

#: Hosts of this size grow; of smaller ones a copy costs nothing, and leaves no old tables behind as dead bytes.
GROWS_FROM = 16 << 20


def can_grow(host: View) -> bool:
    """Return whether a host is so large that an edit in place shall not copy it, if its format allows that."""
    return len(host) >= GROWS_FROM


class InPlaceResult(Record):
    """What an edit in place did: the new size, and how many bytes were added; None if the file was written anew."""

    size: int
    added: int | None


def write_in_place(
    host: View,
    pieces: Iterable[Piece],
    path: str,
    *,
    break_links: bool = False,
    progress: Progress | None = None,
    check: EditCheck | None = None,
) -> InPlaceResult:
    """Make the file that ``host`` was opened from the edited one, after verification; a failure leaves the old one.

    ``check`` is what verifies it, as in :func:`fatpack.edit.editor.write_edited`.
    Owner, group, permissions, access list, security label and other attributes stay. Raises UsageError for a file with
    several names unless ``break_links``, PermissionError for what cannot be kept, and what verification raises.
    """
    from fatpack.io.identity import read_file_metadata

    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(f"{path} is no regular file, so it cannot be edited in place", hint="-o FILE writes a copy")
    if status.st_nlink > 1 and not break_links:
        raise UsageError(
            f"{path} has {status.st_nlink} names (hard links), and an edit in place gives this one a file of its own",
            hint=cli_or_api(
                "--break-links does that; -o FILE writes a copy", "break_links=True does that; another output is a copy"
            ),
        )
    like = read_file_metadata(path)

    def verified(after: View) -> None:
        (check or verify_edited)(host, after)
        host.source.give_way()

    pieces = list(pieces)
    # Writing to a file takes its capabilities away, and not everybody who may write can give them back.
    if can_grow(host) and status.st_nlink == 1 and "security.capability" not in like.attributes:
        from fatpack.io.append_in_place import append_in_place, plan_append

        change = plan_append(host, pieces)
        if change is not None:
            grown = append_in_place(path, host, change, like=like, verify=verified, progress=progress)
            if grown is not None:
                return InPlaceResult(grown, grown - len(host))
    size = write_file(path, pieces, force=True, like=like, verify=verified, progress=progress)
    return InPlaceResult(size, None)
