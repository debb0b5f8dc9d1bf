"""How large the tables are to which only the dynamic section leads, which it does not say of most.

``DT_HASH``: two counts, then so many words (gABI, "Hash Table"). ``DT_GNU_HASH``: a header of four words, a Bloom
filter, buckets, and chains that end with an odd word (Oracle's and glibc's description of ``.gnu.hash``). Both say how
many symbols there are. Versions needed and defined are lists (LSB, "Symbol Versioning").
"""

from __future__ import annotations

from array import array

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.proof.elf.reader import ProofElfFile
    from fatpack.proof.memory import ProgramMemory

#: words of a chain that are read at a time
_STEP = 4096


def table_size(elf: ProofElfFile, tag: str, address: int) -> int | None:
    """Return the size in bytes of the table that an entry of the dynamic section leads to.

    None for a table that is damaged, and for one whose place other things depend on.
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
    """How the two levels of lists of versions are laid out: bytes of an entry, and where it has some numbers.

    These are how many entries of the second level belong to it, and the distances to the first of them and to the next
    entry. ``own_size`` is the size of those, ``own_next_at`` where they have the distance to the next.
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
    end, at, left = 0, 0, _MOST_VERSIONS
    for _ in range(min(count, _MOST_VERSIONS)):
        entry = memory.read(address + at, lists.size)
        if entry is None:
            return None
        end = max(end, at + lists.size)
        inner = at + int.from_bytes(entry[lists.first_at : lists.first_at + 4], memory.order)
        for _ in range(int.from_bytes(entry[lists.count_at : lists.count_at + 2], memory.order)):
            each = memory.read(address + inner, lists.own_size)
            left -= 1
            if each is None or left < 0:
                return None
            end = max(end, inner + lists.own_size)
            inner += int.from_bytes(each[lists.own_next_at : lists.own_next_at + 4], memory.order)
        at += int.from_bytes(entry[lists.next_at : lists.next_at + 4], memory.order)
    return end


def symbol_count(elf: ProofElfFile) -> int | None:
    """Return how many dynamic symbols a file has, None if no hash table says it."""
    plain, gnu = elf.tag("DT_HASH"), elf.tag("DT_GNU_HASH")
    if plain is not None:
        return elf.memory.number(plain + 4, 4)
    found = None if gnu is None else _gnu_hash(elf.memory, gnu)
    return None if found is None else found[1]


def _gnu_hash(memory: ProgramMemory, address: int) -> tuple[int, int] | None:
    """Return size and number of symbols of a hash table of GNU's kind, None where it is damaged."""
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
    while (chain := _some(memory, address + at)) is not None and len(chain):
        for word in chain:
            at += 4
            if word & 1:
                return at, first + (at - chains) // 4
    return None


def _words(memory: ProgramMemory, address: int, count: int) -> array[int] | None:
    stretch = memory.stretch(address)
    if stretch is None or address + 4 * count > stretch.filled:
        return None
    return _as_words(memory, memory.read(address, 4 * count))


def _some(memory: ProgramMemory, address: int) -> array[int] | None:
    stretch = memory.stretch(address)
    if stretch is None:
        return None
    left = max(0, stretch.filled - address) // 4
    return _as_words(memory, memory.read(address, 4 * min(_STEP, left)))


def _as_words(memory: ProgramMemory, data: bytes | None) -> array[int] | None:
    if data is None:
        return None
    words = array("I", data)
    if (array("I", b"\1\0\0\0")[0] == 1) != (memory.order == "little"):
        words.byteswap()
    return words
