"""Replacing, renaming, removing and adding files in a zip archive: all others keep their stored bytes.

Between the first byte and the directory, everything that is not replaced is copied: a program before the archive, other
files with their headers, and unreferenced bytes. Order, times, attributes, extra fields and comments stay, and so do
Zip64's records; new ones are added only if a number needs them.

Added files follow the last one, in the archive and in its directory.

QUIRK(data descriptors): a replaced file gets its sizes in its header, and bit 3 of its flags is cleared.
"""

from __future__ import annotations

import zlib

from fatpack import magic_numbers
from fatpack.errors import BadValue, HostError
from fatpack.packages.zip.content import find_data
from fatpack.packages.zip.directory import (
    ENCRYPTED,
    END,
    END_64,
    ENTRY,
    EXTRA_64,
    EXTRA_NAME,
    FORMAT,
    FULL,
    FULL_16,
    LOCAL,
    LOCATOR,
    MASKED,
    SIZES_BEHIND,
    UTF_8,
    ZipDirectory,
)
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TypeAlias

    from fatpack.io.source import Piece, View
    from fatpack.packages.zip.directory import ZipEntry
    from fatpack.packages.zip.packing import PackedFile

    #: number of a field, -1 for trailing bytes, and its bytes with their header
    ExtraField: TypeAlias = tuple[int, bytes]


# Extra fields of zip archives (APPNOTE 4.5): split and joined; unknown ones are kept.


def split_extra(extra: bytes) -> list[ExtraField]:
    """Return the fields of an extra field in order. Bytes after the last whole one are the last part, with number -1.

    QUIRK(zipalign): the Android tool adds zeros, fewer than a header has.
    """
    found, at = [], 0
    while at + 4 <= len(extra):
        number, size = (int.from_bytes(extra[place : place + 2], "little") for place in (at, at + 2))
        if at + 4 + size > len(extra):
            break
        found.append((number, extra[at : at + 4 + size]))
        at += 4 + size
    return [*found, (-1, extra[at:])] if at < len(extra) else found


def make_field(number: int, content: bytes) -> ExtraField:
    """Return a field with its header."""
    return number, number.to_bytes(2, "little") + len(content).to_bytes(2, "little") + content


def with_zip64_field(extra: list[ExtraField], content: bytes) -> list[ExtraField]:
    """Return fields with that content in the one of Zip64, in its old place or before all; without it for b""."""
    new = [make_field(EXTRA_64, content)] if content else []
    place = next((place for place, (number, _) in enumerate(extra) if number == EXTRA_64), 0)
    rest = [part for part in extra if part[0] != EXTRA_64]
    return [*rest[:place], *new, *rest[place:]]


def with_unicode_name(extra: list[ExtraField], name: bytes) -> list[ExtraField]:
    """Return fields in which Info-ZIP's second name of a file, if there is one, is also the new name."""
    content = b"\1" + zlib.crc32(name).to_bytes(4, "little") + name
    return [make_field(EXTRA_NAME, content) if number == EXTRA_NAME else (number, part) for number, part in extra]


#: bits of the flags with the compression level of the old method; cleared for another method
_EFFORT = 0b110
#: version needed to extract deflated files (APPNOTE 4.4.3.2)
_NEEDED_DEFLATE = 20
#: version needed to extract Zip64 (APPNOTE 4.4.3.2), and version that writes it
_NEEDED_64, _MADE_BY_64 = 45, 45
#: bytes of the Zip64 record of the directory's end that its size does not count
_UNCOUNTED_64 = 12


class ZipChange(Record):
    """The change to one file: new content, or None for the old one, and a new name, or "" for the old one.

    A file that is ``removed`` goes with its header and its entry of the directory.
    """

    content: PackedFile | None = None
    name: str = ""
    removed: bool = False


class ZipAddition(Record):
    """A new file: its name and content; times and attributes are those of the file ``like``."""

    name: str
    content: PackedFile
    like: ZipEntry


def read_zip_entries(view: View) -> list[ZipEntry]:
    """Return every entry of the directory, in order. Raises FormatError, and HostError for an archive that cannot be
    changed."""
    directory = ZipDirectory(view)
    _refuse(view, directory)
    return list(directory.entries())


