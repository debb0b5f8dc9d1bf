"""The structure of a zip archive around the data of its files: no byte may differ without a reason.

::

        bytes before the archive         unchanged
        per file   local header          unchanged except method, CRC-32, sizes and name: those of the directory
                   data                  (compared as content)
                   [sizes after it]      those of the directory
                   gap                   unchanged
        directory  entries               unchanged except the same, and the offsets of files
        [Zip64]    end, comment, rest    unchanged except number, size and offset of the directory

A file that was added lies behind all others, and its entry too, with nothing around it. Nothing was around a file that
is missing, either.

Read by ``struct`` and Python's ``zipfile``. How we know: PKWARE's APPNOTE.TXT 6.3.10, section 4.
"""

from __future__ import annotations

import struct
import zlib

from fatpack import magic_numbers
from fatpack.proof.ledger import shown_bytes
from fatpack.proof.memory import WINDOW

TYPE_CHECKING = False
if TYPE_CHECKING:
    import zipfile
    from collections.abc import Collection

    from fatpack.io.source import View
    from fatpack.proof.ledger import DifferenceLog

_LOCAL, _ENTRY = struct.Struct("<4s5H3I2H"), struct.Struct("<4s6H3I5H2I")
_END, _END_64, _LOCATOR = struct.Struct("<4s4H2IH"), struct.Struct("<4sQ2H2I4Q"), struct.Struct("<4sIQI")
_FULL_16, _FULL = 0xFFFF, 0xFFFFFFFF

#: flags for the compression level (bits 1 and 2), for sizes after the data (3), for the encoding of the name (11)
_FREE, _HAS_DESCRIPTOR = 0x80E, 0x8

#: versions needed to extract: of files that are stored, that are deflated, and of Zip64
_NEEDED = (10, 20, 45)

#: methods: stored, deflate
_STORED, _DEFLATED = 0, 8

#: extra fields: of Zip64, and Info-ZIP's name in UTF-8
_WIDE, _NAME = 0x0001, 0x7075

#: LIMIT: bytes after the directory: Zip64's records, the end and a comment of 64 KiB have fewer.
_TAIL = 1 << 17


def compare_zip_structure(
    old: zipfile.ZipFile,
    new: zipfile.ZipFile,
    before: View,
    after: View,
    ledger: DifferenceLog,
    left_out: Collection[str] = (),
) -> None:
    """Compare everything except content and names of files; the new archive may have one more at its end.

    It lacks the files with the names of ``left_out``, around which there must be no other bytes. Raises Truncated.
    """
    one, other = _ZipFrame(old, before), _ZipFrame(new, after)
    kept = [number for number, info in enumerate(one.files) if info.filename not in left_out]
    places = {number: place for place, number in enumerate(kept)}
    count = len(kept)
    if [*(places[number] for number in one.order if number in places), *range(count, len(other.files))] != other.order:
        ledger.differ("order in which the data of files lie", expected="as before", found="another")
        return
    ledger.same("byte from which offsets of the archive count", one.shift, other.shift)
    _ranges("bytes before the archive", one, other, one.prefix, other.prefix, ledger)
    for number, info in enumerate(other.files[:count]):
        was = kept[number]
        ledger.same(f"{info.filename}: local header", one.local(was), other.local(number))
        ledger.same(f"{info.filename}: entry of the directory", one.entry(was), other.entry(number))
        if not _is_same(one, other, was, number) and not other.is_ended(number):
            ledger.differ(f"{info.filename}: bytes after its compressed data", expected="none", found="some")
    gaps = dict(zip(one.order, map(one.gap, range(len(one.order))), strict=True))
    for place, number in enumerate(other.order[:count]):
        what = f"bytes after {other.files[number].filename}"
        _ranges(what, one, other, gaps[kept[number]], other.gap(place), ledger)
    for number, (start, end) in gaps.items():
        if number not in places and start != end:
            name = one.files[number].filename
            ledger.differ(f"bytes after {name}, which is left out", expected="none", found=f"{end - start} bytes")
    for number in range(count, len(other.files)):
        _added(other, number, ledger)
    tails = one.tail(), other.tail()
    for what in {**tails[0], **tails[1]}:
        ledger.same(what, tails[0].get(what, "none"), tails[1].get(what, "none"))


def _added(frame: _ZipFrame, number: int, ledger: DifferenceLog) -> None:
    """Record a difference unless an added file is stored in the plainest way: no field is free to carry anything."""
    name = frame.files[number].filename
    magic, _, flags, method, _, _, *rest = frame.local(number)
    expected: tuple[object, ...] = (magic_numbers.ZIP, 0, None, None, None, None, None, [])
    ledger.same(f"{name}: local header", expected, (magic, flags, method, *rest))
    *_, disk, _, _, extra, comment = frame.entry(number)
    ledger.same(f"{name}: entry of the directory", (0, [], b""), (disk, extra, comment))
    start, end = frame.gap(number)
    ledger.same(f"bytes after {name}", 0, end - start)
    if not frame.is_ended(number):
        ledger.differ(f"{name}: bytes after its compressed data", expected="none", found="some")


