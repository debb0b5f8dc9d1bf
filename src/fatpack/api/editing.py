"""Editing objects and archives: ``embed``, ``replace``, ``remove``."""

from __future__ import annotations

from fatpack import formats
from fatpack.api.arguments import budget_of, check_selector, open_input
from fatpack.api.output import write_edited
from fatpack.ops.choose.address import Address, find
from fatpack.ops.edit import embed as embedding

__all__ = ["embed", "remove", "replace"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.api.output import Output
    from fatpack.io.sources.opening import Input
    from fatpack.ops.choose.select import Selector


def embed(
    host: Input,
    container: Input,
    output: Output,
    *,
    member: str = "",
    force: bool = False,
    max_inflated: int | None = None,
    max_output: int | None = None,
) -> int:
    """Write a copy of a relocatable object with a finished container added; return the size in bytes.

    Of an archive, ``member`` is the object: ``a.o``, ``a.o:2`` (the second of that name), ``#3`` or ``inner.a(a.o)``.
    Only the tables that must change differ from the host. Raises HostError when the host cannot be edited safely, and
    FormatError for a damaged container; ``force`` takes it, and writes over an output that exists. ``max_inflated`` and
    ``max_output`` are as for :func:`fatpack.extract`.
    """
    budget = budget_of(max_inflated, max_output, force=force)
    opened = open_input("host", host, budget=budget)
    with opened as into, open_input("container", container, budget=budget) as content:
        place = find(into.view(), Address(into.name, member))
        if not force:
            embedding.refuse_damage(content.view())
        pieces = embedding.embed(place.view, [content.view()], format=formats.sniff(content.view().head(0, 24)))
        return write_edited(into.view(), place.around(pieces), output, force=force, inputs=[content.view()])


def replace(
    host: Input,
    container: Input,
    output: Output,
    *,
    member: str = "",
    section: str | None = None,
    force: bool = False,
    max_inflated: int | None = None,
    max_output: int | None = None,
) -> int:
    """Write a copy of an object with the content of its section of device code exchanged; return the size in bytes.

    ``member`` is the object in an archive, and a damaged container is refused, as in :func:`embed`; the limits are too.
    """
    budget = budget_of(max_inflated, max_output, force=force)
    opened = open_input("host", host, budget=budget)
    with opened as into, open_input("container", container, budget=budget) as content:
        place = find(into.view(), Address(into.name, member))
        if not force:
            embedding.refuse_damage(content.view())
        pieces = embedding.replace(place.view, content.view(), section=section)
        return write_edited(into.view(), place.around(pieces), output, force=force, inputs=[content.view()])


def remove(
    host: Input,
    output: Output,
    selector: Selector | None = None,
    *,
    allow_empty: bool = False,
    force: bool = False,
    max_inflated: int | None = None,
    max_output: int | None = None,
) -> int:
    """Write a copy of an object or archive without device code, or without the selected images; return its size.

    ``allow_empty`` leaves an empty container where all images go, in a file of its own and where code refers to it.
    Raises UsageError when nothing is selected, FormatError when something there is damaged. ``max_inflated`` and
    ``max_output`` are as for :func:`fatpack.extract`.
    """
    from fatpack.ops.edit.removal import remove

    with open_input("host", host, budget=budget_of(max_inflated, max_output, force=force)) as source:
        removal = remove(source.view(), check_selector(selector), allow_empty=allow_empty)
        for item in removal.damaged:
            from warnings import warn

            warn(item.text, stacklevel=2)
        return write_edited(source.view(), removal.pieces, output, force=force)
