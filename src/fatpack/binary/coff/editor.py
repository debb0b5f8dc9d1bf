"""Editing COFF objects: bytes are inserted, replaced or removed, and all offsets after them are changed.

::

    before  header │ table │ contents and relocations … │ symbols │ strings
    embed   header │ table, new header │ contents and relocations … │ new contents │ symbols │ strings, new name
    remove  header │ table │ contents and relocations without it … │ symbols │ strings

Section numbers never change: a new header is added at the end, and a removed section keeps its header, name and flags
without contents, except a last one without a symbol, whose header is removed too. So symbols, COMDATs and associative
sections keep their meaning. Linkers make the same image of the result as of the object before (tested with lld-link).
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from fatpack import limits
from fatpack.binary.coff.editable import EditableObject
from fatpack.binary.coff.layout import (
    BIG_HEADER,
    BUNDLE_PREFIX,
    HEADER,
    MAX_SECTIONS,
    OFFLOADING_FLAGS,
    OFFLOADING_NAME,
    REMOVED_BY_LINKER,
    REMOVED_NAME,
    SECTION,
    SECTION_DEFINITION,
    name_offset,
    name_reference,
)
from fatpack.binary.coff.reader import locate
from fatpack.errors import FormatError, HostError, UsageError
from fatpack.model import Finding
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fatpack.binary.coff.editable import DefinedCoffSymbol
    from fatpack.binary.coff.layout import CoffSection, SectionRow
    from fatpack.io.source import Piece, View


# Verification: only device code, and its descriptions, may differ


def verify_edit(before: View, after: View) -> None:
    """Raise HostError unless ``after`` is ``before`` with other device code.

    Every other section must have the same header and, byte for byte, the same contents and relocations; symbols and
    strings must be equal, except descriptions of edited sections, and names at the end that only added or removed
    sections have. Reads both objects once.
    """
    try:
        problem = _problem(EditableObject(before), EditableObject(after))
    except FormatError as error:
        raise HostError(f"the edited object is damaged: {error.describe()}", chain=after.chain) from error
    if problem:
        raise HostError(f"the edited object differs where it must not: {problem}", chain=after.chain)


def _problem(old: EditableObject, new: EditableObject) -> str | None:
    if (old.is_big, old.machine) != (new.is_big, new.machine):
        return "machine or kind of object"
    known = {item.message for item in locate(old.view) if isinstance(item, Finding)}
    for item in locate(new.view):
        if isinstance(item, Finding) and item.message not in known:
            return item.message
    common = min(old.section_count, new.section_count)
    for longer in (old, new):
        for number in range(common + 1, longer.section_count + 1):
            if not longer.is_device(number):
                return f"{longer.title(number)} is in one of the two only"
    edited = set(range(common + 1, old.section_count + 1))
    for number, (old_part, new_part) in enumerate(zip(old.headers, new.headers), 1):  # noqa: B905  (the rest is looked at above)
        is_gone = new_part[0] == REMOVED_NAME and not new_part[3]
        if old.is_device(number) and _fixed(old_part)[is_gone:] == _fixed(new_part)[is_gone:]:
            edited.add(number)
        elif (_fixed(old_part), old_part[1], old_part[3]) != (_fixed(new_part), new_part[1], new_part[3]):
            return old.title(number)
    return _part_problem(old, new, edited) or _symbol_problem(old, new, edited)


def _fixed(row: SectionRow) -> tuple[object, ...]:
    """Return the fields of a header that edits keep: all except sizes and offsets."""
    name, _, address, _, _, _, _, relocation_count, _, flags = row
    return name, address, relocation_count, flags


def _part_problem(old: EditableObject, new: EditableObject, edited: set[int]) -> str | None:
    """Compare contents and relocations of all other sections; adjacent ones that moved together are one range."""
    pairs = [[part for part in coff.parts if part[2] not in edited] for coff in (old, new)]
    pairs[1] = [part for part in pairs[1] if part[2] <= old.section_count]
    if [part[1:] for part in pairs[0]] != [part[1:] for part in pairs[1]]:
        return "sizes of contents or relocations"
    start = other_start = size = 0
    number = 1
    for old_part, new_part in zip(*pairs, strict=True):
        if (old_part[0], new_part[0]) == (start + size, other_start + size):
            size += old_part[1]
            continue
        if not _same(old.view.slice(start, size), new.view.slice(other_start, size)):
            return f"contents or relocations from {old.title(number)} on"
        start, size, number, _ = old_part
        other_start = new_part[0]
    if not _same(old.view.slice(start, size), new.view.slice(other_start, size)):
        return f"contents or relocations from {old.title(number)} on"
    return None


def _same(one: View, other: View) -> bool:
    steps = range(0, len(one), limits.CHUNK)
    return len(one) == len(other) and all(one.head(at, limits.CHUNK) == other.head(at, limits.CHUNK) for at in steps)


def _symbol_problem(old: EditableObject, new: EditableObject, edited: set[int]) -> str | None:
    """Compare symbols and strings; descriptions of edited sections may differ."""
    if old.symbol_count != new.symbol_count:
        return "number of symbols"
    width = old.symbol_layout.size
    defined = old.symbols_in(edited) if edited else []
    descriptions = [symbol.at - old.symbol_offset + width for symbol in defined if symbol.is_section_definition]
    at = 0
    for end in [*descriptions, old.symbol_count * width]:
        old_part = old.view.slice(old.symbol_offset + at, end - at)
        if not _same(old_part, new.view.slice(new.symbol_offset + at, end - at)):
            return "symbols"
        at = min(end + SECTION_DEFINITION.size, old.symbol_count * width)
    strings, others = old.strings(), new.strings()
    if strings is None or others is None:
        return None if strings is None else "string table"
    size = min(len(strings), len(others)) - 4
    if not _same(strings.slice(4, size), others.slice(4, size)):
        return "string table"
    if len(others) < len(strings) and (
        (size and others.read(size + 3, 1) != b"\0") or new.last_name_used(new.section_count) >= len(others)
    ):
        return "names in the string table"
    return None


#: clang's alignment of device code; the offset in the file needs none, but it helps files that are mapped.
_ALIGN = 8

#: Every size and offset of a COFF object is 32 bits wide.
_LARGEST = 0xFFFFFFFF


class _Change(Record):
    """A change of the old object: the bytes ``[start, end)`` are replaced by ``pieces``."""

    start: int
    end: int
    pieces: tuple[Piece, ...]

    @property
    def growth(self) -> int:
        """The number of bytes by which later bytes move."""
        return sum(map(len, self.pieces)) - (self.end - self.start)


def embed_section(view: View, content: Sequence[Piece], name: bytes = OFFLOADING_NAME) -> list[Piece]:
    """Return the object with one more section, as pieces; bulk data is neither read nor copied.

    Raises HostError if the object must not be edited, FormatError if it is damaged, UsageError without content.
    """
    coff = EditableObject(view)
    size = sum(map(len, content))
    if not size:
        raise UsageError("there is nothing to embed")
    if not coff.is_big and coff.section_count + 1 > MAX_SECTIONS:
        raise HostError(
            f"the object already has {coff.section_count} sections, and more would need the big object format",
            hint="compile it with /bigobj",
            chain=view.chain,
        )
    # Check first what verification reads later, so that it does not report old damage as an error of the edit.
    if device := {number for number in range(1, coff.section_count + 1) if coff.is_device(number)}:
        coff.symbols_in(device)
    # Some objects have free space after the section table; then nothing has to move.
    room = view.head(coff.table_end, min(SECTION.size, coff.body_start - coff.table_end))
    free = SECTION.size if room == bytes(SECTION.size) else 0
    place = coff.body_end + SECTION.size - free
    padding = -place % _ALIGN
    changes = [_Change(coff.body_end, coff.body_end, (bytes(padding), *content))]
    name_at, strings = _named(coff, name)
    if strings:
        changes.append(_Change(coff.symbol_end if coff.symbol_offset else coff.body_end, len(view), strings))
    row = (name_reference(name_at), 0, 0, size, place + padding, 0, 0, 0, 0, OFFLOADING_FLAGS)
    return _assemble(coff, changes, added=[row], free=free, symbol_offset=place + padding + size)


def replace_section(view: View, number: int, content: Sequence[Piece]) -> list[Piece]:
    """Return the object with other contents in one section, as pieces. Raises the errors of :func:`edit`."""
    return edit_sections(view, {number: content})


def remove_sections(view: View, numbers: Sequence[int]) -> list[Piece]:
    """Return the object without the contents of some sections, as pieces. Raises the errors of :func:`edit`."""
    return edit_sections(view, dict.fromkeys(numbers))


def edit_sections(view: View, changes: Mapping[int, Sequence[Piece] | None]) -> list[Piece]:
    """Return the object with the contents of sections of device code replaced, or removed (None), as pieces.

    Contents can be replaced if nothing refers to their inside: the section's symbols are at its start, and relocations
    through them have no addend. They can be removed if the linker drops the section and nothing refers to it. Raises
    HostError that names the obstacle, FormatError for a damaged object, UsageError for empty content.
    """
    coff = EditableObject(view)
    sections = [coff.section(number, is_removed=changes[number] is None) for number in sorted(changes)]
    coff.check_alone(set(changes))
    symbols = coff.symbols_in(set(changes))
    _check_replaced(coff, [symbol for symbol in symbols if changes[symbol.section] is not None])
    removed = [section for section in sections if changes[section.number] is None]
    _check_removed(coff, removed, [symbol for symbol in symbols if changes[symbol.section] is None])
    sizes = {section.number: sum(map(len, changes[section.number] or ())) for section in sections}
    for section in sections:
        if changes[section.number] is not None and not sizes[section.number]:
            raise UsageError("there is nothing to put into the section", hint="remove the section instead")
    ends = coff.part_ends
    parts = [_exchange(coff, section, changes[section.number], ends) for section in sections if section.raw_size]
    for symbol in symbols:
        if symbol.is_section_definition:
            parts.append(_definition(coff, symbol, sizes[symbol.section], changes[symbol.section] or ()))
    with_symbol = {symbol.section for symbol in symbols}
    dropped = 0
    for section in reversed(removed):
        # An object needs at least one section, so the last one stays.
        is_last = section.number == coff.section_count - dropped > 1
        dropped += is_last and section.number not in with_symbol
    parts += _names_left(coff, dropped)
    # An empty image of a fat object is valid, so a removed one must not keep its name.
    images = (number for number in changes if coff.section_name(number).startswith(BUNDLE_PREFIX))
    left = frozenset(number for number in images if changes[number] is None)
    return _assemble(coff, parts, sizes=sizes, dropped=dropped, nameless=left)


def _names_left(coff: EditableObject, dropped: int) -> Sequence[_Change]:
    """Return the removal of the names at the end of the string table that only the last ``dropped`` sections have.

    :func:`embed_section` adds names there: what was embedded goes without a trace.
    """
    strings, count = coff.strings(), coff.section_count - dropped
    if strings is None:
        return ()
    ends: dict[int, int] = {}
    for number in range(count + 1, coff.section_count + 1):
        at = name_offset(coff.headers[number - 1][0])
        if at is not None and at >= 4:
            end = at + len(coff.section_name(number)) + 1
            ends[end] = min(at, ends.get(end, at))
    size = len(strings)
    # A name at the end of a longer one is not the last.
    while size in ends and (ends[size] == 4 or strings.read(ends[size] - 1, 1) == b"\0"):
        size = ends[size]
    if size == len(strings) or coff.last_name_used(count) >= size:
        return ()
    return [_Change(coff.symbol_end, len(coff.view), (size.to_bytes(4, "little"), strings.slice(4, size - 4)))]


def _check_replaced(coff: EditableObject, symbols: Sequence[DefinedCoffSymbol]) -> None:
    for symbol in symbols:
        if symbol.value:
            raise HostError(
                f"{symbol.name} lies inside {coff.title(symbol.section)}, at {symbol.value:#x}",
                hint="only a section that is used as a whole can get other contents",
                chain=coff.view.chain,
            )
    coff.check_addends(symbols)


def _check_removed(coff: EditableObject, sections: Sequence[CoffSection], symbols: Sequence[DefinedCoffSymbol]) -> None:
    for section in sections:
        if not section.flags & REMOVED_BY_LINKER:
            raise HostError(
                f"{coff.title(section.number)} becomes part of programs, whose code may look for it",
                hint="compile the host without device code instead",
                chain=coff.view.chain,
            )
    for symbol in symbols:
        if not symbol.is_section_definition:
            raise HostError(
                f"{symbol.name} is in {coff.title(symbol.section)}",
                hint="the host's code may need it; compile the host without device code instead",
                chain=coff.view.chain,
            )
    coff.check_unused(symbols)


def _exchange(
    coff: EditableObject, section: CoffSection, content: Sequence[Piece] | None, ends: Sequence[int]
) -> _Change:
    if content is None:
        return _cut(coff, section, ends)
    return _Change(section.raw_offset, section.raw_offset + section.raw_size, tuple(content))


def _cut(coff: EditableObject, section: CoffSection, ends: Sequence[int]) -> _Change:
    """Return the removal of contents with the zeros that align them, as embedding adds them."""
    start, end = section.raw_offset, section.raw_offset + section.raw_size
    used = ends[bisect_right(ends, start) - 1]
    gap = start - used
    is_padding = start % _ALIGN == 0 and gap < _ALIGN and not coff.view.read(used, gap).strip(b"\0")
    return _Change(used if is_padding else start, end, ())


def _named(coff: EditableObject, name: bytes) -> tuple[int, tuple[Piece, ...]]:
    """Return the offset of a name in the string table, and the new table if the name has to be added, else nothing."""
    old = coff.strings()
    stored = name + b"\0"
    if old is None:
        return 4, ((4 + len(stored)).to_bytes(4, "little"), stored)
    at = old.find(stored, 4)
    if at >= 0:
        return at, ()
    # Without its last NUL, the table's last name would continue into the new one.
    if len(old) > 4 and old.read(len(old) - 1, 1) != b"\0":
        stored = b"\0" + stored
    size = len(old) + len(stored)
    if size > _LARGEST:
        raise HostError("the string table would outgrow 32 bits", chain=coff.view.chain)
    return size - len(name) - 1, (size.to_bytes(4, "little"), old.slice(4, len(old) - 4), stored)


def _definition(coff: EditableObject, symbol: DefinedCoffSymbol, size: int, content: Iterable[Piece]) -> _Change:
    """Return the change of a section's description to a new size, and to a new checksum if it has one."""
    at = symbol.at + coff.symbol_layout.size
    _, relocations, lines, checksum, number, selection = SECTION_DEFINITION.read(coff.view, at)
    checksum = _checksum(content) if checksum else 0
    row = SECTION_DEFINITION.pack(size, relocations, lines, checksum, number, selection)
    return _Change(at, at + len(row), (row,))


