"""The free fields of a file: times of sources and numbers in the names of temporary files, which nothing reads.

===========================  ==============================================================================  ===========
place                        field                                                                           becomes
===========================  ==============================================================================  ===========
``.debug_line``              time of a source (:mod:`fatpack.images.line_table`)                             0
``.note.nv.tkinfo``,         process in the name of a temporary file of nvcc: ``tmpxft_00005dd4_…``          00000000
``.debug_str``,
``.debug_line_str``
``.strtab``                  the same, in the name of a source (STT_FILE)                                    00000000
PTX                          time in ``.file 1 "k.cu", 1700000000, 512``                                     zeros
===========================  ==============================================================================  ===========

These are fields of device images that are stored as they are, and of ELF hosts and the members of archives around them.
A field is free where it is in no loaded section or segment, and no other section or table has a part of its section.
"""

from __future__ import annotations

from itertools import pairwise

from fatpack.binary.elf.device_elf import DeviceElfSections
from fatpack.binary.elf.file import ElfFile, is_elf
from fatpack.binary.elf.layout import SYMTAB
from fatpack.binary.elf.symbols import ElfSymbolTable
from fatpack.errors import FormatError
from fatpack.findings import finding
from fatpack.images.build_traces import PTX_FILE, TEMPORARY
from fatpack.images.line_table import read_line_tables
from fatpack.record import Record
from fatpack.scanner import FoundContainer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fatpack.io.source import View
    from fatpack.model import Finding
    from fatpack.scanner import FoundImage

TIME, NAME = "time of a source", "name of a temporary file"

#: sh_flags: loaded; compressed. st_info of the name of a source.
_ALLOC, _COMPRESSED, _FILE = 2, 0x800, 4

#: sections in which names of temporary files are searched, and the bytes of a name before its process and in that
_WITH_NAMES = (".note.nv.tkinfo", ".debug_str", ".debug_line_str")
_PREFIX, _PROCESS = 7, 8

#: LIMIT: bytes of one section, and of a text of PTX, that are read at once
_SECTION = 256 << 20


class FreeField(Record):
    """A field at an absolute ``offset``: its kind, its place in words, and its bytes before and after."""

    kind: str
    where: str
    offset: int
    before: bytes
    after: bytes


def find_fields(view: View, items: Iterable[FoundContainer | Finding]) -> tuple[list[FreeField], list[Finding]]:
    """Return the fields of a file that are not yet normal, by position, and a finding for each that cannot be changed.

    ``items`` are what a scan found in it. Raises FormatError for tables that are damaged.
    """
    found: dict[int, FreeField] = {}
    left: list[Finding] = []
    for host, name in _hosts(view):
        _take(found, _elf_fields(host, name) if is_elf(host) else _text_fields(host, name))
    for item in items:
        if isinstance(item, FoundContainer):
            _take_container(item, view, found, left)
    fields = sorted(found.values(), key=lambda field: field.offset)
    for one, other in pairwise(fields):
        if one.offset + len(one.before) > other.offset:
            raise FormatError("two fields share bytes", offset=other.offset, field=other.kind, chain=view.chain)
    return fields, left


def _take(found: dict[int, FreeField], fields: Iterable[FreeField]) -> None:
    for field in fields:
        if field.before != field.after:
            found.setdefault(field.offset, field)


def _take_container(item: FoundContainer, file: View, found: dict[int, FreeField], left: list[Finding]) -> None:
    for image in item.images:
        for inner in image.containers:
            _take_container(inner, file, found, left)
        if image.as_stored.target.offload == "host":
            continue
        data = image.data
        is_stored = data.source is file.source  # else inflated: its bytes are in the file in another form
        fields: dict[int, FreeField] = {}
        _take(fields, _image_fields(image, data))
        if fields and not is_stored:
            kinds = ", ".join(sorted({field.kind for field in fields.values()}))
            text = f"the compressed image for {image.label or image.form} has a free field: {kinds}"
            hint = "build with nvcc -no-compress"
            left.append(finding("FP3351", item.span, text, hint))
        elif is_stored:
            _take(found, fields.values())


def _image_fields(image: FoundImage, data: View) -> Iterator[FreeField]:
    where = f"image for {image.label or image.form}"
    if image.form == "ptx":
        yield from _text_fields(data, where)
    elif image.form in ("cubin", "code-object") and is_elf(data):
        yield from _elf_fields(data, where)


