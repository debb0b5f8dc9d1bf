"""Bytes → model for CUDA fat binaries: the header, then entry by entry.

cuobjdump gives a whole file up for one wrong number. Here an entry that cannot be read is a finding, and reading goes
on with the next one: by the sizes of the entry if they hold, else where the next entry shows itself.
"""

from __future__ import annotations

from fatpack.errors import BadMagic, LimitExceeded, Truncated
from fatpack.formats.cuda_fatbin.layout import (
    ENTRY,
    FLAG_OBFUSCATED,
    FORMAT,
    FORMS,
    GROUP,
    HEADER,
    KINDS,
    MAGIC,
    VERSION,
)
from fatpack.formats.cuda_fatbin.reading.entry import image_of, read_entry, target_of
from fatpack.formats.cuda_fatbin.reading.faults import Faults, fault
from fatpack.formats.cuda_fatbin.reading.group import read_group
from fatpack.formats.cuda_fatbin.reading.resume import Resumption, holds, problem_of_place, starts_fatbin
from fatpack.formats.cuda_fatbin.stored import Entry, Fatbin, Group, Head
from fatpack.io import limits
from fatpack.model import Container

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.io.source import View
    from fatpack.model import Span, Target


def detect(view: View, at: int = 0) -> bool:
    """Return whether a fat binary starts at ``at``: its magic, and a header size of 16."""
    head = view.head(at, HEADER.size)
    return head.startswith(MAGIC) and len(head) == HEADER.size and head[6:8] == b"\x10\0"


def extent(view: View, at: int = 0) -> int | None:
    """Return how many bytes the fat binary at ``at`` takes by its header, or None when that cannot be right."""
    if not detect(view, at):
        return None
    size = HEADER.size + int(HEADER.read(view, at)[3])
    return size if at + size <= len(view) else None


def parse(view: View, at: int = 0, *, strict: bool = False) -> Container:
    """Return the fat binary that starts at ``at``. Images are spans of the view, inflated when they are read.

    Entries that are damaged are reported as findings of severity ``error``, and listed if their place is known;
    ``strict`` raises for the first of them instead. Raises BadMagic, Truncated, BadValue where there is no header;
    offsets are absolute.
    """
    faults = Faults(strict)
    version, stored, parts, unknown = read_parts(view, at, faults)
    entries = [part for part in parts if isinstance(part, Entry)]
    _note_obfuscated(entries, faults)
    targets: dict[tuple[int, int], Target] = {}
    images = tuple(image_of(entry, targets) for entry in entries)
    return Container(
        FORMAT,
        version,
        images,
        stored.span(),
        unknown=tuple(unknown),
        findings=tuple(faults.findings),
        record=Fatbin(stored, images, {}, tuple(parts)),
    )


def read_parts(view: View, at: int, faults: Faults) -> tuple[int, View, list[Entry | Group], list[Span]]:
    """Return the version, the bytes, the parts and the unknown spans of a fat binary: all but its images.

    This is what listing a library of thousands of fat binaries needs. Raises what :func:`parse` does.
    """
    version, size = _read_header(view, at)
    left = len(view) - at
    stored = view.slice(at, min(size, left))
    if version != VERSION:
        text = f"a fat binary of version {version}"
        faults.odd("FP1407", stored.span(), text, f"it is read as one of version {VERSION}")
    if size > left:
        error = Truncated(
            needed=size, left=left, format=FORMAT, offset=stored.offset(0), field="entries_size", chain=view.chain
        )
        faults.lost("FP1402", error, stored.span())
    walk = _Walk(stored, size, faults)
    walk.run()
    return version, stored, walk.parts, walk.unknown


def _read_header(view: View, at: int) -> tuple[int, int]:
    """Return version and size of the fat binary at a position; the size is as stored, with the header."""
    head = view.head(at, HEADER.size)
    if not head or not MAGIC.startswith(head[:4]):
        raise BadMagic(
            "not a fat binary",
            format=FORMAT,
            offset=view.offset(at),
            field="magic",
            expected=MAGIC.hex(" "),
            found=head[:4].hex(" ") or "nothing",
            chain=view.chain,
        )
    _, version, header_size, size = HEADER.read(view, at)
    if header_size != HEADER.size:
        rest = view.slice(at, len(view) - at)
        where = HEADER.field_offset("header_size")
        raise fault(rest, where, "header_size", f"it is {header_size}", expected=str(HEADER.size))
    return version, HEADER.size + size


