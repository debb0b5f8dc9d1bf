"""The proof for linked ELF programs and libraries, through pyelftools."""

from __future__ import annotations

from fatpack.proof.both import Both
from fatpack.proof.described import Erased, compare_described
from fatpack.proof.device import compare_device_code
from fatpack.proof.elf.headers import compare_headers
from fatpack.proof.elf.leading import leading
from fatpack.proof.elf.pointers import pointers
from fatpack.proof.elf.reading import ElfFile, read_elf
from fatpack.proof.elf.unloaded import compare_unloaded
from fatpack.proof.ledger import compare_memory, merged, without
from fatpack.proof.verdict import Changed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from fatpack.io.source import View
    from fatpack.proof.device import DeviceCode
    from fatpack.proof.ledger import Ledger, Range
    from fatpack.proof.memory import Memory
    from fatpack.proof.records import Pointer

#: Sections of device code, by the names that compilers give them.
_SECTIONS = (".nv_fatbin", "__nv_relfatbin", ".hip_fatbin")

#: Beginnings of the names of sections whose images records describe one by one, and the table that tools read.
_IMAGES = (".llvm.offloading", "__CLANG_OFFLOAD_BUNDLE__", "OFFLOAD_DEVICE_CODE")
_FOR_TOOLS = ".tgtimg"

COMPARED = (
    "the memory image of both files: every PT_LOAD, with its rights, what is zero, and the bytes at each address",
    "relocations, symbols and strings of the loader, which are part of that image, byte for byte",
    "file header, program headers and dynamic section; what made room for program headers, at its new address",
    "the pointers of registration records: the word in place, and addends of the relocations on it",
    "all other words that the loader relocates, and dynamic symbols: none leads to where a container was",
    "the containers that records lead to: every byte of them is explained, every image is equal by SHA-256",
    "images that records of OpenMP and SYCL describe: each is equal, or zeros from its first byte to its last",
    "the section table, sections that are not loaded, and bytes that belong to nothing",
)
NOT_COMPARED = (
    "addresses of device code that instructions compute: code that leads to a container without a record",
    "whether a device can run what is left",
)


def compare(before: View, after: View, ledger: Ledger) -> tuple[DeviceCode, tuple[Changed, ...]]:
    """Compare two linked ELF files; return what became of the device code, and all ranges that may differ.

    Raises FormatError for a damaged file.
    """
    old, new = read_elf(before), read_elf(after)
    files: dict[int, ElfFile] = {id(old.memory): old, id(new.memory): new}
    headers = compare_headers(old, new, ledger)
    named = merged(_ranges(old, _SECTIONS))
    moved = [(each.new, each.new + each.size) for each in headers.moved]

    def resolve(memory: Memory, places: Collection[int]) -> Mapping[int, Pointer]:
        return pointers(files[id(memory)], places)

    def lead(memory: Memory, low: int, high: int) -> Iterator[tuple[int, int]]:
        return leading(files[id(memory)], low, high)

    both = Both(old.memory, new.memory, resolve, lead, ledger)
    device = compare_device_code(both, named, moved)
    images, tables = merged(_ranges(old, _IMAGES)), merged(_ranges(old, (_FOR_TOOLS,)))
    device = device.with_described(compare_described(both, images, tables) if images else Erased())
    but = merged([*device.ranges, *device.erased, *headers.own, *headers.left])
    compare_memory(old.memory, new.memory, but, merged([*device.words, *headers.words]), ledger)
    _compare_left(old, new, headers.left, headers.own, ledger)
    compare_unloaded(old, new, device, headers.moved, ledger)
    changed = [Changed(*each, "file header or program headers") for each in headers.own]
    changed += [Changed(each.old, each.old + each.size, "moved out of the table's way") for each in headers.moved]
    changed += [Changed(*each, "address of a table of dynamic symbols") for each in headers.words]
    return device, (*device.changed, *changed)


def _ranges(elf: ElfFile, names: tuple[str, ...]) -> list[Range]:
    """Return the addresses of loaded sections whose names start so, or are one of the names of containers."""
    return [
        (section.address, section.address + section.size)
        for section in elf.sections
        if (section.name in names if names is _SECTIONS else section.name.startswith(names))
        and section.address
        and section.size
        and elf.memory.stretch(section.address)
    ]


def _compare_left(before: ElfFile, after: ElfFile, left: Sequence[Range], own: Sequence[Range], ledger: Ledger) -> None:
    """Check what lies where moved things were, behind the table: what it was, or zeros."""
    for start, end in without(left, own):
        ours = all(after.memory.read(at, len(data)) == data for at, data in before.memory.windows(start, end))
        if not ours and after.memory.first_byte(start, end) < end:
            ledger.differ("bytes that were moved", address=start, expected="all that was there, or zeros")
