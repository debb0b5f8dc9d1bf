"""The records with which a SYCL program registers its images, found by the pointers to the images in them.

::

    0x00  version u16   0x02  kind of offloading u8   0x03  what the bytes are u8, then padding
          pointers: target, options to compile, options to link
          versions 1 and 2: pointers: begin and end of a manifest
          pointers: begin and end of the image, begin and end of the entries, begin and end of the properties

DPC++'s ``__tgt_device_image`` and LLVM's ``__sycl.tgt_device_image`` (version 3, as newer DPC++ has it) lie anywhere in
a program's data, and nothing in a stripped file leads there. But begin and end of an image follow each other, and both
point into one section, which nothing else does. They tell what ``.tgtimg`` cannot: the target where a linker has cut
the section's name, and the stored size; and LLVM 22 writes no such table at all.
"""

from __future__ import annotations

from fatpack import limits
from fatpack.binary.pointers import INSIDE
from fatpack.findings import finding
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.binary.pointers import Pointer, PointerReader
    from fatpack.io.source import View
    from fatpack.model import Finding

#: The kind of offloading that means SYCL: DPC++ counts them, LLVM has a bit for each.
_KINDS = (4, 8)

#: version → pointers between the first fields and the image's: three strings, and the manifest
_POINTERS_BEFORE = {1: 5, 2: 5, 3: 3}

#: LIMIT: bytes of a target's name that are read.
_NAME = 128


class ImageRecord(Record):
    """An image as its program registers it: its ``offset`` in the section, its size as stored, and its target."""

    offset: int
    size: int
    target: str


class ImagePointer(Record):
    """Where a pointer to an image may be: its address, where the image is in its section, and its size as stored."""

    address: int
    offset: int
    size: int


def find_image_pointers(program: PointerReader, section: int, data: View) -> tuple[list[ImagePointer], Finding | None]:
    """Return where begin and end of something in a section follow each other, by address; none for objects.

    ``data`` are the section's bytes. With a finding, a limit kept some from being found.
    """
    low = program.address(section) if program.is_linked else 0
    if not low or not len(data):
        return [], None
    high = low + len(data)
    search = program.into(low, high)
    into, unsearched = search.values, None
    if search.unsearched:
        unsearched = finding("FP1005", data.span(), search.unsearched, search.hint)
    word = program.word
    begins = [place for place in into if place + word in into and into[place] <= into[place + word]]
    if len(begins) > limits.IMAGES:
        text = f"{len(begins)} records of images; only the first {limits.IMAGES} are read"
        unsearched = finding("FP1005", data.span(), text, limits.advice("IMAGES"))
        del begins[limits.IMAGES :]
    return [ImagePointer(place, into[place] - low, into[place + word] - into[place]) for place in begins], unsearched


def read_image_records(program: PointerReader, section: int, data: View) -> tuple[list[ImageRecord], Finding | None]:
    """Return the records of the images in a section, in the order of the images' bytes; none for objects.

    ``data`` are the section's bytes. With a finding, a limit kept some from being found.
    """
    found, unsearched = find_image_pointers(program, section, data)
    records = []
    for place, target in zip(found, _targets(program, [place.address for place in found]), strict=True):
        if target is not None:
            records.append(ImageRecord(place.offset, place.size, target))
    return sorted(set(records), key=lambda record: (record.offset, record.size)), unsearched


def _targets(program: PointerReader, places: list[int]) -> list[str | None]:
    """Return the targets of the records whose pointers to an image are at some addresses; None for what is none."""
    heads = [target_pointer_address(program, place) for place in places]
    wanted = [head for head in heads if head is not None]
    pointers = dict(zip(wanted, program.held(wanted), strict=True))
    return [None if head is None else _text(program.view, pointers[head]) for head in heads]


def _text(view: View, pointer: Pointer) -> str:
    if pointer.kind != INSIDE:
        return ""
    text = view.head(pointer.position, min(_NAME, pointer.room)).partition(b"\0")[0]
    return text.decode("utf-8", "backslashreplace")


def target_pointer_address(program: PointerReader, place: int) -> int | None:
    """Return the address of the pointer to the target in the record whose pointer to an image is at an address.

    None if there is no record.
    """
    word = program.word
    for version, count in _POINTERS_BEFORE.items():
        start = place - (count + 1) * word
        memory = program.at(start)
        if memory.kind != INSIDE or memory.room < word:
            continue
        head = program.view.read(memory.position, word)
        stored = int.from_bytes(head[:2], program.order)
        if stored == version and head[2] in _KINDS and not any(head[4:]):
            return start + word
    return None
