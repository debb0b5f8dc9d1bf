"""Reader of fat binaries: walks over the entries, reports damaged ones, and finds the next one after them."""

from __future__ import annotations

from fatpack import limits
from fatpack.binary.elf.quick_header import read_quick_header
from fatpack.codecs import decompress
from fatpack.errors import FormatError, LimitExceeded, Truncated, format_hex, pluralize
from fatpack.formats.cuda_fatbin import fast_path
from fatpack.formats.cuda_fatbin.entry import (
    FRAME_HEAD_SIZE,
    check_entry,
    entry_image,
    entry_target,
    has_method,
    inflated_group_pieces,
    inflation_problem,
    lazy_inflated_view,
    read_entry,
    read_entry_strings,
    refused_size,
    refused_view,
    without_padding,
)
from fatpack.formats.cuda_fatbin.fast_path import (
    ENTRY_STARTS,
    Resynchronizer,
    is_entry,
    is_plausible,
    range_problem,
    starts_fatbin,
)
from fatpack.formats.cuda_fatbin.layout import (
    ALIGN,
    ENTRY,
    FATBIN_FORMAT,
    FLAG_OBFUSCATED,
    FORMS,
    GROUP,
    GROUP_TABLE,
    HEADER,
    KINDS,
    MAGIC,
    MEMBER,
    TEXTS,
    VERSION,
    CudaEntry,
    CudaEntryHeader,
    CudaEntryStrings,
    CudaGroup,
    Fatbin,
    compression_method,
    fatbin_error,
    fatbin_errors,
    padded_size,
)
from fatpack.formats.diagnostics import FindingCollector
from fatpack.io.inflated import PicklableCall
from fatpack.model import Container

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from typing_extensions import Buffer

    from fatpack.errors import BadValue
    from fatpack.io.source import Span, View


# Groups: several entries whose images are compressed as one (fatbinary 13.4 and later, ``-concat``).
#
# ::
#
#     0x00  an entry of kind 0x100 whose flags have the compression method
#     0x40  number of members u32, bytes of this table u32
#     0x48  the members: entries without images, each with its variable area after it
#     ....  the compressed images of all members, one after the other
#
# A member has no size of its own: it ends with its last string. Listing a group inflates nothing unless it has texts,
# whose length is not stored.


def read_group(stored: View, head: CudaEntryHeader, faults: FindingCollector) -> list[CudaEntry | CudaGroup]:
    """Return the group whose bytes are ``stored``, and its members; faults become findings."""
    packed = stored.slice(head.place, min(head.compressed_size, head.padded_size))
    problem = _not_compressed(stored, head) or inflation_problem(stored, packed, head)
    if problem is None:
        inside = _inflated(packed, head)
    else:
        faults.add_error("FP1403", problem, stored.span())
        inside = _refused(packed, problem, head.inflated_size)
    rows = list(_rows(stored.slice(0, head.place), head, faults))
    group = CudaGroup(head, stored, inside, len(rows))
    members: list[CudaEntry | CudaGroup] = [group]
    expected = 0
    for number, (row, member, area) in enumerate(rows):
        wrong = problem or _misplaced(row, member, inside, expected)
        expected += member.padded_size
        if wrong is not None and problem is None:
            faults.add_error("FP1409", wrong, row.span())
        data = packed = (
            _refused(inside, wrong, member.padded_size) if wrong else inside.slice(member.place, member.padded_size)
        )
        if wrong is None:
            check_entry(row, member, faults)
            try:
                data = without_padding(packed, member.kind) if member.kind in TEXTS else packed
            except FormatError as error:  # the first text of a group requires inflating it
                problem = error
                faults.add_error("FP1403", error, stored.span())
                data = packed = _refused(inside, error, member.padded_size)
        members.append(CudaEntry(member, row, area, packed, data, group, number))
    return members


def _inflated(packed: View, head: CudaEntryHeader) -> View:
    method = compression_method(head.flags) or ""
    size = head.inflated_size
    return lazy_inflated_view(
        packed,
        size,
        method,
        PicklableCall(_decompressed, packed, method, size),
        PicklableCall(inflated_group_pieces, packed, method, size),
    )