def _ranges(
    what: str, one: _ZipFrame, other: _ZipFrame, old: tuple[int, int], new: tuple[int, int], ledger: DifferenceLog
) -> None:
    sizes = old[1] - old[0], new[1] - new[0]
    if sizes[0] != sizes[1]:
        texts = [f"{size} bytes" for size in sizes]
        ledger.differ(what, offset=other.view.offset(new[0]), expected=texts[0], found=texts[1])
        return
    for at in range(0, sizes[0], WINDOW):
        size = min(WINDOW, sizes[0] - at)
        was, now = one.view.read(old[0] + at, size), other.view.read(new[0] + at, size)
        if was != now:
            ledger.differ(
                what, offset=other.view.offset(new[0] + at), expected=shown_bytes(was), found=shown_bytes(now)
            )
            return


def _is_same(one: _ZipFrame, other: _ZipFrame, was: int, number: int) -> bool:
    """Return whether a file, by its number in both, is stored as the same bytes."""
    (old, old_end), (new, new_end) = one.data(was), other.data(number)
    if old_end - old != new_end - new:
        return False
    for at in range(0, old_end - old, WINDOW):
        size = min(WINDOW, old_end - old - at)
        if one.view.read(old + at, size) != other.view.read(new + at, size):
            return False
    return True


