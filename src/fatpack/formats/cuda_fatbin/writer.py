"""Model → bytes for fat binaries, byte-identical to fatbinary for the same input where the compressors are the same.

Images of other fat binaries are copied as they are stored: compressed or obfuscated, with their flags. One whose target
or attributes were changed keeps its compressed bytes under a new header.

What makes new entries is imported when there are some to be made: readers import this face of the room, too.
"""

from __future__ import annotations

from fatpack.errors import Unsupported
from fatpack.formats.cuda_fatbin.layout import HEADER, MAGIC, VERSION
from fatpack.formats.cuda_fatbin.reading_entry import entry_image
from fatpack.formats.cuda_fatbin.stored import CudaEntry, Fatbin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fatpack.formats.cuda_fatbin.new_entry import EntryDraft
    from fatpack.formats.cuda_fatbin.styles import ProducerStyle
    from fatpack.io.source import Piece
    from fatpack.model import Container, Image
    from fatpack.options import FatbinOptions


def write(container: Container, options: FatbinOptions | None = None) -> Iterator[Piece]:
    """Yield the pieces of a fat binary; images that are not compressed are passed on without reading them whole.

    ``options`` decide how new images are written, and whether images of other fat binaries count as new; but for
    ``include_ptx``, by which images are chosen before.

    The attrs of an image are ``identifier``, ``options`` (not of cubins), ``debug`` (``yes``), ``host`` (``linux``,
    ``windows``, ``mac``, ``none``) and ``kind`` (a word or number, where the form does not tell it). A container that
    was parsed and not changed comes out as it was stored. Raises UsageError for what the format cannot hold,
    Unsupported for another version.
    """
    record = container.record if isinstance(container.record, Fatbin) else None
    # Comparing images makes what was not made of them yet, so their number comes first.
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
    from fatpack.formats.cuda_fatbin.styles import producer_style
    from fatpack.options import FatbinOptions

    parts = _parts(container.images, producer_style(options or FatbinOptions()))
    size = sum(sum(map(len, part)) for part in parts)
    yield HEADER.pack(MAGIC, VERSION, HEADER.size, size)
    for part in parts:
        yield from part


def _parts(images: Sequence[Image], style: ProducerStyle) -> list[Sequence[Piece]]:
    """Return the pieces of every entry. All sizes are known then, which the header needs.

    What is to be compressed is compressed on all cores, so that one image for each of them is in memory.
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
        from fatpack.formats.cuda_fatbin.new_group import group_entries

        for task in group_entries(drafts, style):
            work[len(parts)] = task
            parts.append(())
    with ThreadTasks(list(work.values())) as tasks:
        for place, part in zip(work, tasks, strict=True):
            parts[place] = part
    return parts


def _task(
    finish: Callable[[EntryDraft, ProducerStyle], Sequence[Piece]], draft: EntryDraft, style: ProducerStyle
) -> Callable[[], Sequence[Piece]]:
    return lambda: finish(draft, style)


def is_as_stored(image: Image) -> bool:
    """Return whether an image is one that was read from a fat binary, and nothing of it was changed."""
    return isinstance(image.record, CudaEntry) and image == entry_image(image.record)


def _group_at(images: Sequence[Image], number: int) -> int:
    """Return how many images from here on are all the members of one group, unchanged and in order; 0 if not."""
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
