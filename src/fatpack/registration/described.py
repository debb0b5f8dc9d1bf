"""The images that records of OpenMP and SYCL describe one by one, and what else leads to where they are.

::

    OpenMP   0x00  number of images i32, then padding   0x08  records   0x10, 0x18  begin and end of the entries
             each record: begin and end of the image, begin and end of the entries
    SYCL     each record: see :mod:`fatpack.registration.sycl_images`

(``__tgt_bin_desc`` and ``__tgt_device_image``: llvm/lib/Frontend/Offloading/OffloadWrapper.cpp, LLVM 14 to 23. Offsets
are those of 64-bit hosts.) LLVM 23 hands SYCL's images to the runtime as one offload binary: the code says where it is
and how long, and no record does.
"""

from __future__ import annotations

from fatpack.binary.open import open_pointers
from fatpack.binary.pointers import INSIDE
from fatpack.record import Record
from fatpack.registration import sycl_images

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from fatpack.binary.pointers import PointerReader
    from fatpack.io.source import View

#: LIMIT: images of one descriptor. Programs have one for each target.
_MOST = 1 << 12


class DescribedImages(Record):
    """The images of a section that records describe.

    ``images`` are their bounds: begin and end, as addresses. ``others`` are the addresses of all other words that lead
    into the section, with the addresses that these hold; where any word may be a number, of those that lead to the
    begin of an image.
    """

    images: frozenset[tuple[int, int]]
    others: Mapping[int, int]


def find_described_images(view: View, host: str, low: int, high: int) -> DescribedImages | None:
    """Return what records of a linked program describe between two addresses, both included.

    None if not all of its data could be searched. Raises FormatError for a damaged header.
    """
    reader = open_pointers(view, host)
    search = reader.into(low, high)
    if search.unsearched:
        return None
    into, word = search.values, reader.word
    begins = {place for place in into if place + word in into and into[place] <= into[place + word]}
    found = {place for place in begins if sycl_images.target_pointer_address(reader, place) is not None}
    found |= set(_openmp(reader, begins - found))
    words = found | {place + word for place in found}
    images = frozenset((into[place], into[place + word]) for place in found)
    starts = {begin for begin, _ in images}
    others = {place: value for place, value in into.items() if place not in words}
    return DescribedImages(images, {place: to for place, to in others.items() if search.is_exact or to in starts})


def _openmp(reader: PointerReader, begins: Collection[int]) -> Iterator[int]:
    """Yield those of some places at which records of a descriptor of OpenMP begin."""
    if not begins:
        return
    word = reader.word
    for place, first in sorted(reader.into(min(begins), max(begins), everywhere=True).values.items()):
        head = reader.at(place - word)
        if first not in begins or head.kind != INSIDE or head.room < word:
            continue
        stored = reader.view.read(head.position, word)
        count = int.from_bytes(stored[:4], reader.order)
        rows = [first + 4 * word * number for number in range(count)] if count <= _MOST else []
        if any(stored[4:]) or not rows or not all(row in begins for row in rows):
            continue
        bounds = [pointer.address for pointer in reader.held([place + word, place + 2 * word])]
        entries = reader.held([row + step * word for row in rows for step in (2, 3)])
        if [pointer.address for pointer in entries] == bounds * count:
            yield from rows
