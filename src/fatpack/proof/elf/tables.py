"""Sizes of the tables that only the dynamic section refers to; it states few of them.

``DT_HASH``: two counts, then so many words (gABI, "Hash Table"). ``DT_GNU_HASH``: a header of four words, a Bloom
filter, buckets, and chains that end with an odd word (Oracle's and glibc's description of ``.gnu.hash``). Both have the
number of symbols. Versions needed and defined are lists (LSB, "Symbol Versioning").
"""

from __future__ import annotations

import struct
import sys
from array import array

from fatpack.proof.memory import WINDOW
from fatpack.proof.records import RecordPointer, split_into_words
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from fatpack.proof.elf.reader import ProofElfFile
    from fatpack.proof.ledger import Range
    from fatpack.proof.memory import ProgramMemory

    Addend = tuple[int | None, int]


# Values of pointers of a running ELF program: the word in place, or the value of a relocation of ``DT_RELA``.
#
# A relocation of ``DT_REL`` or ``DT_RELR`` adds to the word in place, which is the address in the file.
# (gABI, "Relocation"; types by the processors' supplements, from pyelftools.)

#: e_machine → name of pyelftools' table of relocation types
_TABLES = {
    "EM_X86_64": "ENUM_RELOC_TYPE_x64",
    "EM_AARCH64": "ENUM_RELOC_TYPE_AARCH64",
    "EM_PPC64": "ENUM_RELOC_TYPE_PPC64",
    "EM_PPC": "ENUM_RELOC_TYPE_PPC",
    "EM_S390": "ENUM_RELOC_TYPE_S390X",
    "EM_LOONGARCH": "ENUM_RELOC_TYPE_LOONGARCH",
}
_POINTERS = {8: ("_64", "_ABS64", "_ADDR64"), 4: ("_32", "_ABS32", "_ADDR32")}

#: pyelftools has no table for RISC-V: the ELF psABI of RISC-V, "Relocations"
_RISCV = {"R_RISCV_32": 1, "R_RISCV_64": 2, "R_RISCV_RELATIVE": 3}


def resolve_pointers(elf: ProofElfFile, places: Collection[int]) -> dict[int, RecordPointer]:
    """Return the values of the pointers at some addresses; a pointer that is not loaded has no value."""
    memory = elf.memory
    relocated = _relocated(elf, set(places)) if places else {}
    found = {}
    for place in places:
        in_place = memory.number(place, memory.word)
        value: int | None
        if place in relocated:
            value, at = relocated[place]
            found[place] = RecordPointer(value, in_place, (at, memory.word))
        else:
            found[place] = RecordPointer(in_place, in_place)
    return found


