"""The descriptors of OpenMP and SYCL, found by their shape: stripped files have no names for them.

An OpenMP descriptor counts its images, points to their records, and has the bounds of the offload entries, which every
record of an image has as well. A record of a SYCL image has a version and a kind, and points into a loaded section of
images; the descriptor points to the first record. LLVM 23 has neither for SYCL: its constructor hands a whole offload
binary to the runtime. (llvm/lib/Frontend/Offloading/OffloadWrapper.cpp, LLVM 14 to 23.)
"""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.binary.section_names import OFFLOADING
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fatpack.binary.memory import HostMemory, MemorySection
    from fatpack.registration.analysis.entries import OffloadEntryTable

#: LIMIT: descriptors that are read, and images of all of them. Programs have one descriptor, and an image per target.
_MOST, _MOST_IMAGES = 64, 1 << 12

#: bytes of the magic numbers of all forms of images
_BEGIN = 16

#: LIMIT: bytes of data that are searched for the bounds of entries in place
_SEARCHED = 1 << 26

#: values that are searched for one by one, which is faster for a few
_FEW = 4

#: LIMIT: candidates for records of images that are read
_MOST_LOOKS = 1 << 16

#: the section of images, where it is loaded; linkers of PE images cut the name
_IMAGES = (OFFLOADING, ".llvm")

#: version of the record of a SYCL image → whether it has pointers to a manifest
WITH_MANIFEST = {1: True, 2: True, 3: False}

#: kinds of offloading that mean SYCL: LLVM has a bit for each, DPC++ counts them
_SYCL_KINDS = (4, 8)

#: bytes of an offload binary's header, the places of its size and of its first entry, and of the kind in an entry
#: (:mod:`fatpack.formats.offload_binary.layout`)
_HEADER, _SIZE_AT, _ENTRY_AT, _KIND_AT = 32, 8, 16, 2

#: prefix of the symbols that bound a table of entries
_BOUNDS = "__start_"


class DeviceImageRecord(Record):
    """The record of an image: its address and size, the bounds of the image, and its target.

    ``target`` is "" if the record has none; ``version`` is 0 for OpenMP.
    """

    at: int
    size: int
    begin: int
    end: int
    target: str
    version: int = 0


class DescriptorRecord(Record):
    """A descriptor for a runtime: its model, address and images; ``entries`` are the bounds of the entries."""

    model: str
    at: int
    images: tuple[DeviceImageRecord, ...]
    entries: tuple[int, int]


def find_descriptors(file: HostMemory, tables: Sequence[OffloadEntryTable]) -> tuple[DescriptorRecord, ...]:
    """Return the descriptors in the data of a host file, those of OpenMP first."""
    found = {each.at: each for each in (*_openmp(file, tables), *_sycl(file))}
    return tuple(found.values())[:_MOST]


def find_sycl_binaries(file: HostMemory) -> tuple[int, ...]:
    """Return the addresses of the offload binaries for SYCL in loaded sections: LLVM 23 registers these whole."""
    found: list[int] = []
    for section in file.sections:
        # Sections of inputs for the linker wrapper, which are not loaded, have the same name in COFF objects.
        if not holds_images(section) or (file.is_windows and not file.is_linked):
            continue
        content, at = file.content(section), 0
        while len(found) < _MOST and (at := content.find(magic_numbers.OFFLOAD_BINARY, at)) >= 0:
            size, entry = (
                int.from_bytes(content[at + where : at + where + 8], "little") for where in (_SIZE_AT, _ENTRY_AT)
            )
            if size < _HEADER or size > len(content) - at:
                at += len(magic_numbers.OFFLOAD_BINARY)
                continue
            kind = int.from_bytes(content[at + entry + _KIND_AT : at + entry + _KIND_AT + 2], "little")
            if kind in _SYCL_KINDS:
                found.append(section.address + at)
            at += size
    return tuple(found)


def lacks_binary(file: HostMemory, address: int) -> bool:
    """Return whether an address is in a loaded section of images, and no offload binary is there."""
    section = file.section_at(address)
    magic = magic_numbers.OFFLOAD_BINARY
    return section is not None and holds_images(section) and file.bytes_at(address, len(magic)) != magic


def starts_empty(file: HostMemory, image: DeviceImageRecord) -> bool:
    """Return whether an image begins with zeros: no form of device code does."""
    begin = file.bytes_at(image.begin, min(image.end - image.begin, _BEGIN)) if image.end > image.begin else b""
    return bool(begin) and not any(begin)


def device_images_at(file: HostMemory, place: int) -> list[DeviceImageRecord]:
    """Return the images in the section that starts at a place in the view, in the order of their bytes.

    A record holds the pointers to begin and end of its image, one after the other. Nothing else points into the section
    like that: the image is one of OpenMP if the record is not one of SYCL's. Images that overlap another are left out.
    """
    word, found = file.word, dict[int, DeviceImageRecord]()
    for section in file.sections:
        if section.data.start - file.view.start != place or not holds_images(section):
            continue
        for at, begin in _into(file, section):
            end = file.pointer_at(at + word) or 0
            if begin < end <= section.end and len(found) < _MOST_IMAGES:
                found.setdefault(begin, DeviceImageRecord(at, 4 * word, begin, end, ""))
        found.update((each.begin, each) for each in _records(file, section))
    kept: list[DeviceImageRecord] = []
    for _, image in sorted(found.items()):
        if not kept or image.begin >= kept[-1].end:
            kept.append(image)
    return kept