def _not_compressed(stored: View, head: CudaEntryHeader) -> FormatError | None:
    if compression_method(head.flags) is not None:
        return None
    return fatbin_error(stored, ENTRY.field_offset("flags"), "flags", "a group that is not compressed")


def _rows(
    header: View, group: CudaEntryHeader, faults: FindingCollector
) -> Iterator[tuple[View, CudaEntryHeader, CudaEntryStrings]]:
    """Yield the bytes, numbers and strings of every member in the table of a group."""
    table_at = group.options_offset
    if not ENTRY.size <= table_at <= len(header) - GROUP_TABLE.size:
        where = ENTRY.field_offset("options_offset")
        text = f"the table of members at {format_hex(table_at)} is outside of the header"
        faults.add_error("FP1409", fatbin_error(header, where, "options_offset", text), header.span())
        return
    count, size = GROUP_TABLE.read(header, table_at)
    table = header.slice(table_at, min(max(size, GROUP_TABLE.size), len(header) - table_at))
    at, found = GROUP_TABLE.size, 0
    while found < min(count, limits.IMAGES) and at + ENTRY.size <= len(table):
        rest = table.slice(at, len(table) - at)
        member = CudaEntryHeader(*ENTRY.read(rest, 0))
        area = read_entry_strings(rest, member, faults)
        row = rest.slice(0, min(area.end, len(rest)))
        yield row, member, area
        at += len(row)
        found += 1
    if found == limits.IMAGES < count:
        text, hint = f"{count} members, of which {found} are read", limits.advice("IMAGES")
        faults.add_error("FP1005", fatbin_errors.limit(table, 0, "member_count", text, hint=hint), table.span())
    elif found != count or at != size:
        text = f"{count} members in {size} bytes by its head, {found} in {at} bytes are there"
        faults.add_error("FP1409", fatbin_error(table, 0, "member_count", text), table.span())


def _misplaced(row: View, member: CudaEntryHeader, inside: View, expected: int) -> FormatError | None:
    """Return why a member has no image in the inflated bytes of its group; ``expected`` is its expected offset."""
    if member.kind == GROUP:
        return fatbin_error(row, 0, "kind", "a group in a group")
    if not member.padded_size:
        return fatbin_error(row, ENTRY.field_offset("padded_size"), "padded_size", "there is no image")
    if member.place + member.padded_size <= len(inside):
        return None
    # Images follow each other: if the image fits after the previous one, its offset is wrong, not its size.
    is_place = member.place >= len(inside) or expected + member.padded_size <= len(inside)
    field, number = ("image_offset", member.place) if is_place else ("padded_size", member.padded_size)
    room = format_hex(expected if is_place else len(inside) - member.place)
    text = f"it is {format_hex(number)}, past the {format_hex(len(inside))} inflated bytes of the group"
    return fatbin_error(row, MEMBER.field_offset(field), field, text, room if is_place else f"at most {room}")


def _decompressed(packed: View, method: str, size: int) -> Buffer:
    return decompress(packed, method, size, format=FATBIN_FORMAT)


def _refused(packed: View, error: FormatError, size: int) -> View:
    return refused_view(packed, refused_size(error, size), PicklableCall(error.with_traceback, None))


# Recovery of an entry's sizes if the stored ones are wrong and the image is whole.
#
# The sizes are redundant: compressed data and an ELF have a size of their own, a text ends in NUL, the strings of an
# entry end with its header, and the next entry starts after this one. One wrong number loses no image if the others
# agree.

#: LIMIT: bytes searched backwards for the start of an entry that the previous one overlapped.
_REACH = 4096


def find_entry_before(stored: View, start: int, at: int) -> int | None:
    """Return the start of the last entry between two positions, at most ``_REACH`` before the second; None if none."""
    first = max(start, at - _REACH)
    window = stored.head(first, at - first)
    places = sorted((first + window.rfind(kind) for kind in ENTRY_STARTS if kind in window), reverse=True)
    return next((place for place in places if place % ALIGN == 0 and is_entry(stored, place)), None)


