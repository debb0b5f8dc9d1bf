"""Whether one tar archive is another with some files changed, by Python's ``tarfile``, file by file."""

from __future__ import annotations

import hashlib
import tarfile
from itertools import zip_longest

from fatpack import limits
from fatpack.errors import HostError
from fatpack.io.seekable import ViewFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from fatpack.io.source import View

#: what has to be as it was of every header
_SAME = ("name", "mode", "uid", "gid", "mtime", "type", "linkname", "uname", "gname", "devmajor", "devminor")


def verify_tar_change(before: View, after: View, contents: Mapping[str, bytes]) -> None:
    """Raise HostError unless ``after`` is ``before`` with other content of some files, given by name and SHA-256."""
    try:
        with (
            tarfile.open(fileobj=ViewFile(before), mode="r:") as old,
            tarfile.open(fileobj=ViewFile(after), mode="r:") as new,
        ):
            for was, now in zip_longest(old, new):
                if was is None or now is None:
                    raise _wrong(after, "the rewritten archive has other files")
                other = [name for name in _SAME if getattr(was, name) != getattr(now, name)]
                if other:
                    raise _wrong(after, f"file {now.name} of the rewritten archive has another {' and '.join(other)}")
                if was.isreg():
                    expected = contents.get(was.name) or _digest(old, was)
                    if _digest(new, now) != expected:
                        raise _wrong(after, f"file {now.name} has other bytes in the rewritten archive")
    except tarfile.TarError as error:
        raise _wrong(after, f"another reader does not read the rewritten archive: {error}") from error


def _opened(view: View) -> tarfile.TarFile:
    return tarfile.open(fileobj=ViewFile(view), mode="r:")


def _digest(archive: tarfile.TarFile, info: tarfile.TarInfo) -> bytes:
    digest = hashlib.sha256(usedforsecurity=False)
    file = archive.extractfile(info)
    assert file is not None
    while block := file.read(limits.CHUNK):
        digest.update(block)
    return digest.digest()


def _wrong(after: View, text: str) -> HostError:
    return HostError(text, hint="nothing was written: report this, with the archive", chain=after.chain)
