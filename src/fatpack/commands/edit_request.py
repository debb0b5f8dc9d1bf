"""Editing objects and archives: ``embed``, ``replace``, ``remove``."""

from __future__ import annotations

from fatpack import formats
from fatpack.edit import embed as embedding
from fatpack.errors import UsageError
from fatpack.library.arguments import check_selector, issue_warnings, make_budget, open_input, write_edited
from fatpack.selectors.address import Address, find_location, refuse_package

__all__ = ["embed", "remove", "replace"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.open import Input
    from fatpack.io.source import View
    from fatpack.library.arguments import Output
    from fatpack.selectors.address import Location
    from fatpack.selectors.select import Selector


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
    budget = make_budget(max_inflated, max_output, force=force)
    opened = open_input("host", host, budget=budget)
    with opened as into, open_input("container", container, budget=budget) as content:
        refuse_package(into.view())
        place = find_location(into.view(), Address(into.name, member))
        if not force:
            embedding.refuse_damage(content.view())
        pieces = embedding.embed_container(place.view, [content.view()], format=formats.format_at(content.view()))
        return write_edited(into.view(), place.around(pieces), output, force=force, inputs=[content.view()])


def replace(
    host: Input,
    container: Input,
    output: Output,
    *,
    member: str = "",
    section: str | None = None,
    selector: Selector | None = None,
    every: bool = False,
    force: bool = False,
    max_inflated: int | None = None,
    max_output: int | None = None,
) -> int:
    """Write a copy of a host with its device code exchanged, or one image of it; return the size in bytes.

    Without a selector, ``container`` is a container that takes the place of the content of the object's section of
    device code; ``section`` names it where there are several. With one, ``container`` is a device image that takes the
    place of the image that is selected (``every``: of all that are), in an object, an archive or a container; the
    target, ID and keys that are stored of that image stay, and so do all others.

    ``member`` is the object in an archive, as in :func:`embed`; the limits are too. A damaged container is refused, and
    an image that contradicts the target of the one in whose place it comes; ``force`` takes them, and writes over an
    output that exists. Raises UsageError for a selector that means no image, or several.
    """
    if section is not None and selector is not None:
        raise UsageError("section and selector exclude each other", hint="a section has one container, or several")
    if every and selector is None:
        raise UsageError("every=True goes with a selector", hint="give selector=Selector() for all images")
    budget = make_budget(max_inflated, max_output, force=force)
    opened = open_input("host", host, budget=budget)
    with opened as into, open_input("container", container, budget=budget) as content:
        refuse_package(into.view())
        place = find_location(into.view(), Address(into.name, member))
        if selector is not None:
            return _replace_images(into.view(), place, content.view(), output, check_selector(selector), every, force)
        if not force:
            embedding.refuse_damage(content.view())
        pieces = embedding.replace_container(place.view, content.view(), section=section)
        return write_edited(into.view(), place.around(pieces), output, force=force, inputs=[content.view()])


def _replace_images(
    whole: View, place: Location, content: View, output: Output, selector: Selector, every: bool, force: bool
) -> int:
    from fatpack.edit.replace_images import replace_image

    plan = replace_image(place.view, content, selector, every=every, force=force)
    issue_warnings(finding.text for finding in plan.damaged)
    pieces = list(place.around(plan.pieces))
    return write_edited(whole, pieces, output, force=force, inputs=[content], check=plan.check_in(place))


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
    """Write a copy of a file without device code, or without the selected images; return its size.

    It is an object, an archive, a linked program or library, or a container. ``allow_empty`` leaves an empty container
    where all images go, in a file of its own and where code refers to it. Raises UsageError when nothing is selected,
    FatpackError with ``exit_code`` 1 when a linked file would have a container without device code, FormatError when
    something there is damaged. ``max_inflated`` and
    ``max_output`` are as for :func:`fatpack.extract`.
    """
    from fatpack.commands.slim.remove import remove_images

    with open_input("host", host, budget=make_budget(max_inflated, max_output, force=force)) as source:
        refuse_package(source.view())
        removal = remove_images(source.view(), check_selector(selector), allow_empty=allow_empty)
        issue_warnings(finding.text for finding in removal.damaged)
        return write_edited(source.view(), removal.pieces, output, force=force, check=removal.check)
