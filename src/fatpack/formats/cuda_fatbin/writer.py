"""Model → bytes for fat binaries, byte-identical to fatbinary for the same input where the compressors are the same.

Images of other fat binaries are copied as stored: compressed or obfuscated, with their flags. One whose target
or attributes were changed keeps its compressed bytes under a new header.

The module for new entries is imported on demand: readers import this one, too.
"""

from __future__ import annotations

from fatpack.errors import Unsupported, UsageError
from fatpack.formats.cuda_fatbin.entry import entry_image
from fatpack.formats.cuda_fatbin.layout import (
    ELF,
    ENTRY,
    ENTRY_VERSION,
    FLAG_64_BIT,
    FLAG_DEBUG,
    FLAG_FINALIZABLE,
    GROUP,
    GROUP_TABLE,
    HEADER,
    HOST_MASK,
    MAGIC,
    PTX,
    VERSION,
    WITH_OPTIONS,
    CudaEntry,
    Fatbin,
    padded_size,
)
from fatpack.formats.cuda_fatbin.new_entry import METHOD_BITS, EntryDraft, compress_image, entry_header, finish_entry
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeVar

    from fatpack.io.source import Piece
    from fatpack.model import Container, Image
    from fatpack.writer_options import FatbinOptions

    Drafts = TypeVar("Drafts")


# Groups of fatbinary 13.4 and later (``-concat``).

_SHARED = FLAG_64_BIT | FLAG_DEBUG | HOST_MASK


def group_entries(drafts: Sequence[EntryDraft], style: ProducerStyle) -> Iterator[Callable[[], Sequence[Piece]]]:
    """Yield the drafts of each entry or group: PTX, cubins, and cubins that can be finalized are a group each.

    A draft that is alone in its class is not a group, and comes first with all drafts of no class.
    """
    classes: dict[int, list[EntryDraft]] = {number: [] for number in range(4)}
    for draft in drafts:
        classes[_class_of(draft)].append(draft)
    groups = {number: members for number, members in classes.items() if number and len(members) > 1}
    for draft in drafts:
        if _class_of(draft) not in groups:
            yield _task(finish_entry, draft, style)
    for members in groups.values():
        yield _task(_group, members, style)


def _class_of(draft: EntryDraft) -> int:
    """Return the number of the group that an entry may go into, in the order of groups; 0 for none."""
    if draft.kind == ELF:
        return 3 if draft.flags & FLAG_FINALIZABLE else 2
    return 1 if draft.kind == PTX else 0


def _group(members: Sequence[EntryDraft], style: ProducerStyle) -> Sequence[Piece]:
    images: list[Piece] = []
    table, at = b"", 0
    for member in members:
        size = padded_size(member.size)
        table += entry_header(member, member.flags, at, size)
        images += [*member.data, bytes(size - member.size)]
        at += size
    stream = compress_image(images, style)
    table = GROUP_TABLE.pack(len(members), GROUP_TABLE.size + len(table)) + table
    flags = members[0].flags & _SHARED | METHOD_BITS[style.method or ""]
    size = ENTRY.size + len(table)
    sizes = (padded_size(len(stream)), len(stream), ENTRY.size, 1, 0, 0, 0, 0, flags, 0, at)
    head = ENTRY.pack(GROUP, ENTRY_VERSION, size, *sizes)
    return [head + table, stream, bytes(-len(stream) % 8)]


# Producers and their modes of compression, for ``-compress-mode`` of fatbinary.
#
# How we know: the output of each version was inflated and compressed again with every level.

#: method and level; LZ4's levels are those of its high-compression form
_ZSTD, _SMALLEST = ("zstd", 5), ("zstd", 19)

#: producer → mode → method and level
_MODES = {
    "12.8": {"default": ("lz4", 2), "speed": ("lz4", 2), "balance": _ZSTD, "size": _SMALLEST},
    "13.0": {"default": _ZSTD, "speed": ("lz4", 2), "balance": _ZSTD, "size": _SMALLEST},
    "13.5": {"default": _ZSTD, "speed": ("lz4", 3), "balance": _ZSTD, "size": _SMALLEST},
}

PRODUCERS = tuple(_MODES)
MODES = ("default", "speed", "balance", "size", "none")
DEFAULT_PRODUCER = "13.0"


class ProducerStyle(Record):
    """Style of new entries: ``method`` and ``level`` of compression, None to compress nothing.

    ``compresses_all`` includes cubins. ``groups`` writes groups (``-concat``), ``minifies`` removes comments and blanks
    from PTX, ``recompresses`` treats images of other fat binaries as if they were new.
    """

    method: str | None
    level: int
    compresses_all: bool
    groups: bool
    minifies: bool
    recompresses: bool

    def like(self, method: str) -> ProducerStyle:
        """Return the style with another method, at the level that a producer uses for that one."""
        if method == self.method:
            return self
        level = next((level for modes in _MODES.values() for name, level in modes.values() if name == method), None)
        if level is None:
            raise UsageError(f"{method} in a fat binary, which is read and not written", hint="pack it anew")
        return self.replace(method=method, level=level)

    def compresses(self, kind: int, is_debug: bool) -> bool:
        """Return whether an image of that kind is compressed: text and debug code always, cubins on request."""
        return self.method is not None and (self.compresses_all or is_debug or kind in WITH_OPTIONS)


