"""Bytes → model for CUDA fat binaries: the header, then entry by entry.

cuobjdump gives a whole file up for one wrong number. Here an entry that cannot be read is a finding, and reading goes
on with the next one: by the sizes of the entry if they hold, else where the next entry shows itself. A size that is
wrong takes no image away that is whole: of the container's own, entries behind it still belong to it; of an entry, its
image is as long as its other numbers and what follows it say (:mod:`fatpack.formats.cuda_fatbin.mending`).
"""

from __future__ import annotations

from fatpack.formats.cuda_fatbin import fast_path
from fatpack.formats.cuda_fatbin.faults import fatbin_error, fatbin_errors
from fatpack.formats.cuda_fatbin.layout import FATBIN_FORMAT, FLAG_OBFUSCATED, HEADER, MAGIC, VERSION
from fatpack.formats.cuda_fatbin.reader import EntryWalk
from fatpack.formats.cuda_fatbin.reading_entry import entry_image
from fatpack.formats.cuda_fatbin.resume import is_entry
from fatpack.formats.cuda_fatbin.stored import CudaEntry, CudaGroup, Fatbin
from fatpack.formats.diagnostics import FindingCollector
from fatpack.model import Container

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.io.source import Span, View


def detect(view: View, at: int = 0) -> bool:
    """Return whether a fat binary starts at ``at``: its magic, and a header size of 16, or else an entry behind it."""
    head = view.head(at, HEADER.size)
    if not head.startswith(MAGIC) or len(head) < HEADER.size:
        return False
    return head[6:8] == b"\x10\0" or is_entry(view, at + HEADER.size)


def extent(view: View, at: int = 0) -> int | None:
    """Return how many bytes the fat binary at ``at`` takes by its header, or None when that cannot be right."""
    if not detect(view, at):
        return None
    size = HEADER.size + int(HEADER.read(view, at)[3])
    return size if at + size <= len(view) else None


def parse(view: View, at: int = 0, *, strict: bool = False) -> Container:
    """Return the fat binary that starts at ``at``. Images are spans of the view, inflated when they are read.

    Entries that are damaged are reported as findings of severity ``error``, and listed if their place is known;
    ``strict`` raises for the first of them instead. Raises BadMagic, Truncated, BadValue where there is no header;
    offsets are absolute.
    """
    container = fast_path.read_fast(view, at)
    if container is not None:
        return container
    faults = FindingCollector(strict)
    version, stored, parts, unknown = read_parts(view, at, faults)
    entries = [part for part in parts if isinstance(part, CudaEntry)]
    _note_obfuscated(entries, faults)
    images = tuple(map(entry_image, entries))
    return Container(
        FATBIN_FORMAT,
        version,
        images,
        stored.span(),
        unknown=tuple(unknown),
        findings=tuple(faults.findings),
        record=Fatbin(stored, images, {}, tuple(parts)),
    )


def read_parts(
    view: View, at: int, faults: FindingCollector
) -> tuple[int, View, list[CudaEntry | CudaGroup], list[Span]]:
    """Return the version, the bytes, the parts and the unknown spans of a fat binary: all but its images.

    This is what listing a library of thousands of fat binaries needs. Raises what :func:`parse` does.
    """
    version, size = _read_header(view, at, faults)
    left = len(view) - at
    stored = view.slice(at, min(size, left))
    if version != VERSION:
        text = f"a fat binary of version {version}"
        faults.unexpected("FP1407", stored.span(), text, f"it is read as one of version {VERSION}")
    if size > left:
        error = fatbin_errors.cut(stored, 0, "entries_size", size)
        faults.unreadable("FP1402", error, stored.span())
    walk = EntryWalk(view.slice(at, left), size, faults)
    walk.run()
    return version, walk.stored, walk.parts, walk.unknown


def _read_header(view: View, at: int, faults: FindingCollector) -> tuple[int, int]:
    """Return version and size of the fat binary at a position; the size is as stored, with the header."""
    head = view.head(at, HEADER.size)
    if not head or not MAGIC.startswith(head[:4]):
        raise fatbin_errors.magic(view, at, "not a fat binary", MAGIC.hex(" "))
    _, version, header_size, size = HEADER.read(view, at)
    if header_size != HEADER.size:
        rest = view.slice(at, len(view) - at)
        where = HEADER.field_offset("header_size")
        error = fatbin_error(rest, where, "header_size", f"it is {header_size}", expected=str(HEADER.size))
        if not is_entry(rest, HEADER.size):
            raise error
        faults.unreadable("FP1402", error, rest.span(0, HEADER.size))
    return version, HEADER.size + size


def _note_obfuscated(entries: Sequence[CudaEntry], faults: FindingCollector) -> None:
    obfuscated = [entry for entry in entries if entry.head.flags & FLAG_OBFUSCATED]
    if obfuscated:
        what = "an image is" if len(obfuscated) == 1 else f"{len(obfuscated)} images are"
        text = f"{what} obfuscated by NVIDIA's tools; such images are listed, and copied as they are"
        faults.unexpected("FP1408", obfuscated[0].stored.span(), text)
