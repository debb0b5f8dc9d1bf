"""``fatpack replace``: the device code of an object exchanged, or one image of an object, archive or container."""

from __future__ import annotations

import click

from fatpack.command_line.command import Command
from fatpack.command_line.messages import print_stderr
from fatpack.command_line.param_types import INPUT
from fatpack.command_line.shared_options import output_options, selector_from_options, selector_options, writing_options
from fatpack.errors import UsageError
from fatpack.exit_codes import FINDINGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fatpack.command_line.edit_io import EditTarget
    from fatpack.selectors.select import Selector


@click.command("replace", cls=Command)
@click.argument("host", type=INPUT)
@click.argument("new", type=INPUT)
@selector_options
@click.option("--all", "every", is_flag=True, help="Replace all images that match, by the same one.")
@click.option("--section", metavar="NAME", help="The section to replace, by name or number, if HOST has several.")
@output_options
@writing_options
@click.option("--dry-run", is_flag=True, help="Only print what would be replaced, and the size of the result.")
def command(
    host: str,
    new: str,
    every: bool,
    section: str | None,
    output: str | None,
    in_place: bool,
    break_links: bool,
    force: bool,
    dry_run: bool,
    quiet: bool,
    **selectors: Any,
) -> int:
    """Replace one image of HOST by the image NEW, or without selectors all device code by the container NEW.

    HOST is an object, an archive, a member of one (libx.a(m.o)), or a container. Exactly one image must match, unless
    --all is given. NEW must be for the same target as the image that it replaces, unless --force is given.
    """
    from fatpack.command_line.edit_io import EditDestination, open_edit, refuse_damaged
    from fatpack.edit.embed import refuse_section_of_images, replace_container

    to = EditDestination(output, in_place, break_links, force)
    # The selector is not made of nothing: its module takes a thirtieth of a bare start.
    is_selected = any(value is not None and value is not False and value != () for value in selectors.values())
    selector = selector_from_options(selectors) if every or is_selected else None
    refuse_section_of_images(section, selector is not None)
    if dry_run and selector is None:
        raise UsageError("--dry-run goes with selectors", hint="--all means all images")
    with open_edit(host, new, to, writes=not dry_run) as file:
        if selector is not None:
            return _replace_image(file, selector, every=every, dry_run=dry_run, force=force, quiet=quiet)
        if code := refuse_damaged(new, file.content, force=force):
            return code
        edited = replace_container(file.place.view, file.content, section=section, accept_mismatch=force)
        return file.write(edited, quiet=quiet, compares=True)


def _replace_image(
    file: EditTarget, selector: Selector, *, every: bool, dry_run: bool, force: bool, quiet: bool
) -> int:
    from fatpack.command_line.edit_io import write_substitution
    from fatpack.edit.replace_images import replace_image
    from fatpack.selectors.no_match import NothingSelected

    try:
        plan = replace_image(
            file.place.view, file.content, selector, every=every, accept_damage=force, accept_mismatch=force
        )
    except NothingSelected as error:
        print_stderr(f"fatpack: {error}", quiet=quiet)
        return FINDINGS
    done = [f"{'would replace' if dry_run else 'replaced'} {what}" for what in plan.changed]
    return write_substitution(plan, file, done=done, dry_run=dry_run, quiet=quiet)
