"""Which words of a linked program hold the addresses of its containers, so that containers can move.

::

    records of CUDA and HIP ──► the word behind magic and version
    records of version 2    ──► the words of their lists, which lead to prelinked fat binaries

A container that no such word leads to may be reached in another way: by an address in the program's data, a relocation,
or a symbol. :func:`other_references` looks for these. What code makes of its own address, without any of them, nobody
sees.
"""

from __future__ import annotations

import sys
from itertools import islice

from fatpack import binary, formats
from fatpack.binary import CodeSection
from fatpack.binary.elf.file import ElfFile
from fatpack.binary.elf.pointers import ElfPointers
from fatpack.binary.pointers import HOSTS, INSIDE, UNDEFINED, UNKNOWN, open_pointers
from fatpack.errors import FormatError, Unsupported
from fatpack.findings import finding
from fatpack.model import Finding
from fatpack.record import Record
from fatpack.registration import records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from fatpack.binary.pointers import Pointer, PointerReader
    from fatpack.io.source import View
    from fatpack.registration.records import RecordSection


# ``__nv_module_id``: what nvcc calls the units that a file was made of, and those that a device link joined.
#
# A section of texts that end in NUL, one or more per unit; linkers put them one behind the other, in the order in which
# they put the units' fat binaries:
#
# ==========================================  =====================================================================
# ``__NV_MODULE_ID``                          a unit of whole-program code, which needs no name
# ``_6b94317d_5_k1_cu_add_one``               a unit of relocatable code (-dc): hash, length, file and a symbol of it
# ``def _6b94317d_5_k1_cu_add_one``           in what nvcc -dlink makes: a unit that was linked
# ==========================================  =====================================================================
#
# How we know: objects and libraries made by nvcc 13.0. Which fat binary belongs to which unit is written nowhere but in
# symbols, which ``strip`` takes; so names are given only where there are as many units as fat binaries.

#: What the sections are called, by compilers and cut by the linkers of PE images: names, relocatable and linked code.
#: In Mach-O a segment and a comma come first.
MODULE_ID_NAMES = ("__nv_module_id", "__nv_mod")
_RELOCATABLE = ("__nv_relfatbin", "__nv_rel")
_LINKED = (".nv_fatbin", ".nv_fatb", "__nv_fatbin")

_WHOLE = b"__NV_MODULE_ID"
_DEFINED = b"def "

#: LIMIT: bytes of names that are read. A library of 1000 units has some 50 kB.
_SIZE = 1 << 20


class ModuleIds(Record):
    """The names in a host: those of ``units`` of relocatable code, and of units that were ``linked``, in order.

    ``is_whole`` says whether there is whole-program code as well, whose fat binaries lie beside the linked ones.
    """

    units: tuple[str, ...]
    linked: tuple[str, ...]
    is_whole: bool

    def of(self, site: CodeSection) -> Sequence[tuple[str, str]]:
        """Return what the names say of each fat binary in a section, as attributes; nothing where that is not sure.

        ``module_id`` is the unit that one is made from, ``linked_module_ids`` are those it was linked from.
        """
        if _name(site) in _RELOCATABLE and self.units and _count(site.data, len(self.units)) == len(self.units):
            return [("module_id", name) for name in self.units]
        if _name(site) in _LINKED and self.linked and not self.is_whole and _count(site.data, 1) == 1:
            return [("linked_module_ids", " ".join(self.linked))]
        return []


def read_module_ids(tables: Sequence[CodeSection]) -> ModuleIds | None:
    """Return the names that sections of a host hold, None if there are none or too many to read."""
    data = b"\0".join(site.data.head(0, _SIZE + 1) for site in tables if _name(site) in MODULE_ID_NAMES)
    names = [name for name in data.split(b"\0") if name]
    if not names or len(data) > _SIZE:
        return None
    units = [name for name in names if name != _WHOLE and not name.startswith(_DEFINED)]
    linked = [name[len(_DEFINED) :] for name in names if name.startswith(_DEFINED)]
    return ModuleIds(tuple(map(_text, units)), tuple(map(_text, linked)), _WHOLE in names)


