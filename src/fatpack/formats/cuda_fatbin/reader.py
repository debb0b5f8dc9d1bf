"""The walk over the entries of a fat binary: each is read, or named with what is wrong, and the next one is found."""

from __future__ import annotations

from fatpack import limits
from fatpack.errors import LimitExceeded, Truncated, pluralize
from fatpack.formats.cuda_fatbin.faults import fatbin_error, fatbin_errors
from fatpack.formats.cuda_fatbin.layout import (
    ALIGN,
    ENTRY,
    FORMS,
    GROUP,
    HEADER,
    KINDS,
    MAGIC,
)
from fatpack.formats.cuda_fatbin.reading_entry import entry_target, read_entry
from fatpack.formats.cuda_fatbin.resume import Resynchronizer, is_entry, is_plausible, range_problem, starts_fatbin
from fatpack.formats.cuda_fatbin.stored import CudaEntry, CudaEntryHeader, CudaGroup
from fatpack.formats.diagnostics import FindingCollector

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.errors import BadValue
    from fatpack.io.source import Span, View


def _cut_image(head: CudaEntryHeader, room: int) -> str:
    """Return what an image was that is not all there, "" if its header is wrong even for the ``room`` it once had."""
    if not is_plausible(head, room):
        return ""
    what = FORMS.get(head.kind, KINDS[head.kind])
    return (
        f"the {what} for {entry_target(head.sm, head.flags).arch} is cut short"
        if head.sm
        else f"the {what} is cut short"
    )


#: advice for an entry that is listed with sizes of which one is wrong
_WHOLE = "the image is whole: it is listed by what its other numbers and the next entry say"


def _wrong_field(head: CudaEntryHeader, mended: CudaEntryHeader) -> str:
    return "header_size" if mended.place != head.place else "padded_size"


def _size_of(head: CudaEntryHeader, field: str) -> int:
    return head.place if field == "header_size" else head.padded_size


