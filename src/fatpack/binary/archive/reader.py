"""The members of an archive in file order: only headers are read.

QUIRK(all writers): member data is padded to an even length with a newline that no header counts; a last member of odd
length may come without it.
QUIRK(BSD): ``#1/<length>`` stores the name before the data, includes it in the size, and pads it with NULs.
QUIRK(MSVC lib, llvm-lib): names in the ``//`` table end with a NUL; GNU's end with a slash and a newline.
QUIRK(GNU ar 2.19 and newer): a thin archive made from a regular one names the members of that one
``/<name>:<header offset in that archive>``.
"""

from __future__ import annotations

from fatpack import limits
from fatpack.binary.archive.layout import (
    FORMAT,
    HEADER,
    LONG_NAMES,
    MAGIC_SIZE,
    REGULAR,
    SYMBOL_TABLES,
    TERMINATOR,
    THIN,
)
from fatpack.errors import BadMagic, BadValue, FormatError, LimitExceeded, Truncated
from fatpack.findings import finding
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View
    from fatpack.model import Finding

#: LIMIT: bytes of a member name, the longest path of common systems. Without it, thousands of headers that refer to one
#: long string would make thousands of copies of it; ``limits.STRING_RATIO`` bounds the total size of names.
MAX_NAME_SIZE = 4096


class ArchiveMember(Record):
    """One entry of an archive; positions are relative to the archive's first byte.

    ``kind``: ``file``, ``symbols``, ``names`` (the ``//`` table) or ``reserved`` (tables of Microsoft that are not
    read). ``number`` counts the files from 0, None for the others. ``name``: the bytes of the name, without padding and
    slash; of a symbol table, its key in ``SYMBOL_TABLES``. ``size`` is that of the content, which starts at ``data_at``
    and in a thin archive is in another file. ``end`` is the position of the next header. ``origin``: the header offset
    inside the archive that a thin archive names, else None.
    """

    kind: str
    number: int | None
    name: bytes
    header_at: int
    data_at: int
    size: int
    end: int
    origin: int | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def title(self) -> str:
        """The name as text; bytes that are not UTF-8 are shown escaped."""
        return self.name.decode("utf-8", "backslashreplace")


def read_members(view: View) -> Iterator[ArchiveMember]:
    """Yield every entry, tables included. Raises FormatError at the first damaged header."""
    magic = view.head(0, MAGIC_SIZE)
    if magic not in (REGULAR, THIN):
        raise BadMagic(
            "not an archive",
            format=FORMAT,
            offset=view.offset(0),
            field="magic",
            expected="!<arch> or !<thin>",
            found=repr(magic)[1:],
            chain=view.chain,
        )
    reader = _MemberReader(view, magic == THIN)
    at = MAGIC_SIZE
    while at < len(view):
        member = reader.read(at)
        yield member
        at = member.end


class DamagedMember(Record):
    """Bytes of an archive that belong to no member: the error, their position, and that of the next header.

    Positions are relative to the archive's first byte.
    """

    error: FormatError
    at: int
    end: int


def read_intact_members(view: View) -> Iterator[ArchiveMember | DamagedMember]:
    """Yield every entry that can be read; for a damaged header, the damage and the entries after it.

    Raises FormatError for bytes that are not an archive. Numbers count the files that were read.
    """
    reader = _MemberReader(view, view.head(0, MAGIC_SIZE) == THIN)
    at, last, count = MAGIC_SIZE, None, 0
    while at < len(view):
        try:
            member = reader.read(at)
        except FormatError as error:
            start = at if error.offset is None else error.offset - view.start
            count += 1
            is_searched = count <= _MOST_DAMAGED and not isinstance(error, LimitExceeded)
            end = _next_header(view, at, last) if is_searched else len(view)
            yield DamagedMember(error, min(start, end), end)
            at, last = end, None
            continue
        yield member
        at, last = member.end, member