def recover_sizes(entry: View, head: CudaEntryHeader) -> CudaEntryHeader | None:
    """Return the numbers of an entry with sizes that fit into its bytes; None if its image is not whole there.

    ``entry`` ends at the start of the next part.
    """
    if head.kind == GROUP:
        return None
    strings_end = _end_of_strings(entry, head)
    # The size that agrees with the end of the strings is right, the other one wrong.
    is_header_wrong = strings_end + head.padded_size == len(entry)
    places = (strings_end, head.place) if is_header_wrong else (head.place, strings_end)
    # QUIRK(fatbinary 8): it adds padding even to a multiple of 8.
    for padding in (0, ALIGN):
        for place in places:
            room = len(entry) - place
            if place >= ENTRY.size and place % ALIGN == 0 and room > 0 and _is_whole(entry, place, head, padding):
                return head.replace(place=place, padded_size=room)
    return None


def _end_of_strings(entry: View, head: CudaEntryHeader) -> int:
    """Return the end of an entry's header by the strings in it."""
    faults = FindingCollector()
    end = read_entry_strings(entry, head, faults).end
    return -1 if faults.findings else end


def _is_whole(entry: View, place: int, head: CudaEntryHeader, padding: int) -> bool:
    """Return whether the bytes from a place on are a whole image and its padding."""
    image = entry.slice(place, len(entry) - place)
    size = _size(image, head)
    return size is not None and padded_size(size) + padding == len(image)


def _size(image: View, head: CudaEntryHeader) -> int | None:
    """Return the size of an image by its contents, or by its entry; None if neither has it."""
    method = compression_method(head.flags)
    if method is not None:
        return (
            head.compressed_size
            if has_method(method, image.head(0, FRAME_HEAD_SIZE)) and head.compressed_size
            else None
        )
    if head.kind in TEXTS:
        nul = image.find(b"\0")
        return nul + 1 if nul >= 0 else None
    elf = read_quick_header(image, image.head(0, 64))
    return elf.extent()[0] if elf is not None else None


def _cut_image(head: CudaEntryHeader, room: int) -> str:
    """Return the form of a truncated image, "" if its header is invalid even for the ``room`` it originally had."""
    if not is_plausible(head, room):
        return ""
    what = FORMS.get(head.kind, KINDS[head.kind])
    return (
        f"the {what} for {entry_target(head.sm, head.flags).arch} is cut short"
        if head.sm
        else f"the {what} is cut short"
    )


#: advice for an entry that is listed with a corrected size
_WHOLE = "the image is whole: it is listed by what its other numbers and the next entry say"


def _wrong_field(head: CudaEntryHeader, recovered: CudaEntryHeader) -> str:
    return "header_size" if recovered.place != head.place else "padded_size"


def _size_of(head: CudaEntryHeader, field: str) -> int:
    return head.place if field == "header_size" else head.padded_size


