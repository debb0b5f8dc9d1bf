"""The directory of a zip archive: found from the end, read one entry at a time.

``zipfile`` makes a record of 500 bytes for each entry, all at once, does not show which one is damaged, and reads none
if one is. This module keeps eight bytes of each entry: the file's offset, which shows files that share bytes.

QUIRK(self-extracting archives): offsets count from the first byte of the archive, which may follow a program; some
writers count from the first byte of the file. The directory ends at the start of its end record: that gives the base.
QUIRK(Java before 7, Info-ZIP): more than 65,535 entries without Zip64, counted modulo 65,536.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right

from fatpack import magic_numbers
from fatpack.errors import BadMagic, BadValue, Truncated
from fatpack.layout import Field, Layout
from fatpack.packages import MAX_FILE_SIZE
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View


# The records of a zip archive (PKWARE's APPNOTE.TXT 6.3.10, section 4.3), and the numbers in them.

FORMAT = "zip"

END = Layout(
    FORMAT,
    "end of central directory",
    (
        Field("magic", "bytes[4]", "end of central dir signature: `PK`, 5, 6"),
        Field("disk", "u16", "number of this disk; 0"),
        Field("directory_disk", "u16", "number of the disk on which the directory starts; 0"),
        Field("disk_entries", "u16", "entries of the directory on this disk"),
        Field("entries", "u16", "entries of the directory; 0xffff: see the record of Zip64"),
        Field("directory_size", "u32", "bytes of the directory; 0xffffffff: see the record of Zip64"),
        Field("directory_offset", "u32", "offset of the directory, from the first byte of the archive"),
        Field("comment_size", "u16", "bytes of the comment after this record, which ends the archive"),
    ),
)

LOCATOR = Layout(
    FORMAT,
    "Zip64 end of central directory locator",
    (
        Field("magic", "bytes[4]", "`PK`, 6, 7; the record lies right before the end of central directory"),
        Field("disk", "u32", "number of the disk that has the record of Zip64; 0"),
        Field("offset", "u64", "where that record starts, from the first byte of the archive"),
        Field("disks", "u32", "number of disks; 1"),
    ),
)

END_64 = Layout(
    FORMAT,
    "Zip64 end of central directory",
    (
        Field("magic", "bytes[4]", "`PK`, 6, 6"),
        Field("record_size", "u64", "bytes of the record after this field"),
        Field("made_by", "u16", "version made by"),
        Field("needed", "u16", "version needed to extract"),
        Field("disk", "u32", "number of this disk; 0"),
        Field("directory_disk", "u32", "number of the disk on which the directory starts; 0"),
        Field("disk_entries", "u64", "entries of the directory on this disk"),
        Field("entries", "u64", "entries of the directory"),
        Field("directory_size", "u64", "bytes of the directory"),
        Field("directory_offset", "u64", "offset of the directory, from the first byte of the archive"),
    ),
)

ENTRY = Layout(
    FORMAT,
    "entry of the central directory",
    (
        Field("magic", "bytes[4]", "central file header signature: `PK`, 1, 2"),
        Field("made_by", "u16", "version made by; the upper byte says how to read external_attributes (3: Unix)"),
        Field("needed", "u16", "version needed to extract"),
        Field("flags", "u16", "general purpose bit flag: bit 0 encrypted, 3 sizes after the data, 11 UTF-8"),
        Field("method", "u16", "compression method: 0 stored, 8 deflate, 12 bzip2, 14 LZMA, 93 zstd, 95 xz"),
        Field("time", "u16", "last modification, time of MS-DOS"),
        Field("date", "u16", "last modification, date of MS-DOS"),
        Field("crc", "u32", "CRC-32 of the inflated bytes"),
        Field("stored_size", "u32", "compressed size in bytes; 0xffffffff: see the extra field of Zip64"),
        Field("size", "u32", "uncompressed size in bytes; 0xffffffff: as above"),
        Field("name_size", "u16", "bytes of the name, which follows this record"),
        Field("extra_size", "u16", "bytes of the extra fields, which follow the name"),
        Field("comment_size", "u16", "bytes of the comment, which follows the extra fields"),
        Field("disk", "u16", "disk number start; 0"),
        Field("internal_attributes", "u16", "bit 0: the file is text"),
        Field("external_attributes", "u32", "of Unix: the mode in the upper half"),
        Field("offset", "u32", "offset of the local header; 0xffffffff: see the extra field of Zip64"),
    ),
)

LOCAL = Layout(
    FORMAT,
    "local file header",
    (
        Field("magic", "bytes[4]", "local file header signature: `PK`, 3, 4"),
        Field("needed", "u16", "version needed to extract"),
        Field("flags", "u16", "as in the directory"),
        Field("method", "u16", "as in the directory"),
        Field("time", "u16", "as in the directory"),
        Field("date", "u16", "as in the directory"),
        Field("crc", "u32", "as in the directory; with bit 3 of the flags it is 0 here and follows the data"),
        Field("stored_size", "u32", "as in the directory, or 0 as above"),
        Field("size", "u32", "as in the directory, or 0 as above"),
        Field("name_size", "u16", "bytes of the name, which follows this record"),
        Field("extra_size", "u16", "bytes of the extra fields, after which the data start"),
    ),
)

LAYOUTS = (END, LOCATOR, END_64, ENTRY, LOCAL)

#: Value of a field whose number is in the extra field of Zip64, and the number of that extra field
FULL_16, FULL, EXTRA_64 = 0xFFFF, 0xFFFFFFFF, 0x0001

#: Info-ZIP's extra field with a name in UTF-8
EXTRA_NAME = 0x7075

ENCRYPTED, SIZES_BEHIND, UTF_8, MASKED = 1 << 0, 1 << 3, 1 << 11, 1 << 13

#: number of a method → its name in :mod:`fatpack.packages.streams`; "" for stored
METHODS = {0: "", 8: "deflate", 12: "bzip2", 14: "lzma in zip", 93: "zstd", 95: "xz"}

#: number of an unsupported method → its name
UNSUPPORTED_METHODS = {
    1: "shrunk",
    6: "imploded",
    9: "deflate64",
    19: "LZ77",
    97: "WavPack",
    98: "PPMd",
    99: "encrypted with AES",
}


#: Bytes of the directory that are read at a time, at most three of the longest entries.
_STEP = 256 << 10

#: Maximum size of the comment at the end.
_COMMENT = 0xFFFF


class ZipEntry(Record):
    """One entry of the directory: positions are relative to the package's first byte.

    ``at`` is the position of the entry, ``header_at`` of the local header, ``ends_before`` of the next file's, or of
    the directory. ``raw_name`` are the bytes of the name; ``damage`` is the reason if the data cannot be found, else
    "".
    """

    name: str
    raw_name: bytes
    at: int
    header_at: int
    ends_before: int
    made_by: int
    flags: int
    method: int
    crc: int
    stored_size: int
    size: int
    attributes: int
    damage: str

    @property
    def is_folder(self) -> bool:
        """True for a folder, according to the name."""
        return self.name.endswith("/")

    @property
    def is_link(self) -> bool:
        """True for a symbolic link, whose content is its target (S_IFLNK of Unix)."""
        return self.made_by >> 8 == 3 and self.attributes >> 28 == 0xA


class ZipDirectory:
    """The directory of ``view``: its position, and its entries.

    ``start`` and ``directory_end`` are its span; ``end_records_at`` is the start of the end records (Zip64's if there
    is one), and ``end_at`` that of the last of them. ``shift`` is added to the offsets in it, ``end`` is the position
    after the archive, ``places`` are those of all local headers, sorted. Raises FormatError if there is no directory,
    or it is outside of the file.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        end_at = _end_at(view)
        _, disk, directory_disk, _, count, size, offset, comment = END.read(view, end_at)
        self.end_at, self.end = end_at, end_at + END.size + comment
        end = end_at
        wide = _wide(view, end_at) if FULL in (size, offset) or FULL_16 in (count, disk) else None
        if wide is not None:
            end = wide
            _, _, _, _, disk, directory_disk, _, count, size, offset = END_64.read(view, wide)
        if disk or directory_disk:
            raise self._wrong(end_at, "disk", "a part of an archive on several disks", "disk 0", str(disk))
        if size > end:
            found = f"{size} bytes before {view.offset(end):#x}"
            raise self._wrong(end, "directory_size", "the directory starts before the file does", "", found)
        start = end - size
        if size and view.head(start, 4) != magic_numbers.ZIP_ENTRY and view.head(offset, 4) == magic_numbers.ZIP_ENTRY:
            start = offset  # there are bytes between the directory and its end record
        self.start: int = start
        self.shift: int = start - offset
        self.directory_end: int = start + size
        self.end_records_at: int = end
        #: number of entries as it is stated: modulo 65,536 by old writers
        self.count: int = count
        self._is_wide = wide is not None
        #: positions of all local headers, sorted
        self.places = self._places()

    def _wrong(self, at: int, field: str, problem: str, expected: str, found: str) -> BadValue:
        return BadValue(
            problem,
            format=FORMAT,
            offset=self._view.offset(at),
            field=f"end of central directory: {field}",
            expected=expected,
            found=found,
            hint="the file looks truncated or assembled wrongly: get it again",
            chain=self._view.chain,
        )

    def _places(self) -> array[int]:
        """Return the positions of all local headers, sorted; only of entries before damage to the directory."""
        found = array("Q")
        is_sorted, last = True, 0
        try:
            for fields, _, extra, _ in self._records():
                at = self._offset(fields, extra)
                if at is not None and 0 <= at < self.start:
                    is_sorted = is_sorted and at >= last
                    found.append(at)
                    last = at
        except (BadMagic, Truncated):
            pass  # reading the entries raises the same error
        return found if is_sorted else array("Q", sorted(found))

    def _offset(self, fields: tuple[int, ...], extra: bytes) -> int | None:
        """Return the position of an entry's local header; None if the entry does not have it."""
        offset: int = fields[_OFFSET]
        if offset == FULL and (wide := extra_field(extra, EXTRA_64)):
            values = _wide_values(fields, wide)
            if values is None:
                return None
            offset = values[2]
        return offset + self.shift

    def _records(self) -> Iterator[tuple[tuple[int, ...], bytes, bytes, int]]:
        """Yield the fields of each entry, its name, its extra fields and its position. Raises FormatError."""
        view, at, end = self._view, self.start, self.directory_end
        block, start = b"", at
        unpack = ENTRY.struct.unpack_from
        while at < end:
            inside = at - start
            if inside + ENTRY.size > len(block):
                block, start, inside = view.head(at, min(_STEP, end - at)), at, 0
            if len(block) - inside < ENTRY.size:
                raise self._cut(at, ENTRY.size, end - at)
            fields = unpack(block, inside)
            if fields[0] != magic_numbers.ZIP_ENTRY:
                raise BadMagic(
                    "the directory is damaged",
                    format=FORMAT,
                    offset=view.offset(at),
                    field="entry of the central directory: magic",
                    expected=magic_numbers.ZIP_ENTRY.hex(" "),
                    found=fields[0].hex(" "),
                    chain=view.chain,
                )
            name_size, extra_size, comment_size = fields[10:13]
            size = ENTRY.size + name_size + extra_size + comment_size
            if at + size > end:
                raise self._cut(at, size, end - at)
            if inside + size > len(block):
                block, start, inside = view.head(at, min(max(_STEP, size), end - at)), at, 0
            inside += ENTRY.size
            name = block[inside : inside + name_size]
            yield fields, name, block[inside + name_size : inside + name_size + extra_size], at
            at += size

    def _cut(self, at: int, needed: int, left: int) -> Truncated:
        view = self._view
        field = "entry of the central directory"
        return Truncated(needed=needed, left=left, format=FORMAT, offset=view.offset(at), field=field, chain=view.chain)

    def entries(self) -> Iterator[ZipEntry]:
        """Yield every entry in the order of the directory. Raises FormatError if it is damaged, or has too few."""
        count = 0
        for fields, raw_name, extra, at in self._records():
            yield self._entry(fields, raw_name, extra, at)
            count += 1
        if count != self.count and (self._is_wide or count & FULL_16 != self.count):
            raise self._wrong(
                self.end_at, "entries", "the directory has another number of entries", str(self.count), str(count)
            )

    def _entry(self, fields: tuple[int, ...], raw_name: bytes, extra: bytes, at: int) -> ZipEntry:
        _, made_by, _, flags, method, _, _, crc, stored_size, size = fields[:10]
        offset, damage = fields[_OFFSET], ""
        if FULL in (stored_size, size, offset) and (wide := extra_field(extra, EXTRA_64)) is not None:
            values = _wide_values(fields, wide)
            if values is None:
                damage = "the extra field of Zip64 lacks a number"
            else:
                size, stored_size, offset = values
        header_at, places = offset + self.shift, self.places
        after = bisect_right(places, header_at) if header_at >= 0 else 0
        ends_before = places[after] if after < len(places) else self.start
        if not damage and not 0 <= header_at < self.start:
            damage = f"its header is to be at {offset:#x}, which is not before the directory"
        elif not damage and after > 1 and places[after - 2] == header_at:
            damage = _SHARED
        elif size > MAX_FILE_SIZE:
            damage = f"it is to have {size} bytes, and no file has so many"
        name = _decoded(raw_name, flags, extra)
        return ZipEntry(
            name,
            raw_name,
            at,
            header_at,
            ends_before,
            made_by,
            flags,
            method,
            crc,
            stored_size,
            size,
            fields[15],
            damage,
        )


