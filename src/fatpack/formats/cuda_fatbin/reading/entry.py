"""One entry: from its bytes to its record, and from the record to the image."""

from __future__ import annotations

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
    UNSEEN,
    kind_words,
    method_of,
    padded,
)
from fatpack.formats.cuda_fatbin.reading.area import NO_AREA, read_area
from fatpack.formats.cuda_fatbin.reading.inflate import data_of, problem_of, refused, refused_size
from fatpack.formats.cuda_fatbin.stored import Entry, Head
from fatpack.io.sources.inflated import Call
from fatpack.model import Image, Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from fatpack.formats.cuda_fatbin.reading.faults import Faults
    from fatpack.io.source import View

_VARIANTS = {0: "", FLAG_ACCELERATED: "a", FLAG_FAMILY: "f", FLAG_ACCELERATED | FLAG_FAMILY: "af"}


def read_entry(stored: View, head: Head, faults: Faults) -> Entry:
    """Return the entry that ``stored`` holds, all its bytes; what is wrong inside becomes a finding."""
    area = NO_AREA
    if head.options_offset or head.identifier_offset:
        area = read_area(stored.slice(0, head.place), head, faults)
    check(stored, head, faults)
    size = head.padded_size
    if head.flags & COMPRESSED and 0 < head.compressed_size < size:
        size = head.compressed_size
    packed = stored.slice(head.place, size)
    problem = problem_of(stored, packed, head)
    if problem is None:
        return Entry(head, stored, area, packed, data_of(packed, head))
    faults.unreadable("FP1403", problem, stored.span())
    data = refused(packed, refused_size(problem, head.inflated_size), Call(problem.with_traceback, None))
    return Entry(head, stored, area, packed, data)


def check(entry: View, head: Head, faults: Faults) -> None:
    """Report unexpected numbers of an entry, which is read all the same."""
    flags = head.flags
    if head.kind not in KINDS or head.version != ENTRY_VERSION:
        what = f"kind {head.kind:#x}" if head.kind not in KINDS else f"version {head.version:#x}"
        faults.unexpected(
            "FP1407", entry.span(0, ENTRY.size), f"an entry of {what}", "it is listed, and copied as it is"
        )
    elif head.kind in UNSEEN:
        faults.unexpected("FP1407", entry.span(0, ENTRY.size), unseen(head.kind), "it is listed, and copied as it is")
    if not flags & COMPRESSED:
        if head.inflated_size and not head.compressed_size:
            text = f"not compressed, and it inflates to {head.inflated_size} bytes"
            faults.unexpected("FP1405", entry.span(0, ENTRY.size), text)
    elif flags & COMPRESSED not in METHODS:
        text = f"more than one method of compression ({flags & COMPRESSED:#x}); taken for {method_of(flags)}"
        faults.unexpected("FP1405", entry.span(0, ENTRY.size), text)
    # QUIRK(fatbinary 8): what fills a multiple of 8 is padded all the same.
    elif head.compressed_size and padded(head.compressed_size) + ALIGN < head.padded_size:
        text = f"{head.compressed_size} compressed bytes are padded to {head.padded_size}"
        faults.unexpected("FP1405", entry.span(0, ENTRY.size), text)


def unseen(kind: int) -> str:
    """Return the message about an entry of a kind that nobody is known to write."""
    return f"an entry of kind {kind_words(kind)}, which no known producer writes and no driver takes"


#: The targets met last: a library has thousands of images for a dozen of them.
_TARGETS: dict[tuple[int, int], Target] = {}
_MOST_TARGETS = 1000


def target(sm: int, flags: int) -> Target:
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


def attrs_of(head: Head, identifier: bytes, options: bytes) -> Mapping[str, str]:
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


def image_of(entry: Entry) -> Image:
    """Return the image of an entry."""
    head, data, packed = entry.head, entry.data, entry.packed
    # The bytes of a member are none of the file's: they lie in what the whole group inflates to.
    is_member = entry.group is not None
    method = method_of((entry.group.head if entry.group is not None else head).flags)
    where = packed if method and not is_member else data
    return Image(
        target(head.sm, head.flags),
        FORMS.get(head.kind, ""),
        data,
        len(data),
        None if is_member else len(where),
        where.span(),
        method,
        attrs_of(head, entry.area.identifier, entry.area.options),
        entry,
    )