class EntryWalk:
    """The entries of a fat binary, from the first to the last.

    ``rest`` are all bytes from its first on, ``size`` its own as its header has them, ``stored`` those that it has.
    """

    def __init__(self, rest: View, size: int, faults: FindingCollector) -> None:
        self.parts: list[CudaEntry | CudaGroup] = []
        self.unknown: list[Span] = []
        self.stored = rest.slice(0, min(size, len(rest)))
        self._rest = rest
        self._size = size
        self._faults = faults
        #: what is wrong with the last entry, which may be read anew
        self._of_last = faults.fresh()
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
                self._noted.unreadable("FP1005", self._too_many(at), stored.span(at))
                self.unknown.append(stored.span(at))
                return
            parts, following = self._parts_at(at)
            if not parts:
                self.unknown.append(stored.span(at, following - at))
            self.parts += parts
            at = following
        self._keep()

    def _parts_at(self, at: int) -> tuple[Sequence[CudaEntry | CudaGroup], int]:
        """Return the entry or group at a position, with its members, and where the next one is."""
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
        """Return what follows where zeros are, or too few bytes for an entry; None if it may be one all the same."""
        stored, following = self.stored, self._after(at)
        gap = stored.slice(at, following - at)
        if gap.is_zero():
            before = self._before(at) if self._last_ends_early(at) else None
            if before is None:
                self._noted.unexpected("FP1404", gap.span(), f"{len(gap)} zero bytes that belong to no entry")
            return before or ((), following)
        if left >= ENTRY.size:
            return None
        if is_entry(self._rest, at):
            head = CudaEntryHeader(*ENTRY.read(self._rest, at))
            self._extend(at + head.place + head.padded_size)
            return self._read(at, head)
        before = self._before(at)
        if before is None:
            self._noted.unreadable("FP1401", self._cut_short(at), stored.span(at))
        return before or ((), len(stored))

    def _last_ends_early(self, at: int) -> bool:
        """Return whether the last entry does not hold all of its image, so that the zeros behind it may be its own."""
        if self._last is None:
            return False
        from fatpack.formats.cuda_fatbin.mending import recover_sizes

        start, head = self._last
        return recover_sizes(self.stored.slice(start, at - start), head) is None

    def _read(self, at: int, head: CudaEntryHeader) -> tuple[Sequence[CudaEntry | CudaGroup], int]:
        """Return the entry or group at a position, whose sizes hold, and where the next one is."""
        entry = self.stored.slice(at, head.place + head.padded_size)
        self._last = None
        if head.kind == GROUP:
            from fatpack.formats.cuda_fatbin.group import read_group

            return read_group(entry, head, self._noted), at + len(entry)
        self._keep()
        self._last = (at, head)
        return [read_entry(entry, head, self._of_last)], at + len(entry)

    def _misplaced(
        self, at: int, head: CudaEntryHeader, problem: tuple[str, str]
    ) -> tuple[Sequence[CudaEntry | CudaGroup], int]:
        """Return what can be had where the sizes of an entry do not hold, and where the next one is."""
        before = self._before(at)
        if before is not None:
            return before
        if self._is_extended(at, head):
            return self._read(at, head)
        from fatpack.formats.cuda_fatbin.mending import recover_sizes

        field, text = problem
        following = self._after(at)
        span = self.stored.span(at, following - at)
        mended = recover_sizes(self.stored.slice(at, following - at), head)
        if mended is not None:
            wrong = _wrong_field(head, mended)
            text = text if wrong == field else f"it is {head.place:#x}, and the image starts at {mended.place:#x}"
            self._noted.unreadable("FP1401", self._fault(at, wrong, text, _WHOLE), span)
            return self._read(at, mended)
        self._noted.unreadable("FP1401", self._fault(at, field, text, _cut_image(head, self._size - at)), span)
        return (), following

    def _before(self, at: int) -> tuple[Sequence[CudaEntry | CudaGroup], int] | None:
        """Return the entry before a position where none is, if it is whole up to where the next one really starts."""
        if self._last is None:
            return None
        from fatpack.formats.cuda_fatbin.mending import find_entry_before, recover_sizes

        (start, head), self._last = self._last, None
        inside = find_entry_before(self.stored, start + ENTRY.size, at)
        for following in (inside, self._after(at)):
            mended = None if following is None else recover_sizes(self.stored.slice(start, following - start), head)
            if following is None or mended is None:
                continue
            self._take_back()
            field = _wrong_field(head, mended)
            self._note(start, following, field, _size_of(head, field), _WHOLE)
            return self._read(start, mended)
        if inside is None:
            return None
        self._take_back()
        self._note(start, inside, "padded_size", head.padded_size, _cut_image(head, self._size - start))
        self.unknown.append(self.stored.span(start, inside - start))
        return (), inside

    @property
    def _noted(self) -> FindingCollector:
        """What is wrong so far, the last entry included."""
        self._keep()
        return self._faults

    def _keep(self) -> None:
        """Let what is wrong with the last entry stand."""
        if self._of_last:
            self._faults.take(self._of_last)
            self._of_last = self._faults.fresh()

    def _take_back(self) -> None:
        """Forget the last entry, and what is wrong with it."""
        del self.parts[-1]
        self._of_last = self._faults.fresh()

    def _note(self, start: int, following: int, field: str, size: int, hint: str) -> None:
        error = self._fault(start, field, f"it is {size:#x}, and no entry follows there", hint)
        self._noted.unreadable("FP1401", error, self.stored.span(start, following - start))

    def _fault(self, at: int, field: str, text: str, hint: str) -> BadValue:
        """Return the error for a field of the entry that comes next, which starts at a position."""
        name = f"entry[{len(self.parts)}].{field}"
        return fatbin_error(self.stored, at + ENTRY.field_offset(field), name, text, hint=hint)

    def _goes_on(self, at: int) -> bool:
        """Return whether an entry follows where a fat binary ends by its size, which is wrong then."""
        rest = self._rest
        if at != len(self.stored) or at >= len(rest) or not is_entry(rest, at):
            return False
        head = CudaEntryHeader(*ENTRY.read(rest, at))
        self._extend(at + head.place + head.padded_size)
        return True

    def _is_extended(self, at: int, head: CudaEntryHeader) -> bool:
        """Return whether an entry reaches over the end because the size of the fat binary is too small."""
        end = at + head.place + head.padded_size
        rest = self._rest
        if self._size > len(self.stored) or not is_plausible(head, len(rest) - at):
            return False
        if any(starts_fatbin(rest, place) for place in range(len(self.stored) & ~7, end, ALIGN)):
            return False
        self._extend(end)
        return True

    def _extend(self, end: int) -> None:
        """Take bytes in that are behind the end which the header states."""
        if not self._is_extended_already:
            where, text = HEADER.field_offset("entries_size"), f"it is {self._size - HEADER.size}, and entries follow"
            error = fatbin_error(
                self._rest, where, "entries_size", text, hint="they are read as entries of this fat binary"
            )
            self._noted.unreadable("FP1402", error, self._rest.span(0, HEADER.size))
            self._is_extended_already = True
        self.stored = self._rest.slice(0, end)
        self._resumption = None

    def _after(self, at: int) -> int:
        if self._resumption is None:
            self._resumption = Resynchronizer(self.stored)
        return self._resumption.after(at + 8 & ~7)

    def _swallows(self, at: int) -> None:
        """Note that another fat binary starts inside of this one; the walk over the file goes on with it."""
        stored = self.stored
        error = fatbin_error(
            stored, HEADER.field_offset("entries_size"), "entries_size", "another fat binary starts inside"
        )
        self._noted.unreadable("FP1402", error, stored.span(at))

    def _cut_short(self, at: int) -> Truncated:
        return fatbin_errors.cut(self.stored, at, "entry", ENTRY.size)

    def _too_many(self, at: int) -> LimitExceeded:
        hint = limits.advice("IMAGES")
        return fatbin_errors.limit(
            self.stored, at, "entries", f"more than {pluralize(limits.IMAGES, 'entry')}", hint=hint
        )