def producer_style(options: FatbinOptions) -> ProducerStyle:
    """Return the style of new entries. Raises UsageError for a combination that no producer has."""
    producer = options.producer or DEFAULT_PRODUCER
    mode = options.compress_mode or "default"
    _check("producer", producer, PRODUCERS)
    _check("compress_mode", mode, MODES)
    if options.concat and producer != "13.5":
        raise UsageError("groups of entries are written since CUDA 13.4", hint="choose producer 13.5")
    if options.concat and mode == "none":
        raise UsageError("a group is always compressed", hint="leave out compress_mode none, or concat")
    method, level = _MODES[producer].get(mode, (None, 0))
    return ProducerStyle(
        method,
        level,
        compresses_all=mode == "size" or options.compress_all,
        groups=options.concat,
        minifies=options.minify_ptx,
        recompresses=options.wants_recompression,
    )


def _check(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UsageError(f"{name} {value!r} of a fat binary", hint=f"choose from {', '.join(known)}")


def write(container: Container, options: FatbinOptions | None = None) -> Iterator[Piece]:
    """Yield the pieces of a fat binary; uncompressed images are copied without reading them whole.

    ``options`` set the style of new images, and whether images of other fat binaries count as new; ``include_ptx`` is
    not used here, it selects images before.

    The attrs of an image are ``identifier``, ``options`` (not of cubins), ``debug`` (``yes``), ``host`` (``linux``,
    ``windows``, ``mac``, ``none``) and ``kind`` (a word or number, if the form does not imply it). A container that was
    parsed and not changed is written as it was stored. Raises UsageError for contents that the format cannot store,
    Unsupported for another version.
    """
    record = container.record if isinstance(container.record, Fatbin) else None
    # Comparing images loads their deferred fields, so their number is compared first.
    is_as_read = record is not None and options is None and len(container.images) == len(record.images)
    if record and is_as_read and container.images == record.images and dict(container.attrs) == dict(record.attrs):
        yield record.stored
        return
    if container.version != VERSION:
        raise Unsupported(
            f"a fat binary of version {container.version}",
            hint=f"{VERSION} is the only one that can be written",
            chain=container.span.source,
        )
    from fatpack.writer_options import FatbinOptions

    parts = _parts(container.images, producer_style(options or FatbinOptions()))
    size = sum(sum(map(len, part)) for part in parts)
    yield HEADER.pack(MAGIC, VERSION, HEADER.size, size)
    for part in parts:
        yield from part


def _parts(images: Sequence[Image], style: ProducerStyle) -> list[Sequence[Piece]]:
    """Return the pieces of every entry. Then all sizes are known, which the header needs.

    Compression runs on all cores, so one image per core is in memory.
    """
    from fatpack.concurrency.threads import ThreadTasks
    from fatpack.formats.cuda_fatbin.new_entry import draft_entry, finish_entry

    parts: list[Sequence[Piece]] = []
    work: dict[int, Callable[[], Sequence[Piece]]] = {}
    drafts: list[EntryDraft] = []
    number = 0
    while number < len(images):
        copied = 0 if style.recompresses else _group_at(images, number)
        entry = images[number].record
        if copied and isinstance(entry, CudaEntry) and entry.group is not None:
            parts.append([entry.group.stored])
            number += copied
            continue
        draft = draft_entry(images[number], style)
        if style.groups and draft.is_new:
            drafts.append(draft)
        elif draft.is_new and draft.is_compressed(style):
            work[len(parts)] = _task(finish_entry, draft, style)
            parts.append(())
        else:
            parts.append(finish_entry(draft, style))
        number += 1
    if drafts:
        for task in group_entries(drafts, style):
            work[len(parts)] = task
            parts.append(())
    with ThreadTasks(list(work.values())) as tasks:
        for place, part in zip(work, tasks, strict=True):
            parts[place] = part
    return parts


def _task(
    finish: Callable[[Drafts, ProducerStyle], Sequence[Piece]], drafts: Drafts, style: ProducerStyle
) -> Callable[[], Sequence[Piece]]:
    return lambda: finish(drafts, style)


def is_as_stored(image: Image) -> bool:
    """Return whether an image was read from a fat binary, and not changed."""
    return isinstance(image.record, CudaEntry) and image == entry_image(image.record)


def _group_at(images: Sequence[Image], number: int) -> int:
    """Return the number of images from here on if they are all the members of one group, unchanged and in order; else
    0."""
    first = images[number].record
    if not isinstance(first, CudaEntry) or first.group is None or first.number:
        return 0
    run = images[number : number + first.group.member_count]
    for at, image in enumerate(run):
        entry = image.record
        if not isinstance(entry, CudaEntry) or entry.group is not first.group or entry.number != at:
            return 0
        if not is_as_stored(image):
            return 0
    return len(run) if len(run) == first.group.member_count else 0