def _hosts(view: View) -> Iterator[tuple[View, str]]:
    """Yield the file, or the members of an archive that has their bytes, with a word for each."""
    from fatpack.binary import archive
    from fatpack.binary.archive.layout import REGULAR

    if view.head(0, len(REGULAR)) == REGULAR:
        for member in archive.read_members(view):
            if member.kind == "file":
                yield view.slice(member.data_at, member.size, member.title), member.title
    else:
        yield view, "the file"


def _text_fields(view: View, where: str) -> Iterator[FreeField]:
    """Yield the times in PTX."""
    from fatpack import images

    if images.identify_image(view).form != "ptx":
        return
    for match in PTX_FILE.finditer(view.head(0, _SECTION)):
        time = match[3]
        if time:
            yield FreeField(TIME, f"{where}, .file", view.offset(match.start(3)), time, b"0" * len(time))


def _elf_fields(view: View, where: str) -> Iterator[FreeField]:
    sections = DeviceElfSections(view)
    free = _free_sections(view, sections)
    for section in sections.rows:
        if not 0 < section.size <= _SECTION or section.flags & _COMPRESSED or not sections.has_bytes(section.index):
            continue
        is_line = section.name == ".debug_line"
        if not (is_line or section.name in _WITH_NAMES) or section.index not in free:
            continue
        content = sections.content(section)
        data, place = content.tobytes(), f"{where}, {section.name}"
        if is_line:
            for entry in read_line_tables(data, sections.number):
                if entry.time:
                    before = data[entry.at : entry.at + len(entry.unknown)]
                    yield FreeField(TIME, place, content.offset(entry.at), before, entry.unknown)
        else:
            for match in TEMPORARY.finditer(data):
                yield _process(place, content, match.start(), match[0])
    yield from _source_names(view, sections, free, where)


def _process(place: str, content: View, at: int, name: bytes) -> FreeField:
    start = at + _PREFIX
    return FreeField(NAME, place, content.offset(start), name[_PREFIX : _PREFIX + _PROCESS], b"0" * _PROCESS)


def _source_names(view: View, sections: DeviceElfSections, free: frozenset[int], where: str) -> Iterator[FreeField]:
    """Yield the process numbers in the names of sources, except names that another symbol shares."""
    tables = [row for row in sections.rows if row.type == SYMTAB and 0 < row.link < len(sections.rows)]
    if len(tables) != 1:
        return
    strings = sections.rows[tables[0].link]
    if strings.size > _SECTION or strings.index not in free:
        return
    rows = list(ElfSymbolTable(view, (SYMTAB,)))
    others = {name for name, info, _, _ in rows if info & 15 != _FILE}
    content = sections.content(strings)
    data = content.tobytes()
    for at in sorted({name for name, info, _, _ in rows if info & 15 == _FILE}):
        match = TEMPORARY.match(data, at)
        is_whole = at > 0 and data[at - 1 : at] == b"\0"
        if match is not None and is_whole and others.isdisjoint(range(at, at + _PREFIX + _PROCESS)):
            yield _process(f"{where}, {strings.name}", content, at, match[0])


def _free_sections(view: View, sections: DeviceElfSections) -> frozenset[int]:
    """Return the numbers of the sections that are not loaded and alone have their bytes."""
    elf = ElfFile(view)
    table = elf.header.section_offset
    ranges = [(0, elf.layouts.header.size, -1), (table, table + elf.section_count * elf.layouts.section.size, -1)]
    ranges += [(start, end, -1) for start, end in (elf.program_table(), *elf.segment_ranges())]
    ranges += [(row.offset, row.offset + row.size, row.index) for row in sections.rows if sections.has_bytes(row.index)]
    ranges = sorted(one for one in ranges if one[0] < one[1])
    alone: set[int] = set()
    last = 0
    for at, (start, end, number) in enumerate(ranges):
        following = ranges[at + 1][0] if at + 1 < len(ranges) else end
        if number >= 0 and last <= start and end <= following and not sections.rows[number].flags & _ALLOC:
            alone.add(number)
        last = max(last, end)
    return frozenset(alone)
