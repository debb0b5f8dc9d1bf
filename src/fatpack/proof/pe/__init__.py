"""The proof for linked PE images, through LIEF."""

from __future__ import annotations

from fatpack.proof import ProgramPair
from fatpack.proof.device_code import compare_device_code
from fatpack.proof.ledger import ChangedRange, DifferenceLog, compare_memory, compare_views, merge_ranges
from fatpack.proof.pe.parts import PointersToDeviceCode, compare_headers, compare_non_loaded, loader_tables
from fatpack.proof.pe.reader import CERTIFICATES, ProofPeFile, read_pe
from fatpack.proof.records import RecordPointer, ZeroedImages, check_tables, compare_described

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from fatpack.io.source import View
    from fatpack.proof.device_code import DeviceCodeComparison
    from fatpack.proof.ledger import Range
    from fatpack.proof.memory import ProgramMemory

#: Sections of device code: names in objects, and as linkers cut them.
_SECTIONS = (b".nv_fatbin", b".nv_fatb", b"__nv_relfatbin", b"__nv_rel", b".hip_fatbin", b".hip_fat")

#: IMAGE_SCN_MEM_EXECUTE: a section of instructions
_EXECUTED = 0x20000000

#: Sections whose images records describe one by one, also with the names that linkers truncate, and a table for tools.
_IMAGES = (b".llvm.offloading", b".llvm.of", b".llvm", b"__CLANG_", b"OFFLOAD_")
_FOR_TOOLS = (b".tgtimg",)

COMPARED = (
    "the memory image of both files: the headers and every section, with its rights, what is zero, and all bytes",
    "base relocations, imports, exports and exception tables, which are part of that image, byte for byte",
    "the headers' numbers about the file: sizes and offsets of sections, CheckSum, SizeOfInitializedData, debug data",
    "the tables of the data directories, none of which is in device code that changed",
    "the pointers of registration records",
    "all other words that the loader relocates, and exports: none leads to the old place of a container",
    "the containers that records lead to: every byte of them is explained, every image is equal by SHA-256",
    "fat binaries in the program's own data: each is at its address, every image is equal or gone, and zeros follow",
    "images that records of OpenMP and SYCL describe: each is equal, or zeros from its first byte to its last",
    "COFF symbols, padding and an overlay",
)
NOT_COMPARED = (
    "addresses of device code that instructions compute: code that leads to a container without a record",
    "whether a device can run the remaining images",
)


def compare(before: View, after: View, ledger: DifferenceLog) -> tuple[DeviceCodeComparison, tuple[ChangedRange, ...]]:
    """Compare two PE images; return the comparison of device code, and all ranges that may differ.

    Raises FormatError for a damaged file.
    """
    old, new = read_pe(before), read_pe(after)
    find_pointers = PointersToDeviceCode(old)
    named = merge_ranges(_ranges(old, _SECTIONS))
    pair = ProgramPair(old.memory, new.memory, _pointers, find_pointers, ledger)
    code = [(each.address, each.address + each.virtual_size) for each in old.sections if each.flags & _EXECUTED]
    device = compare_device_code(pair, named, [], merge_ranges(code))
    check_tables(loader_tables(old), device.gone, ledger)
    images, tables = merge_ranges(_ranges(old, _IMAGES)), merge_ranges(_ranges(old, _FOR_TOOLS))
    device = device.with_described(compare_described(pair, images, tables) if images else ZeroedImages())
    words = compare_headers(old, new, device.ranges, ledger)
    compare_memory(
        old.memory,
        new.memory,
        merge_ranges([*device.ranges, *device.erased]),
        merge_ranges([*device.words, *words]),
        ledger,
    )
    compare_non_loaded(old, new, device.moves, _is_same(before, after), ledger)
    changed = [ChangedRange(*each, "size, offset or checksum in the headers") for each in words]
    if old.directory(CERTIFICATES) != new.directory(CERTIFICATES):
        at = old.directory_at(CERTIFICATES)
        changed.append(ChangedRange(at, at + 8, "signature, which is removed"))
    return device, (*device.changed, *changed)


def _ranges(pe: ProofPeFile, names: Collection[bytes]) -> list[Range]:
    return [
        (each.address, each.address + (each.virtual_size or each.raw_size))
        for each in pe.sections
        if pe.name_of(each) in names
    ]


def _pointers(memory: ProgramMemory, places: Collection[int]) -> dict[int, RecordPointer]:
    """Return the values of pointers of an image: the word in place, as an address relative to the image's base."""
    found = {}
    for place in places:
        word = memory.number(place, memory.word)
        value = None if word is None or word < memory.base else word - memory.base
        found[place] = RecordPointer(value, word)
    return found


def _is_same(before: View, after: View) -> bool:
    log = DifferenceLog()
    compare_views("file", before, after, log)
    return not log.count