class EntryWalk:
    """The entries of a fat binary, from the first to the last.

    ``rest`` are all bytes from the fat binary's first on, ``size`` is its size by the header, ``stored`` its actual
    bytes.
    """

    def __init__(self, rest: View, size: int, faults: FindingCollector) -> None:
        self.parts: list[CudaEntry | CudaGroup] = []
        self.unknown: list[Span] = []
        self.stored = rest.slice(0, min(size, len(rest)))
        self._rest = rest
        self._size = size
        self._faults = faults
        #: faults of the last entry, which may be read again
        self._of_last = faults.empty_copy()
        self._resumption: Resynchronizer | None = None
        self._is_extended_already = False
        #: the entry before the position of the walk
        self._last: tuple[int, CudaEntryHeader] | None = None

    def run(self) -> None:
        """Read all entries."""
        at = HEADER.size
        while at < len(self.stored) or self._goes_on(at):
            stored = self.stored
            if len(self.parts) >= limits.IMAGES:
                self._noted.add_error("FP1005", self._too_many(at), stored.span(at))
                self.unknown.append(stored.span(at))
                return
            parts, following = self._parts_at(at)
            if not parts:
                self.unknown.append(stored.span(at, following - at))
            self.parts += parts
            at = following
        self._keep()

    def _parts_at(self, at: int) -> tuple[Sequence[CudaEntry | CudaGroup], int]:
        """Return the entry or group at a position, with its members, and the next one's position."""
        stored, left = self.stored, len(self.stored) - at
        numbers = stored.head(at, ENTRY.size)
        if numbers.startswith(MAGIC) and starts_fatbin(stored, at):
            self._swallows(at)
            return (), len(stored)
        if left < ENTRY.size or not any(numbers):
            found = self._no_entry(at, left)
            if found is not None:
                return found
        head = CudaEntryHeader(*ENTRY.struct.unpack(numbers))
        problem = range_problem(head, left)
        if problem is not None:
            return self._misplaced(at, head, problem)
        return self._read(at, head)

    def _no_entry(self, at: int, left: int) -> tuple[Sequence[CudaEntry | CudaGroup], int] | None:
        """Return the parts and next position for zeros or too few bytes; None if there may be an entry."""
        stored, following = self.stored, self._after(at)
        gap = stored.slice(at, following - at)
        if gap.is_zero():
            before = self._before(at) if self._last_ends_early(at) else None
            if before is None:
                self._noted.add_warning("FP1404", gap.span(), f"{len(gap)} zero bytes that belong to no entry")
            return before or ((), following)
        if left >= ENTRY.size:
            return None
        if is_entry(self._rest, at):
            head = CudaEntryHeader(*ENTRY.read(self._rest, at))
            self._extend(at + head.place + head.padded_size)
            return self._read(at, head)
        before = self._before(at)
        if before is None:
            self._noted.add_error("FP1401", self._cut_short(at), stored.span(at))
        return before or ((), len(stored))

    def _last_ends_early(self, at: int) -> bool:
        """Return whether the last entry's image is not whole, so that the zeros after it may belong to it."""
        if self._last is None:
            return False

        start, head = self._last
        return recover_sizes(self.stored.slice(start, at - start), head) is None

    def _read(self, at: int, head: CudaEntryHeader) -> tuple[Sequence[CudaEntry | CudaGroup], int]:
        """Return the entry or group at a position, whose sizes are valid, and the next one's position."""
        entry = self.stored.slice(at, head.place + head.padded_size)
        self._last = None
        if head.kind == GROUP:
            return read_group(entry, head, self._noted), at + len(entry)
        self._keep()
        self._last = (at, head)
        return [read_entry(entry, head, self._of_last)], at + len(entry)

    def _misplaced(
        self, at: int, head: CudaEntryHeader, problem: tuple[str, str]
    ) -> tuple[Sequence[CudaEntry | CudaGroup], int]:
        """Return the readable part of an entry with invalid sizes, and the next one's position."""
        before = self._before(at)
        if before is not None:
            return before
        if self._is_extended(at, head):
            return self._read(at, head)

        field, text = problem
        following = self._after(at)
        span = self.stored.span(at, following - at)
        recovered = recover_sizes(self.stored.slice(at, following - at), head)
        if recovered is not None:
            wrong = _wrong_field(head, recovered)
            text = text if wrong == field else f"it is {head.place:#x}, and the image starts at {recovered.place:#x}"
            self._noted.add_error("FP1401", self._fault(at, wrong, text, _WHOLE), span)
            return self._read(at, recovered)
        self._noted.add_error("FP1401", self._fault(at, field, text, _cut_image(head, self._size - at)), span)
        return (), following

    def _before(self, at: int) -> tuple[Sequence[CudaEntry | CudaGroup], int] | None:
        """Return the entry before a position without one, if it is whole up to the real start of the next one."""
        if self._last is None:
            return None

        (start, head), self._last = self._last, None
        inside = find_entry_before(self.stored, start + ENTRY.size, at)
        for following in (inside, self._after(at)):
            recovered = None if following is None else recover_sizes(self.stored.slice(start, following - start), head)
            if following is None or recovered is None:
                continue
            self._take_back()
            field = _wrong_field(head, recovered)
            self._note(start, following, field, _size_of(head, field), _WHOLE)
            return self._read(start, recovered)
        if inside is None:
            return None
        self._take_back()
        self._note(start, inside, "padded_size", head.padded_size, _cut_image(head, self._size - start))
        self.unknown.append(self.stored.span(start, inside - start))
        return (), inside

    @property
    def _noted(self) -> FindingCollector:
        """The findings so far, including the last entry's."""
        self._keep()
        return self._faults

    def _keep(self) -> None:
        """Keep the faults of the last entry."""
        if self._of_last:
            self._faults.extend(self._of_last)
            self._of_last = self._faults.empty_copy()

    def _take_back(self) -> None:
        """Discard the last entry, and its faults."""
        del self.parts[-1]
        self._of_last = self._faults.empty_copy()

    def _note(self, start: int, following: int, field: str, size: int, hint: str) -> None:
        error = self._fault(start, field, f"it is {size:#x}, and no entry follows there", hint)
        self._noted.add_error("FP1401", error, self.stored.span(start, following - start))

    def _fault(self, at: int, field: str, text: str, hint: str) -> BadValue:
        """Return the error for a field of the next entry, which starts at a position."""
        name = f"entry[{len(self.parts)}].{field}"
        return fatbin_error(self.stored, at + ENTRY.field_offset(field), name, text, hint=hint)

    def _goes_on(self, at: int) -> bool:
        """Return whether an entry follows the end of a fat binary by its size, which is then wrong."""
        rest = self._rest
        if at != len(self.stored) or at >= len(rest) or not is_entry(rest, at):
            return False
        head = CudaEntryHeader(*ENTRY.read(rest, at))
        self._extend(at + head.place + head.padded_size)
        return True

    def _is_extended(self, at: int, head: CudaEntryHeader) -> bool:
        """Return whether an entry extends past the end because the size of the fat binary is too small."""
        end = at + head.place + head.padded_size
        rest = self._rest
        if self._size > len(self.stored) or not is_plausible(head, len(rest) - at):
            return False
        if any(starts_fatbin(rest, place) for place in range(len(self.stored) & ~7, end, ALIGN)):
            return False
        self._extend(end)
        return True

    def _extend(self, end: int) -> None:
        """Add bytes after the end that the header states."""
        if not self._is_extended_already:
            where, text = HEADER.field_offset("entries_size"), f"it is {self._size - HEADER.size}, and entries follow"
            error = fatbin_error(
                self._rest, where, "entries_size", text, hint="they are read as entries of this fat binary"
            )
            self._noted.add_error("FP1402", error, self._rest.span(0, HEADER.size))
            self._is_extended_already = True
        self.stored = self._rest.slice(0, end)
        self._resumption = None

    def _after(self, at: int) -> int:
        if self._resumption is None:
            self._resumption = Resynchronizer(self.stored)
        return self._resumption.after(at + 8 & ~7)

    def _swallows(self, at: int) -> None:
        """Report that another fat binary starts inside of this one; the scan of the file continues with it."""
        stored = self.stored
        error = fatbin_error(
            stored, HEADER.field_offset("entries_size"), "entries_size", "another fat binary starts inside"
        )
        self._noted.add_error("FP1402", error, stored.span(at))

    def _cut_short(self, at: int) -> Truncated:
        return fatbin_errors.cut(self.stored, at, "entry", ENTRY.size)

    def _too_many(self, at: int) -> LimitExceeded:
        hint = limits.advice("IMAGES")
        return fatbin_errors.limit(
            self.stored, at, "entries", f"more than {pluralize(limits.IMAGES, 'entry')}", hint=hint
        )


