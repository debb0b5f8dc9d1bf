"""``inspect --bytes`` and ``--at``: the meaning of each byte, from the annotations of hosts and formats."""

from __future__ import annotations

from fatpack import binary, formats
from fatpack.errors import UsageError, pluralize
from fatpack.model import Label
from fatpack.printable import printable
from fatpack.scanner import FoundContainer, detect_host, scan
from fatpack.text.style import align_columns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fatpack.io.source import View

#: what the names of labels in containers have in them
_CONTAINER = "container["

#: Bytes shown of something long; the rest is counted.
_SHOWN = 16


def file_labels(view: View) -> Iterator[Label]:
    """Yield a label for every byte of a file, once, in order.

    The host labels its own structures; where a container lies, the container's labels take the place of the host's, and
    so do those of the records by which programs register device code.
    """
    yield from _with_registration(_held(view), view)


def _held(view: View) -> Iterator[Label]:
    """Yield the labels of the host and of its containers."""
    found = [item for item in scan(view) if isinstance(item, FoundContainer) and item.view.source is view.source]
    # A fat object is a container as a whole, and its host knows its parts.
    found = [item for item in found if not item.container.is_fat_object]
    host = detect_host(view)
    outer: Iterable[Label] = (
        [Label(view.span(), "file", pluralize(len(view), "byte"), "", "unknown")] if len(view) else []
    )
    if host != "raw":
        outer = binary.get_host(host).labels(view)
    yield from _merge(outer, sorted(found, key=lambda item: item.view.start), view=view, is_hosted=host != "raw")


def _merge(outer: Iterable[Label], found: Sequence[FoundContainer], *, view: View, is_hosted: bool) -> Iterator[Label]:
    """Replace the parts of outer labels that containers cover by the containers' own labels."""
    number = 0
    reached = 0
    for label in outer:
        start, end = max(label.span.start, reached), label.span.end
        while number < len(found) and found[number].view.start < end:
            inner = found[number]
            if inner.view.start < start:
                number += 1  # damage can make containers overlap: every byte is labelled by the first
                continue
            if inner.view.start > start:
                yield _rest(label, view, start, inner.view.start)
            prefix = f"{label.name}/" if is_hosted else ""
            for part in formats.get_format(inner.container.format).labels(inner.view, inner.container):
                # A file has millions of labels: making one takes a third of the time of ``replace``.
                name = f"{prefix}container[{number}].{part.name}"
                yield Label(part.span, name, part.value, part.doc, part.kind)
            start = reached = inner.view.end
            number += 1
        if start < end:
            yield label if start == label.span.start else _rest(label, view, start, end)
            reached = end


def _with_registration(outer: Iterable[Label], view: View) -> Iterator[Label]:
    """Replace what the host says of sections by the labels of the records in them."""
    from fatpack.registration.analysis import analyze
    from fatpack.registration.gcc_offload import label_gcc_records

    inner = list(analyze.registration_labels(view, detect_host(view)))
    inner = sorted([*inner, *label_gcc_records(view)], key=lambda label: label.span.start)
    number = 0
    for label in outer:
        start, end = label.span.start, label.span.end
        while number < len(inner) and inner[number].span.start < end:
            part = inner[number]
            number += 1
            if part.span.start < start or part.span.end > end or _CONTAINER in label.name:
                continue
            if part.span.start > start:
                yield _rest(label, view, start, part.span.start)
            yield part.replace(name=f"{label.name}/{part.name}")
            start = part.span.end
        if start == label.span.start:
            yield label
        elif start < end:
            yield _rest(label, view, start, end)


def _rest(label: Label, view: View, start: int, end: int) -> Label:
    """Return the label of what a container leaves of a part: padding if it is zeros."""
    span = label.span.replace(start=start, end=end)
    part = view.head(start - view.start, min(end - start, 64))
    if end - start <= 64 and not part.strip(b"\0"):
        return Label(span, "padding", pluralize(end - start, "zero byte"), "", "padding")
    return label.replace(span=span, value=pluralize(end - start, "byte"))


def annotated_hexdump(view: View) -> Iterator[str]:
    """Yield the annotated hexdump: one line per field, long data abbreviated."""
    batch: list[list[str]] = []
    for label in file_labels(view):
        batch.append(_row(view, label))
        if len(batch) == 512:  # aligned in batches, so that memory stays bounded for any file
            yield from align_columns(batch)
            batch = []
    yield from align_columns(batch)


def _row(view: View, label: Label) -> list[str]:
    size = label.span.size
    head = view.head(label.span.start - view.start, min(size, _SHOWN))
    shown = head.hex(" ") + (f" … {size - _SHOWN} more" if size > _SHOWN else "")
    return [f"{label.span.start:#08x}", shown, printable(label.name), printable(label.value)]


def describe_offset(view: View, offset: int) -> Iterator[str]:
    """Yield what the byte at an absolute offset is: place, field, value, meaning. UsageError outside the file."""
    if not view.start <= offset < view.end:
        whole = f"{view.start:#x} to {view.end:#x}" if view.start else f"{len(view):#x} bytes"
        raise UsageError(f"offset {offset:#x} is outside {view.chain[0]} ({whole})")
    held = next(label for label in _held(view) if label.span.start <= offset < label.span.end)
    # Registration records are in no container; finding them takes reading all pointers of a program.
    for label in [held] if _CONTAINER in held.name else _with_registration([held], view):
        if label.span.start <= offset < label.span.end:
            inside = offset - label.span.start
            name = f"{view.chain[0]} at {offset:#x}: {label.name}"
            yield f"{printable(name)}, byte {inside} of {label.span.size}"
            yield f"  bytes    {label.span.start:#x} to {label.span.end:#x}: {_row(view, label)[1]}"
            if label.value:
                yield f"  value    {printable(label.value)}"
            if label.doc:
                yield f"  meaning  {printable(label.doc)}"
            return
