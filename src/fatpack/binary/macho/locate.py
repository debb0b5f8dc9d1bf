"""Where device code may lie in a Mach-O file: by the names of sections."""

from __future__ import annotations

from fatpack.binary import CodeSection, without_overlaps
from fatpack.binary.macho.names import expected_content, is_host_data_section, is_known_section, may_hold_anything
from fatpack.binary.macho.reader import MachOFile, MachOSection
from fatpack.errors import FormatError
from fatpack.findings import code_for_error, finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.binary.known_sections import SectionSplit
    from fatpack.io.source import View
    from fatpack.model import Finding


def locate(view: View) -> Iterator[CodeSection | Finding]:
    """Yield the sections that hold containers, in the order of the load commands; ``index`` counts them from 1.

    The sites do not overlap: of sections that claim the same bytes the first is listed, the others are findings.
    A section outside the file, and load commands that are damaged or cut, are findings too.
    """
    yield from without_overlaps(list(_places(view)))


def _places(view: View) -> Iterator[CodeSection | Finding]:
    try:
        file = MachOFile(view)
    except FormatError as error:
        yield _damage(view, error)
        return
    for section in file.sections():
        if isinstance(section, FormatError):
            yield _damage(view, section)
            continue
        expects = expected_content(section.segment, section.name)
        if expects is None or not section.size:
            continue
        title = f"section {section.number} ({section.title})"
        if not section.has_bytes:
            yield finding("FP2503", view.span(section.at, 0), f"{title} has a size but no bytes in the file")
        elif section.end > len(view):
            text = f"{title} ends at {section.end:#x}, the file at {len(view):#x}"
            yield finding("FP2501", view.span(min(section.offset, len(view))), text, "the file looks cut short")
        else:
            data = view.slice(section.offset, section.size, section.title)
            yield CodeSection(data, section.title, section.number, expects=expects)


def _damage(view: View, error: FormatError) -> Finding:
    at = 0 if error.offset is None else min(error.offset - view.start, len(view))
    return finding(code_for_error("FP2502", error), view.span(at), error.describe(), error.hint, field=error.field)


def _whole_sections(view: View) -> Iterator[MachOSection]:
    """Yield the sections that have bytes in the file, as far as the tables can be read."""
    try:
        file = MachOFile(view)
    except FormatError:
        return
    for section in file.sections():
        if isinstance(section, FormatError):
            continue
        if section.has_bytes and section.size and section.end <= len(view):
            yield section


def sections(view: View) -> list[tuple[int, int, str, int]]:
    """Return (start, end, name, number) of every section that has bytes, as far as the tables can be read."""
    return [(section.offset, section.end, section.title, section.number) for section in _whole_sections(view)]


def divided_sections(view: View, _places: object = None) -> SectionSplit:
    """Return the sections that have bytes, divided into those that hosts have anyway and the others.

    Bytes behind all that load commands lead to count as one of the others: installers have their contents there.
    """
    from fatpack.binary.known_sections import SectionSplit
    from fatpack.binary.macho.parts import list_ranges

    unusual: list[tuple[int, int]] = []
    opened: dict[str, tuple[int, int]] = {}
    data: dict[str, list[tuple[int, int]]] = {}
    for section in _whole_sections(view):
        if not is_known_section(section.name):
            unusual.append((section.offset, section.end))
        elif may_hold_anything(section.name):
            count, size = opened.get(section.title, (0, 0))
            opened[section.title] = count + 1, size + section.size
            if is_host_data_section(section.name):
                data.setdefault(section.title, []).append((section.offset, section.end))
    try:
        file = MachOFile(view)
    except FormatError:
        return SectionSplit(unusual, opened, data)
    reached = max((part.at + part.size for part in list_ranges(file)), default=file.commands_end)
    if max(reached, file.commands_end) < len(view):
        unusual.append((max(reached, file.commands_end), len(view)))
    return SectionSplit(unusual, opened, data)