# Reading of fat binaries: the header, then entry by entry.
#
# cuobjdump rejects a whole file for one wrong number. Here an unreadable entry is a finding, and reading continues with
# the next one: by the sizes of the entry if they are valid, else by searching for the next entry. A wrong size loses no
# whole image: if it is the container's, entries after its end still belong to it; if it is an entry's, the size is
# recovered from its other numbers and the next part.


def detect(view: View, at: int = 0) -> bool:
    """Return whether a fat binary starts at ``at``: its magic, and a header size of 16 or an entry after it."""
    head = view.head(at, HEADER.size)
    if not head.startswith(MAGIC) or len(head) < HEADER.size:
        return False
    return head[6:8] == b"\x10\0" or is_entry(view, at + HEADER.size)


def extent(view: View, at: int = 0) -> int | None:
    """Return how many bytes the fat binary at ``at`` takes by its header, or None if that cannot be right."""
    if not detect(view, at):
        return None
    size = HEADER.size + int(HEADER.read(view, at)[3])
    return size if at + size <= len(view) else None


def parse(view: View, at: int = 0, *, strict: bool = False) -> Container:
    """Return the fat binary that starts at ``at``. Images are spans of the view, inflated on demand.

    Damaged entries are reported as findings of severity ``error``, and listed if their place is known;
    ``strict`` raises for the first of them instead. Raises BadMagic, Truncated, BadValue if there is no header;
    offsets are absolute.
    """
    container = fast_path.read_fast(view, at)
    if container is not None:
        return container
    faults = FindingCollector(strict)
    version, stored, parts, unknown = read_parts(view, at, faults)
    entries = [part for part in parts if isinstance(part, CudaEntry)]
    _note_obfuscated(entries, faults)
    images = tuple(map(entry_image, entries))
    return Container(
        FATBIN_FORMAT,
        version,
        images,
        stored.span(),
        unknown=tuple(unknown),
        findings=tuple(faults.findings),
        record=Fatbin(stored, images, {}, tuple(parts)),
    )


