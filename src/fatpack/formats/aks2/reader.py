"""Reader of AKS2 archives: the stream is inflated once, to its end, and kept if it is small.

Nothing is allocated for a number in the header. A stream that ends early, or has another size than the header says, is
damage; images that are whole are listed all the same.
"""

from __future__ import annotations

import re

from fatpack import limits
from fatpack.codecs import inflation_limit_error
from fatpack.errors import BadValue, FormatError, format_hex, pluralize
from fatpack.formats.aks2.layout import (
    AKS2_FORMAT,
    ENTRY,
    HEADER,
    MAGIC,
    TARGET_IN_PATH,
    Aks2Archive,
    Aks2Entry,
    aks2_errors,
)
from fatpack.formats.diagnostics import FindingCollector
from fatpack.io.inflated import InflatedSource, PicklableCall
from fatpack.io.source import View, VirtualName
from fatpack.model import Container, Image, Target
from fatpack.targets.amdgpu_flags import target_in_header

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: first bytes of an image that show its target
_HEAD = 64

#: LIMIT: memory that a stream may ask of liblzma in addition to the window: its tables
_BESIDE = 1 << 20


def detect(view: View, at: int = 0) -> bool:
    """Return whether an archive seems to start at ``at``: its magic, and bytes for a header."""
    head = view.head(at, HEADER.size)
    return head[:4] == MAGIC and len(head) == HEADER.size


def extent(view: View, at: int = 0) -> int | None:
    """Return how many bytes the archive at ``at`` takes, to the end of its stream; None if that is damaged or cut."""
    if not detect(view, at):
        return None
    stream = _XzStream(view.slice(at + HEADER.size, len(view) - at - HEADER.size))
    try:
        for _ in stream.pieces():
            pass
    except FormatError:
        return None
    return None if stream.end is None else HEADER.size + stream.end


