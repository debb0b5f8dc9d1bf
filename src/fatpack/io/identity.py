"""What a file is beside its bytes: owner, group, permissions, access lists, security labels and other attributes.

A file that is edited in place is a new file under the old name, and gets all of it before it gets the name. Until then
nobody but its maker can open it, who has opened it already.
"""

from __future__ import annotations

import errno
import os
import stat

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: The access list beyond the permission bits (acl(5)); new files inherit one from some folders.
_ACCESS_LIST = "system.posix_acl_access"

#: Hashes and signatures of content, which the kernel itself computes anew where they are in use (ima, evm).
_OF_CONTENT = {"security.ima", "security.evm"}

#: What systems and file systems say that have no attributes
_NONE = {errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}


class FileMetadata(Record):
    """Owner, group, permission bits, and extended attributes by name: access list and SELinux label are two of them."""

    owner: int
    group: int
    mode: int
    attributes: dict[str, bytes]


def read_file_metadata(file: str | int) -> FileMetadata:
    """Return what a file is, by path or descriptor."""
    status = os.stat(file)
    return FileMetadata(status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode), _attributes(file))


def apply_metadata(fd: int, wanted: FileMetadata, path: str) -> None:
    """Make an open file what another one was. Raises PermissionError, with what cannot be kept, for ``path``.

    Who may open it widens last: access list and permission bits come after owner and label.
    """
    has = read_file_metadata(fd)
    if has.owner != wanted.owner:
        _keep(f"its owner ({wanted.owner})", path, os.chown, fd, wanted.owner, -1)
    if has.group != wanted.group:
        _keep(f"its group ({wanted.group})", path, os.chown, fd, -1, wanted.group)
    if _ACCESS_LIST in has.attributes and _ACCESS_LIST not in wanted.attributes:
        _keep("its permissions without an access list", path, os.removexattr, fd, _ACCESS_LIST)
    for name in sorted(wanted.attributes, key=lambda name: name == _ACCESS_LIST):
        value = wanted.attributes[name]
        if has.attributes.get(name) != value:
            _keep(f"its attribute {name}", path, os.setxattr, fd, name, value)
    if not hasattr(os, "fchmod"):
        return  # Windows: a file has one bit, which says that it is read-only, and such files are not replaced
    # Also where it seems right: a change of owner, and writing, take the bits away that lend rights (setuid).
    os.chmod(fd, wanted.mode)


def _keep(what: str, path: str, act: Callable[..., None], *arguments: object) -> None:
    try:
        act(*arguments)
    except OSError as error:
        problem = f"{what} cannot be kept: {error.strerror}; nothing was changed, write a copy with -o"
        raise PermissionError(errno.EPERM, problem, path) from error


def _attributes(file: str | int) -> dict[str, bytes]:
    if not hasattr(os, "listxattr"):
        return {}
    try:
        return {name: os.getxattr(file, name) for name in os.listxattr(file) if name not in _OF_CONTENT}
    except OSError as error:
        if error.errno in _NONE:
            return {}
        raise