#: A header in the form of all archivers: name, date, owners, mode, size, terminator.
_LIKELY = rb"[^\0\n]{16}[-0-9 ]{12}[-0-9 ]{6}[-0-9 ]{6}[0-7 ]{8}[0-9][0-9 ]{9}`\n"

#: LIMIT: headers inside the last member that are tried before those after it.
_TRIED = 4

#: LIMIT: damaged headers of an archive after which the next one is searched. Each search may read a block.
_MOST_DAMAGED = 16


def _next_header(view: View, at: int, last: ArchiveMember | None) -> int:
    """Return the position of the next plausible header after ``at``, the end of the archive if there is none.

    If the size of the last member is too large, its bytes include the headers after it: they are used if they lead to
    the end of the archive. A member that is an archive contains headers too. A thin archive is not searched, because
    its members have no bytes there.
    """
    if view.head(0, MAGIC_SIZE) == THIN:
        return len(view)
    if last is not None and view.head(last.data_at, MAGIC_SIZE) not in (REGULAR, THIN):
        for number, place in enumerate(_likely_headers(view, last.data_at, at)):
            if number >= _TRIED:
                break
            if _leads_to_the_end(view, place):
                return place
    for place in _likely_headers(view, at + 2, len(view)):
        following = _end_of(view, place)
        if following >= len(view) or view.head(following + HEADER.size - 2, 2) == TERMINATOR:
            return place
    return len(view)


def _likely_headers(view: View, start: int, end: int) -> Iterator[int]:
    """Yield the even positions in a range with a possible header whose member is inside the archive.

    The terminator is searched first, which costs a hundredth of searching the whole header; holes are skipped.
    """
    import re

    likely = re.compile(_LIKELY)
    mark_at = HEADER.size - len(TERMINATOR)
    chunk = start
    while (chunk := view.skip_hole(chunk)) < end:
        block = view.head(chunk, limits.CHUNK + HEADER.size - 1)
        mark = block.find(TERMINATOR, mark_at)
        while mark >= 0:
            place = chunk + mark - mark_at
            is_near = place < min(end, chunk + limits.CHUNK) and place % 2 == 0
            if is_near and likely.match(block, mark - mark_at) and _end_of(view, place) <= len(view) + 1:
                yield place
            mark = block.find(TERMINATOR, mark + 1)
        chunk += limits.CHUNK


def _end_of(view: View, at: int) -> int:
    """Return the end of the member with a header at a position, by its size; past the end if that is invalid."""
    digits = HEADER.named(view, at)["size"].rstrip(b" ")
    size = int(digits) if digits.isdigit() else len(view)
    end = at + HEADER.size + size
    return end + end % 2


def _leads_to_the_end(view: View, at: int) -> bool:
    """Return whether headers follow each other from a position to the end of the archive."""
    import re

    while at < len(view):
        if not re.fullmatch(_LIKELY, view.head(at, HEADER.size)):
            return False
        at = _end_of(view, at)
    return at <= len(view) + 1