def exchange_entries(view: View, changes: Mapping[int, ZipChange], added: Sequence[ZipAddition] = ()) -> list[Piece]:
    """Return an archive in which the files of these numbers (places in the directory, from 0) are changed.

    The files of ``added`` follow all others. Raises FormatError if headers and directory disagree, HostError for an
    archive that would become invalid.
    """
    directory = ZipDirectory(view)
    _refuse(view, directory)
    entries = list(directory.entries())
    pieces: list[Piece] = []
    places: dict[int, int] = {}
    copied = grown = 0
    for number in sorted(range(len(entries)), key=lambda number: entries[number].header_at):
        entry = entries[number]
        data = find_data(view, entry)
        places[number] = entry.header_at + grown
        change = changes.get(number)
        if change is None:
            continue
        new: list[Piece] = []
        if not change.removed:
            _refuse_encrypted(view, entry, change)
            header = _header(view, entry, change)
            new = [header] if change.content is None else [header, change.content.stored]
        keeps_data = change.content is None and not change.removed
        end = data if keeps_data else data + entry.stored_size + _descriptor_size(view, entry, data)
        pieces += [view.slice(copied, entry.header_at - copied), *new]
        grown += sum(map(len, new)) - (end - entry.header_at)
        copied = end
    pieces.append(view.slice(copied, directory.start - copied))
    listing = [
        _listed(view, entry, changes.get(number), places[number] - directory.shift)
        for number, entry in enumerate(entries)
        if number not in changes or not changes[number].removed
    ]
    for addition in added:
        header, listed = _added(view, addition, directory.start + grown - directory.shift)
        pieces += [header, addition.content.stored]
        grown += len(header) + len(addition.content.stored)
        listing.append(listed)
    ending = _ending(view, directory, directory.start + grown, sum(map(len, listing)), len(listing))
    pieces += [*listing, *ending]
    return [piece for piece in pieces if len(piece)]


def _added(view: View, new: ZipAddition, offset: int) -> tuple[bytes, bytes]:
    """Return the local header of an added file, and its entry of the directory."""
    fields = list(ENTRY.read(view, new.like.at))
    name, flags = _name(new.name, 0)
    content = new.content
    sizes = len(content.stored), content.size
    if max(*sizes, offset) >= FULL:
        text = f"file {new.name} would lie beyond 4 GB, where new files are not written"
        raise HostError(text, hint="pack the archive anew from its files", chain=view.chain)
    shared = _NEEDED_DEFLATE, flags, content.method, *fields[_TIME : _TIME + 2], content.crc, *sizes, len(name), 0
    listed = ENTRY.pack(magic_numbers.ZIP_ENTRY, fields[1], *shared, 0, 0, *fields[_DISK + 1 : _OFFSET], offset)
    return LOCAL.pack(magic_numbers.ZIP, *shared) + name, listed + name


def _refuse(view: View, directory: ZipDirectory) -> None:
    """Raise HostError for an archive that any change would make invalid."""
    if directory.end < len(view):
        size = len(view) - directory.end
        raise HostError(
            f"{size} bytes follow the end of the archive: they may contain offsets, which would become wrong",
            hint="cut them off first, if they are nothing",
            chain=view.chain,
        )
    gap = directory.end_records_at - directory.directory_end
    if gap:
        raise HostError(
            f"{gap} bytes are between the directory and the record of its end: it may be signed",
            hint="pack the archive anew from its files",
            chain=view.chain,
        )


def _refuse_encrypted(view: View, entry: ZipEntry, change: ZipChange) -> None:
    """Raise HostError for a file whose content or headers are encrypted."""
    flags = entry.flags | LOCAL.read(view, entry.header_at)[2]
    if flags & MASKED or (flags & ENCRYPTED and change.content is not None):
        text = f"file {entry.name} is encrypted, and another content would not be"
        raise HostError(text, hint="decrypt it first: 7z x -p unpacks it", chain=view.chain)


def _header(view: View, entry: ZipEntry, change: ZipChange) -> bytes:
    """Return the local header of a changed file, with name and extra fields."""
    fields = list(LOCAL.read(view, entry.header_at))
    name_size, extra_size = fields[-2:]
    name = view.read(entry.header_at + LOCAL.size, name_size)
    extra = split_extra(view.read(entry.header_at + LOCAL.size + name_size, extra_size))
    needed, flags, method = fields[1:4]
    sizes = fields[7:9]
    if change.name:
        name, flags = _name(change.name, flags)
        extra = with_unicode_name(extra, name)
    if change.content is not None:
        new = change.content
        flags, method, fields[6] = _flags(flags, method, new), new.method, new.crc
        values = (new.size, len(new.stored))  # in the extra field the uncompressed size comes first
        is_wide = any(number == EXTRA_64 for number, _ in extra) or max(values) >= FULL
        extra = with_zip64_field(extra, b"".join(value.to_bytes(8, "little") for value in values) if is_wide else b"")
        sizes = [FULL, FULL] if is_wide else [values[1], values[0]]
        needed = max(needed, _NEEDED_64) if is_wide else needed
    fields[1:4], fields[7:9] = (needed, flags, method), sizes
    rest = b"".join(part for _, part in extra)
    fields[-2:] = [len(name), len(rest)]
    return LOCAL.pack(*fields) + name + rest


def _name(name: str, flags: int) -> tuple[bytes, int]:
    """Return a new name as stored, and the flags for its encoding."""
    return name.encode(), flags if name.isascii() else flags | UTF_8


def _flags(flags: int, method: int, new: PackedFile) -> int:
    flags &= ~SIZES_BEHIND
    return flags if method == new.method else flags & ~_EFFORT


