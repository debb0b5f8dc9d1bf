"""The headers of an RPM package: the start of the payload, and the names and sizes of its files.

A header is tags with values (RPM's ``docs/manual/format_header.md``, 4.20 and 6.0). Only arrays of files are read, and
only if the cpio archive omits names and sizes, as for files of 4 GiB and in packages of version 6.
"""

from __future__ import annotations

import struct

from fatpack import magic_numbers
from fatpack.errors import BadMagic, BadValue, LimitExceeded, Truncated
from fatpack.layout import Field, Layout
from fatpack.packages import MAX_FILE_SIZE
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View


# The records of an RPM package and of the cpio archive in it.

FORMAT = "rpm"


def _text(value: bytes) -> str:
    return repr(value.rstrip(b"\0"))[2:-1]


LEAD = Layout(
    FORMAT,
    "lead",
    (
        Field("magic", "bytes[4]", "ed ab ee db"),
        Field("major", "u8", "format of the package: 3 for all since 1995, whatever their version"),
        Field("minor", "u8", "0"),
        Field("kind", "u16", "0 binary, 1 source"),
        Field("arch", "u16", "number of the architecture; unused"),
        Field("name", "bytes[66]", "name, version and release", _text),
        Field("os", "u16", "number of the system"),
        Field("signature_kind", "u16", "5: a header of its own"),
        Field("reserved", "bytes[16]", "zeros"),
    ),
    "big",
)

HEADER = Layout(
    FORMAT,
    "header",
    (
        Field("magic", "bytes[3]", "8e ad e8"),
        Field("version", "u8", "1"),
        Field("reserved", "bytes[4]", "zeros"),
        Field("count", "u32", "number of tags after this record, 16 bytes each"),
        Field("size", "u32", "bytes of the values after the tags"),
    ),
    "big",
)

TAG = Layout(
    FORMAT,
    "tag",
    (
        Field("tag", "u32", "meaning of the value: 1117 names of files, 1124 format of the payload"),
        Field("kind", "u32", "3 numbers of 16 bits, 4 of 32, 5 of 64; 6 text, 8 texts"),
        Field("offset", "u32", "offset of the value, from the first value"),
        Field("count", "u32", "number of numbers or texts"),
    ),
    "big",
)


def _hexadecimal(name: str, doc: str) -> Field:
    return Field(name, "bytes[8]", f"{doc}, hexadecimal", _text)


CPIO = Layout(
    FORMAT,
    "cpio header",
    (
        Field("magic", "bytes[6]", "070701; 070702 with sums in `check`", _text),
        _hexadecimal("inode", "number that links to one file share"),
        _hexadecimal("mode", "kind and permissions"),
        _hexadecimal("user", "owner's number"),
        _hexadecimal("group", "group's number"),
        _hexadecimal("links", "number of names of the file; its bytes follow the last of them"),
        _hexadecimal("time", "last modification, seconds since 1970"),
        _hexadecimal("size", "bytes of the file, after the name, both padded to 4"),
        _hexadecimal("device_major", "device that the file was on"),
        _hexadecimal("device_minor", "the same"),
        _hexadecimal("of_major", "of a device, its number"),
        _hexadecimal("of_minor", "the same"),
        _hexadecimal("name_size", "bytes of the name after the header, its NUL included"),
        _hexadecimal("check", "sum of the bytes of the file, or zero"),
    ),
    "big",
)

#: start of a header that only has a file's number in the package's header: magic, 8 digits, 2 of padding
STRIPPED, STRIPPED_SIZE = b"07070X", 16

LAYOUTS = (LEAD, HEADER, TAG, CPIO)


#: LIMIT: bytes of one header. RPM itself refuses more than 256 MB; a package of 100,000 files has 20.
_LARGEST = 64 << 20

#: RPM refuses more tags than this (``hdrchkTags`` of ``lib/header.c``).
_TAGS = 0xFFFF

#: LIMIT: files in a package's header. The largest packages of distributions have about 100,000.
_FILES = 1 << 20

#: LIMIT: characters of a name: the longest path of common systems.
_NAME = 4096

_SIZES, _WIDE_SIZES, _MODES, _INODES, _DEVICES = 1028, 5008, 1030, 1096, 1095
_FOLDERS, _FOLDER_OF, _NAMES, _LINKS = 1118, 1116, 1117, 1036

#: type of a value → struct code of its numbers
_NUMBERS = {3: "H", 4: "I", 5: "Q"}
_TEXT, _BYTES, _TEXTS = 6, 7, 8


class RpmFile(Record):
    """The header's record of a file; if ``is_linked``, its bytes are stored under another of its names."""

    folder: str
    base: str
    mode: int
    size: int
    target: str
    is_linked: bool

    @property
    def name(self) -> str:
        """The name, joined on demand: all files may share one long folder."""
        return self.folder + self.base