#: ``ZipEntry.damage`` of entries that are one file by several names
_SHARED = "another entry has the same header"
#: index of the offset among the fields of an entry
_OFFSET = ENTRY.position("offset")


def is_shared(entry: ZipEntry) -> bool:
    """Return whether an entry points to the header of another."""
    return entry.damage == _SHARED


def _end_at(view: View) -> int:
    """Return the position of the directory's end record. Raises BadMagic."""
    at = len(view) - END.size
    if at >= 0 and view.head(at, 4) == magic_numbers.ZIP_END and view.head(at + END.size - 2, 2) == b"\0\0":
        return at
    start = max(0, at - _COMMENT)
    tail = view.head(start, END.size + _COMMENT)
    found = tail.rfind(magic_numbers.ZIP_END)
    first = found
    while found >= 0:
        size = int.from_bytes(tail[found + END.size - 2 : found + END.size], "little")
        if found + END.size + size == len(tail):
            return start + found
        found = tail.rfind(magic_numbers.ZIP_END, 0, found)
    if 0 <= first <= len(tail) - END.size:
        return start + first  # bytes were added after it
    raise BadMagic(
        "the archive has no directory, which is at its end",
        format=FORMAT,
        offset=view.offset(len(view)),
        field="end of central directory",
        expected=f"{magic_numbers.ZIP_END.hex(' ')} in the last {END.size + _COMMENT} bytes",
        found="none",
        hint="the file looks cut short: get it again, or `zip -FF` saves what is left",
        chain=view.chain,
    )


