"""The content of a file in a zip archive: checked against its local header, a range of the archive if it is stored."""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.errors import BadMagic, BadValue, Truncated, Unsupported
from fatpack.packages import streams
from fatpack.packages.members import LazyInflatedMember, SubRangeSource
from fatpack.packages.streams import InflatedStream
from fatpack.packages.zip.directory import (
    ENCRYPTED,
    EXTRA_64,
    FORMAT,
    FULL,
    LOCAL,
    MASKED,
    METHODS,
    SIZES_BEHIND,
    UNSUPPORTED_METHODS,
    extra_field,
    is_shared,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View
    from fatpack.packages import MemberSource
    from fatpack.packages.zip.directory import ZipEntry


class ZipMemberOpener:
    """Opens one file; used as ``PackageMember.open``, smaller than a closure for each of a million files."""

    __slots__ = ("_entry", "_view")

    def __init__(self, view: View, entry: ZipEntry) -> None:
        self._view = view
        self._entry = entry

    def __call__(self) -> MemberSource:
        """Return a source of the file. Raises FormatError and Unsupported."""
        return open_content(self._view, self._entry)


def open_content(view: View, entry: ZipEntry) -> MemberSource:
    """Return a source of the bytes of a file: in the package, or inflated on demand.

    Raises FormatError if directory and local header disagree, Unsupported for an unsupported method.
    """
    if entry.damage:
        hint = "archives that share bytes are bombs" if is_shared(entry) else "get the file again"
        raise _wrong(view, entry, entry.at, "offset", entry.damage, hint=hint)
    if entry.flags & (ENCRYPTED | MASKED) or entry.method == _AES:
        hint = "decrypt it first: 7z x -p unpacks it"
        raise Unsupported(f"file {entry.name} is encrypted", hint=hint, chain=view.chain)
    if entry.method not in METHODS:
        name = UNSUPPORTED_METHODS.get(entry.method, "unknown")
        hint = "unpack it with 7z x, and give the file itself"
        text = f"file {entry.name}: compression method {entry.method} ({name})"
        raise Unsupported(text, hint=hint, chain=view.chain)
    data = view.slice(find_data(view, entry), entry.stored_size)
    outer = view.chain[-1] if view.chain else view.source.name
    name = f"{outer}!{entry.name}"
    method = METHODS[entry.method]
    if not method:
        if entry.size != entry.stored_size:
            found = f"{entry.size} and {entry.stored_size} bytes"
            raise _wrong(view, entry, entry.at, "size", "stored as it is, in two sizes", "one size", found)
        return _StoredMember(data, name, entry.crc)
    stream = InflatedStream(data, method, format=FORMAT, field=f"file {entry.name}", expected=entry.size)
    checked = CheckedPieces(stream, entry.crc, name)
    budget, origin = view.source.budget, view.source
    return LazyInflatedMember(
        checked, entry.size, name, present=len(data), budget=budget, findings=stream.read_findings, origin=origin
    )


_AES = 99


class CheckedPieces:
    """The pieces of a stream, whose CRC-32 is checked at its end."""

    __slots__ = ("_crc", "_name", "_stream")

    def __init__(self, stream: InflatedStream, crc: int, name: str) -> None:
        self._stream = stream
        self._crc = crc
        self._name = name

    def __call__(self) -> Iterator[bytes]:
        """Yield the pieces. Raises BadValue at the end for a wrong CRC-32, and the stream's errors."""
        crc = 0
        for piece in self._stream():
            crc = streams.crc32(piece, crc)
            yield piece
        if crc != self._crc:
            raise _other_crc(self._crc, crc, self._name)


class _StoredMember(SubRangeSource):
    """A file stored uncompressed: a range of the archive, whose CRC-32 is compared on request."""

    def __init__(self, data: View, name: str, crc: int) -> None:
        super().__init__(data, name)
        self._crc = crc
        self._is_checked = False
        self._damage: BadValue | None = None

    def check(self) -> None:
        """Read everything, once. Raises BadValue if the CRC-32 differs."""
        super().check()
        if self._damage is not None:  # if it is a package, each of its many files calls this
            raise self._damage.with_traceback(None)
        if self._is_checked:
            return
        crc = 0
        for piece in self.read_once(0, self.size):
            crc = streams.crc32(piece, crc)
        if crc != self._crc:
            self._damage = _other_crc(self._crc, crc, self.name)
            raise self._damage
        self._is_checked = True


def _other_crc(expected: int, found: int, name: str) -> BadValue:
    return BadValue(
        "the content is damaged, or the directory is",
        format=FORMAT,
        field="CRC-32",
        expected=f"{expected:08x}",
        found=f"{found:08x}",
        hint="get the file again",
        chain=(name,),
    )


def find_data(view: View, entry: ZipEntry) -> int:
    """Return the start of a file's data. Raises FormatError if its local header contradicts the directory."""
    at = entry.header_at
    magic, _, flags, method, _, _, crc, stored_size, size, name_size, extra_size = LOCAL.read(view, at)
    if magic != magic_numbers.ZIP:
        raise BadMagic(
            "the directory leads to no header",
            format=FORMAT,
            offset=view.offset(at),
            field=f"file {entry.name}: local file header",
            expected=magic_numbers.ZIP.hex(" "),
            found=magic.hex(" "),
            hint="the file looks damaged: get it again",
            chain=view.chain,
        )
    name = view.read(at + LOCAL.size, name_size)
    pairs = [("name", repr(entry.raw_name)[1:], repr(name)[1:]), ("method", str(entry.method), str(method))]
    if not flags & SIZES_BEHIND:
        if FULL in (stored_size, size):
            size, stored_size = _wide_sizes(view.read(at + LOCAL.size + name_size, extra_size), size, stored_size)
        pairs += [
            ("stored_size", str(entry.stored_size), str(stored_size)),
            ("size", str(entry.size), str(size)),
            ("crc", f"{entry.crc:08x}", f"{crc:08x}"),
        ]
    for field, expected, found in pairs:
        if expected != found:
            raise _wrong(
                view,
                entry,
                at + LOCAL.field_offset("magic" if field == "name" else field),
                field,
                "its local header contradicts the directory",
                expected,
                found,
            )
    start = at + LOCAL.size + name_size + extra_size
    end = start + entry.stored_size
    if end > len(view):
        raise Truncated(
            needed=entry.stored_size,
            left=len(view) - start,
            format=FORMAT,
            offset=view.offset(start),
            field=f"file {entry.name}",
            chain=view.chain,
        )
    if end > entry.ends_before:
        raise _wrong(
            view,
            entry,
            start,
            "stored_size",
            "its bytes are those of another file, or of the directory, too",
            f"an end before {view.offset(entry.ends_before):#x}",
            f"{view.offset(end):#x}",
            hint="archives that share bytes are bombs",
        )
    return int(start)


def _wide_sizes(extra: bytes, size: int, stored_size: int) -> tuple[int, int]:
    """Return both sizes of a local header, from its Zip64 extra field if it has one."""
    wide = extra_field(extra, EXTRA_64) or b""
    values = [int.from_bytes(wide[at : at + 8], "little") for at in (0, 8) if at + 8 <= len(wide)]
    if size == FULL and values:
        size = values.pop(0)
    if stored_size == FULL and values:
        stored_size = values.pop(0)
    return size, stored_size


def _wrong(
    view: View,
    entry: ZipEntry,
    at: int,
    field: str,
    problem: str,
    expected: str = "",
    found: str = "",
    *,
    hint: str = "",
) -> BadValue:
    return BadValue(
        problem,
        format=FORMAT,
        offset=view.offset(at),
        field=f"file {entry.name}: {field}",
        expected=expected,
        found=found,
        hint=hint or "the archive was made or changed by something else than a packer: do not trust it",
        chain=view.chain,
    )
