"""Editing hosts: put containers in, take device code out, exchange it. Every result is verified before it is kept."""

from __future__ import annotations

import os

from fatpack import formats, hosts
from fatpack.errors import FormatError, HostError, Unsupported, UsageError
from fatpack.io.sink import file_mode, write_file
from fatpack.model import Finding
from fatpack.ops.select import select
from fatpack.record import Record
from fatpack.scan import Found, host_of, scan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from fatpack.hosts import Editor
    from fatpack.io.sink import Progress
    from fatpack.io.source import View
    from fatpack.model import Piece
    from fatpack.ops.select import Selector
    from fatpack.scan import FoundImage


def editor(view: View) -> Editor:
    """Return the host room that can edit these bytes. Raises HostError, with what would work instead."""
    name = host_of(view)
    if name == "raw":
        raise HostError("this is no object file", hint="containers go into relocatable objects (.o)", chain=view.chain)
    room = hosts.room(name)
    if not hasattr(room, "embed"):
        raise HostError(
            f"{room.DOC.title} cannot be edited",
            hint="edit the objects before they are linked or archived",
            chain=view.chain,
        )
    return room  # type: ignore[return-value]  # it has the whole door


def embed(host: View, content: Sequence[Piece]) -> Iterable[Piece]:
    """Return the pieces of the host with a section of device code added. Raises HostError, FormatError."""
    return editor(host).embed(host, content)


def replace(host: View, content: Sequence[Piece], *, section: str | None = None) -> Iterable[Piece]:
    """Return the pieces of the host with the content of one section of device code exchanged.

    ``section`` names it; without a name the host must have exactly one. Raises HostError otherwise.
    """
    room = editor(host)
    sites = {site.index: site.section for site in room.locate(host) if not isinstance(site, Finding)}
    chosen = [index for index, name in sites.items() if section in (None, name) and index is not None]
    if len(chosen) != 1:
        names = ", ".join(sorted({str(name) for name in sites.values()})) or "none"
        wanted = f"{len(chosen)} sections {section!r}" if section else f"{len(chosen)} sections of device code"
        raise HostError(f"{wanted}, exactly one is needed", hint=f"present: {names}", chain=host.chain)
    return room.replace(host, chosen[0], content)


class Removal(Record):
    """A plan to take images out: the pieces of the new host, and what goes, in words."""

    pieces: Iterable[Piece]
    removed: tuple[str, ...]
    removed_size: int


def remove(host: View, selector: Selector) -> Removal:
    """Return the host without the selected images (all by default).

    A section that loses all its images goes; one that keeps some is written again with the containers that are
    left. A damaged container refuses the whole edit: what cannot be read cannot be kept safely.
    """
    room = editor(host)
    items = list(scan(host))
    for item in items:
        if isinstance(item, Finding) and item.severity == "error":
            raise FormatError(
                item.message, offset=item.span.start, hint="nothing was removed", chain=item.span.source or host.chain
            )
    meant = {id(image): (position, image) for position, _, image in select(items, selector)}
    sections: dict[int, list[Found]] = {}
    for item in items:
        if isinstance(item, Found) and item.index is not None:
            sections.setdefault(item.index, []).append(item)
    whole: list[int] = []
    rewritten: list[tuple[int, list[Piece]]] = []
    gone: list[tuple[str, FoundImage]] = []
    for index, group in sections.items():
        goes = [meant[id(image)] for found in group for image in found.images if id(image) in meant]
        if not goes:
            continue
        gone += goes
        kept = [piece for found in group for piece in _without(found, meant)]
        if kept:
            rewritten.append((index, kept))
        else:
            whole.append(index)
    if not gone:
        return Removal((), (), 0)
    if len(rewritten) + bool(whole) > 1:
        raise Unsupported(
            "this removal changes several sections in different ways",
            hint="remove section by section",
            chain=host.chain,
        )
    pieces = room.replace(host, *rewritten[0]) if rewritten else room.remove(host, whole)
    size = sum(image.image.stored_size or 0 for _, image in gone)
    return Removal(pieces, tuple(_words(position, image) for position, image in gone), size)


def _without(found: Found, meant: Collection[int]) -> Iterable[Piece]:
    """Yield what is left of a container: its stored bytes, a rewrite with the images that stay, or nothing."""
    left = tuple(image.image for image in found.images if id(image) not in meant)
    if len(left) == len(found.images):
        return [found.view]
    if not left:
        return []
    return formats.room(found.container.format).write(found.container.replace(images=left))


def _words(position: str, found: FoundImage) -> str:
    target = found.image.target
    return " ".join(word for word in (position, target.offload, target.triple, target.arch, found.form) if word)


def write_edited(
    host: View,
    pieces: Iterable[Piece],
    output: str | os.PathLike[str],
    *,
    force: bool = False,
    progress: Progress | None = None,
) -> int:
    """Write an edited host and return its size; mode bits are kept, and the result is verified before it is named.

    ``output`` may be the host itself if ``force`` is given: the file is replaced in one step, after verification.
    """
    room = editor(host)
    if not force and os.path.lexists(output) and _is(host, output):
        raise UsageError(f"{output} is the host itself", hint="choose another output with -o, or --in-place")
    return write_file(
        output,
        pieces,
        force=force,
        mode=file_mode(host),
        inputs=[host],
        verify=lambda after: room.verify(host, after),
        progress=progress,
    )


def _is(view: View, path: str | os.PathLike[str]) -> bool:
    fd = view.source.fileno()
    return fd is not None and os.path.samestat(os.fstat(fd), os.stat(path))