def _wide(view: View, end_at: int) -> int | None:
    """Return the position of the Zip64 record, None if there is none."""
    at = end_at - LOCATOR.size
    if at < 0 or view.head(at, 4) != magic_numbers.ZIP64_LOCATOR:
        return None
    stated = LOCATOR.read(view, at)[2]
    # With a program before the archive the stated offset may be too small, so the usual place, right before the
    # locator, comes first.
    for place in (at - END_64.size, stated):
        if 0 <= place < at and view.head(place, 4) == magic_numbers.ZIP64_END:
            return int(place)
    raise BadMagic(
        "the archive has no Zip64 record where one is announced",
        format=FORMAT,
        offset=view.offset(at),
        field="Zip64 end of central directory locator: offset",
        expected=magic_numbers.ZIP64_END.hex(" "),
        found=view.head(stated, 4).hex(" ") if stated < len(view) else "nothing: it is after the end",
        hint="the file looks damaged: get it again",
        chain=view.chain,
    )


def extra_field(extra: bytes, wanted: int) -> bytes | None:
    """Return the content of an extra field, None if there is none; fields after a damaged one are ignored."""
    at = 0
    while at + 4 <= len(extra):
        number, size = extra[at] | extra[at + 1] << 8, extra[at + 2] | extra[at + 3] << 8
        if number == wanted and at + 4 + size <= len(extra):
            return extra[at + 4 : at + 4 + size]
        at += 4 + size
    return None