class _XzStream:
    """An XZ stream at the start of a view; after it was read ``end`` is its size, None if the view ends before it."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.end: int | None = None

    def pieces(self) -> Iterator[bytes]:
        """Yield the inflated bytes. Raises BadValue for damage, LimitExceeded for too many bytes or a large window."""
        import lzma

        view = self.view
        stream = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=limits.WINDOW + _BESIDE)
        made = taken = 0
        try:
            for piece in view.pieces():
                data = bytes(piece)
                taken += len(data)
                while True:
                    out = stream.decompress(data, limits.CHUNK)
                    data = b""
                    made += len(out)
                    if not view.source.charge(view.start, made):
                        raise inflation_limit_error(view, None, format=AKS2_FORMAT)
                    if out:
                        yield out
                    if stream.eof:
                        self.end = taken - len(stream.unused_data)
                        return
                    if stream.needs_input:
                        break
        except (lzma.LZMAError, EOFError) as error:
            text = f"the XZ stream is damaged: {str(error)[:1].lower()}{str(error)[1:]}"
            raise aks2_errors.value(view, 0, "stream", text) from None


def _whole(stream: View, size: int) -> bytes:
    return b"".join(_first_bytes(stream, size))


def _first_bytes(stream: View, size: int) -> Iterator[bytes]:
    """Yield the first bytes of a stream that was read to its end before."""
    for piece in _XzStream(stream).pieces():
        yield piece[:size]
        size -= len(piece)
        if size <= 0:
            return


class _Content:
    """The bytes that came out of a stream: their number, the directory, and all of them if they are few.

    A directory of more than ``limits.INFLATED_KEPT`` bytes is cut: so many entries are too many.
    """

    def __init__(self, stream: View, directory_size: int) -> None:
        self.size, self.problem = 0, ""
        self.directory = b""
        self.kept: bytearray | None = bytearray()
        reader = _XzStream(stream)
        try:
            for piece in reader.pieces():
                self.size += len(piece)
                if self.kept is not None:
                    self.kept += piece
                    if self.size > limits.INFLATED_KEPT:
                        self.directory, self.kept = bytes(self.kept[:directory_size]), None
        except BadValue as error:
            self.problem = error.problem
        if self.kept is not None:
            self.directory = bytes(self.kept[:directory_size])
        self.end = reader.end
        if self.end is None and not self.problem:
            self.problem = "the XZ stream ends early"


def parse(view: View, at: int = 0) -> Container:
    """Return the archive that starts at ``at``, with an image for each entry that has code.

    Raises BadMagic, Truncated, BadValue for a directory that is damaged, and LimitExceeded; offsets are absolute.
    """
    head = view.head(at, HEADER.size)
    if head[:4] != MAGIC[: len(head[:4])] or not head:
        raise aks2_errors.magic(view, at, "not an AKS2 archive", MAGIC.hex(" "))
    if len(head) < HEADER.size:
        raise aks2_errors.cut(view, at, "header", HEADER.size)
    _, total, count, directory_size = HEADER.read(view, at)
    if count > limits.IMAGES:
        problem = f"more than {pluralize(limits.IMAGES, 'entry')}"
        raise aks2_errors.limit(
            view, at + 8, "entry_count", problem, f"at most {limits.IMAGES}", limits.advice("IMAGES")
        )
    stream = view.slice(at + HEADER.size, len(view) - at - HEADER.size)
    content = _Content(stream, directory_size)
    size = HEADER.size + (len(stream) if content.end is None else content.end)
    stored = view.slice(at, size)
    if content.problem and content.size < directory_size:
        raise aks2_errors.value(view, at + HEADER.size, "stream", f"{content.problem}, in the directory")
    faults = FindingCollector()
    entries = _entries(view, at, count, directory_size, content.directory)
    body = _body(stored.slice(HEADER.size, size - HEADER.size), content)
    if content.problem:
        error = aks2_errors.value(
            view, at + HEADER.size, "stream", f"{content.problem}: {content.size} bytes came out of {total}"
        )
        faults.add_error("FP1901", error, stored.span(HEADER.size))
    elif content.size != total:
        problem = f"the header says {total} bytes, and {content.size} came out of the stream"
        faults.add_error("FP1902", aks2_errors.value(view, at + 4, "total_size", problem), stored.span(4, 4))
    images = tuple(_images(view, stored, body, directory_size, entries, faults))
    _check_names(stored, entries, faults)
    _check_places(stored, entries, content.size - directory_size, faults)
    _check_targets(stored, images, faults)
    record = Aks2Archive(entries, total, directory_size, stored)
    without = sum(not entry.size for entry in entries)
    attrs = {"entries": str(count), "without_code": str(without)} if without else {}
    return Container(AKS2_FORMAT, 2, images, stored.span(), attrs, (), tuple(faults.findings), record)


def _entries(view: View, at: int, count: int, size: int, directory: bytes) -> tuple[Aks2Entry, ...]:
    """Return the entries of a directory, which has to end with the last of them."""
    if len(directory) < size:
        problem = f"the directory takes {size} bytes, and {len(directory)} came out of the stream"
        raise aks2_errors.value(view, at + 12, "directory_size", problem)
    entries, place = [], 0
    for number in range(count):
        end = place + ENTRY.size
        if end > size:
            problem = f"entry {number} of {count} is past the end of the directory, which takes {size} bytes"
            raise aks2_errors.value(view, at + 8, "entry_count", problem)
        shared_memory, threads, offset, image_size, name_size = ENTRY.struct.unpack_from(directory, place)
        name = directory[end : end + name_size]
        if not name_size or end + name_size > size or name[-1:] != b"\0" or b"\0" in name[:-1]:
            problem = f"the name of entry {number} takes {name_size} bytes and does not end there with a NUL"
            raise aks2_errors.value(view, at + 12, "directory_size", problem)
        entries.append(Aks2Entry(name[:-1], shared_memory, threads, offset, image_size))
        place = end + name_size
    if place != size:
        problem = f"{pluralize(count, 'entry')} take {place} bytes, and the header says {size}"
        raise aks2_errors.value(view, at + 12, "directory_size", problem)
    return tuple(entries)


def _body(stream: View, content: _Content) -> View:
    """Return the bytes that came out of a stream, which are inflated again if they were too many to be kept."""
    name = VirtualName(f"inflated xz at {format_hex(stream.start)}")
    source = InflatedSource(
        content.size,
        PicklableCall(_whole, stream, content.size),
        name,
        present=min(len(stream), stream.source.present),
        origin=stream.source,
        data=content.kept,
        stream=PicklableCall(_first_bytes, stream, content.size),
    )
    return View(source, 0, content.size, (*stream.chain, name))


def _images(
    view: View, stored: View, body: View, start: int, entries: Sequence[Aks2Entry], faults: FindingCollector
) -> Iterator[Image]:
    for number, entry in enumerate(entries):
        if not entry.size:
            continue
        if start + entry.offset + entry.size > len(body):
            problem = f"entry {number} takes {entry.size} bytes at {format_hex(entry.offset)}, past the last image"
            faults.add_error(
                "FP1903", aks2_errors.value(view, stored.start - view.start, "offset", problem), stored.span()
            )
            continue
        data = body.slice(start + entry.offset, entry.size)
        arch, triple = target_in_header(data.head(0, _HEAD))
        attrs = {
            "key": entry.name.decode("utf-8", "surrogateescape"),
            "shared_memory": str(entry.shared_memory),
            "threads": str(entry.threads),
        }
        form = "code-object" if triple else ""
        yield Image(Target(triple, arch, "hip"), form, data, entry.size, None, data.span(), "xz", attrs, entry)


def _check_names(stored: View, entries: Sequence[Aks2Entry], faults: FindingCollector) -> None:
    seen: set[bytes] = set()
    for entry in entries:
        if entry.name in seen:
            text = f"two entries have the key {entry.name.decode('utf-8', 'backslashreplace')!r}: the first is used"
            faults.add_warning("FP1904", stored.span(), text)
        seen.add(entry.name)


def _check_places(stored: View, entries: Sequence[Aks2Entry], size: int, faults: FindingCollector) -> None:
    """Report images that overlap, and bytes after the directory that belong to none."""
    reached = 0
    for entry in sorted((entry for entry in entries if entry.size), key=lambda entry: (entry.offset, entry.size)):
        if entry.offset < reached:
            faults.add_warning("FP1905", stored.span(), f"the image at {format_hex(entry.offset)} overlaps another")
        elif entry.offset > reached:
            faults.add_warning(
                "FP1906",
                stored.span(),
                f"{entry.offset - reached} bytes before {format_hex(entry.offset)} are no image's",
            )
        reached = max(reached, entry.offset + entry.size)
    if size > reached:
        faults.add_warning("FP1906", stored.span(), f"{size - reached} bytes after the last image belong to none")


def _check_targets(stored: View, images: Sequence[Image], faults: FindingCollector) -> None:
    """Report images outside of the target or the family that the names of folder and file state."""
    path = "!".join(stored.chain[:1])
    for match in TARGET_IN_PATH.finditer(path):
        stated = match[1] or match[2]
        pattern = re.compile(re.escape(stated).replace("x", "[0-9a-f]").replace("gf[0-9a-f]", "gfx", 1))
        wrong = dict.fromkeys(
            image.target.processor
            for image in images
            if image.target.arch and not pattern.fullmatch(image.target.processor)
        )
        if wrong:
            text = f"the name says {stated}, and images are for {', '.join(wrong)}"
            faults.add_warning("FP1907", stored.span(), text, "get the archive for the target again")
