"""The words of a linked program that hold the addresses of its containers, so that containers can move.

::

    records of CUDA and HIP ──► the word after magic and version
    records of version 2    ──► the words of their lists, which point to prelinked fat binaries

A container without such a word may be reached in another way: by an address in the program's data, a relocation, or a
symbol. :func:`other_references` finds these. An address that code computes without any of them is not found.
"""

from __future__ import annotations

import sys
from itertools import islice

from fatpack import binary, formats
from fatpack.binary import CodeSection
from fatpack.binary.elf.file import ElfFile
from fatpack.binary.elf.pointers import ElfPointers
from fatpack.binary.pointers import HOSTS, INSIDE, UNDEFINED, UNKNOWN, open_pointers
from fatpack.binary.section_names import CUDA_FATBIN, CUDA_MODULE_IDS, CUDA_RELOCATABLE, MACHO_CUDA_FATBIN, with_cut
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


# ``__nv_module_id``: nvcc's names for the units of a file, and for the units that a device link joined.
#
# A section of strings that end in NUL, one or more per unit; linkers concatenate them in the order of the units' fat
# binaries:
#
# ==========================================  =====================================================================
# ``__NV_MODULE_ID``                          a unit of whole-program code, which needs no name
# ``_6b94317d_5_k1_cu_add_one``               a unit of relocatable code (-dc): hash, length, file and a symbol of it
# ``def _6b94317d_5_k1_cu_add_one``           in the output of nvcc -dlink: a unit that was linked
# ==========================================  =====================================================================
#
# How we know: objects and libraries made by nvcc 13.0. Only symbols connect fat binaries with units, and ``strip``
# removes them; so fat binaries get names only if there are as many units.

#: Names of the sections, full and as linkers of PE images cut them, for relocatable and linked code. In Mach-O a
#: segment and a comma come first.
MODULE_ID_NAMES = with_cut(CUDA_MODULE_IDS)
_RELOCATABLE = with_cut(CUDA_RELOCATABLE)
_LINKED = (*with_cut(CUDA_FATBIN), MACHO_CUDA_FATBIN)

_WHOLE = b"__NV_MODULE_ID"
_DEFINED = b"def "

#: LIMIT: bytes of names that are read. A library of 1000 units has some 50 kB.
_SIZE = 1 << 20


class ModuleIds(Record):
    """The names in a host: those of ``units`` of relocatable code, and of units that were ``linked``, in order.

    ``is_whole``: there is whole-program code as well, whose fat binaries are in the same section as the linked ones.
    """

    units: tuple[str, ...]
    linked: tuple[str, ...]
    is_whole: bool

    def of(self, site: CodeSection) -> Sequence[tuple[str, str]]:
        """Return the names for each fat binary in a section, as attributes; nothing if they are uncertain.

        ``module_id`` is the unit that a fat binary is made from, ``linked_module_ids`` are the units it was linked
        from.
        """
        if _name(site) in _RELOCATABLE and self.units and _count(site.data, len(self.units)) == len(self.units):
            return [("module_id", name) for name in self.units]
        if _name(site) in _LINKED and self.linked and not self.is_whole and _count(site.data, 1) == 1:
            return [("linked_module_ids", " ".join(self.linked))]
        return []


def read_module_ids(tables: Sequence[CodeSection]) -> ModuleIds | None:
    """Return the names in the sections of a host, None if there are none or too many to read."""
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
    """Return the number of fat binaries in a section, by their headers alone; -1 if it has anything else.

    Counting ends after ``most``.
    """
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
    """A word that points to a container: the ``word``'s address, and ``target``, the address that it holds.

    ``position`` is the target's position in the view. ``is_prelinked``: the container is linked with other units when
    the program starts. ``title`` is its name in findings.
    """

    word: int
    target: int
    position: int
    is_prelinked: bool
    title: str


class ContainerPointers(Record):
    """All such words of a program, and findings about the records; ``is_whole`` if all records could be read."""

    items: tuple[ContainerPointer, ...]
    problems: tuple[Finding, ...]
    is_whole: bool


def find_container_pointers(view: View, host: str, sites: Sequence[CodeSection | Finding]) -> ContainerPointers:
    """Return the words of a linked program that point to containers; ``sites`` are the sections of the host."""
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
    """Addresses in a program's data and its visible symbols, without the known pointers.

    ``words`` are the addresses that words of data hold: pointers if that ``is_exact``, else any may be a number or
    text. ``symbols`` are the addresses of symbols that other files see.
    """

    words: frozenset[int]
    symbols: frozenset[int]
    is_exact: bool


def unrelated_words(view: View, host: str, low: int, high: int, known: Collection[int]) -> UnrelatedWords | None:
    """Return the references to addresses from ``low`` to below ``high``, None if not all could be searched.

    ``known`` are the addresses of pointers to leave out.
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

    ``only_visible``: only symbols that other files can see. Raises FormatError for a damaged table.
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
            # In records of both sizes the value is the second word.
            words = array("Q" if word == 8 else "I", block[: len(block) - len(block) % word])
            if elf.layouts.order != sys.byteorder:
                words.byteswap()
            found.update(value for value in words[1 :: 3 if word == 8 else 4] if low <= value < high)
    return sorted(found)


# Containers of programs without sections, found by the records that register them.
#
# The records of CUDA and HIP (:mod:`fatpack.registration.records`) are in data that is written when a program starts,
# and have magics. A match counts as a record only if it is aligned, has a known version, and points to a container of
# its model.

#: magic → versions, and the format of the container to which such a record points
_RECORDS = {records.CUDA_MAGIC: ((1, 2), "cuda-fatbin"), records.HIP_MAGIC: ((1,), "clang-offload-bundle")}

#: LIMIT: matches that are followed. The library with most bundles that is known to us has 845 records.
_MOST = 1 << 16


def containers_without_sections(view: View, sites: Sequence[CodeSection]) -> Iterator[CodeSection | Finding]:
    """Yield the locations of containers to which records in parts of an ELF program point, in the order of their bytes.

    Containers that overlap a former one are left out.
    """
    try:
        reader = ElfPointers(view)
    except FormatError:
        return  # the scan of the host has reported it
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
    """Yield the address of each match of a record's magic and version, and the format of its target."""
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
    """Return the size of a container in bytes, all of the view if the container does not have it."""
    room = formats.get_format(format)
    try:
        return room.extent(data, 0) or room.parse(data, 0).span.size
    except (FormatError, Unsupported):
        return len(data)
