"""Programs without sections: their containers, found through the records that register them.

The records of CUDA and HIP (:mod:`fatpack.registration.registration_records`) lie in data that is written when a
program starts, and have magics. What only looks like a record is none: it must be aligned, have a version that is
known, and lead to a container of its model.
"""

from __future__ import annotations

from itertools import islice

from fatpack import formats
from fatpack.binary import CodeSection
from fatpack.binary.elf.pointers import ElfPointers
from fatpack.binary.pointers import INSIDE
from fatpack.errors import FormatError, Unsupported
from fatpack.findings import finding
from fatpack.registration import hip, records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.io.source import View
    from fatpack.model import Finding

#: magic → versions, and what the pointer of such a record leads to
_RECORDS = {records.CUDA_MAGIC: ((1, 2), "cuda-fatbin"), hip.HIP_MAGIC: ((1,), "clang-offload-bundle")}

#: LIMIT: records that are followed, true or false ones. The library with most bundles that is known to us has 845.
_MOST = 1 << 16


def containers_without_sections(view: View, sites: Sequence[CodeSection]) -> Iterator[CodeSection | Finding]:
    """Yield where containers are that records in some parts of an ELF program lead to, in the order of their bytes.

    None overlaps another.
    """
    try:
        reader = ElfPointers(view)
    except FormatError:
        return  # the host has reported it
    places = list(islice((place for site in sites for place in _records(reader, site.data)), _MOST + 1))
    if len(places) > _MOST:
        yield finding("FP1005", view.span(), f"more than {_MOST} records; only the first {_MOST} are followed")
        del places[_MOST:]
    held = reader.held([place + 8 for place, _ in places])
    found: dict[int, tuple[str, int]] = {}
    for (_, format), pointer in zip(places, held, strict=True):
        if pointer.kind == INSIDE and formats.format_by_magic(view.head(pointer.position, 24)) == format:
            found[pointer.position] = (format, pointer.room)
    reached = 0
    for position, (format, room) in sorted(found.items()):
        if position >= reached:
            size = _size(view.slice(position, room), format)
            reached = position + size
            yield CodeSection(view.slice(position, size))


def _records(reader: ElfPointers, data: View) -> Iterator[tuple[int, str]]:
    """Yield the address of what looks like a record, and the format that it should lead to."""
    start = reader.address_of(data.start - reader.view.start)
    for magic, (versions, format) in _RECORDS.items():
        for version in versions:
            head = b"".join(number.to_bytes(4, reader.order) for number in (magic, version))
            at = data.find(head)
            while at >= 0:
                if (start + at) % reader.word == 0:
                    yield start + at, format
                at = data.find(head, at + len(head))


def _size(data: View, format: str) -> int:
    """Return how many bytes a container takes, all there are where it does not say so."""
    room = formats.get_format(format)
    try:
        return room.extent(data, 0) or room.parse(data, 0).span.size
    except (FormatError, Unsupported):
        return len(data)
