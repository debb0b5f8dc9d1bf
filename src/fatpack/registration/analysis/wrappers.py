"""The records that lead to containers, by address: what calls that register containers take.

Whether they are right, :mod:`fatpack.registration` checks; here they are only found.
"""

from __future__ import annotations

from fatpack.registration import hip, records
from fatpack.registration.analysis.model import WrapperRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.binary.memory import HostMemory

#: names of sections, as compilers write them and cut by the linkers of PE images → model
_SECTIONS = {
    ".nvFatBinSegment": "cuda",
    ".nvFatBinSegmentAlt": "cuda",
    ".nvFatBi": "cuda",
    ".hipFatBinSegment": "hip",
    ".hipFatB": "hip",
}
_MAGICS = {records.CUDA_MAGIC: "cuda", hip.HIP_MAGIC: "hip"}

#: LIMIT: records that are read, as in :mod:`fatpack.registration.registration_records`
_MOST = 1 << 16


def section_model(section: str) -> str:
    """Return the model of the records in a section, by its name; "" if it has none."""
    return _SECTIONS.get(section.partition("$")[0], "")


def count_wrappers(content: bytes, word: int) -> int:
    """Return how many records a section holds that lead to containers in the same file."""
    step = 8 + 2 * word
    magics = (int.from_bytes(content[at : at + 4], "little") for at in range(0, len(content) - step + 1, step))
    return sum(magic in _MAGICS for magic in magics)


def is_record(file: HostMemory, address: int) -> bool:
    """Return whether a record stands at an address, whatever the section is called."""
    return int.from_bytes(file.bytes_at(address, 4), "little") in _MAGICS


def find_wrappers(file: HostMemory) -> tuple[WrapperRecord, ...]:
    """Return the records of all sections that hold them, those with a magic."""
    found: list[WrapperRecord] = []
    step = 8 + 2 * file.word
    for section in file.sections:
        if not section_model(section.name):
            continue
        content, pointers = file.content(section), file.pointers(section)
        for at in range(0, min(len(content) - step + 1, _MOST * step), step):
            model = _MAGICS.get(int.from_bytes(content[at : at + 4], "little"))
            if model is not None:
                place = section.address + at + 8
                stored = int.from_bytes(content[at + 8 : at + 8 + file.word], "little")
                target = pointers.get(place, stored)
                version = int.from_bytes(content[at + 4 : at + 8], "little")
                position = section.data.start - file.view.start + at
                found.append(WrapperRecord(model, place - 8, position, version, target, file.undefined.get(target, "")))
    return tuple(found)
