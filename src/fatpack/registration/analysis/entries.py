"""Tables of offload entries, which LLVM's linker wrapper registers: one record per kernel or variable.

::

    LLVM 21 and newer, 56 bytes:  u64 0, u16 version 1, u16 kind, u32 flags, address, name, u64 size, u64 data, aux
    LLVM 20 and older, 32 bytes:  address, name, u64 size, i32 flags, i32 data

On 32-bit hosts addresses take 4 bytes, in the old layout the size too: 20 bytes. DPC++ pads the new ones to 64.
(llvm/include/llvm/Frontend/Offloading/Utility.h; llvm-project#124018 for the new layout.) The old ones have an
alignment of 1 in objects, and no version; the name of their section shows their kind.
"""

from __future__ import annotations

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.binary.memory import HostMemory, MemorySection

OPENMP, CUDA, HIP, SYCL = 1, 2, 4, 8
KINDS = {OPENMP: "openmp", CUDA: "cuda", HIP: "hip", SYCL: "sycl"}

#: names of sections as producers write them, and as linkers of PE images cut them → kind of old entries (0: unknown)
_SECTIONS = {
    "llvm_offload_entries": 0,
    "omp_offloading_entries": OPENMP,
    "cuda_offloading_entries": CUDA,
    "hip_offloading_entries": HIP,
    "llvm_off": 0,
    "omp_offl": OPENMP,
    "cuda_off": CUDA,
    "hip_offl": HIP,
}

#: LIMIT: entries that are read. The largest program known to us has some thousand.
MAX_ENTRIES = 1 << 17

#: bytes of an entry on 64-bit hosts, and on 32-bit hosts
NEW, OLD = (56, 44), (32, 20)

#: bits of the flags that are zero for kernels
VARIABLE = 7


class OffloadEntry(Record):
    """An entry: its address, kind, flags and size, the host's address and the device's name ("" if unknown).

    ``layout`` is the number of its bytes; ``data`` and ``aux`` are further fields of new entries. ``size`` is 0 for a
    kernel.
    """

    at: int
    position: int
    layout: int
    kind: str
    flags: int
    address: int
    name: str
    size: int
    data: int
    aux: int

    @property
    def is_kernel(self) -> bool:
        """True for a kernel, or a region of OpenMP; false for a variable."""
        return not self.size and not self.flags & VARIABLE and bool(self.name) and bool(self.address)


class OffloadEntryTable(Record):
    """The entries of one section; ``rest`` bytes at its end are not a whole entry, ``more`` entries were not read."""

    section: MemorySection
    entries: tuple[OffloadEntry, ...]
    rest: int
    more: int = 0


def find_entry_tables(file: HostMemory) -> Iterator[OffloadEntryTable]:
    """Yield the tables of entries in a host file."""
    left = MAX_ENTRIES
    for section in file.sections:
        kind = entry_kind(section.name)
        if kind is not None and len(section.data):
            table = _table(file, section, kind, left)
            left -= len(table.entries)
            yield table


def entry_kind(section: str) -> int | None:
    """Return the kind of the entries in a section, by its name: 0 if the entries have it; None if it has no entries.

    Relocatable links append the object to a name. In COFF objects ``$OA`` and ``$OZ`` are the bounds of the table.
    """
    base, _, order = section.partition("$")
    if order in ("OA", "OZ"):
        return None
    return next((kind for name, kind in _SECTIONS.items() if base == name or base.startswith(f"{name}_")), None)


def _table(file: HostMemory, section: MemorySection, kind: int, left: int) -> OffloadEntryTable:
    found: list[OffloadEntry] = []
    content, word, at = file.content(section), file.word, 0
    new, old = NEW[word != 8], OLD[word != 8]
    while at < len(content):
        if not left - len(found):
            return OffloadEntryTable(section, tuple(found), 0, (len(content) - at) // new)
        is_new = len(content) - at >= new and _is_new(file, section, content, at)
        size = new if is_new else old
        if len(content) - at < size:
            break
        if any(content[at : at + size]) or section.address + at in file.pointers(section):
            found.append(_entry(file, section, content, at, size, kind))
        elif not kind:
            size = word  # zeros: bounds of a table, and padding
        at += size
    return OffloadEntryTable(section, tuple(found), len(content) - at if any(content[at:]) else 0)


def _is_new(file: HostMemory, section: MemorySection, content: bytes, at: int) -> bool:
    is_version = content[at + 8 : at + 10] == b"\1\0" and not any(content[at : at + 8])
    return is_version and section.address + at not in file.pointers(section)


def _entry(file: HostMemory, section: MemorySection, content: bytes, at: int, size: int, kind: int) -> OffloadEntry:
    word, start = file.word, section.address + at

    def number(place: int, width: int) -> int:
        return int.from_bytes(content[at + place : at + place + width], "little")

    def pointer(place: int) -> int:
        return file.pointer_at(start + place) or 0

    position = section.data.start - file.view.start + at
    if size in NEW:
        stored, flags = number(10, 2), number(12, 4)
        address, name, aux = pointer(16), pointer(16 + word), pointer(32 + 2 * word)
        value, data = number(16 + 2 * word, 8), number(24 + 2 * word, 8)
        title = KINDS.get(stored, str(stored))
        return OffloadEntry(start, position, size, title, flags, address, file.string_at(name), value, data, aux)
    value, flags, data = number(2 * word, word), number(3 * word, 4), number(3 * word + 4, 4)
    title, called = KINDS.get(kind, ""), file.string_at(pointer(word))
    return OffloadEntry(start, position, size, title, flags, pointer(0), called, value, data, 0)
