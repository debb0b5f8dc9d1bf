"""Whether every byte of a file is described once, and whether containers are written as they are stored."""

from __future__ import annotations

from fatpack import binary, formats, limits
from fatpack.errors import FatpackError, format_hex, pluralize
from fatpack.findings import finding
from fatpack.io.source import View

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from fatpack.commands.doctor.model import DoctorNotes
    from fatpack.io.source import Piece
    from fatpack.model import Label
    from fatpack.scanner import FoundContainer


def check_host(view: View, host: str, notes: DoctorNotes) -> None:
    """Note whether the host's labels cover every byte of a file once. Raises FormatError for a damaged file."""
    if host == "raw":
        return
    notes.count("byte maps")
    _check_labels(binary.get_host(host).labels(view), view, host, notes)


def check_container(found: FoundContainer, notes: DoctorNotes) -> None:
    """Note whether labels cover every byte of a container once, and whether writing it gives the same bytes.

    Raises FormatError for what is damaged in it.
    """
    container, view = found.container, found.view
    if container.is_fat_object:
        notes.skip("rewrites", "a fat object is laid out by its host, which is not written again")
        return
    room = formats.get_format(container.format)
    if container.format in formats.MODULES:
        notes.count("byte maps")
        _check_labels(room.labels(view, container), view, container.format, notes)
    try:
        at = _first_difference(room.write(container), view)
    except FatpackError as error:
        notes.skip("rewrites", error.problem)
        return
    if at is not None and any(image.stored_size is None for image in container.images):
        notes.skip("rewrites", "what is compressed as a whole is compressed anew, which gives other bytes")
        return
    notes.count("rewrites")
    if at is not None:
        text = f"written again, this container of {container.format} differs from byte {format_hex(at)} on"
        notes.add(finding("FP3601", view.span(), text, "editing the file changes more than is asked for"))


def _check_labels(labels: Iterable[Label], view: View, what: str, notes: DoctorNotes) -> None:
    reached = view.start
    for label in labels:
        if label.span.start != reached or label.span.end <= reached:
            text = f"the map of this {what} has {label.name} at {format_hex(label.span.start)}, not at"
            notes.add(finding("FP3602", view.span(), f"{text} {format_hex(reached)}"))
            return
        reached = label.span.end
    if reached != view.end:
        text = f"the map of this {what} ends {pluralize(view.end - reached, 'byte')} before it does"
        notes.add(finding("FP3602", view.span(), text))


def _first_difference(pieces: Iterable[Piece], view: View) -> int | None:
    """Return the offset of the first byte that differs from those of a view, None if all are the same.

    A piece that is the same range of the same source is not read.
    """
    at = 0
    for piece in pieces:
        size = len(piece)
        if at + size > len(view):
            return view.end
        if isinstance(piece, View):
            if piece.source is not view.source or piece.start != view.start + at:
                for part in piece.once():
                    if view.head(at, len(part)) != part:
                        return view.offset(at)
                    at += len(part)
                continue
        else:
            data = memoryview(piece)
            for start in range(0, size, limits.CHUNK):
                part = data[start : start + limits.CHUNK]
                if view.head(at + start, len(part)) != part:
                    return view.offset(at + start)
        at += size
    return None if at == len(view) else view.offset(at)