def _name(site: CodeSection) -> str:
    return (site.section or "").rpartition(",")[2]


def _text(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")


def _count(data: View, most: int) -> int:
    """Return how many fat binaries fill a section, by their headers alone; more than ``most`` are not counted."""
    extent = formats.get_format("cuda-fatbin").extent
    at = count = 0
    while at < len(data) and count <= most:
        size = extent(data, at)
        if size is None:
            return -1
        count += 1
        at = data.skip_zeros(at + size)
    return count


#: SHT_SYMTAB, SHT_DYNSYM
SYMTAB, DYNSYM = 2, 11

#: Symbol tables are read this many bytes at a time, a multiple of both sizes of their records.
_BLOCK = 48 * 16384


class ContainerPointer(Record):
    """A word that leads to a container: the ``word``'s address, and ``target``, the address that it holds.

    ``position`` is where that is in the view. ``is_prelinked`` says that it belongs to code that is linked when the
    program starts, with other units; ``title`` is what findings call it.
    """

    word: int
    target: int
    position: int
    is_prelinked: bool
    title: str


class ContainerPointers(Record):
    """All such words of a program, and in words what is wrong with the records; ``is_whole`` if all could be read."""

    items: tuple[ContainerPointer, ...]
    problems: tuple[Finding, ...]
    is_whole: bool


def find_container_pointers(view: View, host: str, sites: Sequence[CodeSection | Finding]) -> ContainerPointers:
    """Return the words of a linked program that lead to containers; ``sites`` is what the host has located."""
    tables = [site for site in sites if not isinstance(site, Finding) and site.content == binary.TABLE]
    items: list[ContainerPointer] = []
    problems: list[Finding] = []
    unread = 0
    if host not in HOSTS:
        return ContainerPointers((), (), False)
    for model in (records.CUDA_MODEL, records.HIP_MODEL):
        for segment in records.find_record_sections(view, host, tables, model):
            if isinstance(segment, Finding):
                problems.append(segment)
                continue
            for word, pointer, is_prelinked, title in _words(segment):
                unread += pointer.kind in (UNKNOWN, UNDEFINED)
                if pointer.kind == INSIDE:
                    items.append(ContainerPointer(word, pointer.address, pointer.position, is_prelinked, title))
    return ContainerPointers(tuple(items), tuple(problems), not unread and not problems)


def _words(segment: RecordSection) -> Iterator[tuple[int, Pointer, bool, str]]:
    start = segment.reader.address(segment.site.number)
    is_linked = {record.at for record in segment.records if record.version == records.LINKED_VERSION}
    for record in segment.records:
        yield start + record.at + 8, record.pointer, record.at in is_linked, record.title
    if segment.site.section in records.CUDA_NAMES:
        for item in records.prelinked_pointers(segment):
            if not isinstance(item, Finding):
                word, pointer, record = item
                yield word, pointer, True, f"a prelinked fat binary of {record.title}"


def other_references(view: View, host: str, low: int, high: int) -> list[int] | None:
    """Return the addresses from ``low`` to below ``high`` that words of data, relocations and symbols hold, in order.

    None if not all could be searched. Reads all data of the program.
    """
    reader: PointerReader = open_pointers(view, host)
    search = reader.values_in(low, high - 1)
    if search.unsearched:
        return None
    found = set(search.values.values())
    try:
        return sorted(found | set(symbols_between(view, host, low, high)))
    except FormatError:
        return None


class UnrelatedWords(Record):
    """Where a program's data and its visible symbols lead beside the pointers that are known.

    ``words`` are the addresses that words of data hold: pointers if that ``is_exact``, else any may be a number or
    text. ``symbols`` are the addresses of symbols that other files see.
    """

    words: frozenset[int]
    symbols: frozenset[int]
    is_exact: bool


def unrelated_words(view: View, host: str, low: int, high: int, known: Collection[int]) -> UnrelatedWords | None:
    """Return what leads to addresses from ``low`` to below ``high``, None if not all could be searched.

    ``known`` are the addresses of pointers that are not asked for.
    """
    search = open_pointers(view, host).values_in(low, high - 1)
    if search.unsearched:
        return None
    try:
        visible = symbols_between(view, host, low, high, only_visible=True)
    except FormatError:
        return None
    words = frozenset(value for word, value in search.values.items() if word not in known)
    return UnrelatedWords(words, frozenset(visible), search.is_exact)


def symbols_between(view: View, host: str, low: int, high: int, *, only_visible: bool = False) -> list[int]:
    """Return the addresses from ``low`` to below ``high`` that symbols of an ELF program have.

    ``only_visible`` asks for those that other files can see alone. Raises FormatError for a damaged table.
    """
    if host != "elf":
        return []
    from array import array

    elf = ElfFile(view)
    word = elf.layouts.word
    found: set[int] = set()
    for section in elf.sections():
        if section.type != DYNSYM and (only_visible or section.type != SYMTAB):
            continue
        table = view.slice(section.offset, section.size)
        for at in range(0, len(table), _BLOCK):
            block = table.head(at, _BLOCK)
            # In records of either size the value is the second word.
            words = array("Q" if word == 8 else "I", block[: len(block) - len(block) % word])
            if elf.layouts.order != sys.byteorder:
                words.byteswap()
            found.update(value for value in words[1 :: 3 if word == 8 else 4] if low <= value < high)
    return sorted(found)


# Programs without sections: their containers, found through the records that register them.
#
# The records of CUDA and HIP (:mod:`fatpack.registration.records`) lie in data that is written when a
# program starts, and have magics. What only looks like a record is none: it must be aligned, have a version that is
# known, and lead to a container of its model.

#: magic → versions, and what the pointer of such a record leads to
_RECORDS = {records.CUDA_MAGIC: ((1, 2), "cuda-fatbin"), records.HIP_MAGIC: ((1,), "clang-offload-bundle")}

#: LIMIT: records that are followed, true or false ones. The library with most bundles that is known to us has 845.
_MOST = 1 << 16


def containers_without_sections(view: View, sites: Sequence[CodeSection]) -> Iterator[CodeSection | Finding]:
    """Yield where containers are that records in some parts of an ELF program lead to, in the order of their bytes.

    None overlaps another.
    """
    try:
        reader = ElfPointers(view)
    except FormatError:
        return  # the host has reported it
    places = list(islice((place for site in sites for place in _records(reader, site.data)), _MOST + 1))
    if len(places) > _MOST:
        yield finding("FP1005", view.span(), f"more than {_MOST} records; only the first {_MOST} are followed")
        del places[_MOST:]
    held = reader.values_at([place + 8 for place, _ in places])
    found: dict[int, tuple[str, int]] = {}
    for (_, format), pointer in zip(places, held, strict=True):
        if pointer.kind == INSIDE and formats.format_by_magic(view.head(pointer.position, 24)) == format:
            found[pointer.position] = (format, pointer.room)
    reached = 0
    for position, (format, room) in sorted(found.items()):
        if position >= reached:
            size = _size(view.slice(position, room), format)
            reached = position + size
            yield CodeSection(view.slice(position, size))


def _records(reader: ElfPointers, data: View) -> Iterator[tuple[int, str]]:
    """Yield the address of what looks like a record, and the format that it should lead to."""
    start = reader.address_of(data.start - reader.view.start)
    for magic, (versions, format) in _RECORDS.items():
        for version in versions:
            head = b"".join(number.to_bytes(4, reader.order) for number in (magic, version))
            at = data.find(head)
            while at >= 0:
                if (start + at) % reader.word == 0:
                    yield start + at, format
                at = data.find(head, at + len(head))


def _size(data: View, format: str) -> int:
    """Return how many bytes a container takes, all there are where it does not say so."""
    room = formats.get_format(format)
    try:
        return room.extent(data, 0) or room.parse(data, 0).span.size
    except (FormatError, Unsupported):
        return len(data)