def _descriptor_size(view: View, entry: ZipEntry, data: int) -> int:
    """Return the size of the data descriptor after a file's data. Raises BadValue if it is missing."""
    if not LOCAL.read(view, entry.header_at)[2] & SIZES_BEHIND:
        return 0
    end = data + entry.stored_size
    found = view.head(end, min(24, entry.ends_before - end))
    for signature in (magic_numbers.ZIP_DESCRIPTOR, b""):
        for width in (4, 8):
            sizes = (entry.stored_size, entry.size)
            if max(sizes) >> 8 * width:
                continue
            values = b"".join(size.to_bytes(width, "little") for size in sizes)
            expected = signature + entry.crc.to_bytes(4, "little") + values
            if found.startswith(expected):
                return len(expected)
    raise BadValue(
        "the sizes that are to follow the data do not",
        format=FORMAT,
        offset=view.offset(end),
        field=f"file {entry.name}: data descriptor",
        expected=f"CRC-32 {entry.crc:08x} and two sizes",
        found=found.hex(" "),
        hint="the archive was made or changed by something else than a packer: do not trust it",
        chain=view.chain,
    )


#: indices of fields of an entry of the directory
_TIME = ENTRY.position("time")
_NEEDED, _FLAGS, _METHOD, _CRC, _STORED, _SIZE = (
    ENTRY.position(name) for name in ("needed", "flags", "method", "crc", "stored_size", "size")
)
_NAME_SIZE, _EXTRA_SIZE, _COMMENT_SIZE, _DISK, _OFFSET = (
    ENTRY.position(name) for name in ("name_size", "extra_size", "comment_size", "disk", "offset")
)


def _listed(view: View, entry: ZipEntry, change: ZipChange | None, offset: int) -> bytes:
    """Return the directory entry of a file, with the new offset of its local header."""
    fields = list(ENTRY.read(view, entry.at))
    name_size, extra_size, comment_size = fields[_NAME_SIZE : _COMMENT_SIZE + 1]
    tail = view.read(entry.at + ENTRY.size, name_size + extra_size + comment_size)
    name, comment = tail[:name_size], tail[name_size + extra_size :]
    extra = split_extra(tail[name_size : name_size + extra_size])
    values = {_SIZE: entry.size, _STORED: entry.stored_size, _OFFSET: offset}
    if change is not None and change.name:
        name, fields[_FLAGS] = _name(change.name, fields[_FLAGS])
        extra = with_unicode_name(extra, name)
    if change is not None and change.content is not None:
        new = change.content
        fields[_FLAGS] = _flags(fields[_FLAGS], fields[_METHOD], new)
        fields[_METHOD], fields[_CRC] = new.method, new.crc
        values |= {_SIZE: new.size, _STORED: len(new.stored)}
    wide = b""
    old = next((part[4:] for number, part in extra if number == EXTRA_64), b"")
    taken = 0
    for place, value in values.items():  # in the order of APPNOTE 4.5.3
        was_wide = fields[place] == FULL
        taken += 8 * was_wide
        if was_wide or value >= FULL:
            wide += value.to_bytes(8, "little")
            fields[place] = FULL
        else:
            fields[place] = value
    if wide:
        fields[_NEEDED] = max(fields[_NEEDED], _NEEDED_64)
    if fields[_DISK] == FULL_16:
        wide += old[taken : taken + 4]
    extra = with_zip64_field(extra, wide)
    rest = b"".join(part for _, part in extra)
    fields[_NAME_SIZE], fields[_EXTRA_SIZE] = len(name), len(rest)
    return ENTRY.pack(*fields) + name + rest + comment


def _ending(view: View, directory: ZipDirectory, start: int, size: int, count: int) -> Sequence[bytes]:
    """Return the bytes after the directory, which now starts at ``start``: Zip64's records, the end, the comment."""
    end_at, offset = directory.end_at, start - directory.shift
    has_more = (count - directory.count) & FULL_16 != 0
    fields = list(END.read(view, end_at))
    wide = b""
    if directory.end_records_at < end_at:
        wide = _ending_64(view, directory, start, size, count)
    elif max(offset, size) >= FULL or (has_more and count >= FULL_16):
        made = (_UNCOUNTED_64, _MADE_BY_64, _NEEDED_64)
        wide = END_64.pack(magic_numbers.ZIP64_END, END_64.size - made[0], *made[1:], 0, 0, count, count, size, offset)
        wide += LOCATOR.pack(magic_numbers.ZIP64_LOCATOR, 0, offset + size, 1)
    if has_more and fields[4] != FULL_16:
        fields[3:5] = [min(count, FULL_16)] * 2
    for place, value in ((5, size), (6, offset)):
        fields[place] = FULL if fields[place] == FULL else min(value, FULL)
    return wide, END.pack(*fields) + view.read(end_at + END.size, len(view) - end_at - END.size)


def _ending_64(view: View, directory: ZipDirectory, start: int, size: int, count: int) -> bytes:
    """Return the Zip64 record and its locator, with further bytes of the old one."""
    at, end_at = directory.end_records_at, directory.end_at
    record = list(END_64.read(view, at))
    record[-2:] = size, start - directory.shift
    record[-4:-2] = count, count
    locator_at = end_at - LOCATOR.size
    locator = list(LOCATOR.read(view, locator_at))
    locator[2] += start + size - at  # relative to the same byte as before
    between = view.read(at + END_64.size, locator_at - at - END_64.size)
    return END_64.pack(*record) + between + LOCATOR.pack(*locator)