class RpmHeader:
    """The tags of one header at ``at``; ``end`` is the position after it. Raises FormatError."""

    def __init__(self, view: View, at: int) -> None:
        magic, _, _, count, size = HEADER.read(view, at)
        if magic != magic_numbers.RPM_HEADER:
            raise BadMagic(
                "there is no header of a package",
                format=FORMAT,
                offset=view.offset(at),
                field="header: magic",
                expected=magic_numbers.RPM_HEADER.hex(" "),
                found=magic.hex(" "),
                chain=view.chain,
            )
        if count > _TAGS:
            raise BadValue(
                "no package has so many tags",
                format=FORMAT,
                offset=view.offset(at),
                field="header: count",
                expected=f"at most {_TAGS}",
                found=str(count),
                hint="get the file again",
                chain=view.chain,
            )
        self._view = view
        self._tags_at = at + HEADER.size
        self._count = count
        self._values_at = self._tags_at + TAG.size * count
        self._size = size
        self.end = self._values_at + size
        if self.end > len(view):
            raise Truncated(
                needed=self.end - self._tags_at,
                left=len(view) - self._tags_at,
                format=FORMAT,
                offset=view.offset(self._tags_at),
                field="header",
                chain=view.chain,
            )
        if self.end - at > _LARGEST:
            raise LimitExceeded(
                f"a header of {self.end - at} bytes",
                format=FORMAT,
                offset=view.offset(at),
                field="header: size",
                expected=f"at most {_LARGEST}",
                hint="rpm2archive writes the files as a tar archive",
                chain=view.chain,
            )

    def _tag(self, wanted: int) -> tuple[int, int, int] | None:
        """Return type, position and count of a value."""
        data = self._view.read(self._tags_at, TAG.size * self._count)
        for tag, kind, offset, count in TAG.struct.iter_unpack(data):
            if tag == wanted:
                if count > _FILES:
                    raise self._wrong(tag, "no package has so many files", f"at most {_FILES}", str(count))
                return kind, offset, count
        return None

    def numbers(self, tag: int) -> tuple[int, ...]:
        """Return an array of numbers, empty if there is none. Raises BadValue if it lies outside."""
        found = self._tag(tag)
        if found is None or found[0] not in _NUMBERS:
            return ()
        kind, offset, count = found
        size = count * struct.calcsize(f">{_NUMBERS[kind]}")
        if offset + size > self._size:
            raise self._outside(tag, offset + size)
        return struct.unpack(f">{count}{_NUMBERS[kind]}", self._view.read(self._values_at + offset, size))

    def texts(self, tag: int) -> list[str]:
        """Return an array of texts, empty if there is none. Raises BadValue if it lies outside."""
        found = self._tag(tag)
        if found is None or found[0] != _TEXTS:
            return []
        _, offset, count = found
        if offset > self._size:
            raise self._outside(tag, offset)
        data = self._view.read(self._values_at + offset, self._size - offset)
        parts = data.split(b"\0", count)[:count]
        if len(parts) < count:
            raise self._outside(tag, self._size + 1)
        return [part.decode("utf-8", "surrogateescape") for part in parts]

    def text(self, tag: int) -> str:
        """Return one text, "" if there is none. Raises BadValue if it lies outside."""
        found = self._tag(tag)
        if found is None or found[0] != _TEXT:
            return ""
        if found[1] > self._size:
            raise self._outside(tag, found[1])
        data = self._view.read(self._values_at + found[1], min(self._size - found[1], _NAME))
        return data.partition(b"\0")[0].decode("utf-8", "surrogateescape")

    def binary(self, tag: int) -> bytes:
        """Return some bytes, none if there are none. Raises BadValue if they lie outside."""
        found = self._tag(tag)
        if found is None or found[0] != _BYTES:
            return b""
        _, offset, count = found
        if offset + count > self._size:
            raise self._outside(tag, offset + count)
        return self._view.read(self._values_at + offset, count)

    def _outside(self, tag: int, end: int) -> BadValue:
        return self._wrong(tag, "the value lies outside of the header", f"at most {self._size}", str(end))

    def _wrong(self, tag: int, problem: str, expected: str, found: str) -> BadValue:
        return BadValue(
            problem,
            format=FORMAT,
            offset=self._view.offset(self._values_at),
            field=f"header: tag {tag}",
            expected=expected,
            found=found,
            hint="get the file again",
            chain=self._view.chain,
        )

    def files(self) -> list[RpmFile]:
        """Return the records of the files by their numbers. Raises BadValue."""
        names, folders, folder_of = self.texts(_NAMES), self.texts(_FOLDERS), self.numbers(_FOLDER_OF)
        sizes = self.numbers(_WIDE_SIZES) or self.numbers(_SIZES)
        modes, targets = self.numbers(_MODES), self.texts(_LINKS)
        inodes, devices = self.numbers(_INODES), self.numbers(_DEVICES)
        targets = targets or [""] * len(names)
        for tag, values in ((_FOLDER_OF, folder_of), (_SIZES, sizes), (_MODES, modes), (_LINKS, targets)):
            if len(values) != len(names):
                problem = "the tags say something of another number of files"
                raise self._wrong(tag, problem, f"{len(names)}, as there are names", str(len(values)))
        last: dict[tuple[int, int], int] = {}
        if len(inodes) == len(devices) == len(names):
            last = {key: number for number, key in enumerate(zip(devices, inodes, strict=True))}
        found = []
        for number, (name, folder, size, mode, target) in enumerate(
            zip(names, folder_of, sizes, modes, targets, strict=True)
        ):
            if folder >= len(folders):
                raise self._wrong(_FOLDER_OF, "there is no such folder", f"less than {len(folders)}", str(folder))
            length = len(folders[folder]) + len(name)
            if length > _NAME:
                raise self._wrong(_NAMES, "no name is so long", f"at most {_NAME} characters", str(length))
            if size > MAX_FILE_SIZE:
                raise self._wrong(_WIDE_SIZES, "no file can have so many bytes", f"at most {MAX_FILE_SIZE}", str(size))
            is_linked = bool(last) and last[devices[number], inodes[number]] != number
            found.append(RpmFile(folders[folder], name, mode, size, target, is_linked))
        return found


def find_payload(view: View) -> tuple[RpmHeader, int]:
    """Return the main header, and the start of the payload. Raises FormatError."""
    LEAD.read(view, 0)
    signature = RpmHeader(view, LEAD.size)
    header = RpmHeader(view, -(-signature.end // 8) * 8)  # the signature is padded to 8
    return header, header.end
