"""The sizes of an entry whose stored ones are wrong, where the image is whole all the same.

Several numbers say the same thing: a compressed image has a size of its own, an ELF says how long it is, a text ends in
NUL, the strings of an entry say where its header ends, and behind an entry the next one starts. One wrong number takes
no image away as long as the others agree.
"""

from __future__ import annotations

from fatpack.binary.elf.quick_header import read_quick_header as elf_header
from fatpack.formats.cuda_fatbin.area import read_entry_strings
from fatpack.formats.cuda_fatbin.frame import FRAME_HEAD_SIZE, has_method
from fatpack.formats.cuda_fatbin.layout import ALIGN, ENTRY, GROUP, TEXTS, compression_method, padded_size
from fatpack.formats.cuda_fatbin.resume import ENTRY_STARTS, is_entry
from fatpack.formats.diagnostics import FindingCollector

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.formats.cuda_fatbin.stored import CudaEntryHeader
    from fatpack.io.source import View

#: LIMIT: how far behind the start of an entry that its neighbour reached over it is looked for.
_REACH = 4096


def find_entry_before(stored: View, start: int, at: int) -> int | None:
    """Return where the last entry starts between two positions, at most ``_REACH`` before the second; None if none."""
    first = max(start, at - _REACH)
    window = stored.head(first, at - first)
    places = sorted((first + window.rfind(kind) for kind in ENTRY_STARTS if kind in window), reverse=True)
    return next((place for place in places if place % ALIGN == 0 and is_entry(stored, place)), None)


def recover_sizes(entry: View, head: CudaEntryHeader) -> CudaEntryHeader | None:
    """Return the numbers of an entry with sizes that fit into its bytes; None if its image is not whole there.

    ``entry`` reaches up to what follows it.
    """
    if head.kind == GROUP:
        return None
    strings_end = _end_of_strings(entry, head)
    # The size that fits together with the end of the strings is right, and the other one wrong.
    is_header_wrong = strings_end + head.padded_size == len(entry)
    places = (strings_end, head.place) if is_header_wrong else (head.place, strings_end)
    # QUIRK(fatbinary 8): what fills a multiple of 8 is padded all the same.
    for padding in (0, ALIGN):
        for place in places:
            room = len(entry) - place
            if place >= ENTRY.size and place % ALIGN == 0 and room > 0 and _is_whole(entry, place, head, padding):
                return head.replace(place=place, padded_size=room)
    return None


def _end_of_strings(entry: View, head: CudaEntryHeader) -> int:
    """Return where the header of an entry ends by the strings in it."""
    faults = FindingCollector()
    end = read_entry_strings(entry, head, faults).end
    return -1 if faults.findings else end


def _is_whole(entry: View, place: int, head: CudaEntryHeader, padding: int) -> bool:
    """Return whether the bytes from a place on hold all of an image, and nothing else but its padding."""
    image = entry.slice(place, len(entry) - place)
    size = _size(image, head)
    return size is not None and padded_size(size) + padding == len(image)


def _size(image: View, head: CudaEntryHeader) -> int | None:
    """Return how long an image is by what is in it, or by what its entry says of it; None if nothing says it."""
    method = compression_method(head.flags)
    if method is not None:
        return (
            head.compressed_size
            if has_method(method, image.head(0, FRAME_HEAD_SIZE)) and head.compressed_size
            else None
        )
    if head.kind in TEXTS:
        nul = image.find(b"\0")
        return nul + 1 if nul >= 0 else None
    elf = elf_header(image, image.head(0, 64))
    return elf.extent()[0] if elf is not None else None