class _MemberReader:
    """Reads headers in order, and stores tables that later names refer to."""

    def __init__(self, view: View, is_thin: bool) -> None:
        self._view = view
        self._is_thin = is_thin
        self._long_names: View | None = None
        self._symbol_tables = 0
        self._files = 0
        self._name_bytes_left = max(limits.STRING_FLOOR, limits.STRING_RATIO * len(view))

    def read(self, at: int) -> ArchiveMember:
        """Return the entry with the header at a position. Raises FormatError."""
        view = self._view
        field, _date, _user, _group, _mode, size_field, terminator = HEADER.read(view, at)
        if terminator != TERMINATOR:
            raise self._bad(at, "terminator", "the member header is damaged", "60 0a", terminator.hex(" "))
        stored = self._decimal(size_field)
        if stored is None:
            raise self._bad(at, "size", "not a decimal number", "digits", repr(size_field.rstrip())[1:])
        spelling = field.rstrip(b" ")
        data_at = at + HEADER.size
        inline = self._decimal(spelling[3:]) if spelling.startswith(b"#1/") else None
        name = spelling
        if inline is not None:
            if inline > stored or inline > MAX_NAME_SIZE:
                limit = min(stored, MAX_NAME_SIZE)
                raise self._bad(at, "name", "the name is longer than the member", f"at most {limit}", str(inline))
            if self._is_thin:
                raise self._bad(at, "name", "a thin archive has no names in front of data", "a GNU name", "#1/")
            name = view.head(data_at, inline).rstrip(b"\0")
        kind, name = self._classify(name, at)
        is_elsewhere = self._is_thin and kind == "file"
        present = data_at if is_elsewhere else data_at + stored
        if present > len(view):
            raise Truncated(
                needed=stored,
                left=len(view) - data_at,
                format=FORMAT,
                offset=view.offset(data_at),
                field=f"member {name.decode('utf-8', 'backslashreplace')}",
                chain=view.chain,
            )
        end = min(present + (present & 1), len(view))
        data_at += inline or 0
        size = stored - (inline or 0)
        if kind == "names":
            self._long_names = view.slice(data_at, size)
        if kind != "file":
            self._symbol_tables += kind == "symbols"
            return ArchiveMember(kind, None, name, at, data_at, size, end)
        name, origin, findings = self._file_name(name, at, inline is not None)
        self._spend(len(name), at)
        self._files += 1
        return ArchiveMember(kind, self._files - 1, name, at, data_at, size, end, origin, findings)

    def _classify(self, name: bytes, at: int) -> tuple[str, bytes]:
        if name == b"/" and self._symbol_tables:
            return "symbols", b"second"
        if name in (b"/", b"/SYM64/") or (at == MAGIC_SIZE and name in SYMBOL_TABLES):
            return "symbols", name
        if name == LONG_NAMES:
            return "names", name
        return ("reserved" if name.startswith(b"/<") else "file"), name

    def _file_name(self, name: bytes, at: int, is_inline: bool) -> tuple[bytes, int | None, tuple[Finding, ...]]:
        """Return a file's plain name, its origin, and the error of the name."""
        if is_inline:
            return name, None, ()
        number, colon, origin_digits = name[1:].partition(b":")
        place = self._decimal(number) if name.startswith(b"/") else None
        if place is None:
            return name.removesuffix(b"/"), None, ()
        origin = self._decimal(origin_digits) if colon and self._is_thin else None
        if colon and origin is None:
            return name, None, (self._unreadable(at, name, "it is no number"),)
        table = self._long_names
        if table is None or place >= len(table):
            return name, None, (self._unreadable(at, name, "no table of long names holds it"),)
        text = table.head(place, MAX_NAME_SIZE)
        ends = [end for end in (text.find(b"\n"), text.find(b"\0")) if end >= 0]
        if not ends:
            return name, None, (self._unreadable(at, name, f"it has no end within {MAX_NAME_SIZE} bytes"),)
        return text[: min(ends)].removesuffix(b"/"), origin, ()

    def _spend(self, size: int, at: int) -> None:
        """Count the bytes of a name. Raises LimitExceeded if headers share so many that copies would fill memory."""
        self._name_bytes_left -= size
        if self._name_bytes_left < 0:
            raise LimitExceeded(
                "the members' names are many times the size of the archive",
                format=FORMAT,
                offset=self._view.offset(at),
                field="member header: name",
                hint=limits.advice("STRING_RATIO"),
                chain=self._view.chain,
            )

    @staticmethod
    def _decimal(field: bytes) -> int | None:
        digits = field.rstrip(b" ")
        return int(digits) if digits.isdigit() else None

    def _unreadable(self, at: int, name: bytes, problem: str) -> Finding:
        return finding("FP2102", self._view.span(at, 16), f"long name {name.decode('utf-8', 'replace')}: {problem}")

    def _bad(self, at: int, field: str, problem: str, expected: str, found: str) -> FormatError:
        return BadValue(
            problem,
            format=FORMAT,
            offset=self._view.offset(at + HEADER.field_offset(field)),
            field=f"member header: {field}",
            expected=expected,
            found=found,
            chain=self._view.chain,
        )
