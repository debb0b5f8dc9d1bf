"""Checks with Python's ``zipfile``, not our reader, that a zip archive equals another except for the changed files."""

from __future__ import annotations

import hashlib
import struct
import zipfile
import zlib

from fatpack import limits
from fatpack.errors import HostError
from fatpack.io.ranges import ViewFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fatpack.io.source import View
    from fatpack.packages.zip.packing import PackedFile
    from fatpack.packages.zip.writer import ZipAddition, ZipChange

#: fields that must not change for any file; extra fields except Zip64's are compared separately
_SAME = (
    "date_time",
    "comment",
    "create_system",
    "create_version",
    "volume",
    "internal_attr",
    "external_attr",
)
#: further fields that must not change for files that keep their content
_SAME_CONTENT = ("compress_type", "CRC", "compress_size", "file_size", "flag_bits")


def verify_zip_change(
    before: View, after: View, changes: Mapping[int, ZipChange], added: Sequence[ZipAddition] = ()
) -> None:
    """Raise HostError unless ``after`` is ``before`` with these changes, by the numbers of files in the directory.

    The files of ``added`` must follow all others. Every file must have its place in the order of the directory, and all
    its stored attributes. Files that keep their content must have the same stored bytes; changed ones are read and
    compared with CRC-32, size and digest.
    """
    try:
        with zipfile.ZipFile(ViewFile(before)) as old, zipfile.ZipFile(ViewFile(after)) as new:
            kept = [
                (info, changes.get(number))
                for number, info in enumerate(old.infolist())
                if number not in changes or not changes[number].removed
            ]
            found, count = new.infolist(), len(kept)
            more = [info.filename for info in found[count:]]
            if len(found) < count or more != [one.name for one in added] or old.comment != new.comment:
                raise _wrong(after, "the rewritten archive has other files, or another comment")
            for (was, change), now in zip(kept, found, strict=False):
                _compare(before, after, was, now, change)
                if change is not None and change.content is not None:
                    _read(new, now, change.content, after)
            for addition, now in zip(added, found[count:], strict=True):
                _read(new, now, addition.content, after)
    except (zipfile.BadZipFile, RuntimeError, zlib.error, EOFError, struct.error) as error:  # all exceptions of zipfile
        raise _wrong(after, f"another reader does not read the rewritten archive: {error}") from error


def _compare(before: View, after: View, was: zipfile.ZipInfo, now: zipfile.ZipInfo, change: ZipChange | None) -> None:
    keeps = change is None or change.content is None
    names = (*_SAME, *_SAME_CONTENT) if keeps else _SAME
    other = [name for name in names if getattr(was, name) != getattr(now, name)]
    name = change.name if change is not None and change.name else was.orig_filename
    if other or now.orig_filename != name:
        raise _wrong(
            after, f"file {now.orig_filename} of the rewritten archive has another {' and '.join(other) or 'name'}"
        )
    if keeps and not _is_same(before, _data_at(before, was), after, _data_at(after, now), was.compress_size):
        raise _wrong(after, f"file {name} has other bytes in the rewritten archive")


def _data_at(view: View, info: zipfile.ZipInfo) -> int:
    """Return the start of a file's data, by its local header."""
    header = view.read(info.header_offset, 30)
    return int(info.header_offset + 30 + sum(struct.unpack("<HH", header[26:])))


def _is_same(before: View, at: int, after: View, new_at: int, size: int) -> bool:
    while size:
        step = min(size, limits.CHUNK)
        if before.read(at, step) != after.read(new_at, step):
            return False
        at, new_at, size = at + step, new_at + step, size - step
    return True


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo, content: PackedFile, after: View) -> None:
    digest = hashlib.new(content.hash_name, usedforsecurity=False)
    size = 0
    with archive.open(info) as file:  # zipfile compares the CRC-32 at the end
        while block := file.read(limits.CHUNK):
            digest.update(block)
            size += len(block)
    if size != content.size or digest.digest() != content.digest:
        raise _wrong(after, f"file {info.orig_filename} has other content in the rewritten archive")


def _wrong(after: View, text: str) -> HostError:
    hint = "nothing was written: report this, with the archive"
    return HostError(text, hint=hint, chain=after.chain)