def read_parts(
    view: View, at: int, faults: FindingCollector
) -> tuple[int, View, list[CudaEntry | CudaGroup], list[Span]]:
    """Return the version, the bytes, the parts and the unknown spans of a fat binary: everything except its images.

    Listing a library of thousands of fat binaries needs only this. Raises the same errors as :func:`parse`.
    """
    version, size = _read_header(view, at, faults)
    left = len(view) - at
    stored = view.slice(at, min(size, left))
    if version != VERSION:
        text = f"a fat binary of version {version}"
        faults.add_warning("FP1407", stored.span(), text, f"it is read as one of version {VERSION}")
    if size > left:
        error = fatbin_errors.cut(stored, 0, "entries_size", size)
        faults.add_error("FP1402", error, stored.span())
    walk = EntryWalk(view.slice(at, left), size, faults)
    walk.run()
    return version, walk.stored, walk.parts, walk.unknown


def _read_header(view: View, at: int, faults: FindingCollector) -> tuple[int, int]:
    """Return version and size of the fat binary at a position; the size is as stored, with the header."""
    head = view.head(at, HEADER.size)
    if not head or not MAGIC.startswith(head[:4]):
        raise fatbin_errors.magic(view, at, "not a fat binary", MAGIC.hex(" "))
    _, version, header_size, size = HEADER.read(view, at)
    if header_size != HEADER.size:
        rest = view.slice(at, len(view) - at)
        where = HEADER.field_offset("header_size")
        error = fatbin_error(rest, where, "header_size", f"it is {header_size}", expected=str(HEADER.size))
        if not is_entry(rest, HEADER.size):
            raise error
        faults.add_error("FP1402", error, rest.span(0, HEADER.size))
    return version, HEADER.size + size


def _note_obfuscated(entries: Sequence[CudaEntry], faults: FindingCollector) -> None:
    obfuscated = [entry for entry in entries if entry.head.flags & FLAG_OBFUSCATED]
    if obfuscated:
        what = "an image is" if len(obfuscated) == 1 else f"{len(obfuscated)} images are"
        text = f"{what} obfuscated by NVIDIA's tools; such images are listed, and copied as they are"
        faults.add_warning("FP1408", obfuscated[0].stored.span(), text)