class _ZipFrame:
    """One archive. ``order`` are the numbers of its files, in the directory, sorted by the offset of their data."""

    def __init__(self, archive: zipfile.ZipFile, view: View) -> None:
        self.view = view
        self.files = archive.infolist()
        self.order = sorted(range(len(self.files)), key=lambda number: self.files[number].header_offset)
        self._start = at = archive.start_dir
        self._entries: list[int] = []
        self.shift = 0
        for info in self.files:
            self._entries.append(at)
            fields = _ENTRY.unpack(view.read(at, _ENTRY.size))
            at += _ENTRY.size + sum(fields[10:13])
            if fields[-1] != _FULL:
                self.shift = info.header_offset - fields[-1]
        self._end = at
        first = self.files[self.order[0]].header_offset if self.order else self._start
        self.prefix = 0, first

    def local(self, number: int) -> tuple[object, ...]:
        """Return a local header; None means the same value as in the directory."""
        info, at = self.files[number], self.files[number].header_offset
        fields = _LOCAL.unpack(self.view.read(at, _LOCAL.size))
        magic, needed, flags, method, time, date, crc, stored_size, size, name_size, extra_size = fields
        name = self.view.read(at + _LOCAL.size, name_size)
        has_descriptor = bool(flags & _HAS_DESCRIPTOR)
        sizes, is_wide = (info.compress_size, info.file_size), False
        extra = self.view.read(at + _LOCAL.size + name_size, extra_size)
        rest = _extra(extra, (*sizes, 0) if has_descriptor else sizes, name)
        is_wide = any(number == _WIDE for number, _ in _parts(extra))
        sizes_and_crc = [None if crc == info.CRC or (has_descriptor and not crc) else crc]
        for value, expected in zip((stored_size, size), sizes, strict=True):
            is_redundant = value == expected or (has_descriptor and not value) or (is_wide and value == _FULL)
            sizes_and_crc.append(None if is_redundant else value)
        method = None if method == info.compress_type else method
        other_name = None if name == self._name(number) else name
        needed = None if needed in _NEEDED else needed
        return magic, needed, flags & ~_FREE, method, time, date, *sizes_and_crc, other_name, rest

    def entry(self, number: int) -> tuple[object, ...]:
        """Return an entry of the directory, without the fields that ``zipfile`` uses to find and check the content."""
        at, info = self._entries[number], self.files[number]
        fields = _ENTRY.unpack(self.view.read(at, _ENTRY.size))
        magic, made_by, needed, flags, _, time, date, *_, disk, internal, external, _ = fields
        name_size, extra_size, comment_size = fields[10:13]
        at += _ENTRY.size + name_size
        values = info.compress_size, info.file_size, info.header_offset - self.shift
        extra = _extra(self.view.read(at, extra_size), values, self._name(number))
        comment = self.view.read(at + extra_size, comment_size)
        needed = None if needed in _NEEDED else needed
        return magic, made_by, needed, flags & ~_FREE, time, date, disk, internal, external, extra, comment

    def _name(self, number: int) -> bytes:
        at = self._entries[number]
        return self.view.read(at + _ENTRY.size, _ENTRY.unpack(self.view.read(at, _ENTRY.size))[10])

    def data(self, number: int) -> tuple[int, int]:
        """Return the begin and end of the stored bytes of a file."""
        info = self.files[number]
        fields = _LOCAL.unpack(self.view.read(info.header_offset, _LOCAL.size))
        at = info.header_offset + _LOCAL.size + sum(fields[-2:])
        return at, at + info.compress_size

    def is_ended(self, number: int) -> bool:
        """Return whether a file ends at the end of its stored bytes; readers ignore the bytes after its end.

        Methods other than deflate are not checked, and the answer is no.
        """
        info, (at, end) = self.files[number], self.data(number)
        if info.compress_type == _STORED:
            return info.compress_size == info.file_size
        if info.compress_type != _DEFLATED:
            return False
        stream, size = zlib.decompressobj(-zlib.MAX_WBITS), 0
        while at < end and not stream.eof:
            data = self.view.read(at, min(WINDOW, end - at))
            at += len(data)
            while data and not stream.eof:
                size += len(stream.decompress(data, WINDOW))
                data = stream.unconsumed_tail
                if size > info.file_size:  # zipfile reads no more than it, others do
                    return False
        while not stream.eof and (more := stream.decompress(b"", WINDOW)):
            size += len(more)  # the decompressed result of the last bytes
        return stream.eof and at == end and not stream.unused_data and size == info.file_size

    def gap(self, place: int) -> tuple[int, int]:
        """Return the range of bytes between the data of a file and the next one, or the directory."""
        info = self.files[self.order[place]]
        is_last = place + 1 == len(self.order)
        end = self._start if is_last else self.files[self.order[place + 1]].header_offset
        at = self.data(self.order[place])[1]
        if _LOCAL.unpack(self.view.read(info.header_offset, _LOCAL.size))[2] & _HAS_DESCRIPTOR:
            at += self._descriptor_size(info, at)
        return at, end

    def _descriptor_size(self, info: zipfile.ZipInfo, at: int) -> int:
        """Return the size of the sizes after the data of a file; 0 if they differ from those of the directory."""
        found = self.view.head(at, 24)
        for signature in (magic_numbers.ZIP_DESCRIPTOR, b""):
            for form in ("<3I", "<I2Q"):
                if form == "<3I" and max(info.compress_size, info.file_size) > _FULL:
                    continue
                expected = signature + struct.pack(form, info.CRC, info.compress_size, info.file_size)
                if found.startswith(expected):
                    return len(expected)
        return 0

    def tail(self) -> dict[str, object]:
        """Return the values after the directory that do not follow from the directory and its files, by name."""
        size_after = len(self.view) - self._end
        if size_after > _TAIL:
            return {"more bytes after the directory than any archive has": self}  # which equals no other
        found: dict[str, object] = {}
        data, at = self.view.read(self._end, size_after), 0
        places = len(self.files), self._end - self._start, self._start - self.shift
        if data.startswith(magic_numbers.ZIP64_END) and len(data) >= _END_64.size:
            _, size, made_by, needed, disk, other, here, *stated = _END_64.unpack_from(data)
            more = data[_END_64.size : size + 12]
            at = size + 12
            if (tuple(stated), here) != (places, places[0]) or disk or other or more or (made_by, needed) != (45, 45):
                found["Zip64 record"] = made_by, needed, disk, other, here == stated[0], tuple(stated) == places, more
            if data[at : at + 4] == magic_numbers.ZIP64_LOCATOR and len(data) >= at + _LOCATOR.size:
                _, disk, offset, disks = _LOCATOR.unpack_from(data, at)
                at += _LOCATOR.size
                if (disk, offset, disks) != (0, self._end - self.shift, 1):
                    found["Zip64 locator"] = disk, offset - self._end, disks
        if data[at : at + 4] != magic_numbers.ZIP_END or len(data) < at + _END.size:
            return {"bytes after the directory": data}
        _, disk, other, here, count, size, offset, comment_size = _END.unpack_from(data, at)
        for name, value, expected, full in (
            ("disks", disk or other, 0, _FULL_16),
            ("files on this disk", here, places[0], _FULL_16),
            ("files", count, places[0], _FULL_16),
            ("size of the directory", size, places[1], _FULL),
            ("place of the directory", offset, places[2], _FULL),
        ):
            if value not in (expected, full):
                found[f"end of the archive: {name}"] = value
        at += _END.size
        comment, rest = data[at : at + comment_size], data[at + comment_size :]
        if comment_size:
            found["comment of the archive"] = comment_size, comment
        if rest:
            found["bytes after the archive"] = rest
        return found


def _parts(extra: bytes) -> list[tuple[int, bytes]]:
    """Return extra fields with their numbers; invalid bytes at the end get the number -1."""
    found, at = [], 0
    while at + 4 <= len(extra):
        number, size = struct.unpack_from("<2H", extra, at)
        if at + 4 + size > len(extra):
            break
        found.append((number, extra[at + 4 : at + 4 + size]))
        at += 4 + size
    return [*found, (-1, extra[at:])] if at < len(extra) else found


def _extra(extra: bytes, values: tuple[int, ...], name: bytes) -> list[tuple[int, bytes | None]]:
    """Return extra fields except Zip64's with such values; None means the name in UTF-8."""
    found: list[tuple[int, bytes | None]] = []
    for number, body in _parts(extra):
        wide = [value for (value,) in struct.iter_unpack("<Q", body[: len(body) // 8 * 8])]
        if number == _WIDE and len(wide) <= len(values) and set(wide) <= set(values) and not any(body[8 * len(wide) :]):
            continue
        is_name = number == _NAME and body == struct.pack("<BI", 1, zlib.crc32(name)) + body[5:]
        found.append((number, None if is_name and body[5:] == name else body))
    return found
