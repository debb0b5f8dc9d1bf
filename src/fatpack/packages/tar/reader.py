"""Headers of tar archives, read by ``tarfile`` from a view or a stream. Its errors become ours here.

QUIRK(tarfile, Python 3.11): a damaged header ends the listing silently, like blocks of zeros; a negative size makes it
loop for ever, or hides the file since that was fixed (CVE-2025-8194); a chain of headers of long names ends in
RecursionError. So its reads are checked: never backwards, never much at once, and no header with a valid checksum is
skipped.
"""

from __future__ import annotations

import struct
import tarfile

from fatpack import magic_numbers
from fatpack.errors import BadValue, LimitExceeded, Truncated
from fatpack.layout import Field, Layout
from fatpack.packages import MAX_FILE_SIZE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

    from fatpack.io.source import View
    from fatpack.packages.streams import ForwardStream


# The header of a tar archive's files, of POSIX.1-1988 (ustar) and GNU.

FORMAT = "tar"


def _text(value: bytes) -> str:
    return repr(value.rstrip(b"\0 "))[2:-1]


HEADER = Layout(
    FORMAT,
    "header",
    (
        Field("name", "bytes[100]", "path of the file, ends with a NUL unless it fills the field", _text),
        Field("mode", "bytes[8]", "permissions, octal", _text),
        Field("user", "bytes[8]", "owner's number, octal", _text),
        Field("group", "bytes[8]", "group's number, octal", _text),
        Field(
            "size", "bytes[12]", "bytes of the file, octal; of GNU with the first bit set: a big-endian number", _text
        ),
        Field("time", "bytes[12]", "last modification, seconds since 1970, octal", _text),
        Field("checksum", "bytes[8]", "sum of all bytes of the header, blanks in this field, octal", _text),
        Field(
            "kind", "bytes[1]", "0 or NUL file, 1 hard link, 2 link, 5 folder, L long name, x and g extended headers"
        ),
        Field("link", "bytes[100]", "target of a link", _text),
        Field("magic", "bytes[6]", "ustar and a NUL; of GNU ustar and a blank; nothing in older archives", _text),
        Field("version", "bytes[2]", "00; of GNU a blank and a NUL", _text),
        Field("user_name", "bytes[32]", "owner's name", _text),
        Field("group_name", "bytes[32]", "group's name", _text),
        Field("major", "bytes[8]", "of a device, octal", _text),
        Field("minor", "bytes[8]", "of a device, octal", _text),
        Field("prefix", "bytes[155]", "part of the name before this name and a slash", _text),
        Field("padding", "bytes[12]", "zeros"),
    ),
)

_SUM_AT = HEADER.field_offset("checksum")


def is_header(block: bytes) -> bool:
    """Return whether a block is a header: its checksum matches, and it has a magic or starts with a name.

    Some writers sum signed bytes.
    """
    if len(block) < HEADER.size:
        return False
    stored = block[_SUM_AT : _SUM_AT + 8].strip(b"\0 ")
    if not stored or not stored.isdigit() or b"8" in stored or b"9" in stored:
        return False
    rest = block[:_SUM_AT] + block[_SUM_AT + 8 : HEADER.size]
    unsigned = sum(rest) + 8 * 0x20
    signed = unsigned - 256 * sum(byte > 0x7F for byte in rest)
    is_marked = block.startswith(magic_numbers.TAR, magic_numbers.TAR_AT)
    return int(stored, 8) in (unsigned, signed) and (is_marked or block[0] != 0)


BLOCK = 512

#: LIMIT: bytes of one extended header: a path, and attributes of a file system. Real ones have a few hundred.
_EXTENDED = 1 << 20

#: LIMIT: bytes of all global headers of a package together.
_GLOBAL = 64 << 10

#: exceptions of tarfile: its own, and those from fields that it does not check
_ERRORS = (tarfile.TarError, ValueError, LookupError, ArithmeticError, TypeError, struct.error, RecursionError)


