"""Editing objects and archives: ``embed``, ``replace``, ``remove``."""

from __future__ import annotations

from fatpack.edit import embed as embedding
from fatpack.edit.editor import locate_edit
from fatpack.errors import UsageError
from fatpack.library.arguments import check_bools, check_selector, issue_warnings, make_budget, open_input, write_edited
from fatpack.selectors.address import Address

__all__ = ["embed", "remove", "replace"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.open import Input
    from fatpack.library.arguments import Output
    from fatpack.selectors.select import Selector


def embed(
    file: Input,
    container: Input,
    output: Output,
    *,
    member: str = "",
    overwrite: bool = False,
    accept_damage: bool = False,
    max_inflated: int | None = None,
    max_output: int | None = None,
) -> int:
    """Write a copy of a relocatable object with a finished container added; return the size in bytes.

    Of an archive, ``member`` is the object: ``a.o``, ``a.o:2`` (the second of that name), ``#3`` or ``inner.a(a.o)``.
    Only the tables that must change differ from the host. Raises HostError when the host cannot be edited safely, and
    FormatError for a damaged container, unless ``accept_damage``. ``overwrite``, ``max_inflated`` and ``max_output``
    are those of :func:`fatpack.extract`.
    """
    check_bools(overwrite=overwrite, accept_damage=accept_damage)
    budget = make_budget(max_inflated, max_output)
    opened = open_input("file", file, budget=budget)
    with opened as into, open_input("container", container, budget=budget) as content:
        place = locate_edit(into.view(), Address(into.name, member), content.view())
        if not accept_damage:
            embedding.refuse_damage(content.view())
        pieces = embedding.embed_file(place.view, content.view(), accept_damage=accept_damage).pieces
        return write_edited(into.view(), place.around(pieces), output, overwrite=overwrite, inputs=[content.view()])


def replace(
    file: Input,
    container: Input,
    output: Output,
    *,
    member: str = "",
    section: str | None = None,
    selector: Selector | None = None,
    every: bool = False,
    overwrite: bool = False,
    accept_damage: bool = False,
    accept_mismatch: bool = False,
    max_inflated: int | None = None,
    max_output: int | None = None,
) -> int:
    """Write a copy of a host with its device code exchanged, or one image of it; return the size in bytes.

    Without a selector, ``container`` is a container that takes the place of the content of the object's section of
    device code; ``section`` names it where there are several. With one, ``container`` is a device image that takes the
    place of the image that is selected (``every``: of all that are), in an object, an archive or a container; the
    target, ID and keys that are stored of that image stay, and so do all others.

    ``member`` is the object in an archive, as in :func:`embed`; ``overwrite`` and the limits are those
    of :func:`fatpack.extract`. A damaged container or image is refused unless ``accept_damage``; an image for another
    target, or content of another format, unless ``accept_mismatch``. Raises UsageError for a selector that matches no
    image, or several.
    """
    check_bools(every=every, overwrite=overwrite, accept_damage=accept_damage, accept_mismatch=accept_mismatch)
    embedding.refuse_section_of_images(section, selector is not None)
    from fatpack.edit.replace_images import replace_image

    if every and selector is None:
        raise UsageError("every=True goes with a selector", hint="give selector=Selector() for all images")
    budget = make_budget(max_inflated, max_output)
    opened = open_input("file", file, budget=budget)
    with opened as into, open_input("container", container, budget=budget) as content:
        place = locate_edit(into.view(), Address(into.name, member), content.view())
        if selector is not None:
            plan = replace_image(
                place.view,
                content.view(),
                check_selector(selector),
                every=every,
                accept_damage=accept_damage,
                accept_mismatch=accept_mismatch,
            )
            issue_warnings(finding.text for finding in plan.damaged)
            edited, check = list(place.around(plan.pieces)), plan.check_in(place)
            return write_edited(into.view(), edited, output, overwrite=overwrite, inputs=[content.view()], check=check)
        if not accept_damage:
            embedding.refuse_damage(content.view())
        pieces = embedding.replace_container(
            place.view, content.view(), section=section, accept_mismatch=accept_mismatch
        )
        return write_edited(into.view(), place.around(pieces), output, overwrite=overwrite, inputs=[content.view()])


def remove(
    file: Input,
    output: Output,
    selector: Selector | None = None,
    *,
    allow_empty: bool = False,
    overwrite: bool = False,
    max_inflated: int | None = None,
    max_output: int | None = None,
) -> int:
    """Write a copy of a file without device code, or without the selected images; return its size.

    It is an object, an archive, a linked program or library, or a container. ``allow_empty`` leaves an empty container
    where all images go, in a file of its own and where code refers to it. Raises UsageError when nothing is selected,
    FatpackError with ``exit_code`` 1 when a linked file would have a container without device code, FormatError when
    something there is damaged.
    ``overwrite``, ``max_inflated`` and ``max_output`` are those of :func:`fatpack.extract`.
    """
    from fatpack.commands.slim.remove import remove_images

    check_bools(allow_empty=allow_empty, overwrite=overwrite)
    chosen = check_selector(selector)
    with open_input("file", file, budget=make_budget(max_inflated, max_output)) as source:
        place = locate_edit(source.view(), Address(source.name, ""))
        removal = remove_images(place.view, chosen, allow_empty=allow_empty)
        issue_warnings(finding.text for finding in removal.damaged)
        return write_edited(source.view(), removal.pieces, output, overwrite=overwrite, check=removal.check)
