"""The proof for linked ELF programs and libraries, through pyelftools."""

from __future__ import annotations

from fatpack.proof import ProgramPair
from fatpack.proof.device_code import compare_device_code
from fatpack.proof.elf.headers import compare_headers
from fatpack.proof.elf.non_loaded import compare_non_loaded
from fatpack.proof.elf.reader import ProofElfFile, read_elf
from fatpack.proof.elf.tables import loader_tables, pointers_to_device_code, resolve_pointers
from fatpack.proof.ledger import ChangedRange, compare_memory, merge_ranges, subtract_ranges
from fatpack.proof.records import ZeroedImages, check_tables, compare_described

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from fatpack.io.source import View
    from fatpack.proof.device_code import DeviceCodeComparison
    from fatpack.proof.ledger import DifferenceLog, Range
    from fatpack.proof.memory import ProgramMemory
    from fatpack.proof.records import RecordPointer

#: Sections of device code, by the names that compilers give them.
_SECTIONS = (".nv_fatbin", "__nv_relfatbin", ".hip_fatbin")

#: Prefixes of the names of sections whose images records describe one by one.
_IMAGES = (".llvm.offloading", "__CLANG_OFFLOAD_BUNDLE__", "OFFLOAD_DEVICE_CODE")
_FOR_TOOLS = ".tgtimg"

COMPARED = (
    "the memory image of both files: every PT_LOAD, with its rights, what is zero, and the bytes at each address",
    "relocations, symbols and strings of the loader, which are part of that image, byte for byte",
    "file header, program headers and dynamic section; tables moved for program headers, at their new address",
    "the tables of the loader, none of which is in device code that changed",
    "the pointers of registration records: the word in place, and addends of the relocations on it",
    "all other words that the loader relocates, and dynamic symbols: none leads to the old place of a container",
    "the containers that records lead to: every byte of them is explained, every image is equal by SHA-256",
    "fat binaries in the program's own data: each is at its address, every image is equal or gone, and zeros follow",
    "images that records of OpenMP and SYCL describe: each is equal, or zeros from its first byte to its last",
    "the section table, sections that are not loaded, and bytes outside sections and segments",
)
NOT_COMPARED = (
    "addresses of device code that instructions compute: code that leads to a container without a record",
    "whether a device can run the remaining images",
)


def compare(before: View, after: View, ledger: DifferenceLog) -> tuple[DeviceCodeComparison, tuple[ChangedRange, ...]]:
    """Compare two linked ELF files; return the comparison of device code, and all ranges that may differ.

    Raises FormatError for a damaged file.
    """
    old, new = read_elf(before), read_elf(after)
    headers = compare_headers(old, new, ledger)
    sections = merge_ranges(_ranges(old, _SECTIONS))
    moved = [(each.new, each.new + each.size) for each in headers.moved]

    def resolve(memory: ProgramMemory, places: Collection[int]) -> Mapping[int, RecordPointer]:
        return resolve_pointers(old if memory is old.memory else new, places)

    def find_pointers(memory: ProgramMemory, low: int, high: int) -> Iterator[tuple[int, int]]:
        return pointers_to_device_code(old if memory is old.memory else new, low, high)

    pair = ProgramPair(old.memory, new.memory, resolve, find_pointers, ledger)
    device = compare_device_code(pair, sections, moved, _code(old))
    check_tables(loader_tables(old), device.gone, ledger)
    images, tables = merge_ranges(_ranges(old, _IMAGES)), merge_ranges(_ranges(old, (_FOR_TOOLS,)))
    device = device.with_described(compare_described(pair, images, tables) if images else ZeroedImages())
    excluded = merge_ranges([*device.ranges, *device.erased, *headers.header, *headers.vacated])
    compare_memory(old.memory, new.memory, excluded, merge_ranges([*device.words, *headers.words]), ledger)
    _compare_vacated(old, new, headers.vacated, headers.header, ledger)
    compare_non_loaded(old, new, device, headers.moved, ledger)
    changed = [ChangedRange(*each, "file header or program headers") for each in headers.header]
    changed += [ChangedRange(each.old, each.old + each.size, "moved out of the table's way") for each in headers.moved]
    changed += [ChangedRange(*each, "address of a table of dynamic symbols") for each in headers.words]
    return device, (*device.changed, *changed)


#: SHF_ALLOC with SHF_EXECINSTR: a loaded section of instructions
_CODE = 2 | 4


def _code(elf: ProofElfFile) -> list[Range]:
    """Return the addresses of instructions: sections of code, or segments of it in a file without sections."""
    if not elf.sections:
        return [(each.start, each.end) for each in elf.memory.loaded_ranges if "x" in each.flags]
    return [(each.address, each.address + each.size) for each in elf.sections if each.flags & _CODE == _CODE]


def _ranges(elf: ProofElfFile, names: tuple[str, ...]) -> list[Range]:
    """Return the addresses of loaded sections with one of these prefixes, or with a name of a section of containers."""
    return [
        (section.address, section.address + section.size)
        for section in elf.sections
        if (section.name in names if names is _SECTIONS else section.name.startswith(names))
        and section.address
        and section.size
        and elf.memory.loaded_range(section.address)
    ]


def _compare_vacated(
    before: ProofElfFile, after: ProofElfFile, vacated: Sequence[Range], header: Sequence[Range], ledger: DifferenceLog
) -> None:
    """Check the old places of moved tables, after the program headers: they are unchanged, or zeros."""
    for start, end in subtract_ranges(vacated, header):
        is_unchanged = all(after.memory.read(at, len(data)) == data for at, data in before.memory.windows(start, end))
        if not is_unchanged and after.memory.first_byte(start, end) < end:
            ledger.differ("bytes that were moved", address=start, expected="all that was there, or zeros")
