"""Which words of a linked program hold the addresses of its containers, so that containers can move.

::

    records of CUDA and HIP ──► the word behind magic and version
    records of version 2    ──► the words of their lists, which lead to prelinked fat binaries

A container that no such word leads to may be reached in another way: by an address in the program's data, a relocation,
or a symbol. :func:`others` looks for these. What code makes of its own address, without any of them, nobody sees.
"""

from __future__ import annotations

import sys

from fatpack import binary
from fatpack.binary.elf.file import ElfFile
from fatpack.binary.open import HOSTS, open_pointers
from fatpack.binary.pointers import INSIDE, UNDEFINED, UNKNOWN
from fatpack.errors import FormatError
from fatpack.model import Finding
from fatpack.record import Record
from fatpack.registration import hip, records, registration_records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from fatpack.binary import CodeSection
    from fatpack.binary.pointers import Pointer, PointerReader
    from fatpack.io.source import View
    from fatpack.registration.registration_records import RecordSection

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
    tables = [site for site in sites if not isinstance(site, Finding) and site.expects == binary.TABLE]
    items: list[ContainerPointer] = []
    problems: list[Finding] = []
    unread = 0
    if host not in HOSTS:
        return ContainerPointers((), (), False)
    for model in (records.CUDA_MODEL, hip.HIP_MODEL):
        for segment in registration_records.find_record_sections(view, host, tables, model):
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
    search = reader.into(low, high - 1)
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
    search = open_pointers(view, host).into(low, high - 1)
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
