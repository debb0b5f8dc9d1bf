"""Whether one COFF object is a sound edit of another: only device code, and what describes it, may differ."""

from __future__ import annotations

from fatpack import limits
from fatpack.binary.coff.coff_layout import REMOVED_NAME, SECTION_DEFINITION
from fatpack.binary.coff.editable import EditableObject
from fatpack.binary.coff.locate import locate
from fatpack.errors import FormatError, HostError
from fatpack.model import Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.binary.coff.layout import SectionRow
    from fatpack.io.source import View


def verify_edit(before: View, after: View) -> None:
    """Raise HostError unless ``after`` is ``before`` with other device code.

    Every other section must have the same header and, byte for byte, the same contents and relocations; symbols and
    strings must be the same but for the descriptions of edited sections and added names. Reads both objects once.
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
    for number, (ours, theirs) in enumerate(zip(old.headers, new.headers), 1):  # noqa: B905  (the rest is looked at above)
        is_gone = theirs[0] == REMOVED_NAME and not theirs[3]
        if old.is_device(number) and _fixed(ours)[is_gone:] == _fixed(theirs)[is_gone:]:
            edited.add(number)
        elif (_fixed(ours), ours[1], ours[3]) != (_fixed(theirs), theirs[1], theirs[3]):
            return old.title(number)
    return _part_problem(old, new, edited) or _symbol_problem(old, new, edited)


def _fixed(row: SectionRow) -> tuple[object, ...]:
    """Return what every edit of a header keeps: all but sizes and the places in the file."""
    name, _, address, _, _, _, _, relocation_count, _, flags = row
    return name, address, relocation_count, flags


def _part_problem(old: EditableObject, new: EditableObject, edited: set[int]) -> str | None:
    """Compare contents and relocations of all other sections, neighbours that moved together in one go."""
    pairs = [[part for part in coff.parts if part[2] not in edited] for coff in (old, new)]
    pairs[1] = [part for part in pairs[1] if part[2] <= old.section_count]
    if [part[1:] for part in pairs[0]] != [part[1:] for part in pairs[1]]:
        return "sizes of contents or relocations"
    start = other_start = size = 0
    number = 1
    for ours, theirs in zip(*pairs, strict=True):
        if (ours[0], theirs[0]) == (start + size, other_start + size):
            size += ours[1]
            continue
        if not _same(old.view.slice(start, size), new.view.slice(other_start, size)):
            return f"contents or relocations from {old.title(number)} on"
        start, size, number, _ = ours
        other_start = theirs[0]
    if not _same(old.view.slice(start, size), new.view.slice(other_start, size)):
        return f"contents or relocations from {old.title(number)} on"
    return None


def _same(one: View, other: View) -> bool:
    steps = range(0, len(one), limits.CHUNK)
    return len(one) == len(other) and all(one.head(at, limits.CHUNK) == other.head(at, limits.CHUNK) for at in steps)


def _symbol_problem(old: EditableObject, new: EditableObject, edited: set[int]) -> str | None:
    """Compare symbols and strings; the descriptions of edited sections may differ."""
    if old.symbol_count != new.symbol_count:
        return "number of symbols"
    width = old.symbol_layout.size
    defined = old.symbols_in(edited) if edited else []
    descriptions = [symbol.at - old.symbol_offset + width for symbol in defined if symbol.is_section_definition]
    at = 0
    for end in [*descriptions, old.symbol_count * width]:
        ours = old.view.slice(old.symbol_offset + at, end - at)
        if not _same(ours, new.view.slice(new.symbol_offset + at, end - at)):
            return "symbols"
        at = min(end + SECTION_DEFINITION.size, old.symbol_count * width)
    strings, others = old.strings(), new.strings()
    if strings is None or others is None:
        return None if strings is None else "string table"
    size = len(strings) - 4
    if len(others) - 4 < size or not _same(strings.slice(4, size), others.slice(4, size)):
        return "string table"
    return None