def _wide_values(fields: tuple[int, ...], wide: bytes) -> tuple[int, int, int] | None:
    """Return size, stored size and offset, from Zip64 where needed; None if that lacks one (APPNOTE 4.5.3)."""
    values, at = [], 0
    for value in (fields[9], fields[8], fields[_OFFSET]):
        if value == FULL:
            part = wide[at : at + 8]
            if len(part) < 8:
                return None
            value = int.from_bytes(part, "little")  # noqa: PLW2901  (the Zip64 value of the field)
            at += 8
        values.append(value)
    return values[0], values[1], values[2]


def _decoded(raw_name: bytes, flags: int, extra: bytes) -> str:
    """Return a name as text: UTF-8 if flagged or valid, else code page 437 of the first PCs (APPNOTE, D.1)."""
    if raw_name.isascii():
        return raw_name.decode("ascii")
    if flags & UTF_8:
        return raw_name.decode("utf-8", "surrogateescape")
    unicode_name = extra_field(extra, EXTRA_NAME)
    if unicode_name is not None and unicode_name[:1] == b"\1":
        import zlib

        if int.from_bytes(unicode_name[1:5], "little") == zlib.crc32(raw_name):
            return unicode_name[5:].decode("utf-8", "surrogateescape")
    try:
        return raw_name.decode("utf-8")
    except UnicodeDecodeError:
        return raw_name.decode("cp437")
