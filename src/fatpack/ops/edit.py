"""Editing hosts: put containers in, take device code out, exchange it. Every result is verified before it is kept."""

from __future__ import annotations

import os

from fatpack import formats, hosts, images
from fatpack.errors import FormatError, HostError
from fatpack.io.sink import file_mode, write_file
from fatpack.model import Finding
from fatpack.ops.select import describe, present_archs, select
from fatpack.record import Record
from fatpack.scan import Found, host_of, scan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from fatpack.hosts import Editor, Site
    from fatpack.io.sink import Progress
    from fatpack.io.source import View
    from fatpack.model import Piece
    from fatpack.ops.select import Selector


class NothingSelected(HostError):
    """The host is fine, but no image of it was meant; the message says what is there."""


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
    form = images.recognise(view).form
    if form in ("cubin", "code-object"):
        raise HostError(
            f"this is a device image itself ({form}), no host",
            hint="pack it into a container; the container goes into a host object",
            chain=view.chain,
        )
    return room  # type: ignore[return-value]  # it has the whole door


def embed(host: View, content: Sequence[Piece]) -> Iterable[Piece]:
    """Return the pieces of the host with a section of device code added. Raises HostError, FormatError."""
    return editor(host).embed(host, content)


def replace(host: View, content: View, *, section: str | None = None, force: bool = False) -> Iterable[Piece]:
    """Return the pieces of the host with the content of one section of device code exchanged.

    ``section`` is its name, or its number where several have one name; without it the host must have exactly one.
    The new content must be a container of the format that is there now, unless ``force``: code refers to what a
    section holds. Raises HostError otherwise.
    """
    room = editor(host)
    sites = [site for site in room.locate(host) if not isinstance(site, Finding) and site.index is not None]
    chosen = [site for site in sites if section in (None, site.section, str(site.index))]
    if len(chosen) != 1:
        present = ", ".join(f"{site.index} {site.section}" for site in sites) or "none"
        wanted = f"{len(chosen)} sections {section!r}" if section else f"{len(chosen)} sections of device code"
        raise HostError(f"{wanted}, exactly one is needed", hint=f"present, for --section: {present}", chain=host.chain)
    (site,) = chosen
    old, new = (formats.sniff(view.head(0, 24)) for view in (site.data, content))
    if old != new and not force:
        raise HostError(
            f"{site.section} holds {old or 'no container we know'}, the new content is {new or 'none either'}",
            hint="only a container of the same format is put in its place; --force does it all the same",
            chain=host.chain,
        )
    assert site.index is not None
    return room.replace(host, site.index, [content])


class Removal(Record):
    """A plan to take images out: the pieces of the new host, and what goes, in words."""

    pieces: Iterable[Piece]
    removed: tuple[str, ...]
    removed_size: int


def remove(host: View, selector: Selector) -> Removal:
    """Return the host without the selected images (all by default).

    A section that loses everything in it goes. One that keeps something is written again: containers that lose some
    images are rewritten, all other bytes stay as they are, known or not. A damaged container refuses the whole edit:
    what cannot be read cannot be kept safely. Raises HostError when nothing can be removed, with what is there.
    """
    room = editor(host)
    items = list(scan(host))
    for item in items:
        if isinstance(item, Finding) and item.severity == "error":
            raise FormatError(
                item.message, offset=item.span.start, hint="nothing was removed", chain=item.span.source or host.chain
            )
    chosen = list(select(items, selector))
    meant = {id(image): (position, image) for position, _, image in chosen if "/" not in position}
    if not meant:
        raise _nothing(host, items, selector, [position for position, _, _ in chosen])
    changes: dict[int, Sequence[Piece] | None] = {}
    for site in room.locate(host):
        if not isinstance(site, Finding) and site.index is not None:
            inside = [item for item in items if isinstance(item, Found) and item.index == site.index]
            if any(id(image) in meant for found in inside for image in found.images):
                changes[site.index] = _without(site, inside, meant)
    size = sum(image.image.stored_size or 0 for _, image in meant.values())
    return Removal(room.edit(host, changes), tuple(describe(*chosen) for chosen in meant.values()), size)


def _nothing(
    host: View, items: Sequence[Found | Finding], selector: Selector, nested: Sequence[str]
) -> NothingSelected:
    """Return the error for a selection that can remove nothing."""
    if nested:
        return NothingSelected(
            f"image {nested[0]} lies inside another image",
            hint="extract the image around it and edit that",
            chain=host.chain,
        )
    asked = f" that matches {selector.describe()}" if not selector.is_empty() else ""
    unread = next((item.message for item in items if isinstance(item, Finding) and item.code == "FP1006"), "")
    archs = present_archs(items)
    hint = f"present are {', '.join(archs)}" if archs else unread
    return NothingSelected(f"no image to remove{asked}", hint=hint, chain=host.chain)


def _without(site: Site, inside: Sequence[Found], meant: Collection[int]) -> list[Piece] | None:
    """Return what stays of a section as pieces, None if nothing but padding does."""
    data, at = site.data, 0
    kept: list[Piece] = []
    has_content = False
    for found in inside:
        start, end = found.view.start - data.start, found.view.end - data.start
        gap = data.slice(at, start - at)
        left = tuple(image.image for image in found.images if id(image) not in meant)
        kept.append(gap)
        has_content = has_content or bool(left) or not gap.is_zero()
        if len(left) == len(found.images):
            kept.append(found.view)
            has_content = True
        elif left:
            kept += formats.room(found.container.format).write(found.container.replace(images=left))
        at = end
    tail = data.slice(at, len(data) - at)
    return [*kept, tail] if has_content or not tail.is_zero() else None


def write_edited(
    host: View,
    pieces: Iterable[Piece],
    output: str | os.PathLike[str],
    *,
    force: bool = False,
    in_place: bool = False,
    progress: Progress | None = None,
) -> int:
    """Write an edited host and return its size; mode bits are kept, and the result is verified before it is named.

    ``in_place`` writes over the host itself, in one step after verification; without it the host is refused as
    output whatever else is allowed.
    """
    room = editor(host)
    return write_file(
        output,
        pieces,
        force=force or in_place,
        mode=file_mode(host),
        inputs=[] if in_place else [host],
        verify=lambda after: room.verify(host, after),
        progress=progress,
    )