def _openmp(file: HostMemory, tables: Sequence[OffloadEntryTable]) -> Iterator[DescriptorRecord]:
    """Yield the descriptors of OpenMP: their third word is a pointer to the first entry."""
    word, left, looks = file.word, _MOST_IMAGES, _MOST_LOOKS
    begins = {table.section.address for table in tables}
    begins |= {each.address for each in file.symbols if each.name.startswith(_BOUNDS) and "entries" in each.name}
    for place in sorted(places_of(file, begins)):
        at = place - 2 * word
        images, begin, end = (file.pointer_at(place + step * word) or 0 for step in (-1, 0, 1))
        head = file.bytes_at(at, word)
        count = int.from_bytes(head[:4], "little") if len(head) == word and not any(head[4:]) else 0
        if not 0 < count <= min(left, looks):
            continue
        looks -= count
        if not _is_like(file, images, count, (begin, end)):
            continue
        left -= count
        step = 4 * word
        rows = (images + step * number for number in range(count))
        records = (
            DeviceImageRecord(row, step, file.pointer_at(row) or 0, file.pointer_at(row + word) or 0, "")
            for row in rows
        )
        yield DescriptorRecord("openmp", at, tuple(records), (begin, end))


def _is_like(file: HostMemory, images: int, count: int, bounds: tuple[int, int]) -> bool:
    """Return whether records of OpenMP images are at an address: each has the bounds of the entries."""
    word = file.word
    for row in range(images, images + 4 * word * count, 4 * word):
        if (file.pointer_at(row + 2 * word), file.pointer_at(row + 3 * word)) != bounds:
            return False
    return True


def places_of(file: HostMemory, values: set[int]) -> set[int]:
    """Return the addresses of the words that hold some values: by relocation, or in place in linked programs."""
    if not values:
        return set()
    found: set[int] = set()
    left = _SEARCHED
    seen: set[int] = set()
    for section in file.sections:
        pointers = file.pointers(section)
        if id(pointers) not in seen:  # a program has one table for all its sections
            seen.add(id(pointers))
            found |= {place for place, value in pointers.items() if value in values}
        if section.is_code or not file.is_linked or len(section.data) > left:
            continue
        left -= len(section.data)
        content = file.content(section)
        if len(values) > _FEW:
            words = _words(content, file.word)
            found.update(section.address + number * file.word for number, value in enumerate(words) if value in values)
            continue
        for value in values:
            stored = value.to_bytes(8, "little")[: file.word]
            at = content.find(stored) if value else -1
            while at >= 0:
                if not at % file.word:
                    found.add(section.address + at)
                at = content.find(stored, at + 1)
    return found


def _words(content: bytes, word: int) -> memoryview:
    return memoryview(content[: len(content) - len(content) % word]).cast("Q" if word == 8 else "I")


def _sycl(file: HostMemory) -> Iterator[DescriptorRecord]:
    """Yield the descriptors of SYCL: pointers to records of images, with a version and a count before them."""
    images = {each.at: each for section in file.sections if holds_images(section) for each in _records(file, section)}
    if not images:
        return
    for place in sorted(places_of(file, set(images))):
        at, row = place - 8, file.pointer_at(place) or 0
        head = file.bytes_at(at, 8)
        if len(head) != 8 or int.from_bytes(head[:2], "little") != 1 or any(head[4:]):
            continue
        count = int.from_bytes(head[2:4], "little")
        records: list[DeviceImageRecord] = []
        while row in images and len(records) < count:
            records.append(images[row])
            row += images[row].size
        if records:
            yield DescriptorRecord("sycl", at, tuple(records), (0, 0))


def holds_images(section: MemorySection) -> bool:
    """Return whether a section has images that host code registers, by its name."""
    return not section.is_code and bool(len(section.data)) and section.name.startswith(_IMAGES)


def _records(file: HostMemory, images: MemorySection) -> Iterator[DeviceImageRecord]:
    """Yield the records with pointers into a section of images: its begin, and its end in the next word."""
    word, left = file.word, _MOST_IMAGES
    for place, begin in _into(file, images):
        end = file.pointer_at(place + word) or 0
        for version, has_manifest in WITH_MANIFEST.items():
            at = place - 8 - word * (5 if has_manifest else 3)
            head = file.bytes_at(at, 8)
            is_one = len(head) == 8 and int.from_bytes(head[:2], "little") == version and head[2] in _SYCL_KINDS
            if is_one and not any(head[4:]) and begin <= end <= images.end and left:
                left -= 1
                target = file.string_at(file.pointer_at(at + 8) or 0)
                yield DeviceImageRecord(at, 8 + word * (11 if has_manifest else 9), begin, end, target, version)


def _into(file: HostMemory, images: MemorySection) -> Iterable[tuple[int, int]]:
    """Yield the words that hold addresses in a section, with these."""
    seen: set[int] = set()
    for section in file.sections:
        pointers = file.pointers(section)
        if id(pointers) not in seen:  # as above: one table, not an equal one
            seen.add(id(pointers))
            yield from ((at, value) for at, value in pointers.items() if images.address <= value < images.end)
        if file.is_linked and not section.is_code and section is not images:
            yield from _in_place(file, section, images)


def _in_place(file: HostMemory, section: MemorySection, images: MemorySection) -> Iterator[tuple[int, int]]:
    content, word = file.content(section), file.word
    if len(content) > _SEARCHED:
        return
    low, high = images.address, images.end
    for number, value in enumerate(_words(content, word)):
        if low <= value < high:
            yield section.address + number * word, value
