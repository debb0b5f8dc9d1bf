"""One entry: from its bytes to its record, and from the record to the image."""

from __future__ import annotations

from fatpack.formats.cuda_fatbin.area import NO_STRINGS, read_entry_strings
from fatpack.formats.cuda_fatbin.entry import image_data, inflation_problem, refused_size, refused_view
from fatpack.formats.cuda_fatbin.layout import (
    ALIGN,
    COMPRESSED,
    ENTRY,
    ENTRY_VERSION,
    FLAG_64_BIT,
    FLAG_ACCELERATED,
    FLAG_DEBUG,
    FLAG_FAMILY,
    FLAG_LINUX,
    FLAG_OBFUSCATED,
    FORMS,
    HOSTS,
    KINDS,
    METHODS,
    RELOCATABLE_PTX,
    UNKNOWN_KINDS,
    compression_method,
    kind_words,
    padded_size,
)
from fatpack.formats.cuda_fatbin.stored import CudaEntry, CudaEntryHeader
from fatpack.io.inflated import PicklableCall
from fatpack.model import Image, Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from fatpack.formats.diagnostics import FindingCollector
    from fatpack.io.source import View

_VARIANTS = {0: "", FLAG_ACCELERATED: "a", FLAG_FAMILY: "f", FLAG_ACCELERATED | FLAG_FAMILY: "af"}


def read_entry(stored: View, head: CudaEntryHeader, faults: FindingCollector) -> CudaEntry:
    """Return the entry that ``stored`` holds, all its bytes; what is wrong inside becomes a finding."""
    area = NO_STRINGS
    if head.options_offset or head.identifier_offset:
        area = read_entry_strings(stored.slice(0, head.place), head, faults)
    check_entry(stored, head, faults)
    size = head.padded_size
    if head.flags & COMPRESSED and 0 < head.compressed_size < size:
        size = head.compressed_size
    packed = stored.slice(head.place, size)
    problem = inflation_problem(stored, packed, head)
    if problem is None:
        return CudaEntry(head, stored, area, packed, image_data(packed, head))
    faults.unreadable("FP1403", problem, stored.span())
    data = refused_view(packed, refused_size(problem, head.inflated_size), PicklableCall(problem.with_traceback, None))
    return CudaEntry(head, stored, area, packed, data)


def check_entry(entry: View, head: CudaEntryHeader, faults: FindingCollector) -> None:
    """Report unexpected numbers of an entry, which is read all the same."""
    flags = head.flags
    if head.kind not in KINDS or head.version != ENTRY_VERSION:
        what = f"kind {head.kind:#x}" if head.kind not in KINDS else f"version {head.version:#x}"
        faults.unexpected(
            "FP1407", entry.span(0, ENTRY.size), f"an entry of {what}", "it is listed, and copied as it is"
        )
    elif head.kind in UNKNOWN_KINDS:
        faults.unexpected(
            "FP1407", entry.span(0, ENTRY.size), unknown_kind_message(head.kind), "it is listed, and copied as it is"
        )
    if not flags & COMPRESSED:
        if head.inflated_size and not head.compressed_size:
            text = f"not compressed, and it inflates to {head.inflated_size} bytes"
            faults.unexpected("FP1405", entry.span(0, ENTRY.size), text)
    elif flags & COMPRESSED not in METHODS:
        text = f"more than one method of compression ({flags & COMPRESSED:#x}); taken for {compression_method(flags)}"
        faults.unexpected("FP1405", entry.span(0, ENTRY.size), text)
    # QUIRK(fatbinary 8): what fills a multiple of 8 is padded all the same.
    elif head.compressed_size and padded_size(head.compressed_size) + ALIGN < head.padded_size:
        text = f"{head.compressed_size} compressed bytes are padded to {head.padded_size}"
        faults.unexpected("FP1405", entry.span(0, ENTRY.size), text)


def unknown_kind_message(kind: int) -> str:
    """Return the message about an entry of a kind that nobody is known to write."""
    return f"an entry of kind {kind_words(kind)}, which no known producer writes and no driver takes"


#: The targets met last: a library has thousands of images for a dozen of them.
_TARGETS: dict[tuple[int, int], Target] = {}
_MOST_TARGETS = 1000


def entry_target(sm: int, flags: int) -> Target:
    """Return what an image was made for by the number and the flags of its entry."""
    place = (sm, flags & (FLAG_64_BIT | FLAG_ACCELERATED | FLAG_FAMILY))
    known = _TARGETS.get(place)
    if known is None:
        triple = "nvptx64-nvidia-cuda" if flags & FLAG_64_BIT else "nvptx-nvidia-cuda"
        variant = _VARIANTS[flags & (FLAG_ACCELERATED | FLAG_FAMILY)]
        if len(_TARGETS) >= _MOST_TARGETS:
            _TARGETS.clear()
        known = _TARGETS[place] = Target(triple, f"sm_{sm}{variant}" if sm or variant else "", "cuda")
    return known


def entry_attrs(head: CudaEntryHeader, identifier: bytes, options: bytes) -> Mapping[str, str]:
    """Return what an entry says beyond the common model; 64-bit code for a Linux host goes without saying."""
    attrs = {}
    if identifier:
        attrs["identifier"] = _text(identifier)
    if options:
        attrs["options"] = _text(options)
    if head.kind not in FORMS or head.kind == RELOCATABLE_PTX:
        attrs["kind"] = KINDS.get(head.kind, f"{head.kind:#x}")
    if not head.flags & FLAG_LINUX:
        attrs["host"] = next((host for bit, host in HOSTS.items() if head.flags & bit), "none")
    if head.flags & FLAG_DEBUG:
        attrs["debug"] = "yes"
    if head.flags & FLAG_OBFUSCATED:
        attrs["obfuscated"] = "yes"
    return attrs


def _text(stored: bytes) -> str:
    return stored.decode("utf-8", "surrogateescape")


def entry_image(entry: CudaEntry) -> Image:
    """Return the image of an entry."""
    head, data, packed = entry.head, entry.data, entry.packed
    # The bytes of a member are none of the file's: they lie in what the whole group inflates to.
    is_member = entry.group is not None
    method = compression_method((entry.group.head if entry.group is not None else head).flags)
    where = packed if method and not is_member else data
    return Image(
        entry_target(head.sm, head.flags),
        FORMS.get(head.kind, ""),
        data,
        len(data),
        None if is_member else len(where),
        where.span(),
        method,
        entry_attrs(head, entry.area.identifier, entry.area.options),
        entry,
    )