def _relocated(elf: ProofElfFile, places: set[int]) -> dict[int, Addend]:
    """Return the values of relocations with addends for some places, and the addresses of the addends."""
    memory = elf.memory
    start, size = elf.tag("DT_RELA"), elf.tag("DT_RELASZ")
    if start is None or size is None:
        return {}
    sign = "<" if memory.order == "little" else ">"
    record = struct.Struct(sign + ("QQq" if memory.word == 8 else "IIi"))
    shift = 32 if memory.word == 8 else 8
    relative, absolute = _types(elf)
    found: dict[int, Addend] = {}
    for at, data in _windows(memory, start, size):
        rows = record.iter_unpack(data[: len(data) // record.size * record.size])
        for number, (place, info, addend) in enumerate(rows):
            if place in places:
                kind, symbol = info & ((1 << shift) - 1), info >> shift
                value = _value(elf, kind, symbol, relative, absolute)
                where = at + number * record.size + 2 * memory.word
                # No linker writes several relocations for one place.
                found[place] = None if value is None or place in found else value + addend, where
    return found


def _types(elf: ProofElfFile) -> tuple[set[int], set[int]]:
    """Return two sets of relocation types: one adds the base, the other adds the value of a symbol."""
    from elftools.elf import enums

    machine = str(elf.header["e_machine"])
    table = _RISCV if machine == "EM_RISCV" else getattr(enums, _TABLES.get(machine, ""), {})
    relative = {number for name, number in table.items() if name.endswith("_RELATIVE")}
    ends = _POINTERS[elf.memory.word]
    absolute = {number for name, number in table.items() if name.count("_") <= 3 and _is_pointer(name, ends)}
    return relative, absolute


def _is_pointer(name: str, ends: tuple[str, ...]) -> bool:
    """Return whether the name of a relocation is the processor's and has one of these ends: ``R_X86_64_64``."""
    return any(name.removesuffix(end) in ("R_X86_64", "R_AARCH64", "R_PPC64", "R_PPC", "R_390", "R_LARCH", "R_RISCV")
               for end in ends if name.endswith(end))  # fmt: skip


def _value(elf: ProofElfFile, kind: int, symbol: int, relative: set[int], absolute: set[int]) -> int | None:
    """Return the base of a relocation's addend, as an address of the file; None if it depends on other files."""
    if kind in relative:
        return 0
    table = elf.tag("DT_SYMTAB")
    if kind not in absolute or table is None:
        return None
    if not symbol:
        return 0
    wide = elf.memory.word == 8
    at = table + symbol * (24 if wide else 16)
    section = elf.memory.number(at + (6 if wide else 14), 2)
    return elf.memory.number(at + (8 if wide else 4), elf.memory.word) if section else None


#: words of a chain that are read at a time
_STEP = 4096


def table_size(elf: ProofElfFile, tag: str, address: int) -> int | None:
    """Return the size in bytes of the table for an entry of the dynamic section.

    None for a damaged table, and for one that cannot be moved.
    """
    memory = elf.memory
    if tag == "DT_HASH":
        buckets, chains = memory.number(address, 4), memory.number(address + 4, 4)
        return None if buckets is None or chains is None else 4 * (2 + buckets + chains)
    if tag == "DT_GNU_HASH":
        return None if (found := _gnu_hash(memory, address)) is None else found[0]
    if tag == "DT_STRTAB":
        return elf.tag("DT_STRSZ")
    if tag in ("DT_SYMTAB", "DT_VERSYM"):
        count = symbol_count(elf)
        size = 2 if tag == "DT_VERSYM" else 24 if memory.word == 8 else 16
        return None if count is None else count * size
    if tag in _VERSIONS:
        return _versions_size(memory, address, elf.tag(f"{tag}NUM") or 0, _VERSIONS[tag])
    return None


class _Lists(Record):
    """The layout of the two levels of version lists: the size of an entry, and the offsets of some numbers in it.

    These are the number of its entries of the second level, and the distances to the first of them and to the next
    entry. ``own_size`` is the size of an entry of the second level, ``own_next_at`` the offset of its distance to the
    next.
    """

    size: int
    count_at: int
    first_at: int
    next_at: int
    own_size: int
    own_next_at: int


_VERSIONS = {"DT_VERNEED": _Lists(16, 2, 8, 12, 16, 12), "DT_VERDEF": _Lists(20, 6, 12, 16, 8, 4)}

#: LIMIT: versions of a file that are counted. glibc defines fifty.
_MOST_VERSIONS = 1 << 16


def _versions_size(memory: ProgramMemory, address: int, count: int, lists: _Lists) -> int | None:
    end, at, remaining = 0, 0, _MOST_VERSIONS
    for _ in range(min(count, _MOST_VERSIONS)):
        entry = memory.read(address + at, lists.size)
        if entry is None:
            return None
        end = max(end, at + lists.size)
        inner = at + int.from_bytes(entry[lists.first_at : lists.first_at + 4], memory.order)
        for _ in range(int.from_bytes(entry[lists.count_at : lists.count_at + 2], memory.order)):
            each = memory.read(address + inner, lists.own_size)
            remaining -= 1
            if each is None or remaining < 0:
                return None
            end = max(end, inner + lists.own_size)
            inner += int.from_bytes(each[lists.own_next_at : lists.own_next_at + 4], memory.order)
        at += int.from_bytes(entry[lists.next_at : lists.next_at + 4], memory.order)
    return end


def symbol_count(elf: ProofElfFile) -> int | None:
    """Return the number of dynamic symbols of a file, None if no hash table has it."""
    plain, gnu = elf.tag("DT_HASH"), elf.tag("DT_GNU_HASH")
    if plain is not None:
        return elf.memory.number(plain + 4, 4)
    found = None if gnu is None else _gnu_hash(elf.memory, gnu)
    return None if found is None else found[1]


def _gnu_hash(memory: ProgramMemory, address: int) -> tuple[int, int] | None:
    """Return size and number of symbols of a GNU hash table, None for a damaged one."""
    counts = [memory.number(address + 4 * number, 4) for number in range(3)]
    if None in counts:
        return None
    bucket_count, first, blooms = (count or 0 for count in counts)
    table = 16 + blooms * memory.word
    buckets = _words(memory, address + table, bucket_count)
    if buckets is None:
        return None
    chains = table + 4 * bucket_count
    last = max(buckets, default=0)
    if last < first:
        return chains, first
    at = chains + 4 * (last - first)
    while chain := _words(memory, address + at, min(_STEP, memory.stored_size(address + at) // 4)):
        for word in chain:
            at += 4
            if word & 1:
                return at, first + (at - chains) // 4
    return None


def _words(memory: ProgramMemory, address: int, count: int) -> array[int] | None:
    """Return numbers of four bytes each, None unless all of them are in the file."""
    stored = memory.stored(address, 4 * count)
    if stored is None:
        return None
    words = array("I", stored.tobytes())
    if sys.byteorder != memory.order:
        words.byteswap()
    return words


#: tables of the dynamic section with the entries of their sizes; those without one have their size in themselves
_SIZED = {
    "DT_RELA": "DT_RELASZ",
    "DT_REL": "DT_RELSZ",
    "DT_RELR": "DT_RELRSZ",
    "DT_JMPREL": "DT_PLTRELSZ",
    "DT_STRTAB": "DT_STRSZ",
    "DT_INIT_ARRAY": "DT_INIT_ARRAYSZ",
    "DT_FINI_ARRAY": "DT_FINI_ARRAYSZ",
    "DT_PREINIT_ARRAY": "DT_PREINIT_ARRAYSZ",
}
_UNSIZED = ("DT_HASH", "DT_GNU_HASH", "DT_SYMTAB", "DT_VERSYM", "DT_VERNEED", "DT_VERDEF")
#: addresses of the dynamic section that are no tables
_ADDRESSES = ("DT_PLTGOT", "DT_INIT", "DT_FINI")
#: program headers that span device code, or say nothing of bytes
_NO_TABLES = ("PT_LOAD", "PT_GNU_STACK", "PT_GNU_RELRO")


def loader_tables(elf: ProofElfFile) -> Iterator[tuple[str, Range]]:
    """Yield the bytes that the loader reads: names, and addresses of start and end."""
    yield "e_entry", (elf.header["e_entry"], elf.header["e_entry"] + 1)
    for each in elf.segments:
        if each.type not in _NO_TABLES and each.filesz:
            yield each.type, (each.vaddr, each.vaddr + each.filesz)
    for tag, value, _ in elf.dynamic:
        if tag in _SIZED:
            size = elf.tag(_SIZED[tag])
        elif tag in _UNSIZED:
            size = table_size(elf, tag, value)
        elif tag in _ADDRESSES:
            size = None
        else:
            continue
        yield tag, (value, value + max(size or 0, 1))


# References of an ELF program into device code: words that the loader relocates, and symbols that other files see.


def pointers_to_device_code(elf: ProofElfFile, low: int, high: int) -> Iterator[tuple[int, int]]:
    """Yield the pointers and dynamic symbols whose value is in ``[low, high)``: their addresses and values.

    In a program that is not relocated any word may be a pointer, a number or text: none of those is yielded.
    """
    yield from _symbols(elf, low, high)
    yield from _with_addends(elf, low, high)
    for place in _in_place(elf):
        value = elf.memory.number(place, elf.memory.word)
        if value is not None and low <= value < high:
            yield place, value


def _tables(elf: ProofElfFile, tag: str, size_tag: str) -> Iterator[bytes]:
    """Yield the bytes of a table of the dynamic section, in windows of whole records."""
    start, size = elf.tag(tag), elf.tag(size_tag)
    if start is not None and size is not None:
        yield from (data for _, data in _windows(elf.memory, start, size))


def _windows(memory: ProgramMemory, start: int, size: int) -> Iterator[tuple[int, bytes]]:
    """Yield address and bytes of a table in windows of whole records, as far as the file has it."""
    table = memory.stored(start, min(size, memory.stored_size(start)))
    if table is None:
        return
    step = WINDOW // 48 * 48  # a multiple of every record's size
    for at in range(0, len(table), step):
        yield start + at, table.read(at, min(step, len(table) - at))


def _with_addends(elf: ProofElfFile, low: int, high: int) -> Iterator[tuple[int, int]]:
    for data in _tables(elf, "DT_RELA", "DT_RELASZ"):
        words = split_into_words(elf.memory, data)
        yield from (
            (place, addend) for place, addend in zip(words[::3], words[2::3], strict=False) if low <= addend < high
        )


def _in_place(elf: ProofElfFile) -> Iterator[int]:
    """Yield the places of relocations without addends (``DT_REL``, ``DT_RELR``)."""
    word = elf.memory.word
    for data in _tables(elf, "DT_REL", "DT_RELSZ"):
        yield from split_into_words(elf.memory, data)[::2]
    base = 0
    for data in _tables(elf, "DT_RELR", "DT_RELRSZ"):
        for entry in split_into_words(elf.memory, data):
            if not entry & 1:
                yield entry
                base = entry + word
                continue
            bits, place = entry >> 1, base
            while bits:
                if bits & 1:
                    yield place
                bits >>= 1
                place += word
            base += (8 * word - 1) * word


def _symbols(elf: ProofElfFile, low: int, high: int) -> Iterator[tuple[int, int]]:
    """Yield the dynamic symbols that are defined in the file."""
    start, count = elf.tag("DT_SYMTAB"), symbol_count(elf)
    if start is None or count is None:
        return
    wide = elf.memory.word == 8
    sign = "<" if elf.memory.order == "little" else ">"
    record = struct.Struct(sign + ("IBBHQQ" if wide else "IIIBBH"))
    value_at, section_at = (4, 3) if wide else (1, 5)
    for at, data in _windows(elf.memory, start, count * record.size):
        symbols = record.iter_unpack(data[: len(data) // record.size * record.size])
        for number, symbol in enumerate(symbols):
            if low <= symbol[value_at] < high and symbol[section_at]:
                yield at + number * record.size, symbol[value_at]