def _checksum(content: Iterable[Piece]) -> int:
    """Return the checksum of section contents: CRC-32 without its inversions (LLVM's ``JamCRC`` starting at 0)."""
    import zlib

    value = 0xFFFFFFFF
    for piece in content:
        parts = [piece] if isinstance(piece, (bytes, bytearray, memoryview)) else piece.pieces()
        for part in parts:
            value = zlib.crc32(part, value)
    return value ^ 0xFFFFFFFF


class _Mover:
    """Translates old positions to new ones: ``growth`` additional bytes of headers, and all changes before them."""

    def __init__(self, coff: EditableObject, changes: Sequence[_Change], growth: int) -> None:
        self._body = range(coff.table_end, coff.body_end + 1)
        self._starts = [change.start for change in changes]
        self._ends = [change.end for change in changes]
        self._growths = list(accumulate((change.growth for change in changes), initial=growth))

    def offset_after(self, at: int) -> int:
        """Return the new position of an old one, after bytes that are inserted there."""
        number = bisect_right(self._ends, at)
        return at + self._growths[number]

    def before(self, at: int) -> int:
        """Return the new position of an old one, before bytes that are inserted there; the start of changed bytes.

        A pointer to no contents (0, or any offset in the header of an empty section) does not change.
        """
        if at not in self._body:
            return at
        number = bisect_right(self._ends, at)
        while number and self._starts[number - 1] == at:
            number -= 1
        start = min(at, self._starts[number]) if number < len(self._starts) else at
        return start + self._growths[number]