def _note_obfuscated(entries: Sequence[Entry], faults: Faults) -> None:
    obfuscated = [entry for entry in entries if entry.head.flags & FLAG_OBFUSCATED]
    if obfuscated:
        what = "an image is" if len(obfuscated) == 1 else f"{len(obfuscated)} images are"
        text = f"{what} obfuscated by NVIDIA's tools; such images are listed, and copied as they are"
        faults.odd("FP1408", obfuscated[0].stored.span(), text)


def _lost(head: Head, room: int) -> str:
    """Return what an image was that is not all there, "" if its header is wrong even for the ``room`` it once had."""
    if not holds(head, room):
        return ""
    what = FORMS.get(head.kind, KINDS[head.kind])
    return f"the {what} for {target_of(head).arch} is cut short" if head.sm else f"the {what} is cut short"


class _Walk:
    """The entries of a fat binary, from the first to the last; ``size`` are its bytes as its header has them."""

    def __init__(self, stored: View, size: int, faults: Faults) -> None:
        self.parts: list[Entry | Group] = []
        self.unknown: list[Span] = []
        self._stored = stored
        self._size = size
        self._faults = faults
        self._resumption: Resumption | None = None

    def run(self) -> None:
        """Read all entries."""
        stored, at = self._stored, HEADER.size
        while at < len(stored):
            if len(self.parts) >= limits.IMAGES:
                self._faults.lost("FP1401", self._too_many(at), stored.span(at))
                self.unknown.append(stored.span(at))
                return
            parts, following = self._parts_at(at)
            if not parts:
                self.unknown.append(stored.span(at, following - at))
            self.parts += parts
            at = following

    def _parts_at(self, at: int) -> tuple[Sequence[Entry | Group], int]:
        """Return the entry or group at a position, with its members, and where the next one is."""
        stored, left = self._stored, len(self._stored) - at
        numbers = stored.head(at, ENTRY.size)
        if numbers.startswith(MAGIC) and starts_fatbin(stored, at):
            self._swallows(at)
            return (), len(stored)
        if left < ENTRY.size or not any(numbers):
            following = self._after(at)
            gap = stored.slice(at, following - at)
            if gap.is_zero():
                self._faults.odd("FP1404", gap.span(), f"{len(gap)} zero bytes that belong to no entry")
                return (), following
        if left < ENTRY.size:
            self._faults.lost("FP1401", self._cut_short(at), stored.span(at))
            return (), len(stored)
        head = Head(*ENTRY.struct.unpack(numbers))
        problem = problem_of_place(head, left)
        if problem is not None:
            field, text = problem
            following = self._after(at)
            where, name = at + ENTRY.field_offset(field), f"entry[{len(self.parts)}].{field}"
            error = fault(stored, where, name, text, hint=_lost(head, self._size - at))
            self._faults.lost("FP1401", error, stored.span(at, following - at))
            return (), following
        entry = stored.slice(at, head.place + head.padded_size)
        if head.kind == GROUP:
            return read_group(entry, head, self._faults), at + len(entry)
        return [read_entry(entry, head, self._faults)], at + len(entry)

    def _after(self, at: int) -> int:
        if self._resumption is None:
            self._resumption = Resumption(self._stored)
        return self._resumption.after(at + 8 & ~7)

    def _swallows(self, at: int) -> None:
        """Note that another fat binary starts inside of this one; the walk over the file goes on with it."""
        stored = self._stored
        error = fault(stored, HEADER.field_offset("entries_size"), "entries_size", "another fat binary starts inside")
        self._faults.lost("FP1402", error, stored.span(at))

    def _cut_short(self, at: int) -> Truncated:
        stored, left = self._stored, len(self._stored) - at
        return Truncated(
            needed=ENTRY.size, left=left, format=FORMAT, offset=stored.offset(at), field="entry", chain=stored.chain
        )

    def _too_many(self, at: int) -> LimitExceeded:
        return LimitExceeded(
            f"more than {limits.IMAGES} entries",
            format=FORMAT,
            offset=self._stored.offset(at),
            field="entries",
            hint="raise fatpack.io.limits.IMAGES if you trust the file",
            chain=self._stored.chain,
        )