class SeekableTarFile:
    """A file object over a view, for tarfile."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.at = 0
        #: the bytes read last, and the number of bytes read for one header
        self.last = b""
        self.spent = 0

    def seek(self, at: int) -> None:
        """Go to a position, never back."""
        if at < self.at:
            raise tarfile.ReadError("a header leads back to where it was")
        self.at = at

    def tell(self) -> int:
        """Return the position."""
        return self.at

    def read(self, size: int) -> bytes:
        """Return the next bytes."""
        self.spent += _bounded(size, self.spent)
        self.last = self._view.head(self.at, size)
        self.at += len(self.last)
        return self.last


class ForwardTarFile:
    """A file object over a stream, for tarfile: seeking forwards skips bytes when the next are read."""

    def __init__(self, stream: ForwardStream) -> None:
        self._stream = stream
        self._at = 0
        #: the bytes read last, and the number of bytes read for one header
        self.last = b""
        self.spent = 0

    @property
    def at(self) -> int:
        """The position."""
        return max(self._at, self._stream.at)

    def seek(self, at: int) -> None:
        """Go to a position, never back."""
        if at < self.at:
            raise tarfile.ReadError("a header leads back to where it was")
        self._at = at

    def tell(self) -> int:
        """Return the position."""
        return self.at

    def read(self, size: int) -> bytes:
        """Return the next bytes."""
        self._stream.skip_to(self._at)
        self.spent += _bounded(size, self.spent)
        self.last = self._stream.read(size)
        return self.last


def _bounded(size: int, spent: int) -> int:
    """Return ``size`` to read for one header, of which ``spent`` bytes are read. Raises ReadError if it is too big."""
    if size < 0:
        raise tarfile.ReadError(f"an extended header of {size} bytes")
    if size > _EXTENDED - spent:  # Python 3.14 reads it in parts, so that its whole size is not known here
        raise tarfile.ReadError(f"an extended header of more than {_EXTENDED} bytes")
    return size


class _TarHeader(tarfile.TarInfo):
    """A header of an archive."""

    @classmethod
    def fromtarfile(cls, tarfile_: tarfile.TarFile) -> Self:
        """Return the next header. Raises ReadError for one with a valid checksum that tarfile rejects."""
        file = tarfile_.fileobj
        try:
            return super().fromtarfile(tarfile_)
        except tarfile.HeaderError as error:
            if isinstance(file, SeekableTarFile | ForwardTarFile) and is_header(file.last):
                raise tarfile.ReadError(f"a size or place that no file has: {error}") from error
            raise


class TarHeaders:
    """The headers of a tar archive, in order. ``next_at`` is the position of the next one.

    It ends at blocks of zeros, at the end of the file, and at any block that is not a header: ``last`` are then the
    bytes at ``next_at``.
    """

    def __init__(
        self, file: SeekableTarFile | ForwardTarFile, where: Callable[[int], tuple[int, tuple[str, ...]]]
    ) -> None:
        self._file = file
        self._where = where
        self.next_at = 0

    def __iter__(self) -> Iterator[tarfile.TarInfo]:
        """Yield every header. Raises FormatError for damaged ones, and the errors of reading the archive."""
        tar = None
        try:
            tar = tarfile.TarFile(
                fileobj=self._file,  # type: ignore[arg-type]
                tarinfo=_TarHeader,
                encoding="utf-8",
                errors="surrogateescape",
            )
            while True:
                self._file.spent = 0
                header = tar.next()
                if header is None:
                    break
                vars(tar)["members"] = []  # tarfile would keep them all
                if not 0 <= header.size <= MAX_FILE_SIZE - header.offset_data or not 0 <= tar.offset <= MAX_FILE_SIZE:
                    raise tarfile.ReadError(f"a file of {header.size} bytes")
                self.next_at = tar.offset
                yield header
                if tar.pax_headers and sum(map(len, tar.pax_headers.values())) > _GLOBAL:
                    raise self._limit()
        except _ERRORS as error:
            raise self._damaged(error) from error
        self.next_at = tar.offset

    @property
    def last(self) -> bytes:
        """The bytes that were read last."""
        return self._file.last

    def _damaged(self, error: Exception) -> BadValue | Truncated:
        place, chain = self._where(self.next_at)
        words = str(error)
        if words in ("unexpected end of data", "truncated header", "empty header", "empty file"):
            return Truncated(needed=BLOCK, left=0, format=FORMAT, offset=place, field="header", chain=chain)
        if isinstance(error, RecursionError):
            words = "extended headers follow each other"
        elif not isinstance(error, tarfile.TarError):
            words = "a field is not a number, or not text"  # Python's message shows the whole field
        return BadValue(
            f"the header is damaged ({words})",
            format=FORMAT,
            offset=place,
            field="header",
            hint="get the file again",
            chain=chain,
        )

    def _limit(self) -> LimitExceeded:
        place, chain = self._where(self.next_at)
        return LimitExceeded(
            "global headers have too many bytes",
            format=FORMAT,
            offset=place,
            field="global header",
            expected=f"at most {_GLOBAL}",
            hint="pack it again without them",
            chain=chain,
        )