def _assemble(
    coff: EditableObject,
    changes: list[_Change],
    *,
    added: Sequence[SectionRow] = (),
    free: int = 0,
    dropped: int = 0,
    symbol_offset: int | None = None,
    sizes: Mapping[int, int] = {},
    nameless: frozenset[int] = frozenset(),
) -> list[Piece]:
    """Return the object with changes, added or removed section headers, and new offsets.

    Added headers use the ``free`` bytes after the section table. ``sizes``: new sizes of contents by number;
    ``nameless``: sections whose name no longer applies; ``symbol_offset``: the old position at which symbols start
    (default: after the contents).
    """
    view = coff.view
    changes = sorted(changes, key=lambda change: (change.start, change.end))
    count = coff.section_count + len(added) - dropped
    growth = (len(added) - dropped) * SECTION.size - free
    move = _Mover(coff, changes, growth)
    if move.offset_after(len(view)) > _LARGEST:
        raise HostError("the object would outgrow 32-bit offsets", chain=view.chain)
    kept = enumerate(coff.headers[: coff.section_count - dropped], 1)
    rows = [
        _moved((REMOVED_NAME, *row[1:]) if number in nameless else row, move, sizes.get(number, row[3]))
        for number, row in kept
    ]
    table = b"".join(SECTION.pack(*row) for row in [*rows, *added])
    symbols_at = move.offset_after(coff.body_end) if symbol_offset is None else symbol_offset
    pieces: list[Piece] = [_header(coff, count, symbols_at), table]
    at = coff.table_end + free
    for change in changes:
        pieces += [view.slice(at, change.start - at), *change.pieces]
        at = change.end
    pieces.append(view.slice(at, len(view) - at))
    return [piece for piece in pieces if len(piece)]


def _moved(row: SectionRow, move: _Mover, size: int) -> SectionRow:
    """Return a section header with new offsets and size; without contents it has no offset."""
    name, virtual_size, address, old_size, raw, relocations, lines, relocation_count, line_count, flags = row
    # QUIRK(llvm-objcopy): it sets the size in memory in objects too.
    virtual_size = size if virtual_size == old_size else virtual_size
    raw = 0 if old_size and not size else raw
    raw, relocations, lines = (_moved_pointer(at, move) for at in (raw, relocations, lines))
    return name, virtual_size, address, size, raw, relocations, lines, relocation_count, line_count, flags


def _moved_pointer(at: int, move: _Mover) -> int:
    """Return the new value of a pointer; one to nothing may have any value, even one too large to move."""
    moved = move.before(at)
    return moved if moved <= _LARGEST else at


def _header(coff: EditableObject, section_count: int, symbol_offset: int) -> bytes:
    layout = BIG_HEADER if coff.is_big else HEADER
    values = layout.named(coff.view, 0)
    return layout.pack(*{**values, "section_count": section_count, "symbol_offset": symbol_offset}.values())
