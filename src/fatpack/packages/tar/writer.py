"""Replacing files in a plain tar archive: all others, and all headers, keep their bytes.

Only the size and the checksum change in the header of a replaced file. The end is padded to a record as before.
"""

from __future__ import annotations

import hashlib
import tarfile
from itertools import zip_longest

from fatpack import limits
from fatpack.errors import FormatError, HostError
from fatpack.io.ranges import ViewFile
from fatpack.packages.tar.reader import BLOCK, FORMAT, HEADER, SeekableTarFile, TarHeaders
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fatpack.io.source import Piece, View


# Verification of a changed archive with Python's ``tarfile``, file by file.

#: fields that must not change in any header
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


#: size of tar's records
_RECORD = 20 * BLOCK

_SIZE_AT, _SUM_AT = HEADER.field_offset("size"), HEADER.field_offset("checksum")
#: the first size with more than eleven octal digits
_LARGE = 8**11


class StoredTarFile(Record):
    """A regular file: its stored name, the end of its header, where its content starts, its size in bytes.

    ``obstacle`` is the reason if its content cannot be replaced, else "".
    """

    name: str
    at: int
    size: int
    obstacle: str


def read_files(view: View) -> Iterator[StoredTarFile]:
    """Yield the regular files in stored order. Raises FormatError for damaged headers, and for an end without zeros."""
    headers = TarHeaders(SeekableTarFile(view), lambda at: (view.offset(at), view.chain))
    for header in headers:
        if header.isreg():
            yield StoredTarFile(header.name, header.offset_data, header.size, _obstacle(header))
    if headers.last.strip(b"\0") or len(headers.last) < BLOCK:
        raise FormatError(
            "the archive does not end with blocks of zeros",
            format=FORMAT,
            offset=view.offset(headers.next_at),
            field="header",
            hint="the file looks damaged or cut short: get it again",
            chain=view.chain,
        )


def _obstacle(header: tarfile.TarInfo) -> str:
    if header.sparse is not None:
        return "it has holes"
    return "its size is in an extended header" if "size" in header.pax_headers else ""


def exchange_files(view: View, contents: Mapping[int, Sequence[Piece]]) -> list[Piece]:
    """Return an archive in which the files whose content starts at these positions have new content.

    Raises FormatError like :func:`read_files`, HostError for a file whose size cannot be changed.
    """
    pieces: list[Piece] = []
    copied = 0
    for file in list(read_files(view)):
        content = contents.get(file.at)
        if content is None:
            continue
        size = sum(map(len, content))
        if file.obstacle or size >= _LARGE:
            text = f"file {file.name} cannot be exchanged: {file.obstacle or 'it would be too large for its header'}"
            raise HostError(text, hint="unpack the package and slim the folder", chain=view.chain)
        head = file.at - BLOCK
        pieces += [
            view.slice(copied, head - copied),
            _header(view.read(head, BLOCK), size),
            *content,
            bytes(-size % BLOCK),
        ]
        copied = min(file.at + file.size + -file.size % BLOCK, len(view))
    return [*pieces, *_ending(view, copied, sum(map(len, pieces)))] if pieces else [view]


def _header(block: bytes, size: int) -> bytes:
    """Return a header for another size."""
    new = bytearray(block)
    new[_SIZE_AT : _SIZE_AT + 12] = b"%011o%c" % (size, block[_SIZE_AT + 11] if block[_SIZE_AT + 11] in b" \0" else 0)
    new[_SUM_AT : _SUM_AT + 8] = b" " * 8
    new[_SUM_AT : _SUM_AT + 8] = b"%06o\0 " % sum(new)
    return bytes(new)


def _ending(view: View, copied: int, size: int) -> list[Piece]:
    """Return the bytes after the last replaced file, padded to a record if the old archive was."""
    if len(view) % _RECORD:
        return [view.slice(copied, len(view) - copied)]
    end = _zeros_at(view)
    rest = max(end - copied, 0)
    return [view.slice(copied, rest), bytes(2 * BLOCK + -(size + rest + 2 * BLOCK) % _RECORD)]


def _zeros_at(view: View) -> int:
    """Return the start of the zeros at the end, after the last file."""
    headers = TarHeaders(SeekableTarFile(view), lambda at: (view.offset(at), view.chain))
    for _ in headers:
        pass
    return headers.next_at
